// Sizes that inference misses, against those that ONNX Runtime 1.31 gives.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/graph/test_support.h"

namespace penstock::graph {
namespace {

using ::testing::ElementsAre;

/// A case: what a node makes of one dimension.
struct EngineSize {
  int opset;
  std::string op;
  std::string attributes;  ///< Of one spatial dimension.
  int in;
  std::string out;  ///< "3", or "?" where it is not known.
};

std::string text_of(const EngineSize& size, const std::string& nodes,
                    const std::string& constants = "") {
  return concat(R"(<ir_version: 8, opset_import: ["" : )", size.opset, "]> g (float[1, 1, ",
                size.in, "] x) => (float[1, 1, n] y) ", constants, " { ", nodes, " }");
}

std::string made_of(const std::string& text) {
  const auto graph = import_text(text);
  const auto& type = graph.value(*graph.find_value("y")).type;
  if (!type.ranked || type.dims.size() != 3) return to_string(type);
  return type.dims[2].fixed() ? std::to_string(type.dims[2].size) : "?";
}

TEST(EngineSizes, OfPoolsAreThoseOfWindowsThatBeginInside) {
  const std::vector<EngineSize> sizes = {
      {13, "MaxPool", "kernel_shape = [2], strides = [2], pads = [1, 1], ceil_mode = 1", 5, "3"},
      {13, "MaxPool", "kernel_shape = [2], strides = [2], pads = [1, 1], ceil_mode = 0", 5, "3"},
      {22, "MaxPool", "kernel_shape = [2], strides = [2], pads = [1, 1], ceil_mode = 1", 5, "3"},
      {11, "MaxPool", "kernel_shape = [2], strides = [2], pads = [1, 1], ceil_mode = 1", 4, "3"},
      {11, "MaxPool", "kernel_shape = [2], strides = [2], pads = [0, 1], ceil_mode = 1", 4, "2"},
      {11, "MaxPool", "kernel_shape = [1], strides = [4], dilations = [2], ceil_mode = 1", 10, "3"},
      {11, "MaxPool", "kernel_shape = [3], strides = [2], ceil_mode = 1", 6, "3"},
      {11, "AveragePool", "kernel_shape = [2], strides = [4], ceil_mode = 1", 4, "1"},
      {18, "AveragePool", "kernel_shape = [2], strides = [3], pads = [1, 0], ceil_mode = 1", 11,
       "4"},
      {18, "LpPool", "kernel_shape = [1], strides = [4], ceil_mode = 1", 7, "2"},
  };
  for (const auto& size : sizes) {
    EXPECT_EQ(made_of(text_of(size, concat("y = ", size.op, "<", size.attributes, ">(x)"))),
              size.out)
        << size.op << " of opset " << size.opset << " of " << size.in << ": " << size.attributes;
  }
}

TEST(EngineSizes, OfPoolsWithDilationsArePaddedAsWithout) {
  const std::vector<EngineSize> sizes = {
      {22, "MaxPool", R"(kernel_shape = [3], strides = [4], dilations = [2])", 8, "1"},
      {22, "AveragePool", R"(kernel_shape = [3], strides = [3], dilations = [2])", 8, "2"},
      {22, "AveragePool", R"(kernel_shape = [2], strides = [2], dilations = [2])", 8, "3"},
      {22, "LpPool", R"(kernel_shape = [2], strides = [1], dilations = [2])", 4, "3"},
      {22, "LpPool", R"(kernel_shape = [4], strides = [2], dilations = [2], ceil_mode = 1)", 8,
       "3"},
      {22, "MaxPool", R"(kernel_shape = [3], strides = [2], dilations = [1])", 8, "4"},
  };
  for (const auto& size : sizes) {
    for (const std::string same : {"SAME_LOWER", "SAME_UPPER"}) {
      EXPECT_EQ(made_of(text_of(size, concat("y = ", size.op, R"(<auto_pad = ")", same, R"(", )",
                                             size.attributes, ">(x)"))),
                size.out)
          << size.op << " of " << size.in << ", " << same << ": " << size.attributes;
    }
  }
}

TEST(EngineSizes, OfTransposedConvolutionsAreCutToTheStride) {
  const std::vector<EngineSize> sizes = {
      {18, "3", R"(auto_pad = "SAME_LOWER", strides = [2], output_padding = [1])", 4, "8"},
      {18, "2", R"(auto_pad = "SAME_UPPER", strides = [3], dilations = [2], output_padding = [1])",
       5, "15"},
      {18, "3", R"(auto_pad = "SAME_UPPER", strides = [2])", 4, "8"},
      {18, "3", R"(auto_pad = "VALID", strides = [2], output_padding = [1])", 4, "10"},
      {18, "3", R"(strides = [2], pads = [1, 1], output_padding = [1])", 4, "8"},
      {18, "3", R"(auto_pad = "SAME_UPPER", strides = [2], output_shape = [7])", 4, "7"},
  };
  for (const auto& size : sizes) {
    const auto text =
        concat(R"(<ir_version: 8, opset_import: ["" : )", size.opset, "]> g (float[1, 1, ", size.in,
               "] x, float[1, 1, ", size.op, "] w) => (float[1, 1, n] y) { y = ConvTranspose<",
               size.attributes, ">(x, w) }");
    EXPECT_EQ(made_of(text), size.out) << size.attributes;
  }
}

TEST(EngineSizes, OfResizesAreComputedInFloat32) {
  const std::vector<EngineSize> sizes = {
      {13, "Resize", "0.7", 10, "7"},   {11, "Resize", "0.7", 10, "7"},
      {18, "Resize", "0.9", 10, "9"},   {13, "Resize", "2.3", 10, "23"},
      {13, "Resize", "2.3", 9, "20"},   {10, "Resize", "0.7", 10, "7"},
      {9, "Upsample", "2.3", 10, "23"}, {13, "Resize", "0.5", 5, "2"},
      {13, "Resize", "1e30", 10, "?"},
  };
  for (const auto& size : sizes) {
    const bool old = size.opset < 11;
    const auto text =
        text_of(size, concat("y = ", size.op, "(x", old ? ", s)" : ", roi, s)"),
                concat("<float[0] roi = {}, float[3] s = {1.0, 1.0, ", size.attributes, "}>"));
    EXPECT_EQ(made_of(text), size.out)
        << size.op << " of opset " << size.opset << " of " << size.in << " by " << size.attributes;
  }
  EXPECT_EQ(
      made_of(text_of({7, "Upsample", "", 10, ""}, "y = Upsample<scales = [1.0, 1.0, 2.3]>(x)")),
      "23");
  EXPECT_EQ(made_of(text_of({18, "Resize", "", 10, ""}, "y = Resize<axes = [-1]>(x, roi, s)",
                            "<float[0] roi = {}, float[1] s = {0.7}>")),
            "7");
  EXPECT_EQ(made_of(text_of({18, "Resize", "", 10, ""}, "y = Resize(x, , , n)",
                            "<int64[3] n = {1, 1, 6}>")),
            "6");
}

TEST(EngineSizes, OfSpectraAreThoseOfTheSchemasDefault) {
  const auto bins = [](const std::string& attributes) {
    const auto graph = import_text(concat(R"(<ir_version: 8, opset_import: ["" : 17]> g
        (float[1, 64, 1] x, float[16] w) => (float[a, b, c, d] y) <int64 step = {8}> {
          y = STFT)",
                                          attributes, "(x, step, w) }"));
    return type_text(graph, "y");
  };
  EXPECT_EQ(bins(""), "f32[1,7,9,2]");
  EXPECT_EQ(bins("<onesided = 1>"), "f32[1,7,9,2]");
  EXPECT_EQ(bins("<onesided = 0>"), "f32[1,7,16,2]");
}

TEST(EngineSizes, OfRangesAreOpenWhereEnginesDiffer) {
  const auto range = [](const std::string& ends) {
    ImportOptions as_is;
    as_is.as_is = true;
    const auto graph = import_text(concat(R"(<ir_version: 8, opset_import: ["" : 13]> g
        () => (float[n] y) <float a = {)",
                                          ends, "}> { y = Range(a, b, c) }"),
                                   as_is);
    const auto& dim = graph.value(*graph.find_value("y")).type.dims[0];
    return dim.fixed() ? std::to_string(dim.size) : "?";
  };
  EXPECT_EQ(range("0.6666667}, float b = {-0.33333334}, float c = {-0.1"), "?");
  EXPECT_EQ(range("0.0}, float b = {1.0}, float c = {0.25"), "4");
  EXPECT_EQ(range("1.0}, float b = {0.0}, float c = {0.25"), "0");
}

// A network that ONNX's inference gave its sizes: what the file says is false.
TEST(EngineSizes, WinOverWhatTheFileDeclares) {
  const auto graph = import_text(R"(<ir_version: 8, opset_import: ["" : 13]> g
      (float[1, 1, 10] x) => (float[1, 1, 6] y, int64[3] n)
      <float[0] roi = {}, float[3] s = {1.0, 1.0, 0.7}, float[1, 1, 6] r> {
        r = Resize(x, roi, s) y = Relu(r) n = Shape(r) })");
  EXPECT_EQ(type_text(graph, "r"), "f32[1,1,7]");
  EXPECT_EQ(type_text(graph, "y"), "f32[1,1,7]");
  const auto& shape = graph.value(*graph.find_value("n")).constant;
  ASSERT_TRUE(shape);
  EXPECT_THAT(shape->as<std::int64_t>(), ElementsAre(1, 1, 7));
}

TEST(EngineSizes, HoldInNestedGraphs) {
  const auto graph = import_text(R"(<ir_version: 8, opset_import: ["" : 13]> g
      (bool b, float[1, 1, 10] x) => (float[1, 1, 6] y) {
        y = If(b) <
          then_branch = t () => (float[1, 1, 6] u) <float[0] roi = {}, float[3] s = {1.0, 1.0, 0.7}, float[1, 1, 6] r> {
            r = Resize(x, roi, s) u = Relu(r) },
          else_branch = e () => (float[1, 1, 6] v) <float[0] roi2 = {}, float[3] s2 = {1.0, 1.0, 0.7}> {
            v = Resize(x, roi2, s2) }> })");
  EXPECT_EQ(type_text(graph, "y"), "f32[1,1,7]");
}

}  // namespace
}  // namespace penstock::graph
