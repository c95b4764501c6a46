// Arenas, operands, slices, windows and resizes, by hand-made graphs.
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/graph/test_support.h"
#include "penstock/lower/arena.h"
#include "penstock/lower/resize.h"
#include "penstock/lower/slices.h"
#include "penstock/lower/window.h"

namespace penstock::lower {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::Pointwise;

Block block_of(std::size_t bytes, std::size_t first, std::size_t last) {
  Block block{.bytes = bytes};
  block.steps.add(first);
  block.steps.add(last);
  return block;
}

TEST(ArenaTest, LendsTheSamePlaceToThoseThatLiveAtOtherTimes) {
  std::vector<Block> chain{block_of(100, 0, 1), block_of(100, 1, 2), block_of(100, 2, 3)};
  EXPECT_EQ(place(chain, 64), 228U);
  EXPECT_EQ(chain[0].offset, chain[2].offset);
  EXPECT_NE(chain[0].offset, chain[1].offset);
}

TEST(ArenaTest, WhatNoStepTouchesTakesNothing) {
  std::vector<Block> blocks{Block{.bytes = 1000}, block_of(8, 0, 0)};
  EXPECT_EQ(place(blocks, 64), 8U);
  EXPECT_EQ(place({}, 64), 0U);
}

TEST(ArenaTest, NoTwoOverlapInBytesAndSteps) {
  std::mt19937 draw(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<Block> blocks;
    for (int i = 0; i < 20; ++i) blocks.push_back(block_of(draw() % 500, draw() % 20, draw() % 20));
    const auto bytes = place(blocks, 64);
    for (std::size_t a = 0; a < blocks.size(); ++a) {
      ASSERT_EQ(blocks[a].offset % 64, 0U);
      ASSERT_LE(blocks[a].offset + blocks[a].bytes, bytes);
      for (std::size_t b = 0; b < a; ++b) {
        if (!blocks[a].steps.overlap(blocks[b].steps)) continue;
        ASSERT_TRUE(blocks[a].offset + blocks[a].bytes <= blocks[b].offset ||
                    blocks[b].offset + blocks[b].bytes <= blocks[a].offset);
      }
    }
  }
}

/// The graph of one operator, written as ONNX's text form has it.
graph::Graph graph_of(const std::string& inputs, const std::string& outputs,
                      const std::string& body, const std::string& constants = "") {
  return graph::import_text(
      concat("<ir_version: 8, opset_import: [\"\" : 18, \"Foo\" : 1]> g (", inputs, ") => (",
             outputs, ") ", constants.empty() ? "" : "<" + constants + "> ", "{ ", body, " }"));
}

TEST(OperandsTest, AreReadWhereTheyAreConstant) {
  const auto graph = graph_of("float[2] x, float[1] b", "float[2] y", "y = Foo.Mix(x, s, n, b)",
                              "float s = {2.5}, int32[2] n = {3, -4}");
  const auto& inputs = graph.nodes.front().inputs;
  EXPECT_EQ(scalar(graph, inputs[1]), 2.5F);
  EXPECT_THAT(*integers(graph, inputs[2]), ElementsAre(3, -4));
  EXPECT_FALSE(scalar(graph, inputs[0]));
  EXPECT_FALSE(integers(graph, inputs[1]));
  EXPECT_EQ(constant(graph, graph::ValueId::kNone), nullptr);
  EXPECT_EQ(only_reader(graph, inputs[0]), graph::NodeId{0});
  EXPECT_FALSE(only_reader(graph, graph.outputs.front())) << "it leaves the graph";
}

TEST(SlicesTest, CountFromTheEndAndBackwards) {
  const auto graph =
      graph_of("float[5, 6] x", "float[2, 6] y", "y = Slice(x, starts, ends, axes, steps)",
               "int64[2] starts = {-1, 9}, int64[2] ends = {0, -9}, int64[2] axes = {1, -2}, "
               "int64[2] steps = {1, -2}");
  const auto slices = slices_of(graph, graph.nodes.front(), {5, 6});
  ASSERT_TRUE(slices) << slices.error().message();
  EXPECT_THAT(slices->begin, ElementsAre(4, 5));
  EXPECT_THAT(slices->steps, ElementsAre(-2, 1));
}

TEST(SlicesTest, PadsAreThoseOfTheirAxes) {
  const auto graph = graph_of("float[5, 6] x", "float[5, 9] y", "y = Pad(x, pads, , axes)",
                              "int64[2] pads = {1, 2}, int64[1] axes = {-1}");
  const auto pads = pads_of(graph, graph.nodes.front(), 2);
  ASSERT_TRUE(pads) << pads.error().message();
  EXPECT_THAT(pads->before, ElementsAre(0, 1));
  EXPECT_THAT(pads->after, ElementsAre(0, 2));
}

TEST(SlicesTest, WhatIsNotConstantIsRefused) {
  const auto graph = graph_of("float[5] x, int64[2] pads", "float[n] y", "y = Pad(x, pads)");
  const auto pads = pads_of(graph, graph.nodes.front(), 1);
  ASSERT_FALSE(pads);
  EXPECT_EQ(pads.error().message(), "takes constant pads");
}

TEST(WindowTest, PadsAsTheNodeOrAutoPadSays) {
  const auto node_of = [](const std::string& attributes) {
    return graph_of("float[1, 1, 7] x, float[1, 1, 3] w", "float[1, 1, 4] y",
                    concat("y = Conv<strides = [2], ", attributes, ">(x, w)"))
        .nodes.front();
  };
  const auto given = window_of(node_of("pads = [1, 2]"), {7}, {4}, {3});
  EXPECT_THAT(given.kernel, ElementsAre(3));
  EXPECT_THAT(given.pads_begin, ElementsAre(1));
  EXPECT_THAT(given.pads_end, ElementsAre(2));
  // Four windows of 3, 2 apart, reach over 9 elements: 2 more than there are, at odds unevenly.
  const auto upper =
      window_of(node_of("auto_pad = \"SAME_UPPER\", dilations = [1]"), {6}, {3}, {4});
  EXPECT_THAT(upper.pads_begin, ElementsAre(1));
  const auto lower =
      window_of(node_of("auto_pad = \"SAME_LOWER\", dilations = [2]"), {8}, {4}, {3});
  EXPECT_EQ(lower.reach(0), 5);
  EXPECT_THAT(lower.pads_begin, ElementsAre(2));
  EXPECT_THAT(lower.pads_end, ElementsAre(1));
}

TEST(WindowTest, OfPoolingsIsPaddedAsIfNotDilated) {
  const auto window = [](const std::string& attributes, std::int64_t in, std::int64_t out) {
    const auto graph = graph_of("float[1, 1, n] x", "float[1, 1, m] y",
                                concat("y = MaxPool<", attributes, ">(x)"));
    return window_of(graph.nodes.front(), {in}, {out}, {});
  };
  // Three windows of 3, 3 apart, need 9 elements: 1 more than there are.
  const auto dilated =
      window("auto_pad = \"SAME_LOWER\", kernel_shape = [3], strides = [3], dilations = [2]", 8, 2);
  EXPECT_THAT(dilated.pads_begin, ElementsAre(1));
  EXPECT_THAT(dilated.pads_end, ElementsAre(0));
  EXPECT_FALSE(leaves_out_edges(dilated));
  // Two windows of 1, 4 apart, reach over 5 elements of 8.
  const auto sparse = window("auto_pad = \"SAME_UPPER\", kernel_shape = [1], strides = [4]", 8, 2);
  EXPECT_THAT(sparse.pads_begin, ElementsAre(-1));
  EXPECT_THAT(sparse.pads_end, ElementsAre(-2));
  EXPECT_TRUE(leaves_out_edges(sparse));
}

/// The weights of one element of the result, by the element of the input.
std::vector<double> row_of(const Axis& axis, const Grid& grid, std::size_t i) {
  const auto taps = taps_of(axis, grid);
  std::vector<double> row(static_cast<std::size_t>(axis.in));
  for (std::size_t k = 0; k < taps.each; ++k) {
    row[static_cast<std::size_t>(taps.index[i * taps.each + k])] += taps.weight[i * taps.each + k];
  }
  return row;
}

// 3 to 6 elements. The values are those of ONNX's description of the modes.
TEST(ResizeTest, TakesElementsAsTheModesSay) {
  const Axis axis{.in = 3, .out = 6, .scale = 2};
  const auto near = [](std::vector<double> row) { return Pointwise(DoubleEq(), std::move(row)); };
  const Grid linear{.mode = "linear", .transformation = "half_pixel", .rounding = ""};
  EXPECT_THAT(row_of(axis, linear, 0), near({1, 0, 0})) << "what lies outside is the edge";
  EXPECT_THAT(row_of(axis, linear, 1), near({0.75, 0.25, 0}));
  const Grid corners{.mode = "linear", .transformation = "align_corners", .rounding = ""};
  EXPECT_THAT(row_of(axis, corners, 5), near({0, 0, 1}));
  const Grid floor{.mode = "nearest", .transformation = "asymmetric", .rounding = "floor"};
  EXPECT_THAT(row_of(axis, floor, 3), near({0, 1, 0}));
  const Grid ceil{.mode = "nearest", .transformation = "asymmetric", .rounding = "ceil"};
  EXPECT_THAT(row_of(axis, ceil, 3), near({0, 0, 1}));
}

TEST(ResizeTest, CubicLeavesOutWhatLiesOutside) {
  const Axis axis{.in = 4, .out = 8, .scale = 2};
  Grid grid{.mode = "cubic", .transformation = "half_pixel", .rounding = ""};
  const auto held = row_of(axis, grid, 0);
  grid.exclude_outside = true;
  const auto left_out = row_of(axis, grid, 0);
  EXPECT_NE(held, left_out);
  for (const auto& row : {held, left_out}) {
    double sum = 0;
    for (const double weight : row) sum += weight;
    EXPECT_THAT(sum, DoubleEq(1));
  }
}

TEST(ResizeTest, ScalesAreThoseOfTheirAxes) {
  const auto graph = graph_of("float[2, 5] x", "float[2, 7] y", "y = Resize<axes = [-1]>(x, , s)",
                              "float[1] s = {1.5}");
  const auto axes = axes_of(graph, graph.nodes.front());
  EXPECT_TRUE(axes[0].keeps());
  EXPECT_THAT(axes[1].scale, DoubleEq(1.5)) << "not 7 / 5";
}

}  // namespace
}  // namespace penstock::lower
