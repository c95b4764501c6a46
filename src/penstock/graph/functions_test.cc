// Functions that are written for another operator set than the model.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/graph/test_support.h"

namespace penstock::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A model of opset `own`, and of more domains, whose function `f` of opset `other` has `nodes`.
std::string model_with(int own, int other, const std::string& nodes,
                       const std::string& body = "y = local.f(x)", const std::string& more = {}) {
  return concat("<ir_version: 10, opset_import: [\"\" : ", own, ", \"local\" : 1", more,
                "]> g (float[2, 3] x, bool c) => (float[2, 3] y) { ", body,
                " } <domain: \"local\", opset_import: [\"\" : ", other,
                ", \"local\" : 2, \"ai.onnx.ml\" : 3]> f (a) => (b) { ", nodes, " }");
}

std::vector<std::string> ops_with(int own, int other, const std::string& nodes) {
  return ops_of(import_text(model_with(own, other, nodes)));
}

TEST(Functions, OfAnotherOpsetAreInlinedWhereTheirOperatorsAreTheSame) {
  EXPECT_THAT(ops_with(18, 17, "b = Relu(a)"), ElementsAre("Relu"));
  EXPECT_THAT(ops_with(18, 21, "b = Relu(a)"), ElementsAre("Relu"));
}

TEST(Functions, OfAnotherOpsetAreInlinedWhereNewerOperatorsOnlyTakeMore) {
  EXPECT_THAT(ops_with(23, 17, "t = Transpose(a) u = Cast<to = 1>(t) b = Transpose(u)"),
              ElementsAre("Transpose", "Cast", "Transpose"));
  const auto refused =
      error_of_text(model_with(17, 19, "b = Cast<to = 1, saturate = 0>(a)",
                               "t = local.f(x) r = ReduceMin<axes = [1]>(t) y = Add(t, r)"));
  EXPECT_THAT(refused.message(), HasSubstr("and Cast is not the same in both"));
}

TEST(Functions, OfAnotherOpsetAreInlinedInsideBranchesAndCallsToo) {
  const auto graph = import_text(
      model_with(18, 17, R"(t = local.h(a)
          k = Constant<value = bool {1}>()
          b = If(k) <then_branch = yes () => (float[2, 3] d) { d = Neg(t) },
                     else_branch = no () => (float[2, 3] e) { e = Relu(t) }>)",
                 R"(y = If(c) <then_branch = one () => (float[2, 3] p) { p = local.f(x) },
                               else_branch = two () => (float[2, 3] q) { q = Abs(x) }>)") +
      R"(<domain: "local", opset_import: ["" : 16]> h (a) => (b) { b = Tanh(a) })");
  EXPECT_THAT(ops_of(graph), ElementsAre("If"));
}

TEST(Functions, OfAnotherOpsetOfAnotherDomainAreInlined) {
  const auto scaler = "b = ai.onnx.ml.Scaler<offset = [1.0], scale = [2.0]>(a)";
  const auto graph =
      import_text(model_with(18, 17, scaler, "y = local.f(x)", ", \"ai.onnx.ml\" : 1"));
  EXPECT_THAT(ops_of(graph), ElementsAre("Scaler"));
  EXPECT_EQ(graph.info.opsets.at("ai.onnx.ml"), 1);
  const auto unnamed = import_text(model_with(18, 17, scaler));
  EXPECT_EQ(unnamed.info.opsets.at("ai.onnx.ml"), 3);
}

TEST(Functions, BringTheModelToTheirOpsetWhereItsOperatorsAreTheSame) {
  const auto graph = import_text(
      model_with(17, 18, "i = Constant<value_ints = [1]>() m = ReduceMean(a, i) b = Sub(a, m)"));
  EXPECT_EQ(graph.info.opsets.at(""), 18);
}

/// A model that calls `domain.name`, which it also has as a function of one Neg.
std::vector<std::string> ops_of_call(const std::string& domain, const std::string& name) {
  return ops_of(import_text(concat(
      "<ir_version: 10, opset_import: [\"\" : 18, \"com.microsoft\" : 1]> g (float[2, 3] x) => "
      "(float[2, 3] y) { y = ",
      domain.empty() ? "" : domain + ".", name, "(x) } <domain: \"", domain,
      "\", opset_import: [\"\" : 18]> ", name, " (a) => (b) { b = Neg(a) }")));
}

// ONNX leaves it to the runtime which one counts; ONNX Runtime takes its operator.
TEST(Functions, ThatBearTheNameOfAnOperatorAreNotLookedAt) {
  EXPECT_THAT(ops_of_call("", "Relu"), ElementsAre("Relu"));
  EXPECT_THAT(ops_of_call("com.microsoft", "FastGelu"), ElementsAre("FastGelu"));
  EXPECT_THAT(ops_of_call("com.microsoft", "OfMyOwn"), ElementsAre("Neg"));
}

TEST(Functions, ThatDifferFromTheModelAreNamed) {
  const auto error = error_of_text(model_with(
      18, 17, "m = ReduceMean<axes = [1]>(a) b = Sub(a, m)",
      "t = local.f(x) i = Constant<value_ints = [1]>() r = ReduceMin(t, i) y = Add(t, r)"));
  EXPECT_EQ(error.code, Code::kUnimplemented);
  EXPECT_THAT(error.message(),
              HasSubstr("function 'local.f' cannot be inlined: it is written for opset 17, the "
                        "model for opset 18, and ReduceMean is not the same in both; export the "
                        "model again with one opset"));
}

}  // namespace
}  // namespace penstock::graph
