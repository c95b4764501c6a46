// Small models widened to three frames: the types and nodes that result, and what is refused.
#include "penstock/graph/batched.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/graph/test_support.h"

namespace penstock::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A graph of opset 17 from its signature and body: "(float[1,4] x) => (float[1,4] y) { ... }".
Graph graph_of_text(const std::string& text) {
  return import_text(R"(<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> net )" +
                     text);
}

Graph batched_text(const std::string& text, int frames = 3) {
  const auto graph = graph_of_text(text);
  auto made = batched(Subgraph::whole(graph), frames);
  if (made) return *std::move(made);
  ADD_FAILURE() << made.error().message();
  return {};
}

std::string refusal(const std::string& text) {
  const auto graph = graph_of_text(text);
  const auto made = batched(Subgraph::whole(graph), 3);
  if (!made) {
    EXPECT_EQ(made.error().code, Code::kFailedPrecondition);
    return made.error().message();
  }
  ADD_FAILURE() << "expected a refusal of " << text;
  return {};
}

std::vector<std::int64_t> constant_of(const Graph& graph, std::size_t node, std::size_t input) {
  const auto& value = graph.value(graph.nodes.at(node).inputs.at(input));
  if (!value.constant) return {};
  const auto list = value.constant->as<std::int64_t>();
  return {list.begin(), list.end()};
}

TEST(BatchedTest, WidensInputsOutputsAndAllBetween) {
  const auto graph = batched_text(R"((float[1,4] x) => (float[1,2] y)
      <float[4,2] w = {1, 2, 3, 4, 5, 6, 7, 8}> { t = MatMul(x, w) y = Relu(t) })");
  EXPECT_EQ(type_text(graph, "x"), "f32[3,4]");
  EXPECT_EQ(type_text(graph, "t"), "f32[3,2]");
  EXPECT_EQ(type_text(graph, "y"), "f32[3,2]");
  EXPECT_EQ(type_text(graph, "w"), "f32[4,2]");
}

TEST(BatchedTest, SharesTheWeights) {
  const auto graph = graph_of_text(R"((float[1,2] x) => (float[1,2] y)
      <float[2,2] w = {1, 2, 3, 4}> { y = MatMul(x, w) })");
  const auto made = batched(Subgraph::whole(graph), 2);
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ(made->value(*made->find_value("w")).constant->data(),
            graph.value(*graph.find_value("w")).constant->data());
}

TEST(BatchedTest, RewritesTheShapeOfAReshape) {
  const auto graph = batched_text(R"((float[1,6] x) => (float[1,2,3] y)
      <int64[3] s = {1, 2, 3}> { y = Reshape(x, s) })");
  EXPECT_THAT(constant_of(graph, 0, 1), ElementsAre(3, 2, 3));
}

/// What is taken, and the type of its output y for three frames.
struct Taken {
  const char* text;
  const char* y;
};

// The name of a test says what its model computes.
std::string_view body_of(std::string_view text) {
  return text.substr(text.rfind('{'));
}
void PrintTo(const Taken& taken, std::ostream* out) {
  *out << body_of(taken.text);
}

class TakenTest : public testing::TestWithParam<Taken> {};

TEST_P(TakenTest, HoldsTheFramesAlongTheFirstDimension) {
  const auto graph = batched_text(GetParam().text);
  EXPECT_EQ(type_text(graph, "y"), GetParam().y) << GetParam().text;
}

INSTANTIATE_TEST_SUITE_P(
    Rules, TakenTest,
    testing::Values(
        Taken{"(float[1,4] x, float[1,4] z) => (float[1,4] y) { y = Add(x, z) }", "f32[3,4]"},
        Taken{"(float[1,4] x) => (float[2,4] y) <float[1] c = {2}, int64[2] s = {2, 2}> "
              "{ a = Reshape(x, s) y = Mul(a, c) }",
              "f32[6,2]"},
        Taken{"(float[1,2,3] x) => (float[1,3,2] y) { y = Transpose<perm = [0, 2, 1]>(x) }",
              "f32[3,3,2]"},
        Taken{"(float[1,2,3] x) => (float[1,6] y) { y = Flatten(x) }", "f32[3,6]"},
        Taken{"(float[1,1,4] x) => (float[1,4] y) <int64[1] a = {1}> { y = Squeeze(x, a) }",
              "f32[3,4]"},
        Taken{"(float[1,4] x) => (float[4] y) <int64[1] a = {0}> { y = Squeeze(x, a) }", "f32[12]"},
        Taken{"(float[1,4] x) => (float[1,1,4] y) <int64[1] a = {1}> { y = Unsqueeze(x, a) }",
              "f32[3,1,4]"},
        Taken{"(float[1,4] x) => (float[1,2,4] y) <int64[3] s = {1, 2, 4}, int64[1] a = {1}> "
              "{ u = Unsqueeze(x, a) y = Expand(u, s) }",
              "f32[3,2,4]"},
        Taken{"(float[1,4] x) => (float[1,8] y) <int64[2] r = {1, 2}> { y = Tile(x, r) }",
              "f32[3,8]"},
        Taken{"(float[1,2] x) => (float[1,3] y) <float[1,1] c = {5}> "
              "{ y = Concat<axis = 1>(c, x) }",
              "f32[3,3]"},
        Taken{"(float[1,4] x) => (float[1,2] y) <int64[2] s = {2, 2}> "
              "{ y, z = Split<axis = 1>(x, s) }",
              "f32[3,2]"},
        Taken{"(float[1,4] x) => (float[1,2] y) <int64[2] b = {0, 1}, int64[2] e = {1, 3}> "
              "{ y = Slice(x, b, e) }",
              "f32[3,2]"},
        Taken{"(float[1,4] x) => (float[1,5] y) <int64[4] p = {0, 1, 0, 0}> { y = Pad(x, p) }",
              "f32[3,5]"},
        Taken{"(int64[1,4] x) => (float[1,4,2] y) <float[3,2] t = {1, 2, 3, 4, 5, 6}> "
              "{ y = Gather(t, x) }",
              "f32[3,4,2]"},
        Taken{
            "(float[1,1,2,2] x) => (float[1,1,4,4] y) <float[0] n = {}, int64[4] s = {1, 1, 4, 4}> "
            "{ y = Resize(x, n, , s) }",
            "f32[3,1,4,4]"},
        Taken{"(float[1,4] x) => (float[1] y) { y = ReduceMax<axes = [1], keepdims = 0>(x) }",
              "f32[3]"},
        Taken{"(float[1,4] x) => (int64[1,1] y) { y = ArgMax<axis = 1>(x) }", "i64[3,1]"},
        Taken{
            "(float[1,2] x) => (float[1,2] y) <float[2,2] b = {1, 2, 3, 4}, float[1,2] c = {1, 2}> "
            "{ y = Gemm<transB = 1>(x, b, c) }",
            "f32[3,2]"},
        Taken{"(float[1,2,3] x, float[1,3,2] z) => (float[1,2,2] y) { y = MatMul(x, z) }",
              "f32[3,2,2]"},
        Taken{"(float[1,2] x) => (float[1,3] y) <float[3,2] w = {1, 2, 3, 4, 5, 6}> "
              "{ y = Einsum<equation = \"bi,oi->bo\">(x, w) }",
              "f32[3,3]"}));

TEST(BatchedTest, TakesScalesThatAreAnAttribute) {
  const auto widened = [](const std::string& scales) {
    const auto graph = import_text(concat(
        R"(<ir_version: 8, opset_import: ["" : 7]> net (float[1,1,2,2] x) => (float[1,1,4,4] y) {
           y = Upsample<scales = [)",
        scales, "]>(x) }"));
    const auto made = batched(Subgraph::whole(graph), 3);
    return made ? type_text(*made, "y") : made.error().message();
  };
  EXPECT_EQ(widened("1.0, 1.0, 2.0, 2.0"), "f32[3,1,4,4]");
}

TEST(BatchedTest, MakesTheFirstStateOfEachFrame) {
  const auto graph = batched_text(R"((float[1,5,2] x) => (float[1,1,3] y)
      <float[1,3,2] w = {1, 2, 3, 4, 5, 6}, float[1,3,3] r = {1, 2, 3, 4, 5, 6, 7, 8, 9},
       float[1,1,3] first = {7, 8, 9}>
      { t = Transpose<perm = [1, 0, 2]>(x)
        all, last = RNN<hidden_size = 3>(t, w, r, , , first)
        y = Transpose<perm = [1, 0, 2]>(last) })");
  const auto& state = *graph.value(graph.nodes[1].inputs[5]).constant;
  EXPECT_THAT(state.dims(), ElementsAre(1, 3, 3));
  EXPECT_THAT(std::vector<float>(state.as<float>().begin(), state.as<float>().end()),
              ElementsAre(7, 8, 9, 7, 8, 9, 7, 8, 9));
  EXPECT_EQ(type_text(graph, "all"), "f32[5,1,3,3]");
  EXPECT_EQ(type_text(graph, "y"), "f32[3,1,3]");
}

/// A layer of each direction: the batch of the state is its second dimension.
TEST(BatchedTest, MovesTheFramesOfAStateOfSeveralLayers) {
  const auto graph = batched_text(R"((float[2,1,1] s) => (float[2,1,1] next)
      <int64[2] i = {0, 1}>
      { [g] t = Gather<axis = 0>(s, i) next = Tanh(t) })");
  EXPECT_EQ(type_text(graph, "s"), "f32[6,1,1]");
  EXPECT_EQ(type_text(graph, "next"), "f32[6,1,1]");
  EXPECT_THAT(ops_of(graph), ElementsAre("Reshape", "Transpose", "Reshape", "Gather", "Tanh",
                                         "Reshape", "Transpose", "Reshape"));
  EXPECT_THAT(constant_of(graph, 0, 1), ElementsAre(3, 2, 1, 1));
  EXPECT_THAT(constant_of(graph, 2, 1), ElementsAre(2, 3, 1));
  EXPECT_THAT(names_of(graph, graph.outputs), ElementsAre("next"));
}

/// Where sizes are open, each frame of a call has the same ones.
INSTANTIATE_TEST_SUITE_P(
    OpenSizes, TakenTest,
    testing::Values(
        Taken{"(float[n,4] x) => (float[n,4] y) { y = Relu(x) }", "f32[n_of_3,4]"},
        Taken{"(float[n,4] x, float[n,4] z) => (float[n,4] y) { y = Add(x, z) }", "f32[n_of_3,4]"},
        Taken{"(float[n,4] x) => (float[n,2] y) <float[4,2] w = {1, 2, 3, 4, 5, 6, 7, 8}> "
              "{ y = MatMul(x, w) }",
              "f32[n_of_3,2]"},
        Taken{"(float[1,s,4] x) => (float[1,s,2,2] y) <int64[4] to = {0, -1, 2, 2}> "
              "{ y = Reshape(x, to) }",
              "f32[3,s,2,2]"},
        Taken{"(float[1,s,4] x) => (float[1,t,8] y) <int64[3] to = {1, -1, 8}> "
              "{ y = Reshape(x, to) }",
              "f32[3,t,8]"},
        Taken{"(float[n,3,4] x) => (float[n,12] y) <int64[2] to = {-1, 12}> "
              "{ y = Reshape(x, to) }",
              "f32[n_of_3,12]"},
        Taken{"(float[1,s,4] x) => (float[1,s,4] y) { y = Softmax<axis = 1>(x) }", "f32[3,s,4]"},
        Taken{"(float[s,1,4] x) => (float[s,1,4] y) { y = Softmax<axis = 0>(x) }",
              "f32[s_of_3,1,4]"},
        Taken{"(float[1,s,4] x) => (float[1,s,s] y) { t = Transpose<perm = [0, 2, 1]>(x) "
              "y = MatMul(x, t) }",
              "f32[3,s,s]"}));

/// What counts the frames counts one of them, and shapes made of that are of all again.
TEST(BatchedTest, CountsOneFrame) {
  const auto graph = batched_text(R"((float[n,s,4] x) => (float[n,t] y)
      <int64[1] zero = {0}, int64[1] rest = {-1}>
      { shape = Shape(x) n = Gather<axis = 0>(shape, zero)
        to = Concat<axis = 0>(n, rest) y = Reshape(x, to) })");
  EXPECT_THAT(ops_of(graph),
              ElementsAre("Shape", "Div", "Gather", "Concat", "Mul", "Max", "Reshape"));
  EXPECT_THAT(constant_of(graph, 1, 1), ElementsAre(3, 1, 1));
  EXPECT_THAT(constant_of(graph, 4, 1), ElementsAre(3, 1));
  EXPECT_THAT(constant_of(graph, 5, 1), ElementsAre(-1));
}

TEST(BatchedTest, RepeatsWhatIsComputedForOneFrame) {
  const auto graph = batched_text(R"((float[n,4] x) => (float[n,8] y)
      { shape = Shape(x) zeros = ConstantOfShape(shape) y = Concat<axis = 1>(zeros, x) })");
  EXPECT_THAT(ops_of(graph), ElementsAre("Shape", "Div", "ConstantOfShape", "Tile", "Concat"));
  EXPECT_EQ(type_text(graph, "y"), "f32[n_of_3,8]");
}

/// Rules that find their own axis taken by the frames move these to another one.
INSTANTIATE_TEST_SUITE_P(
    Moves, TakenTest,
    testing::Values(
        Taken{"(float[1,4] x) => (float[1,4] y) { y = Softmax<axis = 0>(x) }", "f32[3,4]"},
        Taken{"(float[1,4] x) => (float[3,4] y) <float[3,1] c = {1, 2, 3}> { y = Add(x, c) }",
              "f32[9,4]"},
        Taken{"(float[1,4] x, float[1,4] z) => (float[2,4] y) { y = Concat<axis = 0>(x, z) }",
              "f32[6,4]"},
        Taken{"(float[1,4] x) => (float[2,4] y) <int64[2] r = {2, 1}> { y = Tile(x, r) }",
              "f32[6,4]"},
        Taken{"(float[2,4] x) => (float[1,4] y) <int64[1] b = {0}, int64[1] e = {1}> "
              "{ y = Slice(x, b, e) }",
              "f32[3,4]"},
        Taken{"(float[2,2] x, float[2] u) => (float[2,2] y) <int64[2,2] i = {0, 1, 1, 0}> "
              "{ y = ScatterND(x, i, u) }",
              "f32[6,2]"},
        Taken{"(float[2,4] x) => (int64[1,4] y) { y = ArgMax<axis = 0>(x) }", "i64[3,4]"}));

/// A constant shape that only one size fits settles it everywhere: the sum's operands are alike.
TEST(BatchedTest, SettlesTheSizesThatAReshapeLeavesNoChoice) {
  const auto graph = batched_text(R"((float[n,6] x) => (float[n,6] y)
      <int64[3] apart = {1, 2, 3}, int64[2] back = {1, 6}>
      { a = Reshape(x, apart) b = Softmax(a) c = Reshape(b, back) y = Add(c, x) })");
  EXPECT_THAT(ops_of(graph), ElementsAre("Reshape", "Softmax", "Reshape", "Add"));
  EXPECT_THAT(constant_of(graph, 0, 1), ElementsAre(3, 2, 3));
  EXPECT_THAT(constant_of(graph, 2, 1), ElementsAre(3, 6));
}

/// Where several sizes of what moves are open, they are asked for when a call runs.
INSTANTIATE_TEST_SUITE_P(
    OpenMoves, TakenTest,
    testing::Values(
        Taken{"(float[n,s] x) => (float[n,s] y) { y = Softmax<axis = 0>(x) }", "f32[n_of_3,s]"},
        Taken{"(float[n,s,t] x) => (float[s,n,t] y) { y = Transpose<perm = [1, 0, 2]>(x) }",
              "f32[s_of_3,n,t]"},
        Taken{"(float[1,s,t] x) => (float[s,t] y) <int64[1] a = {0}> { y = Squeeze(x, a) }",
              "f32[s_of_3,t]"},
        Taken{"(float[n,s] x, float[n,s] z) => (float[n,n] y) { t = Transpose(z) "
              "y = MatMul(x, t) }",
              "f32[n_of_3,n]"}));

TEST(BatchedTest, AsksForTheSizesOfWhatMoves) {
  const auto graph = batched_text(R"((float[n,s,t] x) => (float[n,s,t] y)
      { y = Softmax<axis = 0>(x) })");
  EXPECT_THAT(ops_of(graph),
              ElementsAre("Shape", "Concat", "Gather", "Div", "Reshape", "Transpose",  //
                          "Shape", "Gather", "Mul", "Reshape", "Softmax",              //
                          "Shape", "Concat", "Gather", "Div", "Reshape", "Transpose",  //
                          "Shape", "Gather", "Mul", "Reshape"));
  // Behind the three sizes that are there stands 3: [3, n, s, t], of [n_of_3, s, t].
  EXPECT_THAT(constant_of(graph, 1, 1), ElementsAre(3));
  EXPECT_THAT(constant_of(graph, 2, 1), ElementsAre(3, 0, 1, 2));
  EXPECT_THAT(constant_of(graph, 3, 1), ElementsAre(1, 3, 1, 1));
  // [n, s_of_3, t], of [n, 3, s, t]
  EXPECT_THAT(constant_of(graph, 7, 1), ElementsAre(0, 2, 3));
  EXPECT_THAT(constant_of(graph, 8, 1), ElementsAre(1, 3, 1));
}

TEST(BatchedTest, MovesTheFramesOfAnOutputToTheFront) {
  const auto graph = batched_text("(float[1,4] x) => (float[4,1] y) { y = Transpose(x) }");
  EXPECT_EQ(type_text(graph, "y"), "f32[12,1]");
  EXPECT_THAT(ops_of(graph), ElementsAre("Transpose", "Reshape", "Transpose", "Reshape"));
}

TEST(BatchedTest, MultipliesMatricesOfEachFrameAlone) {
  const auto graph = batched_text(R"((float[2,3] x, float[2,3] z) => (float[2,2] y)
      { t = Transpose(z) [m] y = MatMul(x, t) })");
  EXPECT_EQ(type_text(graph, "y"), "f32[6,2]");
  EXPECT_THAT(ops_of(graph),
              ElementsAre("Transpose", "Reshape", "Reshape", "Transpose", "MatMul", "Reshape"));
}

TEST(BatchedTest, KeepsParametersAsTheyAre) {
  ImportOptions options;
  options.parameters = {"w"};
  const auto graph = import_text(R"(<ir_version: 8, opset_import: ["" : 17]> net
      (float[1,2] x) => (float[1,2] y) <float[2,2] w = {1, 2, 3, 4}> { y = MatMul(x, w) })",
                                 options);
  const auto made = batched(Subgraph::whole(graph), 3);
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ(type_text(*made, "w"), "f32[2,2]");
  EXPECT_THAT(names_of(*made, made->parameters), ElementsAre("w"));
  EXPECT_THAT(names_of(*made, made->inputs), ElementsAre("x"));
}

TEST(BatchedTest, TakesAPartWithItsOwnInputsAndOutputs) {
  const auto graph = graph_of_text(R"((float[1,4] x) => (float[1,4] y)
      <int64[2] s = {2, 2}, int64[2] back = {1, 4}>
      { a = Relu(x) b = Reshape(a, s) c = Abs(b) y = Reshape(c, back) })");
  const std::vector<NodeId> nodes{NodeId{1}, NodeId{2}};
  const auto part = Subgraph::create(graph, nodes);
  ASSERT_TRUE(part);
  const auto made = batched(*part, 2);
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_THAT(names_of(*made, made->inputs), ElementsAre("a"));
  EXPECT_THAT(names_of(*made, made->outputs), ElementsAre("c"));
  EXPECT_EQ(type_text(*made, "a"), "f32[2,4]");
  EXPECT_EQ(type_text(*made, "c"), "f32[4,2]");
  EXPECT_THAT(ops_of(*made), ElementsAre("Reshape", "Abs"));
}

/// What is refused, and the end of the sentence.
struct Refused {
  const char* text;
  const char* sentence;
};
void PrintTo(const Refused& refused, std::ostream* out) {
  *out << body_of(refused.text);
}

class RefusedTest : public testing::TestWithParam<Refused> {};

TEST_P(RefusedTest, NamesTheNodeAndSaysWhy) {
  EXPECT_THAT(refusal(GetParam().text), HasSubstr(GetParam().sentence));
}

INSTANTIATE_TEST_SUITE_P(
    Rules, RefusedTest,
    testing::Values(
        Refused{"(float[4] x) => (float[4] y) { [s] y = Softmax<axis = 0>(x) }",
                "node 's': Softmax cannot take several frames in one call: it works along each "
                "axis of 'x', that of the frames too"},
        Refused{"(float[1,4] x) => (float[1,4] y) { [r] y = ReduceSum(x) }",
                "node 'r': ReduceSum cannot take several frames in one call: it works over all "
                "axes"},
        Refused{"(float[1,1] x) => (float[3,3] y) <float[3,3] c = {1, 2, 3, 4, 5, 6, 7, 8, 9}> "
                "{ [a] y = Add(x, c) }",
                "node 'a': Add cannot take several frames in one call: its inputs are broadcast "
                "along each axis"},
        Refused{"(float[2] x, float[2] z) => (float[4] y) { [c] y = Concat<axis = 0>(x, z) }",
                "node 'c': Concat cannot take several frames in one call: it works along each "
                "axis of 'x'"},
        Refused{"(float[2] x) => (float[4] y) <int64[1] r = {2}> { [t] y = Tile(x, r) }",
                "node 't': Tile cannot take several frames in one call: it works along each axis"},
        Refused{"(float[4] x) => (float[1] y) <int64[1] b = {0}, int64[1] e = {1}> "
                "{ [s] y = Slice(x, b, e) }",
                "node 's': Slice cannot take several frames in one call: it works along each axis"},
        Refused{"(float[4] x, float[4] z) => (float y) { [m] y = MatMul(x, z) }",
                "node 'm': MatMul cannot take several frames in one call: it works along each "
                "axis of 'x'"},
        Refused{"(float[1,4] x) => (float[1,4] y, float[2] z) <float[2] c = {1, 2}> "
                "{ y = Relu(x) [n] z = RandomNormalLike(c) }",
                "node 'n': RandomNormalLike cannot take several frames in one call: its numbers "
                "are random"},
        Refused{"(float[1,4] x, float s) => (float[1,4] y) { [m] y = Mul(x, s) }",
                "input 's': cannot hold several frames: it is f32[]: it has no dimension that "
                "could hold several frames; node 'm' reads it"},
        Refused{"(float[1,4] x) => (int64[m,2] y) { t = NonZero(x) [t] y = Transpose(t) }",
                "NonZero cannot take several frames in one call: how much it finds differs from "
                "frame to frame"},
        Refused{"(float[1,s] x, int64[2] to) => (float[a,b] y) { [r] y = Reshape(x, to) }",
                "node 'r': Reshape cannot take several frames in one call: 'to' differs from frame "
                "to frame"},
        Refused{"(float[1,4] x) => (uint8[1,4] y, float s, uint8 z) "
                "{ [d] y, s, z = DynamicQuantizeLinear(x) }",
                "node 'd': DynamicQuantizeLinear cannot take several frames in one call: its scale "
                "would be that of all frames together"},
        Refused{"(float[1,1,4,4] x) => (float[1,1,2,2] y, int64[1,1,2,2] i) "
                "{ [p] y, i = MaxPool<kernel_shape = [3, 3]>(x) }",
                "node 'p': MaxPool cannot take several frames in one call: its indices count "
                "through all frames"}));

}  // namespace
}  // namespace penstock::graph
