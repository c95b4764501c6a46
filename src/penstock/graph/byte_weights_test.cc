// Which weights become unsigned, by how much, and with which zero point.
#include "penstock/graph/byte_weights.h"

#include <algorithm>

#include <gmock/gmock.h>

#include "penstock/graph/test_support.h"

namespace penstock::graph {
namespace {

using testing::ElementsAre;

std::string byte_model(const std::string& graph) {
  return "<ir_version: 10, opset_import: [\"\" : 20]>\n" + graph;
}

const Node& product_in(const Graph& graph, std::string_view op) {
  return *std::ranges::find(graph.nodes, op, &Node::op);
}

std::vector<int> unsigned_bytes_of(const Graph& graph, ValueId id) {
  const auto& value = *graph.value(id).constant;
  EXPECT_EQ(value.dtype(), DType::kU8);
  const auto bytes = value.as<std::uint8_t>();
  return {bytes.begin(), bytes.end()};
}

/// As on any machine: the import may have moved them here.
constexpr const char* kByteProduct = R"(g (uint8[2,2] x) => (int32[2,2] y)
  <int8[2,2] w = {-128, -1, 0, 127}, int8 z = {3}> { [p] y = MatMulInteger(x, w, , z) })";

TEST(ByteWeightsTest, MoveBy128WithTheirZeroPoint) {
  auto graph = import_text(byte_model(kByteProduct));
  const std::size_t moved = make_byte_weights_unsigned(graph);
  EXPECT_EQ(moved, may_cut_byte_products() ? 0U : 1U);
  const auto& product = product_in(graph, "MatMulInteger");
  EXPECT_THAT(unsigned_bytes_of(graph, product.inputs[1]), ElementsAre(0, 127, 128, 255));
  EXPECT_THAT(unsigned_bytes_of(graph, product.inputs[3]), ElementsAre(131));
  EXPECT_EQ(make_byte_weights_unsigned(graph), 0U) << "they are unsigned now";
}

TEST(ByteWeightsTest, GetAZeroPointWhereThereIsNone) {
  auto graph = import_text(byte_model(R"(g (uint8[2,2] x) => (int32[2,2] y)
    <int8[2,2] w = {-128, -1, 0, 127}> { [p] y = MatMulInteger(x, w) })"));
  make_byte_weights_unsigned(graph);
  const auto& product = product_in(graph, "MatMulInteger");
  ASSERT_EQ(product.inputs.size(), 4U);
  EXPECT_EQ(product.inputs[2], ValueId::kNone);
  EXPECT_THAT(unsigned_bytes_of(graph, product.inputs[3]), ElementsAre(128));
}

TEST(ByteWeightsTest, StayWhereSomethingElseReadsThemOrTheDataAreSigned) {
  auto read = import_text(byte_model(R"(g (uint8[2,2] x) => (int32[2,2] y, float[2,2] f)
    <int8[2,2] w = {1, 2, 3, 4}, float s = {2}> {
      y = MatMulInteger(x, w)  f = DequantizeLinear(w, s) })"));
  EXPECT_EQ(make_byte_weights_unsigned(read), 0U);
  auto of_signed = import_text(byte_model(R"(g (int8[2,2] x) => (int32[2,2] y)
    <int8[2,2] w = {1, 2, 3, 4}> { y = MatMulInteger(x, w) })"));
  EXPECT_EQ(make_byte_weights_unsigned(of_signed), 0U);
}

}  // namespace
}  // namespace penstock::graph
