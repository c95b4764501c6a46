// A value that nothing makes, one of two makers, and a circle are told apart, by name.
#include <gmock/gmock.h>

#include "penstock/graph/test_support.h"

namespace penstock::graph {
namespace {

using testing::HasSubstr;

std::string refusal_of_graph(const std::string& graph) {
  return error_of_text("<ir_version: 10, opset_import: [\"\" : 20]>\n" + graph).message();
}

TEST(WiringTest, NamesAValueThatNothingMakes) {
  const auto text = refusal_of_graph(
      "g (float[2] x, float[2] weight) => (float[2] y) { [add] y = Add(x, weigth) }");
  EXPECT_THAT(text, HasSubstr("node 'add' (Add): reads 'weigth', which no node makes and which is "
                              "neither an input nor an initialiser of the graph"));
  EXPECT_THAT(text, HasSubstr("did you mean 'weight'?"));
}

TEST(WiringTest, NamesTheNodesOfACircleAlone) {
  const auto text = refusal_of_graph(R"(g (float[2] x) => (float[2] y) {
    [first] f = Relu(x)  [one] a = Add(f, c)  [two] b = Neg(a)  [three] c = Abs(b)  [last] y = Abs(c) })");
  EXPECT_THAT(text, HasSubstr("nodes wait for each other: "));
  EXPECT_THAT(text, HasSubstr("node 'one' (Add) reads 'c' of node 'three' (Abs)"));
  EXPECT_THAT(text, HasSubstr("node 'two' (Neg) reads 'a' of node 'one' (Add)"));
  EXPECT_THAT(text, testing::Not(HasSubstr("'last'")));
  EXPECT_THAT(refusal_of_graph("g (float[2] x) => (float[2] y) { [n] y = Add(x, y) }"),
              HasSubstr("a node reads what it makes itself: node 'n' (Add) reads 'y' of node 'n'"));
}

TEST(WiringTest, NamesBothMakersOfAValue) {
  EXPECT_THAT(
      refusal_of_graph("g (float[2] x) => (float[2] y) { [one] y = Relu(x)  [two] y = Neg(x) }"),
      HasSubstr("node 'two' (Neg): makes 'y', which node 'one' (Relu) makes too"));
  EXPECT_THAT(refusal_of_graph("g (float[2] x) => (float[2] y) { [n] x = Relu(x)  y = Neg(x) }"),
              HasSubstr("node 'n' (Relu): makes 'x', which is an input or an initialiser"));
}

TEST(WiringTest, TellsNodesWithoutNamesByWhatTheyMake) {
  EXPECT_EQ(
      refusal_of_graph("g (float[2] x) => (float[2] y) { y = Add(x, absent) }"),
      "model: the Add that makes 'y': reads 'absent', which no node makes and which is neither an "
      "input nor an initialiser of the graph; repair the model, or export it again");
  EXPECT_THAT(refusal_of_graph("g (float[2] x) => (float[2] y) { y = Relu(x)  y = Neg(x) }"),
              HasSubstr("the Neg that makes 'y': makes 'y', which an earlier Relu makes too"));
  EXPECT_THAT(refusal_of_graph("g (float[2] x) => (float[2] y) { a = Add(x, b)  b = Neg(a)  "
                               "y = Abs(b) }"),
              HasSubstr("the Add that makes 'a' reads 'b' of the Neg that makes 'b'"));
}

TEST(WiringTest, NamesWhatIsGivenTwice) {
  EXPECT_THAT(refusal_of_graph("g (float[2] x, float[2] x) => (float[2] y) { y = Relu(x) }"),
              HasSubstr("two inputs are named 'x'"));
  EXPECT_THAT(refusal_of_graph("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}, float[1] w = "
                               "{3}> { y = Add(x, w) }"),
              HasSubstr("two initialisers or Constants are named 'w'"));
}

TEST(WiringTest, NamesAnOutputThatNothingMakes) {
  EXPECT_THAT(refusal_of_graph("g (float[2] x) => (float[2] result) { y = Relu(x) }"),
              HasSubstr("output 'result' of the graph: no node makes it"));
}

TEST(WiringTest, LooksIntoNestedGraphs) {
  const auto text = refusal_of_graph(R"(g (bool c, float[2] x) => (float[2] y) {
    [choice] y = If (c) <then_branch = t () => (float[2] a) { a = Relu(x) },
                         else_branch = e () => (float[2] b) { [inner] b = Neg(absent) }> })");
  EXPECT_THAT(text, HasSubstr("node 'choice' (If): node 'inner' (Neg): reads 'absent'"));
}

TEST(WiringTest, NamesADomainWithoutOperatorSet) {
  EXPECT_THAT(refusal_of_graph("g (float[2] x) => (float[2] y) { [n] y = acme.ops.Foo(x) }"),
              HasSubstr("node 'n' (Foo): is of domain 'acme.ops', for which the model names no "
                        "operator set (opset_import); it names those of ai.onnx"));
}

TEST(WiringTest, SaysThatOnnxsOwnOperatorSetCannotBeGuessed) {
  EXPECT_THAT(error_of_text(R"(<ir_version: 8, opset_import: ["com.microsoft" : 1]>
    g (float[2] x) => (float[2] y) { [n] y = Relu(x) })")
                  .message(),
              HasSubstr("each engine would take its own newest: add the one that was meant"));
}

TEST(WiringTest, SaysWhatANodeWithoutNameMakes) {
  EXPECT_THAT(refusal_of_graph("g (float[2] x) => (float[2] y) { y = acme.ops.Foo(x) }"),
              HasSubstr("the Foo that makes 'y': is of domain 'acme.ops'"));
  EXPECT_THAT(refusal_of_graph("g (float[2] x) => (float[2] y) { y = Relu <wrong = 1> (x) }"),
              HasSubstr("the Relu that makes 'y': "));
}

TEST(WiringTest, AdvisesOnTheOperatorSetOfTheNodesOwnDomain) {
  const auto text = error_of_text(R"(<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 1]>
    g (string[2] x) => (int64[2] y) { [n] y = ai.onnx.ml.LabelEncoder <keys_strings = ["a"]> (x) })")
                        .message();
  EXPECT_THAT(text, HasSubstr("the operator set that was meant (it names 1 of ai.onnx.ml)"));
}

TEST(WiringTest, TellsTheLastOfSeveralOperatorSets) {
  EXPECT_THAT(error_of_text(R"(<ir_version: 8, opset_import: ["" : 13, "" : 18]>
    g (float[2] x) => (float[1] y) { y = ReduceMax <axes = [0]> (x) })")
                  .message(),
              HasSubstr("the operator set that was meant (it names 18)"));
}

TEST(WiringTest, NamesAnIrVersionThatIsTooNew) {
  EXPECT_THAT(error_of_text("<ir_version: 99, opset_import: [\"\" : 20]>\n"
                            "g (float[2] x) => (float[2] y) { y = Relu(x) }")
                  .message(),
              HasSubstr("it is of IR version 99, and "));
}

}  // namespace
}  // namespace penstock::graph
