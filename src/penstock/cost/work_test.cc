// Operations and bytes of small networks counted by hand, and the roofline limit of given work.
#include "penstock/cost/work.h"

#include <gtest/gtest.h>

#include "penstock/graph/test_support.h"

namespace penstock::cost {
namespace {

using graph::Graph;
using graph::NodeId;

constexpr double kBytes = 4;  // Of an fp32 number.

Graph small_network() {
  return graph::import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[1,3,8,8] x, float[4,3,3,3] w) => (float[1,4,3,3] y) {
      c = Conv(x, w)
      r = Relu(c)
      y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r)
    })");
}

TEST(WorkTest, CountsTwoForAMultiplyAccumulateAndElementsOfTheRest) {
  const Graph graph = small_network();
  const auto nodes = std::vector{NodeId{0}, NodeId{1}, NodeId{2}};
  const auto work = work_of(graph, nodes);
  EXPECT_EQ(work.nodes[0].flops, 2 * 4 * 6 * 6 * 3 * 3 * 3);
  EXPECT_EQ(work.nodes[1].flops, 4 * 6 * 6);
  EXPECT_EQ(work.nodes[2].flops, 4 * 3 * 3 * 2 * 2);
  EXPECT_EQ(work.all.flops, work.nodes[0].flops + work.nodes[1].flops + work.nodes[2].flops);
  EXPECT_EQ(work.all.uncounted, 0);
}

TEST(WorkTest, BytesAreThoseThatCrossThePartsBorder) {
  const Graph graph = small_network();
  const double x = 3 * 8 * 8 * kBytes, w = 4 * 3 * 3 * 3 * kBytes, c = 4 * 6 * 6 * kBytes,
               y = 4 * 3 * 3 * kBytes;
  const auto whole = work_of(graph, std::vector{NodeId{0}, NodeId{1}, NodeId{2}});
  EXPECT_EQ(whole.all.bytes, x + w + y);
  EXPECT_EQ(whole.nodes[0].bytes, x + w);
  EXPECT_EQ(whole.nodes[1].bytes, 0);
  EXPECT_EQ(work_of(graph, std::vector{NodeId{0}}).all.bytes, x + w + c);
  EXPECT_EQ(work_of(graph, std::vector{NodeId{1}}).all.bytes, c + c);
}

TEST(WorkTest, AValueThatSeveralReadMovesOnce) {
  const Graph graph = graph::import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[2,8] x) => (float[2,8] y) { a = Exp(x) b = Sin(x) y = Add(a, b) })");
  const auto work = work_of(graph, std::vector{NodeId{0}, NodeId{1}, NodeId{2}});
  EXPECT_EQ(work.all.bytes, 2 * 2 * 8 * kBytes);
  EXPECT_EQ(work.nodes[0].bytes, work.nodes[1].bytes);
}

TEST(WorkTest, OfATableOnlyTheRowsThatAreTakenMove) {
  const Graph graph = graph::import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[1000,8] table, int64[2] ids) => (float[2,8] y) { y = Gather(table, ids) })");
  const auto work = work_of(graph, std::vector{NodeId{0}});
  EXPECT_EQ(work.all.bytes, 2 * 8 * kBytes + 2 * 8 + 2 * 8 * kBytes);
  EXPECT_EQ(work.all.flops, 0);
}

TEST(WorkTest, TellsOtherTypesAndWhatCannotBeCounted) {
  const Graph graph = graph::import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (uint8[2,5] a, uint8[5,7] b, float[n,5] o, float[5,7] p) => (int32[2,7] y, float[n,7] z) {
      y = MatMulInteger(a, b)
      z = MatMul(o, p)
    })");
  const auto work = work_of(graph, std::vector{NodeId{0}, NodeId{1}});
  EXPECT_EQ(work.all.flops, 0);
  EXPECT_EQ(work.all.other_flops, 2 * 2 * 7 * 5);
  EXPECT_EQ(work.all.uncounted, 1);
}

TEST(LimitTest, IsTheLongerOfComputingAndMoving) {
  const Work work{.flops = 1e9, .bytes = 1e6};
  EXPECT_DOUBLE_EQ(limit_of(work, 1e11, 1e10).seconds, 1e-2);
  EXPECT_FALSE(limit_of(work, 1e11, 1e10).by_memory);
  EXPECT_DOUBLE_EQ(limit_of(work, 1e14, 1e9).seconds, 1e-3);
  EXPECT_TRUE(limit_of(work, 1e14, 1e9).by_memory);
}

}  // namespace
}  // namespace penstock::cost
