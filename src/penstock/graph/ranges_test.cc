// The ranges that inputs of small models get from indices, lengths, masks and nested graphs.
#include "penstock/graph/ranges.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/graph/test_support.h"

namespace penstock::graph {
namespace {

/// "3..29", "none": what the input `name` of a graph may hold.
std::string range_of(const Graph& graph, const std::string& name) {
  const auto id = graph.find_value(name);
  if (!id) return "absent";
  const auto& range = graph.value(*id).range;
  return range ? concat(range->least, "..", range->most) : "none";
}

/// The range of input `i` of a graph written "(inputs) => (outputs) <constants> { nodes }".
std::string range_in(const std::string& graph, const std::string& name = "i") {
  return range_of(
      import_text(R"(<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> g )" + graph),
      name);
}

TEST(Ranges, DivideWholeNumbersByNoZero) {
  EXPECT_EQ(range_in("(int32[4] x, int32[4] i) => (int32[4] y) { y = Div(x, i) }"), "1..8");
  EXPECT_EQ(range_in("(uint8[4] x, uint8[4] i) => (uint8[4] y) { y = Mod(x, i) }"), "1..8");
  EXPECT_EQ(range_in("(float[4] x, float[4] i) => (float[4] y) { y = Div(x, i) }"), "none");
}

TEST(Ranges, KeepIndicesInsideTheirAxis) {
  EXPECT_EQ(range_in("(float[30, 4] t, int64[5] i) => (float[5, 4] y) { y = Gather(t, i) }"),
            "0..29");
  EXPECT_EQ(range_in("(float[30, 4] t, int64[5] i) => (float[30, 5] y) { y = Gather<axis = -1>(t, "
                     "i) }"),
            "0..3");
  EXPECT_EQ(range_in("(float[30, 4] t, int64[30, 2] i) => (float[30, 2] y) { y = "
                     "GatherElements<axis = 1>(t, i) }"),
            "0..3");
  EXPECT_EQ(
      range_in("(float[30, 4, 9] t, int64[5, 2] i) => (float[5, 9] y) { y = GatherND(t, i) }"),
      "0..3");
  EXPECT_EQ(range_in("(float[30, 4] t, int64[5, 1] i, float[5, 4] u) => (float[30, 4] y) { y = "
                     "ScatterND(t, i, u) }"),
            "0..29");
  EXPECT_EQ(range_in("(float[30, 4] t, int64[30, 2] i, float[30, 2] u) => (float[30, 4] y) { y = "
                     "ScatterElements<axis = 1>(t, i, u) }"),
            "0..3");
}

TEST(Ranges, AreOfPicturesPlacesAndLengths) {
  EXPECT_EQ(range_in("(float[3, 4, 8, 8] x, float[5, 4] r, int64[5] i) => (float[5, 4, 2, 2] y) { "
                     "y = RoiAlign<output_height = 2, output_width = 2>(x, r, i) }"),
            "0..2");
  const auto boxes = [](const std::string& attributes) {
    return range_in(concat("(float[3, 4, 8, 9] x, float[5, 4] r, int64[5] i) => (float[5, 4, h, w] "
                           "y) { y = RoiAlign<",
                           attributes, ">(x, r, i) }"),
                    "r");
  };
  EXPECT_EQ(boxes("output_height = 2, output_width = 3"), "0..1");
  EXPECT_EQ(boxes("output_height = 2, output_width = 3, spatial_scale = 0.25"), "0..7");
  EXPECT_EQ(boxes("output_height = 2, output_width = 3, sampling_ratio = 2"), "0..7");
  EXPECT_EQ(boxes("output_height = 7, output_width = 99, spatial_scale = 0.5"), "0..13");
  EXPECT_EQ(boxes("output_height = 1, output_width = 1"), "none");
  EXPECT_EQ(range_in("(float[1, 2, 5, 8] x, int64[1, 5] i, float[30, 4] c, float[30, 4] s) => "
                     "(float[1, 2, 5, 8] y) { y = com.microsoft.RotaryEmbedding(x, i, c, s) }"),
            "0..29");
  const std::string groups =
      "(float[1, 3, 8] x, float[1, 1, 4, 8] p, float[1, 1, 4, 8] q, int32[1] i, int32 n) => "
      "(float[1, 3, 8] y) { y = com.microsoft.GroupQueryAttention<num_heads = 1, kv_num_heads = "
      "1>(x, x, x, p, q, i, n) }";
  EXPECT_EQ(range_in(groups), "6..6");
  EXPECT_EQ(range_in(groups, "n"), "7..7");
}

TEST(Ranges, KeepAnOpenAxisToItsFirstElementOrItsBound) {
  const std::string graph =
      R"(<ir_version: 8, opset_import: ["" : 17]> g (float[n, 4] t, int64[5] i) => (float[5, 4] y)
         { y = Gather(t, i) })";
  EXPECT_EQ(range_of(import_text(graph), "i"), "0..0");
  ImportOptions options;
  options.shapes["t"] = {Dim{.bound = 7}, Dim{.size = 4}};
  EXPECT_EQ(range_of(import_text(graph, options), "i"), "0..6");
}

TEST(Ranges, LeadBackThroughWhatMovesNumbers) {
  EXPECT_EQ(range_in(R"((float[30, 4] t, float[1, 5] i) => (float[5, 4] y) <int64[1] all = {-1},
      int64[1] one = {1}, int64[1] two = {2}, int64[3] more = {7, 8, 9}> {
        turned = Transpose(i)
        whole = Cast<to = 7>(turned)
        flat = Reshape(whole, all)
        high = Unsqueeze(flat, one)
        low = Squeeze(high, one)
        half = Slice(low, one, two)
        long = Concat<axis = 0>(half, more)
        y = Gather(t, long) })"),
            "0..29");
}

TEST(Ranges, FollowSumsProductsAndChoices) {
  const auto of = [](const std::string& node) {
    return range_in(
        "(float[30] t, int64[5] i, bool[5] c) => (float[5] y) <int64[5] offsets = {0, "
        "5, 10, 15, 20}, int64 two = {2}, int64 last = {29}> { j = " +
        node + " y = Gather(t, j) }");
  };
  EXPECT_EQ(of("Add(i, offsets)"), "0..9");
  EXPECT_EQ(of("Sub(i, two)"), "2..31");
  EXPECT_EQ(of("Sub(last, i)"), "0..29");
  EXPECT_EQ(of("Mul(i, two)"), "0..14");
  EXPECT_EQ(of("Div(i, two)"), "0..58");
  EXPECT_EQ(of("Where(c, two, i)"), "0..29");
  EXPECT_EQ(of("Clip(i, two, last)"), "0..29");
  EXPECT_EQ(of("Mod(i, last)"), "none");
}

TEST(Ranges, OfPicturesOfWholeNumbersAreThoseOfPixels) {
  const auto of = [](const std::string& type, const std::string& node) {
    return range_in(
        "(" + type +
        "[4, 3] i) => (float[3, 4] y) <float full = {255.0}, float part = {0.0039216}, "
        "float[3] mean = {123.7, 116.3, 103.5}, float[3] less = {-123.7, -116.3, "
        "-103.5}, float[3] some = {57.0, 58.0, 57.5}, float ten = {10.0}> { c = Cast<to "
        "= 1>(i) t = Transpose(c) f = Transpose(t) d = " +
        node + " y = Transpose(d) }");
  };
  EXPECT_EQ(of("int32", "Div(f, full)"), "0..255");
  EXPECT_EQ(of("int64", "Mul(f, part)"), "0..255");
  EXPECT_EQ(of("int16", "Mul(part, f)"), "0..255");
  EXPECT_EQ(of("int32", "Sub(f, mean)"), "0..255");
  EXPECT_EQ(of("int32", "Add(f, less)"), "0..255");
  EXPECT_EQ(of("int32", "Div(f, ten)"), "none");
  EXPECT_EQ(of("int32", "Div(full, f)"), "none");
  EXPECT_EQ(of("int32", "Sub(mean, f)"), "none");
  EXPECT_EQ(of("float", "Div(f, full)"), "none");
  EXPECT_EQ(of("bool", "Div(f, full)"), "none");
}

TEST(Ranges, AreWhatAllReadersTake) {
  EXPECT_EQ(range_in("(float[30] t, float[12] s, int64[5] i) => (float[5] y) { a = Gather(t, i) b "
                     "= Gather(s, i) y = Add(a, b) }"),
            "0..11");
}

TEST(Ranges, KnowMasks) {
  const auto of = [](const std::string& nodes) {
    return range_in(
        "(float[5] x, float[5] i) => (float[5] y) <float one = {1.0}, float far = "
        "{-10000.0}, float high = {10000.0}, float half = {0.5}> { " +
        nodes + " }");
  };
  EXPECT_EQ(of("a = Sub(one, i) b = Mul(a, far) y = Add(x, b)"), "0..1");
  EXPECT_EQ(of("a = Sub(i, one) b = Mul(high, a) y = Add(x, b)"), "0..1");
  EXPECT_EQ(of("a = Cast<to = 9>(i) y = Where(a, x, one)"), "0..1");
  EXPECT_EQ(of("a = Sub(one, i) b = Mul(a, half) y = Add(x, b)"), "none");
  EXPECT_EQ(of("a = Mul(i, far) y = Add(x, a)"), "none");
}

TEST(Ranges, KeepLengthsToWhatFits) {
  EXPECT_EQ(range_in("(int64[4] x, int64 i) => (float[4, 6] y) <float[2] v = {0.0, 1.0}> { y = "
                     "OneHot(x, i, v) }"),
            "1..8");
  EXPECT_EQ(range_in("(int64[4] i) => (float[4, 6] y) <float[2] v = {0.0, 1.0}, int64 d = {6}> { y "
                     "= OneHot(i, d, v) }"),
            "0..5");
  EXPECT_EQ(range_in("(float[2, 9] x, int64[1] i) => (float[2, k] y, int64[2, k] z) { y, z = "
                     "TopK(x, i) }"),
            "1..9");
  EXPECT_EQ(range_in("(float[2, 9] x, int64[1] i) => (float[k, 9] y) <int64[1] b = {0}, int64[1] "
                     "a = {0}> { y = Slice(x, b, i, a) }"),
            "1..2");
  EXPECT_EQ(range_in("(float[2, 9] x, int64[1] i) => (float[n] y) { y = Reshape(x, i) }"),
            "-1..-1");
  EXPECT_EQ(range_in("(float[2, 9] x, int64[2] i) => (float[n, m] y) { y = Reshape(x, i) }"),
            "0..0");
  EXPECT_EQ(range_in("(float[2, 9] x, int64[2] i) => (float[n, m] y) { y = Expand(x, i) }"),
            "1..1");
  EXPECT_EQ(range_in("(float[2, 9] x, int64[2] i) => (float[n, m] y) { y = Tile(x, i) }"), "1..1");
  EXPECT_EQ(range_in("(float[1, 2, 3, 4] x, int64[4] i) => (float[a, b, c, d] y) { y = "
                     "Resize(x, , , i) }"),
            "1..8");
  EXPECT_EQ(range_in("(float[1, 2, 3, 4] x, int64[4] i) => (float[a, b, c, d] y) { y = "
                     "Resize<mode = \"linear\">(x, , , i) }"),
            "none");
  EXPECT_EQ(range_in("(float[1, 2, 3, 4] x, int64[2] i) => (float[1, 2, b, c] y) <int64[2] k = {1, "
                     "2}> { s = Concat<axis = 0>(k, i) y = Resize<mode = \"linear\">(x, , , s) }"),
            "1..8");
  EXPECT_EQ(range_in("(int64 i) => (int64[n] y) <int64 a = {0}, int64 d = {1}> { y = Range(a, i, "
                     "d) }"),
            "1..8");
  EXPECT_EQ(range_in(R"((float[7, 2, 3] x, int32[2] i, float[1, 16, 3] w, float[1, 16, 4] r)
      => (float[7, 1, 2, 4] y) {
        y = LSTM<hidden_size = 4>(x, w, r, , i) })"),
            "1..7");
}

/// The same, of a later version of ONNX's operators.
std::string range_since(int opset, const std::string& graph, const std::string& name = "i") {
  return range_of(import_text(concat("<ir_version: 8, opset_import: [\"\" : ", opset,
                                     ", \"ai.onnx.ml\" : 3]> g ", graph)),
                  name);
}

TEST(Ranges, OfSpectraAreNoneOfZeroNorLongerThanTheSignal) {
  const std::string open =
      "(float[1, 64, 1] x, int64 i, int64 n) => (float[1, f, b, 2] y) { y = STFT(x, i, , n) }";
  EXPECT_EQ(range_in(open), "1..8");
  EXPECT_EQ(range_in(open, "n"), "1..8");
  const std::string little =
      "(float[1, 5, 1] x, int64 i, int64 n) => (float[1, f, b, 2] y) { y = STFT(x, i, , n) }";
  EXPECT_EQ(range_in(little), "1..5");
  EXPECT_EQ(range_in(little, "n"), "1..5");
  EXPECT_EQ(range_in("(float[1, 64, 1] x, float[16] w, int64 i) => (float[1, f, 9, 2] y) <int64 s "
                     "= {8}> { y = STFT(x, s, w, i) }"),
            "16..16");
  EXPECT_EQ(range_in("(int64 i) => (float[n] y) { y = HannWindow(i) }"), "1..8");
  EXPECT_EQ(range_in("(float[1, 64, 1] x, int64 i) => (float[1, n, 2] y) { y = DFT(x, i) }"),
            "1..8");
  EXPECT_EQ(
      range_since(20, "(float[1, 64, 1] x, int64 i) => (float[a, b, 2] y) { y = DFT(x, , i) }"),
      "0..1");
}

TEST(Ranges, OfBandsEndBelowHalfTheRate) {
  const auto of = [](const std::string& name) {
    return range_in(
        "(int64 b, int64 n, int64 r, float l, float h) => (float[s, b] y) { y = "
        "MelWeightMatrix(b, n, r, l, h) }",
        name);
  };
  EXPECT_EQ(of("b"), "1..8");
  EXPECT_EQ(of("n"), "8..8");
  EXPECT_EQ(of("r"), "16000..16000");
  EXPECT_EQ(of("l"), "0..0");
  EXPECT_EQ(of("h"), "1..8000");
  EXPECT_EQ(
      range_in("(int64 i) => (float[5, 4] y) <int64 b = {4}, int64 n = {8}, float l = {20.0}, "
               "float h = {4000.0}> { y = MelWeightMatrix(b, n, i, l, h) }"),
      "8000..8000");
  EXPECT_EQ(
      range_in("(float i) => (float[5, 4] y) <int64 b = {4}, int64 n = {8}, int64 r = {8000}, "
               "float l = {20.0}> { y = MelWeightMatrix(b, n, r, l, i) }"),
      "21..4000");
}

TEST(Ranges, NameAxesThatThereAre) {
  EXPECT_EQ(
      range_since(18, "(float[4, 5] x, int64[1] i) => (float[a, b] y) { y = ReduceL2(x, i) }"),
      "0..1");
  EXPECT_EQ(range_in("(float[3, 4, 1] x, int64[1] i) => (float[3, 4] y) { y = Squeeze(x, i) }"),
            "2..2");
  EXPECT_EQ(range_since(18,
                        "(float[8] x, int64[1] i) => (float[10] y) <int64[2] p = {1, 1}> { y = "
                        "Pad(x, p, , i) }"),
            "0..0");
}

TEST(Ranges, OfPartsFitTheWhole) {
  EXPECT_EQ(range_in("(float[8, 4] x, int64[2] i) => (float[a, 4] y, float[b, 4] z) { y, z = "
                     "Split(x, i) }"),
            "4..4");
  EXPECT_EQ(range_in("(float[9, 4] x, int64[2] i) => (float[a, 4] y, float[b, 4] z) { y, z = "
                     "Split(x, i) }"),
            "none");
  const auto sequence = [](const std::string& type) {
    return range_in("(float[3, 12] x, " + type + R"( i) => (float[3, a] y) <int64 k = {0}> {
        q = SplitToSequence<axis = 1>(x, i)
        y = SequenceAt(q, k) })");
  };
  EXPECT_EQ(sequence("int64"), "1..8");
  EXPECT_EQ(sequence("int64[4]"), "3..3");
  EXPECT_EQ(range_in("(float[8] x, int64 i) => (int64 y) { q = SequenceConstruct(x) r = "
                     "SequenceErase(q, i) y = SequenceLength(r) }"),
            "0..0");
  EXPECT_EQ(range_in("(float[8] x, int64 i) => (int64 y) { q = SequenceConstruct(x) r = "
                     "SequenceInsert(q, x, i) y = SequenceLength(r) }"),
            "0..0");
  EXPECT_EQ(range_since(24,
                        "(float[2, 9, 8] x, float[2, 4, 8] u, int64[2] i) => (float[2, 9, 8] y) "
                        "{ y = TensorScatter(x, u, i) }"),
            "0..5");
  EXPECT_EQ(range_since(24,
                        "(float[2, 3, 8] q, float[2, 5, 8] k, int64[2] i) => (float[2, 3, 8] y) "
                        "{ y = Attention<q_num_heads = 1, kv_num_heads = 1>(q, k, k, , , , i) }"),
            "1..5");
}

TEST(Ranges, OfClassesColumnsAndPictures) {
  EXPECT_EQ(range_in("(float[3, 5] x, int64[3] i) => (float y) { y = SoftmaxCrossEntropyLoss(x, i) "
                     "}"),
            "0..4");
  EXPECT_EQ(range_since(17,
                        "(float[3, 7] x, int64[2] i) => (float[3, 2] y) { y = "
                        "ai.onnx.ml.ArrayFeatureExtractor(x, i) }"),
            "0..6");
  EXPECT_EQ(range_in("(float[2, 4, 8, 8] x, float[3, 5] i) => (float[3, 4, 2, 2] y) { y = "
                     "MaxRoiPool<pooled_shape = [2, 2]>(x, i) }"),
            "0..1");
  EXPECT_EQ(range_since(20,
                        "(float[3, 2, 3] x, int64[4] i) => (float[a, b, c, 2] y) { y = "
                        "AffineGrid(x, i) }"),
            "3..3");
}

TEST(Ranges, SeeIntoNestedGraphs) {
  EXPECT_EQ(range_in(R"((float[30] t, int64[5] i, bool c) => (float[5] y) {
      y = If(c) <then_branch = one () => (float[5] a) { a = Gather(t, i) },
                 else_branch = two () => (float[5] b) <float[5] b = {0, 0, 0, 0, 0}> { }> })"),
            "0..29");
  EXPECT_EQ(range_in(R"((float[30] t, int64[5] i, bool c) => (float[5] y) {
      j = If(c) <then_branch = one () => (int64[5] a) { a = Neg(i) },
                 else_branch = two () => (int64[5] b) { b = Identity(i) }>
      y = Gather(t, j) })"),
            "0..0");
  const std::string loop = R"((float[30] t, int64 m, bool c, int64[5] i) => (int64[5] y) {
      y = Loop(m, c, i) <body = b (int64 k, bool go, int64[5] j)
        => (bool on, int64[5] next) {
          on = Identity(go)
          a = Gather(t, j)
          next = Cast<to = 7>(a) }> })";
  EXPECT_EQ(range_in(loop), "0..29");
  EXPECT_EQ(range_in(loop, "m"), "1..4");
}

TEST(Ranges, LeaveAloneWhatNothingRestricts) {
  EXPECT_EQ(range_in("(float[30] x, float[30] i) => (float[30] y) { a = Add(x, i) y = Mul(a, i) }"),
            "none");
  EXPECT_EQ(range_in("(float[30] x, int64[30] i) => (bool[30] y) <int64 z = {0}> { y = Equal(i, z) "
                     "}"),
            "none");
}

TEST(Ranges, FitTheElementType) {
  EXPECT_EQ(range_in("(float[300] t, uint8[5] i) => (float[5] y) { j = Cast<to = 7>(i) y = "
                     "Gather(t, j) }"),
            "0..255");
  EXPECT_EQ(range_in("(float[3000] t, float16[5] i) => (float[5] y) { j = Cast<to = 7>(i) y = "
                     "Gather(t, j) }"),
            "0..2048");
}

}  // namespace
}  // namespace penstock::graph
