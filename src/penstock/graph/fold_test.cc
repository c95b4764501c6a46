// Folding and known branches in an import whose engine gives sevens or refuses an operator.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/graph/import.h"
#include "penstock/graph/test_support.h"

namespace penstock::graph {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// An engine that gives every output of a model as a tensor of the type the model declares, filled
/// with sevens; it refuses models that hold an operator named in `refused`.
class FakeEngine {
 public:
  explicit FakeEngine(std::vector<std::string> refused = {}) : refused_(std::move(refused)) {}

  ImportOptions options() {
    ImportOptions options;
    options.engine.evaluate = [this](const std::string& model) { return evaluate(model); };
    return options;
  }
  int calls = 0;

 private:
  Result<std::vector<Tensor>> evaluate(const std::string& model) {
    ++calls;
    ImportOptions as_is;
    as_is.as_is = true;
    auto graph = import_onnx_bytes(model, {}, as_is);
    if (!graph) return graph.error();
    EXPECT_THAT((*graph).inputs, IsEmpty());
    for (const auto& node : (*graph).nodes) {
      if (std::ranges::count(refused_, node.op)) return make_error(Code::kUnimplemented, "no");
    }
    std::vector<Tensor> results;
    for (const auto id : (*graph).outputs) {
      std::vector<std::int64_t> dims;
      for (const auto& dim : (*graph).value(id).type.dims)
        dims.push_back(dim.fixed() ? dim.size : 2);
      Tensor tensor = Tensor::allocate((*graph).value(id).type.dtype, dims);
      if (tensor.dtype() == DType::kF32) std::ranges::fill(tensor.as<float>(), 7.0F);
      results.push_back(std::move(tensor));
    }
    return results;
  }
  std::vector<std::string> refused_;
};

TEST(FoldTest, EvaluatesConstantExpressionsTogether) {
  FakeEngine engine;
  const Graph graph = import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> {
      [first] a = Neg(w)
      [second] b = Abs(a)
      [last] y = Add(x, b)
    })",
                                  engine.options());
  EXPECT_EQ(engine.calls, 1);
  EXPECT_THAT(ops_of(graph), ElementsAre("Add"));
  EXPECT_THAT(graph.value(*graph.find_value("b")).constant->as<float>(), ElementsAre(7.0F, 7.0F));
  EXPECT_EQ(graph.removed.at("first"), "folded into constant 'b'");
  EXPECT_EQ(graph.removed.at("a"), "folded into constant 'b'");
  EXPECT_EQ(graph.removed.at("second"), "folded into constant 'b'");
  EXPECT_EQ(graph.removed.at("w"), "folded into constant 'b'");
}

TEST(FoldTest, LeavesWhatTheEngineRefusesAndFoldsTheRest) {
  FakeEngine engine({"Erf"});
  const Graph graph = import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> {
      a = Erf(w)
      b = Neg(w)
      c = Abs(a)
      s = Add(x, c)
      y = Add(s, b)
    })",
                                  engine.options());
  EXPECT_THAT(ops_of(graph), ElementsAre("Erf", "Abs", "Add", "Add"));
}

TEST(FoldTest, LeavesRandomQuantisedAndOverlyLargeResults) {
  FakeEngine engine;
  const Graph graph = import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[2] x) => (float[2] a, float[2] b, float[1000000] c)
      <float[2] w = {1, 2}, uint8[2] q = {1, 2}, float scale = {0.5}, int64[1] size = {1000000}> {
      r = RandomNormalLike(w)
      a = Add(x, r)
      d = DequantizeLinear(q, scale)
      b = Add(x, d)
      c = ConstantOfShape(size)
    })",
                                  engine.options());
  EXPECT_EQ(engine.calls, 0);
  EXPECT_THAT(ops_of(graph),
              ElementsAre("RandomNormalLike", "Add", "DequantizeLinear", "Add", "ConstantOfShape"));
}

TEST(FoldTest, NeverFoldsAParameter) {
  FakeEngine engine;
  auto options = engine.options();
  options.parameters = {"w"};
  const Graph graph = import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = Neg(w)  y = Add(x, a) })",
                                  options);
  EXPECT_EQ(engine.calls, 0);
  EXPECT_THAT(ops_of(graph), ElementsAre("Neg", "Add"));
}

TEST(FoldTest, KnowsShapesWithoutAnEngine) {
  const Graph graph = import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[n,3,4] x) => (float[n,m] y) <int64[1] one = {1}, int64[1] minus = {-1}> {
      s = Shape(x)
      [pick] d = Gather(s, one)
      t = Concat <axis = 0> (minus, d)
      y = Reshape(x, t)
    })");
  EXPECT_THAT(ops_of(graph), ElementsAre("Reshape"));
  EXPECT_THAT(graph.value(*graph.find_value("t")).constant->as<std::int64_t>(), ElementsAre(-1, 3));
  EXPECT_EQ(graph.removed.at("pick"), "folded into constant 't'");
}

TEST(FoldTest, KnowsNoNumberThatATypeOnTheWayCannotHold) {
  const Graph graph = import_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[300] x) => (int64[1] y, int64[1] z, int64[1] w) {
      s = Shape(x)
      b = Cast <to = 9> (s)  y = Cast <to = 7> (b)
      u = Cast <to = 2> (s)  z = Cast <to = 7> (u)
      f = Cast <to = 1> (s)  i = Cast <to = 6> (f)  w = Cast <to = 7> (i)
    })");
  EXPECT_FALSE(graph.value(*graph.find_value("y")).constant);
  EXPECT_FALSE(graph.value(*graph.find_value("z")).constant);
  EXPECT_THAT(graph.value(*graph.find_value("w")).constant->as<std::int64_t>(), ElementsAre(300));
}

TEST(FoldTest, KnowsNoListThatDescribesNoShape) {
  std::string joins = "c0 = Concat <axis = 0> (a, a)";
  for (int i = 0; i < 40; ++i)
    joins += concat("  c", i + 1, " = Concat <axis = 0> (c", i, ", c", i, ")");
  const Graph graph = import_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (int64[600] a) => (int64[n] y) { )" +
                                  joins + "  y = Abs(c40) }");
  EXPECT_EQ(graph.nodes.size(), 42U);
}

TEST(FoldTest, GoesOnWithWhatARoundHasMadeKnown) {
  FakeEngine engine;
  const Graph graph = import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[2,3] x) => (float[2,3] y) <float[2,3] w = {1, 2, 3, 4, 5, 6}> {
      [a] s = Shape(x)
      [b] v = ConstantOfShape(s)
      [c] u = Add(v, w)
      y = Add(x, u)
    })",
                                  engine.options());
  EXPECT_THAT(ops_of(graph), ElementsAre("Add"));
  EXPECT_EQ(graph.removed.at("b"), "folded into constant 'u'");
}

TEST(FoldTest, FoldsABranchOnlyWhereItCapturesConstants) {
  FakeEngine engine;
  const char* text = R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[2] x) => (float[2] y) <bool c = {1}, float[2] w = {1, 2}> {
      t = If (c) <
        then_branch = yes () => (float[2] a) { a = Neg(CAPTURED) },
        else_branch = no () => (float[2] b) { b = Abs(w) }>
      y = Add(t, x)
    })";
  const auto with = [&](const std::string& captured) {
    std::string copy = text;
    copy.replace(copy.find("CAPTURED"), 8, captured);
    return ops_of(import_text(copy, engine.options()));
  };
  EXPECT_THAT(with("w"), ElementsAre("Add"));
  EXPECT_THAT(with("x"), ElementsAre("Neg", "Add"));
}

TEST(BranchTest, TakesTheBranchThatAConstantChooses) {
  const char* text = R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[2] x) => (float[2] y) <bool c = {CONDITION}> {
      t = Relu(x)
      [choice] y = If (c) <
        then_branch = yes () => (float[2] a) { h = Neg(t) a = Add(h, x) },
        else_branch = no () => (float[2] b) { h = Abs(x) b = Mul(h, h) }>
    })";
  const auto with = [&](const char* condition) {
    std::string copy = text;
    copy.replace(copy.find("CONDITION"), 9, condition);
    return import_text(copy);
  };
  const Graph yes = with("1");
  EXPECT_THAT(ops_of(yes), ElementsAre("Relu", "Neg", "Add"));
  EXPECT_THAT(names_of(yes, yes.nodes[2].inputs), ElementsAre("choice/h", "x"));
  EXPECT_THAT(names_of(yes, yes.outputs), ElementsAre("y"));
  EXPECT_EQ(type_text(yes, "choice/h"), "f32[2]");
  EXPECT_EQ(yes.removed.at("choice"),
            "removed, an If that always takes one branch, which makes 'y'");
  EXPECT_THAT(ops_of(with("0")), ElementsAre("Abs", "Mul"));
}

TEST(BranchTest, StaysWhereTheConditionIsAnInputOrAParameter) {
  ImportOptions options;
  options.parameters = {"c"};
  const Graph graph = import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[2] x) => (float[2] y) <bool c = {1}> {
      y = If (c) <
        then_branch = yes () => (float[2] a) { a = Neg(x) },
        else_branch = no () => (float[2] b) { b = Abs(x) }>
    })",
                                  options);
  EXPECT_THAT(ops_of(graph), ElementsAre("If"));
}

TEST(BranchTest, TakesWhatABranchHandsOnOrHoldsAsAConstant) {
  const Graph graph = import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[2] x) => (float[2] same, float[2] twice, float[2] k) <bool c = {1}> {
      same, twice, k = If (c) <
        then_branch = yes () => (float[2] i, float[2] a, float[2] w)
          <float[2] w = {1, 2}> { i = Identity(x) a = Add(i, w) },
        else_branch = no () => (float[2] b, float[2] d, float[2] e) {
          b = Abs(x) d = Neg(x) e = Exp(x) }>
    })");
  ASSERT_THAT(ops_of(graph), ElementsAre("Identity", "Add"));
  EXPECT_THAT(names_of(graph, graph.outputs), ElementsAre("same", "twice", "k"));
  EXPECT_TRUE(graph.value(graph.outputs[2]).constant);
  EXPECT_THAT(names_of(graph, graph.nodes[1].inputs), ElementsAre("same", "k"));
}

TEST(BranchTest, RenamesWhatGraphsNestedInTheBranchRead) {
  const Graph graph = import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[2] x, bool d) => (float[2] y) <bool c = {1}> {
      [outer] y = If (c) <
        then_branch = yes () => (float[2] a) {
          h = Neg(x)
          [inner] a = If (d) <
            then_branch = deep () => (float[2] e) { e = Add(h, x) },
            else_branch = deeper () => (float[2] f) {
              [innermost] f = If (c) <
                then_branch = last () => (float[2] p) { p = Exp(h) },
                else_branch = least () => (float[2] q) { q = Abs(h) }>
            }>
        },
        else_branch = no () => (float[2] b) { b = Abs(x) }>
    })");
  ASSERT_THAT(ops_of(graph), ElementsAre("Neg", "If"));
  EXPECT_THAT(names_of(graph, graph.nodes[1].captures), ElementsAre("outer/h", "x"));
  const auto again = import_onnx_bytes(*to_onnx_bytes(Subgraph::whole(graph)), {}, {});
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(canonical_hash(Subgraph::whole(*again)), canonical_hash(Subgraph::whole(graph)));
}

}  // namespace
}  // namespace penstock::graph
