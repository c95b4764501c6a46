// Multiply-accumulates, bytes of weights and the printed table of small models.
#include "penstock/graph/graph.h"

#include <gtest/gtest.h>

#include "penstock/graph/import.h"
#include "penstock/graph/test_support.h"

namespace penstock::graph {
namespace {

TEST(MacsTest, CountsConvolutionsMatrixProductsAndRecurrences) {
  const Graph graph = import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[1,3,8,8] x, float[4,3,3,3] w, float[2,5] a, float[5,7] b, float[6,1,5] s,
       float[1,16,5] wl, float[1,16,4] rl)
      => (float[1,4,6,6] conv, float[2,7] product, float[6,1,1,4] recurrent) {
      conv = Conv(x, w)
      product = MatMul(a, b)
      recurrent = LSTM <hidden_size = 4> (s, wl, rl)
    })");
  EXPECT_EQ(macs_of(graph, NodeId{0}), 1U * 4 * 6 * 6 * 3 * 3 * 3);
  EXPECT_EQ(macs_of(graph, NodeId{1}), 2U * 7 * 5);
  EXPECT_EQ(macs_of(graph, NodeId{2}), 6U * (16 * 5 + 16 * 4));
}

TEST(MacsTest, CountsSumsOfProducts) {
  const Graph graph = import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[2,3,5,8] q, float[2,3,7,8] k, float[4,6] m, float[2,4] a, float[4,6] b, float[6,3] c)
      => (float[2,3,5,7] scores, float[4] rows, float[2,3] chain) {
      scores = Einsum <equation = "bhqd, bhkd -> bhqk"> (q, k)
      rows = Einsum <equation = "ij->i"> (m)
      chain = Einsum <equation = "ij,jk,kl->il"> (a, b, c)
    })");
  EXPECT_EQ(known_macs_of(graph, NodeId{0}), 2U * 3 * 5 * 7 * 8);
  EXPECT_EQ(known_macs_of(graph, NodeId{1}), 0U);  // Sums only.
  EXPECT_EQ(known_macs_of(graph, NodeId{2}), 2U * (2 * 4 * 6 * 3));
}

TEST(MacsTest, CountsAttentionWithTheWidthsOfItsHeads) {
  const Graph graph = import_text(R"(
    <ir_version: 11, opset_import: ["" : 23]>
    g (float[2,8,5,16] q, float[2,4,7,16] k, float[2,4,7,32] v, float[2,5,64] q3, float[2,7,64] k3)
      => (float[2,8,5,32] y, float[2,5,64] y3) {
      y = Attention (q, k, v)
      y3 = Attention <q_num_heads = 4, kv_num_heads = 4> (q3, k3, k3)
    })");
  EXPECT_EQ(known_macs_of(graph, NodeId{0}), 2U * 8 * 5 * 7 * (16 + 32));
  EXPECT_EQ(known_macs_of(graph, NodeId{1}), 2U * 5 * 7 * (64 + 64));
}

TEST(MacsTest, AreUnknownWhereAShapeIsOpen) {
  const Graph graph = import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[n,5] a, float[5,7] b) => (float[n,7] y) { t = MatMul(a, b) y = Relu(t) })");
  EXPECT_EQ(known_macs_of(graph, NodeId{0}), std::nullopt);
  EXPECT_EQ(macs_of(graph, NodeId{0}), 0U);
  EXPECT_EQ(known_macs_of(graph, NodeId{1}), 0U);
}

TEST(WeightBytesTest, CountAConstantReadTwiceOnce) {
  const Graph graph = import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[1] x) => (float[3] y) <float[3] w = {1, 2, 3}> {
      y = Sum(x, w, w)
    })");
  EXPECT_EQ(weight_bytes_of(graph, NodeId{0}), 12U);
}

TEST(ToTextTest, ListsOneLineANodeInColumns) {
  const Graph graph = import_text(R"(
    <ir_version: 10, opset_import: ["" : 20, "acme" : 1]>
    net (float[n,5] a) => (float[n,7] y) <float[5,2] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 0}> {
      [first] t = MatMul(a, w)
      y = acme.Swish(t)
    })");
  EXPECT_EQ(to_text(graph),
            "graph 'net': 2 nodes, 40 bytes of constants, at least 0 MACs; operator sets onnx 20, "
            "acme 1\n"
            "input  a  f32[n,5]\n"
            "output  y  f32[n,7]\n"
            "index  name     op          outputs   bytes  MACs\n"
            "    0  first    MatMul      f32[n,2]     40     ?\n"
            "    1  Swish_1  acme.Swish  f32[n,7]      0     ?\n");
}

TEST(NodeTest, GivesAttributesByNameOrTheDefault) {
  const Graph graph = import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[1,3,8,8] x, float[4,3,3,3] w) => (float[1,4,3,3] y) {
      y = Conv <strides = [2, 2], group = 1> (x, w)
    })");
  const auto& node = graph.node(NodeId{0});
  EXPECT_EQ(node.int_or("group", 7), 1);
  EXPECT_EQ(node.int_or("absent", 7), 7);
  EXPECT_EQ(node.ints_or("strides", {}), (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(node.find("absent"), nullptr);
}

}  // namespace
}  // namespace penstock::graph
