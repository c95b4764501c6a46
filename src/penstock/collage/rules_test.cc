// Which nodes of a small model a rule takes, and the messages for rules that cannot be read.
#include "penstock/collage/rules.h"

#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "penstock/graph/test_support.h"

namespace penstock::collage {
namespace {

using graph::Graph;
using graph::import_text;

constexpr const char* kModel = R"(
  <ir_version: 10, opset_import: ["" : 17, "com.acme" : 1]>
  g (float[1,3,8,8] x, float[batch,4] rows, int64[2] ids, float[4,3,3,3] w) => (float[1,4,8,8] y, float[batch,4] z, int64[2] i, float[batch,4] r) {
    c = Conv<pads = [1,1,1,1], auto_pad = "NOTSET", group = 1> (x, w)
    y = LeakyRelu<alpha = 0.1> (c)
    z = Clip (rows, , )
    i = Abs (ids)
    t = com.acme.Twist (rows)
    r = Relu (t)
  })";

Graph model() {
  return import_text(
      kModel, {.shapes = {}, .constants = {}, .parameters = {}, .as_is = true, .engine = {}});
}

/// The operators of the nodes that {"ops": [ops], ...} takes.
std::string taken(const std::string& ops, const std::string& rest = "") {
  static const Graph kGraph = model();
  const auto rule = parse_rule(R"({"version": 1, "rule": {"ops": [)" + ops + "]" + rest + "}}",
                               "rules of 'acme'");
  if (!rule) return rule.error().message();
  std::string names;
  for (std::size_t i = 0; i < kGraph.nodes.size(); ++i) {
    if (!takes(kGraph, *rule, static_cast<graph::NodeId>(i))) continue;
    names += (names.empty() ? "" : " ") + kGraph.nodes[i].op;
  }
  return names;
}
std::string conv_where(const std::string& predicate) {
  return taken(R"("Conv")", R"(, "where": [)" + predicate + "]");
}
std::string all_where(const std::string& predicate) {
  return taken(R"("Conv", "LeakyRelu", "Clip", "Abs", "com.acme:Twist")",
               R"(, "where": [)" + predicate + "]");
}

std::string error_of(const std::string& rule) {
  const auto parsed = parse_rule(R"({"version": 1, "rule": )" + rule + "}", "rules of 'acme'");
  return parsed ? "" : parsed.error().message();
}

TEST(RuleTest, NamesOperatorsOfOnnxAndOfOtherDomains) {
  EXPECT_EQ(taken(R"("Conv", "Clip")"), "Conv Clip");
  EXPECT_EQ(taken(R"("com.acme:Twist", "ai.onnx:Abs")"), "Abs Twist");
  EXPECT_EQ(taken(R"("Twist")"), "");
}

TEST(RuleTest, HoldsInARangeOfOpsets) {
  EXPECT_EQ(taken(R"("Conv")", R"(, "opset": [17, 17])"), "Conv");
  EXPECT_EQ(taken(R"("Conv")", R"(, "opset": [7, 16])"), "");
  EXPECT_EQ(taken(R"("Conv", "com.acme:Twist")", R"(, "opset": [1, 16])"), "Twist");
}

TEST(RuleTest, LooksAtTypes) {
  EXPECT_EQ(all_where(R"({"input": 0, "dtype": ["f32", "f16"]})"), "Conv LeakyRelu Clip Twist");
  EXPECT_EQ(all_where(R"({"input": 0, "rank": [4]})"), "Conv LeakyRelu");
  EXPECT_EQ(all_where(R"({"input": 0, "shape": "fixed"})"), "Conv LeakyRelu Abs");
  EXPECT_EQ(all_where(R"({"output": "all", "dtype": ["i64"]})"), "Abs");
}

TEST(RuleTest, WhatIsNotKnownSatisfiesNoConditionOnIt) {
  EXPECT_EQ(taken(R"("com.acme:Twist")", R"(, "where": [{"output": 0, "dtype": ["f32"]}])"), "");
  EXPECT_EQ(taken(R"("com.acme:Twist")", R"(, "where": [{"output": 0, "rank": [2]}])"), "");
}

TEST(RuleTest, TellsConstants) {
  EXPECT_EQ(conv_where(R"({"input": 1, "constant": false})"), "Conv");
  const auto graph = import_text(
      R"(
    <ir_version: 10, opset_import: ["" : 17]>
    g (float[1] x) => (float[1] y) <float[1] b = {1}, float[1] p = {2}> { t = Add(x, b)  y = Add(t, p) })",
      {.shapes = {}, .constants = {}, .parameters = {"p"}, .as_is = false, .engine = {}});
  const auto rule = parse_rule(
      R"({"version": 1, "rule": {"ops": ["Add"], "where": [{"input": 1, "constant": true}]}})", "");
  ASSERT_TRUE(rule) << rule.error().message();
  EXPECT_TRUE(takes(graph, *rule, graph::NodeId{0}));
  EXPECT_FALSE(takes(graph, *rule, graph::NodeId{1})) << "a parameter may be replaced";
}

TEST(RuleTest, AnInputThatIsNotThereSatisfiesAllButBeingGiven) {
  EXPECT_EQ(all_where(R"({"input": 2, "dtype": ["i8"], "rank": [9], "constant": true})"),
            "Conv LeakyRelu Clip Abs Twist");
  EXPECT_EQ(all_where(R"({"input": 1, "given": true})"), "Conv");
  EXPECT_EQ(all_where(R"({"input": 1, "given": false})"), "LeakyRelu Clip Abs Twist");
}

TEST(RuleTest, ComparesAttributes) {
  EXPECT_EQ(conv_where(R"({"attribute": "auto_pad", "in": ["NOTSET"]})"), "Conv");
  EXPECT_EQ(conv_where(R"({"attribute": "auto_pad", "in": [null, "VALID"]})"), "");
  EXPECT_EQ(conv_where(R"({"attribute": "dilations", "in": [null, [1, 1]]})"), "Conv");
  EXPECT_EQ(conv_where(R"({"attribute": "dilations", "in": [[1, 1]]})"), "");
  EXPECT_EQ(conv_where(R"({"attribute": "pads", "in": [[0,0,0,0], [1,1,1,1]]})"), "Conv");
  EXPECT_EQ(conv_where(R"({"attribute": "group", "in": [1]})"), "Conv");
  EXPECT_EQ(conv_where(R"({"attribute": "group", "in": ["1"]})"), "");
  EXPECT_EQ(taken(R"("LeakyRelu")", R"(, "where": [{"attribute": "alpha", "in": [0.1]}])"),
            "LeakyRelu");
}

TEST(RuleTest, NegatesAndChooses) {
  EXPECT_EQ(all_where(R"({"not": {"input": 0, "rank": [4]}})"), "Clip Abs Twist");
  EXPECT_EQ(all_where(R"({"any": [{"input": 0, "rank": [4]}, {"input": 0, "dtype": ["i64"]}]})"),
            "Conv LeakyRelu Abs");
  EXPECT_EQ(all_where(R"({"any": []})"), "");
}

TEST(RuleTest, EveryPredicateHasToHold) {
  EXPECT_EQ(all_where(R"({"input": 0, "dtype": ["f32"]}, {"input": 0, "rank": [2]})"),
            "Clip Twist");
}

TEST(RuleTest, ReadsWhatBackendsSay) {
  EXPECT_EQ(error_of(R"({"combine": {"all": true}})"), "");
  EXPECT_EQ(error_of(R"({"only_valid": {"combine": {"union": [
      {"ops": ["Conv"]}, {"chain": [{"ops": ["Sigmoid"]}, {"union": [{"all": true}]}]}]},
      "joins": [{"from": ["Conv"], "to": ["Sigmoid"]}]},
      "max_exits": 1, "taps": false, "max_nodes": 64, "max_depth": 8})"),
            "");
  EXPECT_EQ(error_of(R"({"host": {"ops": ["Reshape"]}})"), "");
}

TEST(RuleTest, ABackendSaysWhetherContextsShareWeights) {
  const auto said = [](const std::string& more) {
    return parse_weights(concat(R"({"version": 1, )", more, R"("rule": {"all": true}})"), "acme");
  };
  EXPECT_EQ(*said(""), Weights::kShared);
  EXPECT_EQ(*said(R"("weights": "shared", )"), Weights::kShared);
  EXPECT_EQ(*said(R"("weights": "each", )"), Weights::kEach);
  EXPECT_TRUE(parse_rule(R"({"version": 1, "weights": "each", "rule": {"all": true}})", "acme"));
  const auto wrong = said(R"("weights": "none", )");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message(), "acme: weights: expected 'shared' or 'each', found 'none'");
}

TEST(RuleTest, TheDocumentationsExampleIsARule) {
  std::ostringstream text;
  text << std::ifstream(PENSTOCK_DOCS "/rules.md").rdbuf();
  const auto page = text.str();
  const std::string fence = "```json\n";
  const auto begin = page.find(fence) + fence.size();
  const auto rule =
      parse_rule(page.substr(begin, page.find("```", begin) - begin), "docs/rules.md");
  ASSERT_TRUE(rule) << rule.error().message();
  EXPECT_EQ(rule->kind, Rule::Kind::kOnlyValid);
  EXPECT_EQ(rule->max_nodes, 64U);
}

TEST(RuleTest, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(
      error_of("{}"),
      "rules of 'acme': rule: expected an object with one of all, ops, chain, union, combine, "
      "only_valid, host, found an object");
  EXPECT_EQ(
      error_of("7"),
      "rules of 'acme': rule: expected an object with one of all, ops, chain, union, combine, "
      "only_valid, host, found 7");
  EXPECT_EQ(error_of(R"({"all": false})"), "rules of 'acme': rule.all: expected true, found false");
  EXPECT_EQ(error_of(R"({"union": [{"ops": ["Conv", 3]}]})"),
            "rules of 'acme': rule.union[0].ops[1]: expected a string, found 3");
  EXPECT_EQ(error_of(R"({"ops": []})"),
            "rules of 'acme': rule.ops: expected a list of at least one operator, found a list");
  EXPECT_EQ(error_of(R"({"ops": ["Conv"], "wher": []})"),
            "rules of 'acme': rule.wher: unknown field; expected one of ops, opset, where");
  EXPECT_EQ(error_of(R"({"ops": ["Conv"], "opset": [9, 7]})"),
            "rules of 'acme': rule.opset: expected a list [FROM, TO], found a list");
  EXPECT_EQ(error_of(R"({"ops": ["Conv"], "where": [{"input": 0, "dtype": ["float"]}]})"),
            "rules of 'acme': rule.where[0].dtype[0]: expected an element type such as f32 or i64, "
            "found 'float'");
  EXPECT_EQ(error_of(R"({"ops": ["Conv"], "where": [{"input": "some"}]})"),
            "rules of 'acme': rule.where[0].input: expected a number from 0 on, or 'all', found "
            "'some'");
  EXPECT_EQ(
      error_of(R"({"ops": ["Conv"], "where": [{"attribute": "a", "in": [[1, "b"]]}]})"),
      "rules of 'acme': rule.where[0].in[0]: expected a list of numbers or of strings, found a "
      "list");
  EXPECT_EQ(error_of(R"({"chain": [{"all": true}, {"combine": {"all": true}}]})"),
            "rules of 'acme': rule.chain[1]: expected all, ops, or a union of them, in a chain, "
            "found an object");
  EXPECT_EQ(error_of(R"({"only_valid": {"all": true}, "max_exits": 0})"),
            "rules of 'acme': rule.max_exits: expected an integer from 1 to 9223372036854775807, "
            "found 0");
}

TEST(RuleTest, RefusesRulesWithinRulesWithoutEnd) {
  std::string deep = R"({"all": true})";
  for (int i = 0; i < 40; ++i) deep = R"({"combine": )" + deep + "}";
  EXPECT_NE(error_of(deep).find("expected at most 32 rules within each other"), std::string::npos);
}

TEST(RuleTest, RefusesAnotherVersionAndWhatIsNoJson) {
  EXPECT_EQ(parse_rule(R"({"version": 2, "rule": {"all": true}})", "w").error().message(),
            "w: version: expected 1, found 2");
  EXPECT_EQ(parse_rule(R"({"rule": {"all": true}})", "w").error().message(), "w: version: missing");
  EXPECT_TRUE(parse_rule("{", "w").error().message().starts_with("w: not JSON: "));
  EXPECT_TRUE(parse_rule("", "w").error().message().starts_with("w: not JSON: "));
}

TEST(RuleTest, AUsersFileGivesRulesByBackend) {
  const auto rules = parse_rules(
      R"({"onnxruntime": {"version": 1, "rule": {"all": true}},
          "onednn": {"version": 1, "rule": {"ops": ["Conv"]}}})",
      "my.json");
  ASSERT_TRUE(rules) << rules.error().message();
  EXPECT_EQ(rules->size(), 2U);
  EXPECT_EQ(rules->at("onednn").ops, std::vector<std::string>{"Conv"});
  EXPECT_EQ(parse_rules(R"({"onednn": {"version": 1}})", "my.json").error().message(),
            "my.json: onednn.rule: missing");
}

}  // namespace
}  // namespace penstock::collage
