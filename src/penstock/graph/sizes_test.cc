// Sizes, words and random nodes that are found in small models.
#include "penstock/graph/sizes.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/graph/randomness.h"
#include "penstock/graph/test_support.h"

namespace penstock::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

Graph graph_of(const std::string& text, int opset = 17) {
  return import_text(
      concat("<ir_version: 8, opset_import: [\"\" : ", opset, ", \"ai.onnx.ml\" : 3]> g ", text));
}

/// "1x3x28x28": what the input `x` is in a frame of which nobody says more.
std::string size_in(const std::string& text, int opset = 17) {
  const auto graph = graph_of(text, opset);
  return join(graph.value(*graph.find_value("x")).type.dims, "x",
              [](const Dim& dim) { return std::to_string(dim.likely()); });
}

TEST(Sizes, OfPicturesAreNotOne) {
  EXPECT_EQ(size_in("(float[n, 3, h, w] x) => (float[n, 3, h, w] y) { y = Relu(x) }"), "1x3x64x64");
  EXPECT_EQ(size_in("(float[n, h, w, 3] x) => (float[n, h, w, 3] y) { y = Relu(x) }"), "1x64x64x3");
}

TEST(Sizes, OfCachesOfKeysAreNoPictures) {
  EXPECT_EQ(size_in(R"((float[b, 2, past, 8] x, float[b, 2, s, 8] k) => (float[b, 2, all, 8] y) {
        y = Concat<axis = 2>(x, k) })"),
            "1x2x1x8");
}

TEST(Sizes, OfSumsAreTheSums) {
  // As in the text form of ONNX no symbol is one.
  auto proto = graph_of(
      "(float[1, a] x, float[1, b] u, float[1, c] m) => (float[1, d] y) {"
      " t = Concat<axis = 1>(x, x, u) y = Add(t, m) }");
  for (auto& dim : proto.values[index(*proto.find_value("m"))].type.dims) {
    if (!dim.fixed()) dim.symbol = "2*a + b";
  }
  find_sizes(proto);
  EXPECT_EQ(proto.value(*proto.find_value("m")).type.dims[1].likely(), 3);
  EXPECT_EQ(proto.value(*proto.find_value("x")).type.dims[1].likely(), 1);
}

TEST(Sizes, AreSuchAsReshapesTake) {
  // 28 x 28, halved, as a row of a product.
  EXPECT_EQ(size_in(R"((float[1, 3, h, w] x, float[588, 10] p) => (float[1, 10] y)
      <int64[2] rows = {1, 588}> {
        a = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x)
        b = Reshape(a, rows)
        y = MatMul(b, p) })"),
            "1x3x28x28");
}

TEST(Sizes, AreRatherThoseOfWhichAConstantHasAsMany) {
  // 14 x 14 patches of 16 x 16, each with its place; of 28 x 28 there is one, for all places.
  const auto patches = [](const std::string& places) {
    return size_in(concat(R"((float[n, 3, h, w] x) => (float[n, 3, m] y)
      <int64[3] rows = {0, 3, -1}, float[1, 1, 196] places = {)",
                          places, R"(}> {
        a = MaxPool<kernel_shape = [16, 16], strides = [16, 16]>(x)
        b = Reshape(a, rows)
        y = Add(b, places) })"));
  };
  std::string places = "0";
  for (int i = 1; i < 196; ++i) places += ", 0";
  EXPECT_EQ(patches(places), "1x3x224x224");
  // No size of the list makes 5 x 5: then it is one that fits.
  EXPECT_EQ(size_in(R"((float[n, t] x) => (float[n, t] y) <float[7] c = {1, 2, 3, 4, 5, 6, 7}> {
        y = Add(x, c) })"),
            "1x1");
}

TEST(Sizes, AreLongEnoughForWindows) {
  EXPECT_EQ(size_in(R"((float[1, 1, t] x, float[4, 1, 30] k) => (float[1, 4, s] y) {
        y = Conv(x, k) })"),
            "1x1x32");
  EXPECT_EQ(size_in("(float[1, t] x) => (float[1, t] y) { y = Relu(x) }"), "1x1");
}

/// The length of a signal that a node makes `y` of.
std::string length_for(const std::string& node) {
  return size_in("(float[1, 1, t] x, float[4, 1, 400] k) => (float[1, c, s] y) { y = " + node +
                 " }");
}

TEST(Sizes, AreLongEnoughForWindowsOfLargeStrides) {
  EXPECT_EQ(length_for("Conv<strides = [160]>(x, k)"), "1x1x512");
  EXPECT_EQ(length_for("Conv<strides = [160], pads = [72, 72]>(x, k)"), "1x1x256");
  EXPECT_EQ(length_for("Conv<strides = [400], dilations = [2]>(x, k)"), "1x1x1000");
  EXPECT_EQ(length_for("Conv<strides = [160], auto_pad = \"SAME_UPPER\">(x, k)"), "1x1x1");
  EXPECT_EQ(length_for("MaxPool<kernel_shape = [1024], strides = [160]>(x)"), "1x1x1024");
  EXPECT_EQ(length_for("GlobalMaxPool(x)"), "1x1x1");
  EXPECT_EQ(size_in(R"((uint8[1, 1, t] x, uint8[4, 1, 300] k, float s, uint8 z)
      => (uint8[1, 4, l] y) { y = QLinearConv<strides = [160]>(x, s, z, k, s, z, s, z) })"),
            "1x1x512");
}

TEST(Sizes, AreLongEnoughForPiecesOfSpectra) {
  EXPECT_EQ(size_in(R"((float[1, t, 1] x) => (float[1, f, 201, 2] y) <int64 step = {160},
      int64 length = {400}> { y = STFT(x, step, , length) })"),
            "1x512x1");
  EXPECT_EQ(size_in(R"((float[1, t, 1] x) => (float[1, f, 129, 2] y) <int32 step = {160},
      int32 length = {256}> { y = STFT(x, step, , length) })"),
            "1x256x1");
}

TEST(Sizes, AreLongerThanWindowsOfSpectra) {
  EXPECT_EQ(size_in(R"((float[1, t] x, float[256] w) => (float[1, f, 129, 2] y)
      <int64 step = {128}, int64[1] last = {2}> {
        s = Unsqueeze(x, last)
        y = STFT(s, step, w) })"),
            "1x512");
}

TEST(Sizes, AreLongerThanWhatIsMirrored) {
  const std::string signal = "(float[1, t] x) => (float[1, s] y) <int64[4] ends = {0, 40, 0, 9}> ";
  EXPECT_EQ(size_in(signal + R"({ y = Pad<mode = "reflect">(x, ends) })"), "1x64");
  EXPECT_EQ(size_in(signal + "{ y = Pad(x, ends) }"), "1x1");
  EXPECT_EQ(size_in(R"((float[3, t] x) => (float[3, s] y)
      <int64[2] ends = {0, 8}, int64[1] last = {-1}> {
        y = Pad<mode = "reflect">(x, ends, , last) })",
                    18),
            "3x16");
}

TEST(Sizes, ReachWhatStandsBehind) {
  const auto graph = graph_of(R"((float[n, 3, h, w] x) => (float[n, 3, a, b] y) {
      p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x)
      y = Relu(p) })");
  EXPECT_EQ(graph.value(*graph.find_value("p")).type.dims[2].likely(), 32);
}

TEST(Sizes, AreThoseOfWeights) {
  const auto product = [](const char* node, const char* weight) {
    return size_in(concat("(float[n, d] x, ", weight,
                          " w) => (float[n, e] y) { t = Relu(x) y = ", node, " }"));
  };
  EXPECT_EQ(product("MatMul(t, w)", "float[37, 4]"), "1x37");
  EXPECT_EQ(product("MatMul(w, t)", "float[4, 37]"), "37x1");
  EXPECT_EQ(product("Gemm<transB = 1>(t, w)", "float[4, 37]"), "1x37");
  EXPECT_EQ(product("Gemm<transA = 1>(t, w)", "float[37, 4]"), "37x1");
  EXPECT_EQ(product("LayerNormalization(t, w)", "float[37]"), "1x37");
  EXPECT_EQ(product("PRelu(t, w)", "float[1]"), "1x1");
  EXPECT_EQ(size_in(R"((float[?, ?] x, float[37, 4] w) => (float[?, 4] y) {
        y = MatMul(x, w) })"),
            "1x37");
}

TEST(Sizes, AreThoseOfWeightsOfSequences) {
  EXPECT_EQ(size_in(R"((float[t, b, i] x, float[1, 32, 13] w, float[1, 32, 8] r)
      => (float[t, 1, b, 8] y) { y = LSTM<hidden_size = 8>(x, w, r) })"),
            "1x1x13");
  EXPECT_EQ(size_in(R"((float[d, b, h] x, float[5, 2, 13] v, float[2, 24, 13] w,
      float[2, 24, 8] r) => (float[5, 2, 2, 8] y) {
        y = GRU<hidden_size = 8, direction = "bidirectional">(v, w, r, , , x) })"),
            "2x2x8");
}

TEST(Sizes, OfChannelsAreThoseOfWeights) {
  const auto picture = [](const char* node, const char* weight) {
    return size_in(concat("(float[n, h, w, c] x, ", weight, " k) => (float[n, m, a, b] y) {",
                          " t = Transpose<perm = [0, 3, 1, 2]>(x) y = ", node, " }"));
  };
  EXPECT_EQ(picture("Conv(t, k)", "float[4, 3, 3, 3]"), "1x64x64x3");
  EXPECT_EQ(picture("Conv<group = 6>(t, k)", "float[6, 1, 3, 3]"), "1x64x64x6");
  EXPECT_EQ(picture("ConvTranspose(t, k)", "float[5, 4, 3, 3]"), "1x64x64x5");
  EXPECT_EQ(picture("BatchNormalization(t, k, k, k, k)", "float[7]"), "1x64x64x7");
}

TEST(Sizes, ThatWeightsTellStayWhereNoOthersFit) {
  EXPECT_EQ(size_in(R"((float[n, d] x, float[e] u, float[37, 4] w, float[19, 2] v)
      => (float[n, 4] y, float[2] z) {
        y = MatMul(x, w)
        a = Concat<axis = 0>(u, u)
        z = MatMul(a, v) })"),
            "1x37");
}

TEST(Sizes, OfSumsAreThoseOfWeights) {
  auto graph = graph_of(R"((float[1, d] x, float[1, e] u, float[37, 4] w) => (float[1, 4] y,
      float[1, e] z) { y = MatMul(x, w) z = Relu(u) })");
  graph.values[index(*graph.find_value("u"))].type.dims[1].symbol = "d + 1";
  find_sizes(graph);
  EXPECT_EQ(graph.value(*graph.find_value("u")).type.dims[1].likely(), 38);
}

TEST(Sizes, AreThoseThatWereGiven) {
  EXPECT_EQ(size_in("(float[1, 3, 20, 30] x) => (float[1, 3, 20, 30] y) { y = Relu(x) }"),
            "1x3x20x30");
}

TEST(Words, AreThoseThatReadersKnow) {
  const auto graph = graph_of(R"((string[4] s, string[4] t, string[2] u) => (int64[4] y, bool[4] z,
      string[2] v) {
        m = Identity(s)
        y = ai.onnx.ml.LabelEncoder<keys_strings = ["cat", "dog"], values_int64s = [4, 5]>(m)
        one = Constant<value_strings = ["yes"]>()
        z = Equal(t, one)
        v = Identity(u) })");
  const auto words = [&](const char* name) { return graph.value(*graph.find_value(name)).words; };
  EXPECT_THAT(words("s"), ElementsAre("", "cat", "dog"));
  EXPECT_THAT(words("t"), ElementsAre("", "yes"));
  EXPECT_THAT(words("u"), IsEmpty());
}

TEST(Words, AreKnownOnesAloneWhereOthersAreRefused) {
  const auto words_of = [](const char* zeros) {
    const auto graph = graph_of(concat(
        "(string[4] s) => (float[4, 2] y) { y = ai.onnx.ml.OneHotEncoder<cats_strings = [\"cat\", "
        "\"dog\"], zeros = ",
        zeros, ">(s) }"));
    return graph.value(*graph.find_value("s")).words;
  };
  EXPECT_THAT(words_of("0"), ElementsAre("cat", "dog"));
  EXPECT_THAT(words_of("1"), ElementsAre("", "cat", "dog"));
}

TEST(Words, GoThroughWhatChangesTheirCase) {
  const auto graph = graph_of(R"((string[4] s) => (int64[4] y) {
        m = StringNormalizer<case_change_action = "LOWER">(s)
        y = ai.onnx.ml.LabelEncoder<keys_strings = ["cat", "dog"], values_int64s = [4, 5]>(m) })");
  EXPECT_THAT(graph.value(*graph.find_value("s")).words, ElementsAre("", "cat", "dog"));
}

TEST(Words, AreThoseOfNestedGraphsToo) {
  const auto graph = graph_of(R"((string[2] s, string[2] t, string[2] u, bool c, int64 n)
      => (int64[2] y, string[2] last) {
        y = If(c) <then_branch = one () => (int64[2] a) {
                     m = Identity(s)
                     a = If(c) <then_branch = two () => (int64[2] b) {
                                  b = ai.onnx.ml.LabelEncoder<keys_strings = ["cat", "dog"],
                                                              values_int64s = [4, 5]>(m) },
                                else_branch = three () => (int64[2] d) <int64[2] d = {1, 2}> { }> },
                   else_branch = four () => (int64[2] e) {
                     e = ai.onnx.ml.LabelEncoder<keys_strings = ["cow"], values_int64s = [6]>(s) }>
        last = Loop(n, , t) <body = b (int64 i, bool on, string[2] w) => (bool go, string[2] w2) {
          go = Identity(on)
          k = ai.onnx.ml.LabelEncoder<keys_strings = ["red"], values_int64s = [1]>(w)
          w2 = ai.onnx.ml.LabelEncoder<keys_int64s = [1], values_strings = ["blue"]>(k) }> })");
  const auto words = [&](const char* name) { return graph.value(*graph.find_value(name)).words; };
  EXPECT_THAT(words("s"), UnorderedElementsAre("", "cat", "dog", "cow"));
  EXPECT_THAT(words("t"), ElementsAre("", "red"));
  EXPECT_THAT(words("u"), IsEmpty());
}

TEST(Randomness, IsSeenInNestedGraphsToo) {
  const auto graph = graph_of(R"((float[2] x, bool c) => (float[2] y, float[2] z) {
      y = If(c) <then_branch = one () => (float[2] a) { a = RandomNormalLike(x) },
                 else_branch = two () => (float[2] b) { b = Neg(x) }>
      z = If(c) <then_branch = three () => (float[2] d) { d = Abs(x) },
                 else_branch = four () => (float[2] e) { e = Neg(x) }> })");
  ASSERT_EQ(graph.nodes.size(), 2U);
  EXPECT_TRUE(is_random(graph, graph.nodes[0]));
  EXPECT_FALSE(is_random(graph, graph.nodes[1]));
}

TEST(Randomness, IsNotOfANestedDropoutThatNeverTrains) {
  const auto graph = graph_of(R"((float[2] x, bool c, bool d) => (float[2] y, float[2] z)
      <float some = {0.5}, bool no = {0}> {
      y = If(c) <then_branch = one () => (float[2] a) { a = Dropout(x, some, no) },
                 else_branch = two () => (float[2] b) <bool off = {0}> { b = Dropout(x, some, off) }>
      z = If(c) <then_branch = three () => (float[2] e) <bool on = {1}> { e = Dropout(x, some, on) },
                 else_branch = four () => (float[2] f) { f = Dropout(x, some, d) }> })");
  EXPECT_FALSE(is_random(graph, graph.nodes[0]));
  EXPECT_TRUE(is_random(graph, graph.nodes[1]));
}

TEST(Randomness, IsNotOfADropoutThatDropsNothing) {
  const auto graph = graph_of(R"((float[2] x, float r) => (float[2] y, float[2] z, float[2] w)
      <float none = {0}, float some = {0.5}, bool training = {1}> {
      y = Dropout(x, none, training)
      z = Dropout(x, some, training)
      w = Dropout(x, r, training) })");
  EXPECT_FALSE(is_random(graph, graph.nodes[0]));
  EXPECT_TRUE(is_random(graph, graph.nodes[1]));
  EXPECT_TRUE(is_random(graph, graph.nodes[2]));
}

}  // namespace
}  // namespace penstock::graph
