// Which signed bytes become unsigned, by how much, and with which zero point.
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "penstock/base/error.h"
#include "penstock/graph/import.h"
#include "penstock/graph/test_support.h"

namespace penstock::graph {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// As the file has it, but for products of bytes; on any machine, whatever its processor.
Graph with_whole_products(const std::string& graph, ImportOptions options = {.as_is = true}) {
  options.whole_byte_products = true;
  return import_text("<ir_version: 10, opset_import: [\"\" : 20, \"com.microsoft\" : 1]>\n" + graph,
                     options);
}

std::vector<std::string> input_names(const Graph& graph, const Node& node) {
  std::vector<std::string> names;
  for (const auto id : node.inputs) {
    names.push_back(id == ValueId::kNone ? "" : graph.value(id).name);
  }
  return names;
}

std::vector<std::string> operators(const Graph& graph) {
  std::vector<std::string> all;
  for (const auto& node : graph.nodes) all.push_back(node.op);
  return all;
}

std::vector<int> unsigned_bytes(const Graph& graph, std::string_view name) {
  const auto id = graph.find_value(name);
  if (!id || !graph.value(*id).constant) return {};
  const auto& value = *graph.value(*id).constant;
  EXPECT_EQ(value.dtype(), DType::kU8) << name;
  const auto bytes = value.as<std::uint8_t>();
  return {bytes.begin(), bytes.end()};
}

std::string serialised(const Node& node, std::string_view name) {
  const auto* const attribute = node.find(name);
  return attribute == nullptr ? "" : std::get<Attribute::Opaque>(attribute->value).onnx;
}

TEST(ByteProductsTest, ConstantsMoveBy128WithTheirZeroPoint) {
  const auto graph = with_whole_products(R"(g (uint8[2,2] x) => (int32[2,2] y)
    <int8[2,2] w = {-128, -1, 0, 127}, uint8 a = {7}, int8 z = {3}> {
      y = MatMulInteger(x, w, a, z) })");
  EXPECT_THAT(input_names(graph, graph.nodes.back()),
              ElementsAre("x", "w/unsigned", "a", "z/unsigned"));
  EXPECT_THAT(unsigned_bytes(graph, "w/unsigned"), ElementsAre(0, 127, 128, 255));
  EXPECT_THAT(unsigned_bytes(graph, "z/unsigned"), ElementsAre(131));
  EXPECT_FALSE(graph.find_value("w")) << "nothing reads it";
}

TEST(ByteProductsTest, NodesWithoutNamesHaveTheirOwnZeroPoints) {
  const auto graph = with_whole_products(R"(g (uint8[2,2] x) => (int32[2,2] y, int32[2,2] y2)
    <int8[2,2] w = {1, 2, 3, 4}, int8[2] z = {3, 4}, int8 z2 = {5}> {
      y = MatMulInteger(x, w, , z)  y2 = MatMulInteger(x, w, , z2) })");
  EXPECT_THAT(input_names(graph, graph.nodes[0]),
              ElementsAre("x", "w/unsigned", "zero_point_0", "z/unsigned"));
  EXPECT_THAT(input_names(graph, graph.nodes[1]),
              ElementsAre("x", "w/unsigned", "zero_point_0", "z2/unsigned"));
  EXPECT_THAT(unsigned_bytes(graph, "z/unsigned"), ElementsAre(131, 132));
  EXPECT_THAT(unsigned_bytes(graph, "z2/unsigned"), ElementsAre(133));
}

TEST(ByteProductsTest, ZeroPointsThatAreLeftOutAreNamed) {
  const auto graph = with_whole_products(R"(g (uint8[2,2] x) => (int32[2,2] y)
    <int8[2,2] w = {-128, -1, 0, 127}> { y = MatMulInteger(x, w) })");
  EXPECT_THAT(input_names(graph, graph.nodes.back()),
              ElementsAre("x", "w/unsigned", "zero_point_0", "zero_point_128"));
  EXPECT_THAT(unsigned_bytes(graph, "zero_point_0"), ElementsAre(0));
  EXPECT_THAT(unsigned_bytes(graph, "zero_point_128"), ElementsAre(128));
}

TEST(ByteProductsTest, NamesOfTheNetworkAreLeftAlone) {
  const auto graph =
      with_whole_products(R"(g (uint8[2,2] x) => (int32[2,2] y, int8[2,2] "w/unsigned")
    <int8[2,2] w = {1, 2, 3, 4}> { "w/unsigned" = Identity(w)  y = MatMulInteger(x, w) })");
  EXPECT_EQ(input_names(graph, graph.nodes.back())[1], "w/unsigned_2");
  EXPECT_TRUE(graph.find_value("w")) << "something else reads it";
}

TEST(ByteProductsTest, WhatIsComputedOrReplacedMovesByNodes) {
  constexpr const char* kComputed = R"(g (uint8[2,2] x, int8[2,2] w) => (int32[2,2] y)
    <int8 z = {3}> { y = MatMulInteger(x, w, , z) })";
  EXPECT_THAT(operators(with_whole_products(kComputed)),
              ElementsAre("Cast", "Add", "Cast", "MatMulInteger"));
  constexpr const char* kConstant = R"(g (uint8[2,2] x) => (int32[2,2] y)
    <int8[2,2] w = {1, 2, 3, 4}> { y = MatMulInteger(x, w) })";
  EXPECT_THAT(operators(with_whole_products(kConstant)), ElementsAre("MatMulInteger"));
  const auto replaced = with_whole_products(kConstant, {.parameters = {"w"}, .as_is = true});
  EXPECT_THAT(operators(replaced), ElementsAre("Cast", "Add", "Cast", "MatMulInteger"));
  EXPECT_EQ(replaced.parameters.size(), 1U);
}

TEST(ByteProductsTest, NestedGraphsMoveToo) {
  const auto graph = with_whole_products(R"(g (bool c, uint8[2,2] x) => (int32[2,2] y)
    <int8[2,2] w = {1, 2, 3, 4}> {
      y = If (c) <
        then_branch = t () => (int32[2,2] a) { a = MatMulInteger(x, w) },
        else_branch = e () => (int32[2,2] b) { v = Identity(w)  b = MatMulInteger(x, v) }>
    })");
  const auto& branches = graph.nodes.back();
  EXPECT_THAT(serialised(branches, "then_branch"), HasSubstr("w/unsigned"));
  EXPECT_THAT(serialised(branches, "else_branch"), HasSubstr("v/unsigned"));
  EXPECT_THAT(serialised(branches, "else_branch"), Not(HasSubstr("Cast")))
      << "an Identity of a constant is one of its copy";
}

TEST(ByteProductsTest, AnInnerNameHidesAnOuterConstant) {
  const auto graph = with_whole_products(R"(g (bool c, uint8[2,2] x) => (int32[2,2] y)
    <int8[2,2] w = {1, 2, 3, 4}> {
      y = If (c) <
        then_branch = t () => (int32[2,2] a) <int8[2,2] w = {5, 6, 7, 8}> { a = MatMulInteger(x, w) },
        else_branch = e () => (int32[2,2] b) { b = MatMulInteger(x, w) }>
    })");
  EXPECT_THAT(serialised(graph.nodes.back(), "then_branch"), HasSubstr("Cast"));
  EXPECT_THAT(serialised(graph.nodes.back(), "else_branch"), Not(HasSubstr("Cast")));
}

TEST(ByteProductsTest, AnInnerNodesNameHidesAConstantThatComesLater) {
  const auto graph =
      with_whole_products(R"(g (bool c, uint8[2,2] x) => (int32[2,2] y, int32[2,2] z) {
      y = If (c) <
        then_branch = t () => (int32[2,2] a) {
          w = Constant <value = int8[2,2] {5, 6, 7, 8}> ()  a = MatMulInteger(x, w) },
        else_branch = e () => (int32[2,2] b) { b = Cast <to = 6> (x) }>
      w = Constant <value = int8[2,2] {1, 2, 3, 4}> ()  z = MatMulInteger(x, w)
    })");
  const auto weights = graph.nodes.back().inputs[1];
  EXPECT_THAT(unsigned_bytes(graph, graph.value(weights).name), ElementsAre(129, 130, 131, 132));
  EXPECT_THAT(graph.nodes.front().captures, Not(Contains(weights)));
}

TEST(ByteProductsTest, ConstantsThatOtherNodesMoveAboutAreNotAdded) {
  const auto graph = with_whole_products(R"(g (uint8[2,2] x) => (int32[2,2] y, int32[2,2] z)
    <int8[2,2] w = {1, 2, 3, 4}> {
      t = Transpose(w)  y = MatMulInteger(x, t)
      v = Constant <value = int8[2,2] {1, 2, 3, 4}> ()  z = MatMulInteger(x, v) })");
  EXPECT_THAT(operators(graph),
              ElementsAre("Transpose", "Transpose", "MatMulInteger", "Constant", "MatMulInteger"));
  EXPECT_THAT(unsigned_bytes(graph, "v/unsigned"), ElementsAre(129, 130, 131, 132));
}

TEST(ByteProductsTest, BytesOfAQuantizeLinearOfAnyDomainAreKnown) {
  const auto graph = with_whole_products(R"(g (uint8[2,2] x, float[2,2] f) => (int32[2,2] y)
    <float s = {0.5}, int8 z = {0}> {
      w = com.microsoft.QuantizeLinear(f, s, z)  y = MatMulInteger(x, w) })");
  EXPECT_THAT(operators(graph),
              ElementsAre("QuantizeLinear", "Cast", "Add", "Cast", "MatMulInteger"));
}

struct Operator {
  const char* name;
  const char* call;  ///< Of x, w, its zero point z, and a scale s.
};

class ByteProductsOfEach : public ::testing::TestWithParam<Operator> {};

TEST_P(ByteProductsOfEach, MovesWeightsAndZeroPoint) {
  const auto graph =
      with_whole_products(concat(R"(g (uint8[1,1,2,2] x, float[2,2] f, float[6] b) => (y)
    <int8[1,1,2,2] w = {1, 2, 3, 4}, float s = {0.5}, uint8 xz = {1}, int8 z = {2}> { y = )",
                                 GetParam().call, " }"));
  const auto names = input_names(graph, graph.nodes.back());
  EXPECT_EQ(std::ranges::count(names, "w/unsigned"), 1);
  EXPECT_EQ(std::ranges::count(names, "z/unsigned"), 1);
  EXPECT_EQ(std::ranges::count(names, "w") + std::ranges::count(names, "z"), 0);
}

INSTANTIATE_TEST_SUITE_P(
    All, ByteProductsOfEach,
    ::testing::Values(
        Operator{"ConvInteger", "ConvInteger(x, w, xz, z)"},
        Operator{"QLinearMatMul", "QLinearMatMul(x, s, xz, w, s, z, s, xz)"},
        Operator{"QLinearConv", "QLinearConv(x, s, xz, w, s, z, s, xz)"},
        Operator{"QGemm", "com.microsoft.QGemm(x, s, xz, w, s, z)"},
        Operator{"QAttention", "com.microsoft.QAttention(x, w, b, s, s, , xz, z)"},
        Operator{"MatMulIntegerToFloat", "com.microsoft.MatMulIntegerToFloat(x, w, s, s, xz, z)"},
        Operator{"DynamicQuantizeMatMul", "com.microsoft.DynamicQuantizeMatMul(f, w, s, z)"}),
    [](const auto& one) { return std::string(one.param.name); });

TEST(ByteProductsTest, BothWeightsOfAnLstmMove) {
  const auto graph = with_whole_products(R"(g (float[1,1,2] x) => (float[1,1,1,1] y)
    <int8[1,2,4] w = {1, 2, 3, 4, 5, 6, 7, 8}, int8[1,1,4] r = {1, 2, 3, 4}, float[1] s = {0.5},
     int8[1] z = {0}> {
      y = com.microsoft.DynamicQuantizeLSTM <hidden_size = 1> (x, w, r, , , , , , s, z, s, z) })");
  const auto names = input_names(graph, graph.nodes.back());
  EXPECT_EQ(names[1], "w/unsigned");
  EXPECT_EQ(names[2], "r/unsigned");
  EXPECT_EQ(names[9], "z/unsigned");
  EXPECT_EQ(names[11], "z/unsigned");
}

TEST(ByteProductsTest, SignedDataAndUnsignedWeightsStay) {
  const auto of_signed = with_whole_products(R"(g (int8[2,2] x) => (int32[2,2] y)
    <int8[2,2] w = {1, 2, 3, 4}> { y = MatMulInteger(x, w) })");
  EXPECT_THAT(input_names(of_signed, of_signed.nodes.back()), ElementsAre("x", "w"));
  const auto of_unsigned = with_whole_products(R"(g (uint8[2,2] x) => (int32[2,2] y)
    <uint8[2,2] w = {1, 2, 3, 4}> { y = MatMulInteger(x, w) })");
  EXPECT_THAT(input_names(of_unsigned, of_unsigned.nodes.back()), ElementsAre("x", "w"));
}

}  // namespace
}  // namespace penstock::graph
