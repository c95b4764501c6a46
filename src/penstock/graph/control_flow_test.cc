// An If of known condition, at any depth, and a Loop or Scan of known count.
#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/graph/loops.h"
#include "penstock/graph/test_support.h"

namespace penstock::graph {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kHead = R"(<ir_version: 8, opset_import: ["" : 17]> )";

Graph imported(const std::string& text, const ImportOptions& options = {}) {
  return import_text(kHead + text, options);
}

/// Nodes of an operator in the graphs nested in a node, at every depth.
int count_nested(const Node& node, const std::string& op) {
  // onnx.NodeProto's field 4 is op_type.
  const std::string field = "\x22" + std::string(1, static_cast<char>(op.size())) + op;
  int count = 0;
  for (const auto& attribute : node.attributes) {
    const auto* graph = std::get_if<Attribute::Opaque>(&attribute.value);
    if (graph == nullptr) continue;
    for (auto at = graph->onnx.find(field); at != std::string::npos; ++count) {
      at = graph->onnx.find(field, at + 1);
    }
  }
  return count;
}

std::vector<int> count_nested(const Node& node, const std::vector<std::string>& ops) {
  std::vector<int> counts;
  for (const auto& op : ops) counts.push_back(count_nested(node, op));
  return counts;
}

/// Written and read again, as the file of a stage is.
void expect_writable(const Graph& graph) {
  const auto bytes = to_onnx_bytes(Subgraph::whole(graph));
  ASSERT_TRUE(bytes) << bytes.error().message();
  const auto again = import_onnx_bytes(*bytes, {}, {});
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(ops_of(*again), ops_of(graph));
}

TEST(KnownIf, IsTakenOutOfTheBranchesOfOneThatStays) {
  const auto graph = imported(R"(g (float[2] x, bool d) => (float[2] y) <bool c = {1}> {
      y = If (d) <
        then_branch = yes () => (float[2] a) {
          h = Neg(x)
          [inner] a = If (c) <
            then_branch = one () => (float[2] p) { q = Exp(h) p = Add(q, h) },
            else_branch = two () => (float[2] r) { r = Abs(h) }>
        },
        else_branch = no () => (float[2] b) { b = Abs(x) }>
    })");
  ASSERT_THAT(ops_of(graph), ElementsAre("If"));
  EXPECT_THAT(count_nested(graph.nodes[0], {"If", "Neg", "Exp", "Add", "Abs"}),
              ElementsAre(0, 1, 1, 1, 1));
  EXPECT_THAT(names_of(graph, graph.nodes[0].captures), ElementsAre("x"));
  EXPECT_FALSE(graph.find_value("c"));
  expect_writable(graph);
}

TEST(KnownIf, IsTakenOutOfTheBodiesOfLoopsAndScans) {
  const auto graph = imported(
      R"(g (float[2] x, int64 n, float[m, 2] rows) => (float[2] y, float[2] z, float[m, 2] w)
      <bool go = {1}, bool c = {0}, bool always = {1}> {
      y = Loop (n, go, x) <body = b (int64 i, bool on, float[2] s) => (bool on2, float[2] t) {
        on2 = Identity(on)
        t = If (c) <
          then_branch = one () => (float[2] p) { p = Exp(s) },
          else_branch = two () => (float[2] r) { r = Abs(s) }>
      }>
      z, w = Scan <num_scan_inputs = 1, body = sb (float[2] state, float[2] row) => (float[2] next, float[2] out) {
        next = Add(state, row)
        out = If (always) <
          then_branch = three () => (float[2] k) { k = Neg(next) },
          else_branch = four () => (float[2] l) { l = Sin(row) }>
      }> (x, rows)
    })");
  ASSERT_THAT(ops_of(graph), ElementsAre("Loop", "Scan"));
  EXPECT_THAT(count_nested(graph.nodes[0], {"If", "Abs", "Exp"}), ElementsAre(0, 1, 0));
  EXPECT_THAT(count_nested(graph.nodes[1], {"If", "Add", "Neg", "Sin"}), ElementsAre(0, 1, 1, 0));
  expect_writable(graph);
}

TEST(KnownIf, StaysInABodyWhereTheConditionIsNotKnown) {
  const std::string text = R"(g (float[2] x, int64 n) => (float[2] y) <bool go = {1}> {
      y = Loop (n, go, x) <body = b (int64 i, bool on, float[2] s) => (bool on2, float[2] t)
        <int64 zero = {0}> {
        on2 = Identity(on)
        first = Equal(i, zero)
        t = If (first) <
          then_branch = one () => (float[2] p) { p = Exp(s) },
          else_branch = two () => (float[2] r) { r = Abs(s) }>
      }>
    })";
  const auto graph = imported(text);
  EXPECT_THAT(count_nested(graph.nodes[0], {"If", "Identity", "Equal", "Exp", "Abs"}),
              ElementsAre(1, 1, 1, 1, 1));
}

TEST(KnownIf, MakesNoNameThatAnotherGraphHas) {
  // The branch makes 'h', the graph around it 'outer/h' already, and a graph nested in the branch
  // has an 'outer/k' and a value of the If's own name of its own.
  const auto graph = imported(R"(g (float[2] x, bool d) => (float[2] z, float[2] u) <bool c = {1}> {
      "outer/h" = Sin(x)
      [outer] y = If (c) <
        then_branch = yes () => (float[2] a) {
          h = Neg(x)
          k = Abs(h)
          a = Exp(k)
        },
        else_branch = no () => (float[2] b) { b = Abs(x) }>
      z = Add(y, "outer/h")
      u = If (d) <
        then_branch = one () => (float[2] m) { "outer/k" = Cos(y) m = Tan("outer/k") },
        else_branch = two () => (float[2] n) { n = Abs(y) }>
    })");
  ASSERT_THAT(ops_of(graph), ElementsAre("Sin", "Neg", "Abs", "Exp", "Add", "If"));
  EXPECT_THAT(names_of(graph, graph.nodes[1].outputs), ElementsAre("outer/h_2"));
  EXPECT_THAT(names_of(graph, graph.nodes[2].outputs), ElementsAre("outer/k_2"));
  EXPECT_THAT(names_of(graph, graph.nodes[3].outputs), ElementsAre("y"));
  expect_writable(graph);
}

TEST(KnownIf, DoesNotTakeTheNameOfAValueNestedDeeper) {
  // What the branch makes becomes 'y'; the graph nested in it has a 'y' of its own, and reads both.
  const auto graph = imported(R"(g (float[2] x, bool d) => (float[2] y, float[2] w) <bool c = {1}> {
      y, w = If (c) <
        then_branch = yes () => (float[2] a, float[2] v) {
          a = Neg(x)
          v = If (d) <
            then_branch = one () => (float[2] m) { y = Cos(a) m = Add(y, a) },
            else_branch = two () => (float[2] n) { n = Abs(a) }>
        },
        else_branch = no () => (float[2] b, float[2] e) { b = Abs(x) e = Sin(x) }>
    })");
  ASSERT_THAT(ops_of(graph), ElementsAre("Neg", "If", "Identity"));
  EXPECT_THAT(names_of(graph, graph.nodes[1].captures), ElementsAre("y/a"));
  EXPECT_THAT(names_of(graph, graph.outputs), ElementsAre("y", "w"));
}

TEST(KnownIf, MayHaveBranchesOfOtherShapesOrWithoutNodes) {
  const auto shorter = imported(
      R"(g (float[4] x) => (float[n] y) <bool c = {0}, int64[1] a = {0}, int64[1] b = {2}> {
      t = If (c) <
        then_branch = yes () => (float[4] p) { p = Neg(x) },
        else_branch = no () => (float[2] q) { q = Slice(x, a, b) }>
      y = Relu(t)
    })");
  EXPECT_THAT(ops_of(shorter), ElementsAre("Slice", "Relu"));
  EXPECT_EQ(type_text(shorter, "y"), "f32[2]");
  const auto empty = imported(R"(g (float[4] x) => (float[4] y) <bool c = {1}> {
      t = If (c) <
        then_branch = yes () => (float[4] k) <float[4] k = {1, 2, 3, 4}> { },
        else_branch = no () => (float[4] q) { q = Abs(x) }>
      y = Add(x, t)
    })");
  ASSERT_THAT(ops_of(empty), ElementsAre("Add"));
  EXPECT_THAT(names_of(empty, empty.nodes[0].inputs), ElementsAre("x", "t"));
  const auto handed_on = imported(R"(g (float[4] x) => (float[4] y) <bool c = {1}> {
      h = Neg(x)
      t = If (c) <
        then_branch = yes () => (float[4] p) { p = Identity(h) },
        else_branch = no () => (float[4] q) { q = Abs(x) }>
      y = Relu(t)
    })");
  EXPECT_THAT(ops_of(handed_on), ElementsAre("Neg", "Relu"));
}

TEST(KnownIf, IsTakenInAFunction) {
  const auto graph = import_text(R"(<ir_version: 8, opset_import: ["" : 17, "mine" : 1]>
      g (float[2] x) => (float[2] y) { y = mine.f(x) }
      <opset_import: ["" : 17], domain: "mine"> f (p) => (q) {
        c = Constant <value = bool {1}> ()
        q = If (c) <
          then_branch = yes () => (float[2] a) { a = Neg(p) },
          else_branch = no () => (float[2] b) { b = Abs(p) }>
      })");
  EXPECT_THAT(ops_of(graph), ElementsAre("Neg"));
}

TEST(KnownLoop, BecomesItsIterations) {
  const auto graph = imported(R"(g (float[2] x) => (float[2] y, float[3, 2] rows, float[2] both)
      <int64 n = {3}, bool go = {1}> {
      [steps] y, rows = Loop (n, go, x) <body = b (int64 i, bool on, float[2] s) => (bool on2, float[2] t, float[2] row)
        <float[2] k = {1, 2}> {
        on2 = Identity(on)
        t = Mul(s, k)
        row = Neg(t)
      }>
      both = Add(y, x)
    })");
  EXPECT_THAT(ops_of(graph), ElementsAre("Mul", "Neg", "Mul", "Neg", "Mul", "Neg", "Unsqueeze",
                                         "Unsqueeze", "Unsqueeze", "Concat", "Add"));
  EXPECT_THAT(names_of(graph, graph.nodes[0].inputs), ElementsAre("x", "steps/k"));
  EXPECT_THAT(names_of(graph, graph.nodes[2].inputs), ElementsAre("steps/0/t", "steps/k"));
  EXPECT_THAT(names_of(graph, graph.nodes[4].inputs), ElementsAre("steps/1/t", "steps/k"));
  EXPECT_THAT(names_of(graph, graph.nodes[4].outputs), ElementsAre("y"));
  EXPECT_THAT(names_of(graph, graph.nodes[9].outputs), ElementsAre("rows"));
  EXPECT_EQ(type_text(graph, "rows"), "f32[3,2]");
  EXPECT_EQ(graph.removed.at("steps"),
            "removed, a Loop of known count, the last of whose nodes makes 'y'");
  expect_writable(graph);
}

TEST(KnownLoop, OldOperatorSetsUnsqueezeByAnAttribute) {
  const auto graph = import_text(R"(<ir_version: 7, opset_import: ["" : 11]>
      g (float[2] x) => (float[1, 2] rows) <int64 n = {1}> {
      y, rows = Loop (n, , x) <body = b (int64 i, bool on, float[2] s) => (bool on, float[2] t, float[2] t)
        { t = Neg(s) }>
    })");
  ASSERT_THAT(ops_of(graph), ElementsAre("Neg", "Unsqueeze"));
  EXPECT_EQ(graph.nodes[1].ints_or("axes", {}), (std::vector<std::int64_t>{0}));
  EXPECT_EQ(graph.nodes[1].inputs.size(), 1U);
}

TEST(KnownLoop, HandsOnWhatItsBodyDoesNotMake) {
  // The two carried values change places, and the last row is what came from outside.
  const auto graph =
      imported(R"(g (float[2] a, float[2] b) => (float[2] p, float[2] q, float[2, 2] r)
      <int64 n = {2}> {
      p, q, r = Loop (n, , a, b) <body = bb (int64 i, bool on, float[2] s, float[2] t) =>
          (bool on, float[2] t, float[2] s, float[2] c) { c = Identity(a) }>
    })");
  ASSERT_THAT(ops_of(graph),
              ElementsAre("Identity", "Identity", "Unsqueeze", "Unsqueeze", "Concat"));
  EXPECT_THAT(names_of(graph, graph.nodes[0].inputs), ElementsAre("a"));
  EXPECT_THAT(names_of(graph, graph.nodes[0].outputs), ElementsAre("p"));
  EXPECT_THAT(names_of(graph, graph.nodes[1].inputs), ElementsAre("b"));
  expect_writable(graph);
}

TEST(KnownLoop, MayHaveNoIterations) {
  const std::string body =
      R"(body = b (int64 i, bool on, float[2] s) => (bool on, float[2] t, float[2] row)
        { t = Neg(s) row = Abs(s) }>
    })";
  for (const std::string begin : {"<int64 n = {0}> { y, rows = Loop (n, , x) <",
                                  "<int64 n = {-1}> { y, rows = Loop (n, , x) <",
                                  "<bool go = {0}> { y, rows = Loop (, go, x) <"}) {
    const auto graph = imported("g (float[2] x) => (float[2] y, float[0, 2] rows) " + begin + body);
    EXPECT_THAT(ops_of(graph), ElementsAre("Identity"));
    const auto rows = graph.value(graph.outputs[1]);
    ASSERT_TRUE(rows.constant);
    EXPECT_THAT(rows.constant->dims(), ElementsAre(0, 2));
  }
  const auto open = imported(R"(g (float[k] x) => (float[k] y, float[m, k] rows) <int64 n = {0}> {
      y, rows = Loop (n, , x) <body = b (int64 i, bool on, float[k] s) => (bool on, float[k] t, float[k] row)
        { t = Neg(s) row = Abs(s) }>
    })");
  EXPECT_THAT(ops_of(open), ElementsAre("Loop"));
}

TEST(KnownLoop, ReadsItsCountFromAShape) {
  const auto graph = imported(
      R"(g (float[3, 2] x, float[2] begin) => (float[2] y) <bool go = {1}, int64 axis = {0}> {
      shape = Shape(x)
      n = Gather(shape, axis)
      y = Loop (n, go, begin) <body = b (int64 i, bool on, float[2] s) => (bool on, float[2] t) {
        row = Gather(x, i)
        t = Add(s, row)
      }>
    })");
  EXPECT_THAT(ops_of(graph), ElementsAre("Gather", "Add", "Gather", "Add", "Gather", "Add"));
}

TEST(KnownLoop, NestedOnesAndBranchesInThemOpenUp) {
  const auto graph = imported(R"(g (float[2] x) => (float[2] y) <int64 n = {2}, bool up = {1}> {
      y = Loop (n, , x) <body = b (int64 i, bool on, float[2] s) => (bool on, float[2] t) {
        m = If (up) <
          then_branch = yes () => (float[2] p) { p = Exp(s) },
          else_branch = no () => (float[2] q) { q = Abs(s) }>
        t = Loop (n, , m) <body = bb (int64 j, bool on3, float[2] u) => (bool on3, float[2] v) { v = Neg(u) }>
      }>
    })");
  EXPECT_THAT(ops_of(graph), ElementsAre("Exp", "Neg", "Neg", "Exp", "Neg", "Neg"));
  expect_writable(graph);
}

TEST(KnownLoop, HandsOnUnderAFreeNameWhereABodyNestedInItHidesTheOuterOne) {
  const auto graph = imported(R"(g (float[2] x, int64 m) => (float[2] y) <int64 n = {2}> {
      h = Abs(x)
      y = Loop (n, , h) <body = b (int64 i, bool on, float[2] s) => (bool on, float[2] t) {
        t = Loop (m, , s) <body = bb (int64 j, bool on2, float[2] h) => (bool on2, float[2] v) {
          v = Add(h, s)
        }>
      }>
    })");
  ASSERT_THAT(ops_of(graph), ElementsAre("Abs", "Loop", "Loop"));
  for (const auto& node : graph.nodes) {
    if (node.op != "Loop") continue;
    EXPECT_EQ(node.captures, std::vector(1, node.inputs[2]));
    EXPECT_NE(graph.value(node.captures[0]).name, "h");
  }
  expect_writable(graph);
}

TEST(KnownLoop, StaysWhereItIsNotKnownOrTooLong) {
  const auto ops = [](const std::string& head, const std::string& begin, const std::string& next) {
    return ops_of(
        imported("g (float[2] x" + head + " { y = Loop (" + begin +
                 R"(, x) <body = b (int64 i, bool on, float[2] s) => (bool on2, float[2] t) {
        t = Neg(s) )" +
                 next + "}> }"));
  };
  const std::string on = "on2 = Identity(on)";
  EXPECT_THAT(ops(") => (float[2] y) <int64 n = {2}>", "n, ", on), ElementsAre("Neg", "Neg"));
  EXPECT_THAT(ops(", int64 n) => (float[2] y)", "n, ", on), ElementsAre("Loop"));
  EXPECT_THAT(ops(", bool go) => (float[2] y) <int64 n = {2}>", "n, go", on), ElementsAre("Loop"));
  EXPECT_THAT(ops(") => (float[2] y) <bool go = {1}>", ", go", on), ElementsAre("Loop"));
  EXPECT_THAT(ops(") => (float[2] y) <int64 n = {2}>", "n, ", "on2 = Not(on)"),
              ElementsAre("Loop"));
  EXPECT_THAT(ops(") => (float[2] y) <int64 n = {2}>", "n, ",
                  "f = Constant <value = bool {0}> () on2 = Identity(f)"),
              ElementsAre("Loop"));
  EXPECT_THAT(ops(") => (float[2] y) <int64 n = {2}>", "n, ",
                  "f = Constant <value = bool {1}> () on2 = Identity(f)"),
              ElementsAre("Neg", "Neg"));
  EXPECT_THAT(ops(") => (float[2] y) <int64 n = {9223372036854775807}>", "n, ", on),
              ElementsAre("Loop"));
  EXPECT_THAT(ops(") => (float[2] y) <int64 n = {600}>", "n, ", on), ElementsAre("Loop"));
  EXPECT_THAT(ops(") => (float[2] y) <int64 n = {2}>", "n, ",
                  on + " r = RandomNormalLike(t) u = Add(t, r)"),
              ElementsAre("Loop"));
}

TEST(KnownScan, BecomesItsIterations) {
  const auto graph = imported(R"(g (float[2] x, float[3, 2] rows) => (float[2] y, float[3, 2] out) {
      [scan] y, out = Scan <num_scan_inputs = 1, body = b (float[2] s, float[2] row) => (float[2] t, float[2] r) {
        t = Add(s, row)
        r = Neg(t)
      }> (x, rows)
    })");
  ASSERT_THAT(ops_of(graph),
              ElementsAre("Gather", "Add", "Neg", "Gather", "Add", "Neg", "Gather", "Add", "Neg",
                          "Unsqueeze", "Unsqueeze", "Unsqueeze", "Concat"));
  EXPECT_THAT(names_of(graph, graph.nodes[1].inputs), ElementsAre("x", "scan/0/row"));
  EXPECT_THAT(names_of(graph, graph.nodes[4].inputs), ElementsAre("scan/0/t", "scan/1/row"));
  EXPECT_THAT(names_of(graph, graph.nodes[7].outputs), ElementsAre("y"));
  EXPECT_EQ(type_text(graph, "out"), "f32[3,2]");
  expect_writable(graph);
}

TEST(KnownScan, GoesAlongItsAxesAndDirections) {
  const auto graph =
      imported(R"(g (float[2] x, float[2, 3] columns) => (float[2] y, float[2, 3] out) {
      y, out = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1],
                     scan_output_axes = [1], scan_output_directions = [1],
                     body = b (float[2] s, float[2] column) => (float[2] t, float[2] r) {
        t = Add(s, column)
        r = Neg(t)
      }> (x, columns)
    })");
  ASSERT_EQ(graph.nodes.size(), 13U);
  EXPECT_EQ(graph.nodes[0].int_or("axis", 0), 1);
  const auto& at = graph.value(graph.nodes[0].inputs[1]);
  EXPECT_EQ(at.constant->as<std::int64_t>()[0], 2);
  const auto& concat = graph.nodes[12];
  EXPECT_EQ(concat.int_or("axis", 0), 1);
  const auto first = graph.value(concat.inputs[0]).producer;
  EXPECT_THAT(names_of(graph, graph.node(*first).inputs), Contains(HasSubstr("2/r")));
}

TEST(KnownScan, StaysWhereItsLengthIsOpenOrAnAxisCountsFromTheEnd) {
  const auto ops = [](const std::string& rows, const std::string& more) {
    return ops_of(imported("g (float[2] x, float[" + rows + ", 2] rows) => (float[2] y, float[" +
                           rows + ", 2] out) { y, out = Scan <num_scan_inputs = 1, " + more +
                           R"(body = b (float[2] s, float[2] row) => (float[2] t, float[2] r) {
        t = Add(s, row)
        r = Neg(t)
      }> (x, rows) })"));
  };
  EXPECT_EQ(ops("2", "").size(), 9U);
  EXPECT_THAT(ops("n", ""), ElementsAre("Scan"));
  EXPECT_THAT(ops("400", ""), ElementsAre("Scan"));
  EXPECT_THAT(ops("2", "scan_input_axes = [-2], "), ElementsAre("Scan"));
  EXPECT_THAT(ops("2", "scan_output_axes = [-2], "), ElementsAre("Scan"));
}

TEST(KnownLoop, AllTogetherBecomeSoManyNodes) {
  std::string loops;
  for (int i = 0; i < 20; ++i) {
    const auto from = i == 0 ? std::string("x") : concat("y", i - 1);
    loops += concat(
        "y", i, " = Loop (n, , ", from,
        ") <body = b (int64 i, bool on, float[2] s) => (bool on, float[2] t) { t = Neg(s) }>\n");
  }
  const auto graph = imported("g (float[2] x) => (float[2] y19) <int64 n = {100}> {" + loops + "}");
  const auto ops = ops_of(graph);
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(ops, "Neg")),
            kMostUnrolledNodes / 100 * 100);
  EXPECT_EQ(std::ranges::count(ops, "Loop"), 10);
}

TEST(KnownLoop, StaysAsItIsWhereTheFileIsAskedFor) {
  ImportOptions options;
  options.as_is = true;
  const auto graph = imported(R"(g (float[2] x) => (float[2] y) <int64 n = {2}> {
      y = Loop (n, , x) <body = b (int64 i, bool on, float[2] s) => (bool on, float[2] t) { t = Neg(s) }>
    })",
                              options);
  EXPECT_THAT(ops_of(graph), ElementsAre("Loop"));
}

TEST(ControlFlow, ALoopsBodyThatTellsStaleSizesIsNotBelieved) {
  const auto text = [](const std::string& told) {
    return concat(R"(
      <ir_version: 8, opset_import: ["" : 17]>
      g (float[t, 4] x, int64 k, bool c) => (float[] last, float[] all) {
        last, all = Loop(k, c, x) <body = b (int64 i, bool go, float)",
                  told, " s) => (bool more, float", told, " next, float", told, R"( y) {
          more = Identity(go)
          next = Identity(s)
          y = Tanh(s)
        }>
      })");
  };
  EXPECT_EQ(type_text(import_text(text("[3, 4]")), "all"), "f32[unk__1,unk__0,4]");
  EXPECT_EQ(type_text(import_text(text("[4]")), "all"), "f32");
  EXPECT_EQ(type_text(import_text(text("[n, 4]")), "all"), "f32[unk__0,n,4]");
}

}  // namespace
}  // namespace penstock::graph
