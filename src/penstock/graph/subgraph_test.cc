// Boundaries of sets of nodes, sets that are refused, and hashes of models that differ slightly.
#include "penstock/graph/subgraph.h"

#include <limits>

#include <gtest/gtest.h>

#include "penstock/graph/test_support.h"

namespace penstock::graph {
namespace {

constexpr const char* kDiamond = R"(
  <ir_version: 10, opset_import: ["" : 20]>
  g (float[2] x) => (float[2] y, float[2] early) <float[2] w = {1, 2}> {
    [top] early = Add(x, w)
    [left] l = Relu(early)
    [right] r = Neg(early)
    [bottom] y = Mul(l, r)
  })";

std::vector<NodeId> ids(std::initializer_list<std::uint32_t> numbers) {
  std::vector<NodeId> result;
  for (const auto number : numbers) result.push_back(static_cast<NodeId>(number));
  return result;
}

TEST(SubgraphTest, KnowsItsBoundary) {
  const Graph graph = import_text(kDiamond);
  const auto part = Subgraph::create(graph, ids({1, 0}));
  ASSERT_TRUE(part);
  EXPECT_EQ((*part).nodes(), ids({0, 1}));
  EXPECT_EQ(names_of(graph, (*part).inputs()), (std::vector<std::string>{"x"}));
  EXPECT_EQ(names_of(graph, (*part).outputs()), (std::vector<std::string>{"early", "l"}));
  EXPECT_EQ(names_of(graph, (*part).constants()), (std::vector<std::string>{"w"}));
}

TEST(SubgraphTest, RefusesASetThatAPathLeavesAndEntersAgain) {
  const Graph graph = import_text(kDiamond);
  const auto part = Subgraph::create(graph, ids({0, 1, 3}));
  ASSERT_FALSE(part);
  EXPECT_EQ(part.error().code, Code::kInvalidArgument);
  EXPECT_EQ(part.error().message(),
            "the set of nodes is not convex: a path leaves it and comes back: 'top' -> 'right' -> "
            "'bottom'; add the nodes between, or split the set");
}

TEST(SubgraphTest, RefusesNothingAndNodesThatAreNotThere) {
  const Graph graph = import_text(kDiamond);
  EXPECT_EQ(Subgraph::create(graph, {}).error().message(),
            "expected at least one node, found an empty set");
  EXPECT_EQ(Subgraph::create(graph, ids({4})).error().message(),
            "node 4 does not exist: the graph has 4 nodes, numbered from 0");
}

TEST(SubgraphTest, TakesTwoBranchesThatMeetOutside) {
  const Graph graph = import_text(kDiamond);
  const auto part = Subgraph::create(graph, ids({1, 2}));
  ASSERT_TRUE(part);
  EXPECT_EQ(names_of(graph, (*part).inputs()), (std::vector<std::string>{"early"}));
  EXPECT_EQ(names_of(graph, (*part).outputs()), (std::vector<std::string>{"l", "r"}));
}

TEST(SubgraphTest, WholeKeepsTheModelsOrderAndPutsParametersLast) {
  ImportOptions options;
  options.parameters = {"w"};
  const Graph graph = import_text(kDiamond, options);
  const auto whole = Subgraph::whole(graph);
  EXPECT_EQ(names_of(graph, whole.inputs()), (std::vector<std::string>{"x", "w"}));
  EXPECT_EQ(names_of(graph, whole.outputs()), (std::vector<std::string>{"y", "early"}));
  EXPECT_TRUE(whole.constants().empty());
}

TEST(SubgraphTest, WhatABodyCapturesIsAnInput) {
  const Graph graph = import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[2] x, bool c) => (float[2] y) {
      [outer] t = Relu(x)
      [branch] y = If (c) <
        then_branch = yes () => (float[2] a) { a = Neg(t) },
        else_branch = no () => (float[2] b) { b = Abs(x) }>
    })");
  const auto part = Subgraph::create(graph, ids({1}));
  ASSERT_TRUE(part);
  EXPECT_EQ(names_of(graph, (*part).inputs()), (std::vector<std::string>{"c", "x", "t"}));
}

TEST(CanonicalHashTest, IgnoresNamesAndTheOrderOfTheFile) {
  const Graph other = import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    h (float[2] in) => (float[2] out, float[2] s) <float[2] k = {1, 2}> {
      s = Add(in, k)
      right = Neg(s)
      left = Relu(s)
      out = Mul(left, right)
    })");
  const Graph graph = import_text(kDiamond);
  EXPECT_EQ(canonical_hash(Subgraph::whole(graph)), canonical_hash(Subgraph::whole(other)));
}

TEST(CanonicalHashTest, IsTheSameInEveryBuild) {
  const Graph graph = import_text(kDiamond);
  EXPECT_EQ(canonical_hash(Subgraph::whole(graph)).substr(0, 16), "160986204f186550");
}

struct Variant {
  const char* name;
  const char* body;
};
void PrintTo(const Variant& variant, std::ostream* out) {
  *out << variant.name;
}

class CanonicalHashDiffersTest : public testing::TestWithParam<Variant> {};

TEST_P(CanonicalHashDiffersTest, FromThePlainModel) {
  const auto hash = [](const std::string& body) {
    const Graph graph = import_text("<ir_version: 10, opset_import: [\"\" : 20]>\n" + body);
    return canonical_hash(Subgraph::whole(graph));
  };
  EXPECT_NE(hash("g (float[2] a, float[2] b) => (float[2] y) <float[2] w = {1, 2}> "
                 "{ t = Sub(a, b) s = Softmax <axis = 0> (t) y = Mul(s, w) }"),
            hash(GetParam().body));
}

INSTANTIATE_TEST_SUITE_P(
    All, CanonicalHashDiffersTest,
    testing::Values(Variant{"WhereAnInputIsReadTwice",
                            "g (float[2] a, float[2] b) => (float[2] y) <float[2] w = {1, 2}> "
                            "{ t = Sub(a, a) s = Softmax <axis = 0> (t) y = Mul(s, w) }"},
                    Variant{"WhereAConstantHasOtherContents",
                            "g (float[2] a, float[2] b) => (float[2] y) <float[2] w = {1, 3}> "
                            "{ t = Sub(a, b) s = Softmax <axis = 0> (t) y = Mul(s, w) }"},
                    Variant{"WhereAnAttributeDiffers",
                            "g (float[2] a, float[2] b) => (float[2] y) <float[2] w = {1, 2}> "
                            "{ t = Sub(a, b) s = Softmax <axis = -1> (t) y = Mul(s, w) }"},
                    Variant{"WhereAnInputHasAnotherType",
                            "g (float[n] a, float[2] b) => (float[2] y) <float[2] w = {1, 2}> "
                            "{ t = Sub(a, b) s = Softmax <axis = 0> (t) y = Mul(s, w) }"},
                    Variant{"WhereAnOperatorDiffers",
                            "g (float[2] a, float[2] b) => (float[2] y) <float[2] w = {1, 2}> "
                            "{ t = Add(a, b) s = Softmax <axis = 0> (t) y = Mul(s, w) }"}),
    [](const auto& variant) { return std::string(variant.param.name); });

TEST(CanonicalHashTest, IgnoresNamesInsideBodiesButNotWhatTheyCapture) {
  const auto hash = [](const std::string& inner, const std::string& captured) {
    const Graph graph = import_text(R"(
      <ir_version: 10, opset_import: ["" : 20]>
      g (float[2] x, float[2] z, bool c) => (float[2] y) {
        y = If (c) <
          then_branch = yes () => (float[2] )" +
                                    inner + ") { " + inner + " = Sub(x, z) }, " + R"(
          else_branch = no () => (float[2] b) { b = Abs()" +
                                    captured + R"() }>
      })");
    return canonical_hash(Subgraph::whole(graph));
  };
  EXPECT_EQ(hash("a", "x"), hash("other", "x"));
  EXPECT_NE(hash("a", "x"), hash("a", "z"));
}

/// y = x * w, w of 64 numbers, all 1 but the last.
Graph product_with(const std::string& last) {
  std::string numbers;
  for (int i = 0; i < 63; ++i) numbers += "1, ";
  return import_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,8] x) => (float[1,8] y)
    <float[8,8] w = {)" +
                     numbers + last + R"(}> { y = MatMul(x, w) })");
}

std::string hash_of(const Graph& graph, Hasher::Constants constants) {
  return Hasher(graph, constants).hash(Subgraph::whole(graph));
}

TEST(HasherTest, WithContentsIsTheCanonicalHash) {
  const Graph graph = product_with("2");
  EXPECT_EQ(hash_of(graph, Hasher::Constants::kContents), canonical_hash(Subgraph::whole(graph)));
  EXPECT_NE(hash_of(product_with("2"), Hasher::Constants::kContents),
            hash_of(product_with("3"), Hasher::Constants::kContents));
}

TEST(HasherTest, WithTypesKnowsWeightsByTheirTypeAlone) {
  EXPECT_EQ(hash_of(product_with("2"), Hasher::Constants::kTypes),
            hash_of(product_with("3"), Hasher::Constants::kTypes));
  EXPECT_NE(hash_of(product_with("2"), Hasher::Constants::kTypes),
            hash_of(product_with("2"), Hasher::Constants::kContents));
}

TEST(HasherTest, WithTypesTellsDenormalWeightsFromOthers) {
  Graph slow = product_with("3");
  auto& weights = slow.values[index(*slow.find_value("w"))].constant;
  weights->as<float>()[5] = std::numeric_limits<float>::denorm_min();
  EXPECT_NE(hash_of(slow, Hasher::Constants::kTypes),
            hash_of(product_with("3"), Hasher::Constants::kTypes));
}

TEST(HasherTest, WithTypesTellsSmallConstantsByTheirContents) {
  const auto clipped = [](const std::string& most) {
    return import_text(R"(
      <ir_version: 8, opset_import: ["" : 17]>
      g (float[8] x) => (float[8] y)
      <float low = {0}, float high = {)" +
                       most + R"(}> { y = Clip(x, low, high) })");
  };
  EXPECT_NE(hash_of(clipped("6"), Hasher::Constants::kTypes),
            hash_of(clipped("1"), Hasher::Constants::kTypes));
}

}  // namespace
}  // namespace penstock::graph
