// Stages of small graphs by cuts, pins, annotations or node numbers, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/partition/split.h"
#include "penstock/partition/test_graph.h"

namespace penstock::partition {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

/// "a b | c": the names of each stage's nodes.
std::string shown(const graph::Graph& graph, const SplitOptions& options) {
  const auto stages = assign_stages(graph, options);
  if (!stages) return "error: " + stages.error().message();
  return join(*stages, " | ", [&](const auto& nodes) {
    return join(nodes, " ", [&](graph::NodeId id) { return graph.node(id).name; });
  });
}

std::string cut(const graph::Graph& graph, std::vector<std::string> cuts) {
  return shown(graph, {.by = Cuts{std::move(cuts)}});
}

std::string pin(const graph::Graph& graph, const std::vector<std::pair<std::string, int>>& pins) {
  Pins given;
  for (const auto& [name, cpu] : pins) {
    given.nodes.emplace_back(name, device::Device{.host = {}, .cpus = {cpu}});
  }
  return shown(graph, {.by = given});
}

void expect_error(const graph::Graph& graph, std::vector<std::string> cuts, Code code,
                  const std::string& message) {
  const auto stages = assign_stages(graph, {.by = Cuts{std::move(cuts)}});
  ASSERT_FALSE(stages) << message;
  EXPECT_EQ(stages.error().code, code);
  EXPECT_EQ(stages.error().message(), message);
}

TEST(CutTest, EndsAStageAfterTheNode) {
  EXPECT_EQ(cut(chain_graph(), {"b"}), "a b | c d");
  EXPECT_EQ(cut(chain_graph(), {}), "a b c d");
}

TEST(CutTest, TakesSeveralInTopologicalOrder) {
  EXPECT_EQ(cut(chain_graph(), {"c", "a"}), "a | b c | d");
  EXPECT_EQ(cut(chain_graph(), {"a", "b", "c"}), "a | b | c | d");
}

TEST(CutTest, TakesNoIndexWhereNothingCouldBeFolded) {
  graph::Graph graph = chain_graph();
  graph.import.not_folded = true;
  EXPECT_EQ(cut(graph, {"b"}), "a b | c d");
  EXPECT_THAT(cut(graph, {"1"}),
              StartsWith("error: cut '1': an index counts the nodes of a clean"));
}

TEST(CutTest, MayNameATensorOrAnIndex) {
  EXPECT_EQ(cut(chain_graph(), {"tb"}), "a b | c d");
  EXPECT_EQ(cut(chain_graph(), {"1"}), "a b | c d");
  EXPECT_EQ(cut(chain_graph(), {"0", "tc"}), "a | b c | d");
}

TEST(CutTest, PrefersANodeToATensorAndATensorToAnIndex) {
  TestGraph graph;
  graph.input("x").node("a", "Relu", {"x"}, {"b"}).node("b", "Sin", {"b"}, {"0"});
  graph.node("c", "Cos", {"0"}, {"y"}).output("y");
  EXPECT_EQ(cut(graph, {"b"}), "a b | c");
  EXPECT_EQ(cut(graph, {"0"}), "a b | c");
}

TEST(CutTest, TakesAncestorsOnlyAndLeavesTheRestToTheEnd) {
  EXPECT_EQ(cut(diamond_graph(), {"l"}), "a l | r1 r2 j");
  EXPECT_EQ(cut(diamond_graph(), {"r2"}), "a r1 r2 | l j");
  EXPECT_EQ(cut(diamond_graph(), {"l", "r1"}), "a l | r1 | r2 j");
}

TEST(CutTest, RefusesTwoCutsAtOneNode) {
  expect_error(
      chain_graph(), {"b", "tb"}, Code::kInvalidArgument,
      "cut 'tb': ends at node 'b', as cut 'b' does, and leaves an empty stage; give one of "
      "them");
}

TEST(CutTest, RefusesACutThatLeavesNothing) {
  expect_error(chain_graph(), {"y"}, Code::kInvalidArgument,
               "cut 'y': nothing is left after node 'd' for the last stage; cut earlier");
}

TEST(CutTest, OffersNearNames) {
  TestGraph graph;
  graph.input("x")
      .node("conv1", "Relu", {"x"}, {"t"})
      .node("conv2", "Sin", {"t"}, {"y"})
      .output("y");
  expect_error(graph, {"conv"}, Code::kNotFound,
               "cut 'conv': no node or tensor of that name; did you mean 'conv1' or 'conv2'?; "
               "'penstock show' lists them");
  expect_error(graph, {"unlike"}, Code::kNotFound,
               "cut 'unlike': no node or tensor of that name; 'penstock show' lists them");
}

TEST(CutTest, NamesTheRangeOfIndices) {
  expect_error(chain_graph(), {"4"}, Code::kNotFound,
               "cut '4': expected a node index from 0 to 3; 'penstock show' lists them");
  expect_error(chain_graph(), {"#4"}, Code::kNotFound,
               "cut '#4': expected a node index from 0 to 3; 'penstock show' lists them");
  expect_error(chain_graph(), {"99999999999999999999999"}, Code::kNotFound,
               "cut '99999999999999999999999': expected a node index from 0 to 3; 'penstock show' "
               "lists them");
}

TEST(CutTest, SaysWhatBecameOfARemovedName) {
  const auto graph = chain_graph().removed("id", "removed, an Identity of 'ta'");
  expect_error(graph, {"id"}, Code::kNotFound,
               "cut 'id': gone since the import (removed, an Identity of 'ta'); name what took its "
               "place, or import with --as-is");
}

TEST(CutTest, RefusesInputsAndConstants) {
  TestGraph graph;
  graph.input("x").constant("w").node("a", "Add", {"x", "w"}, {"y"}).output("y");
  expect_error(graph, {"x"}, Code::kNotFound,
               "cut 'x': names an input of the graph, expected a node or the tensor that a node "
               "makes");
  expect_error(graph, {"w"}, Code::kNotFound,
               "cut 'w': names a constant, expected a node or the tensor that a node makes");
}

TEST(CutTest, WorksOnAGraphWithoutNodes) {
  TestGraph graph;
  graph.constant("y").output("y");
  EXPECT_EQ(cut(graph, {}), "");
  EXPECT_EQ(cut(graph, {"0"}), "error: cut '0': the graph has no nodes");
  EXPECT_EQ(cut(graph, {"#0"}), "error: cut '#0': the graph has no nodes");
}

TEST(PinTest, MakesAStageOfEachDevice) {
  EXPECT_EQ(pin(chain_graph(), {{"c", 1}, {"a", 0}}), "a b | c d");
  EXPECT_EQ(pin(chain_graph(), {{"a", 0}, {"1", 0}, {"d", 1}}), "a b c | d");
}

TEST(PinTest, JoinsWhatComesBeforeTheFirstPinToIt) {
  EXPECT_EQ(pin(chain_graph(), {{"c", 0}, {"d", 1}}), "a b c | d");
}

TEST(PinTest, JoinsTheProducerThatComesLast) {
  // 'j' reads 'l' (cpu:1, which waits for cpu:0) and 'r2' (cpu:0, though later in the listing).
  EXPECT_EQ(pin(diamond_graph(), {{"a", 0}, {"r2", 0}, {"l", 1}}), "a r1 r2 | l j");
}

TEST(PinTest, RefusesACycleAndNamesIt) {
  EXPECT_EQ(
      pin(chain_graph(), {{"a", 0}, {"b", 1}, {"c", 0}}),
      "error: stages would wait for each other in a cycle: node 'b' of device cpu:1 reads 'ta' "
      "of device cpu:0, and node 'c' of device cpu:0 reads 'tb' of device cpu:1; give the "
      "nodes of one stage so that no path leaves it and comes back");
}

TEST(PinTest, NamesOnlyTheCycleAmongSeveralDevices) {
  const auto text = pin(chain_graph(), {{"a", 9}, {"b", 0}, {"c", 1}, {"d", 0}});
  EXPECT_THAT(text,
              HasSubstr("node 'c' of device cpu:1 reads 'tb' of device cpu:0, and node 'd' of "
                        "device cpu:0 reads 'tc' of device cpu:1;"));
  EXPECT_THAT(text, testing::Not(HasSubstr("cpu:9")));
}

TEST(PinTest, RefusesOneNodeOnTwoDevices) {
  EXPECT_EQ(pin(chain_graph(), {{"b", 0}, {"tb", 1}}),
            "error: pin 'tb': node 'b' is pinned to cpu:0 and to cpu:1; keep one");
}

TEST(PinTest, OffersNearNames) {
  EXPECT_THAT(pin(chain_graph(), {{"tx", 0}}),
              StartsWith("error: pin 'tx': no node or tensor of that name; did you mean "));
}

TEST(PinTest, GivesAStrayNodeToTheFirstStage) {
  TestGraph graph;
  graph.input("x").node("a", "Relu", {"x"}, {"t"}).node("b", "Sin", {"t"}, {"y"}).output("y");
  graph.node("stray", "Cos", {"x"}, {"z"}).output("z");
  EXPECT_EQ(pin(graph, {{"b", 1}, {"a", 0}}), "a | b stray");
  EXPECT_EQ(pin(graph, {{"a", 0}, {"b", 1}}), "a stray | b");
}

TestGraph annotated(int a, int b, int c) {
  TestGraph graph;
  graph.input("x").node("a", "Relu", {"x"}, {"ta"}, a).node("b", "Sin", {"ta"}, {"tb"}, b);
  graph.node("c", "Cos", {"tb"}, {"y"}, c).output("y");
  return graph;
}

TEST(AnnotationTest, GivesTheStages) {
  const SplitOptions options{.by = Annotations()};
  EXPECT_EQ(shown(annotated(0, 0, 7), options), "a b | c");
  EXPECT_EQ(shown(annotated(3, -1, 1), options), "a b | c");
}

TEST(AnnotationTest, TakesLayersWhereThereAreNoStages) {
  const SplitOptions options{.by = Annotations()};
  graph::Graph layers = annotated(-1, -1, -1);
  layers.nodes[0].metadata["layer_ann"] = "enc";
  layers.nodes[2].metadata["layer_ann"] = "dec";
  EXPECT_EQ(shown(layers, options), "a b | c");
  layers.pipeline_stages = {0, 1, 1};
  EXPECT_EQ(shown(layers, options), "a | b c");
}

TEST(AnnotationTest, RefusesACycleAndAModelWithoutThem) {
  const SplitOptions options{.by = Annotations()};
  EXPECT_THAT(
      shown(annotated(0, 1, 0), options),
      HasSubstr("node 'b' of pipeline_stage 1 reads 'ta' of pipeline_stage 0, and node 'c' of "
                "pipeline_stage 0 reads 'tb' of pipeline_stage 1"));
  EXPECT_THAT(shown(annotated(-1, -1, -1), options),
              StartsWith("error: the model has no pipeline_stage annotations"));
}

TEST(SplitByTest, TakesOneWayOfSplittingOnly) {
  const std::vector<std::pair<std::string, device::Device>> pins = {{"a", {}}};
  EXPECT_TRUE(std::holds_alternative<Cuts>(*split_by({}, {}, false)));
  EXPECT_EQ(std::get<Cuts>(*split_by({"a"}, {}, false)).nodes, std::vector<std::string>{"a"});
  EXPECT_EQ(std::get<Pins>(*split_by({}, pins, false)).nodes, pins);
  EXPECT_TRUE(std::holds_alternative<Annotations>(*split_by({}, {}, true)));
  for (const auto& several :
       {split_by({"a"}, pins, false), split_by({"a"}, {}, true), split_by({}, pins, true)}) {
    ASSERT_FALSE(several);
    EXPECT_EQ(several.error().code, Code::kInvalidArgument);
    EXPECT_EQ(several.error().message(),
              "expected cuts, pins or the model's annotations, found several; use one of them");
  }
}

SplitOptions chosen(const std::vector<std::vector<int>>& stages) {
  ChosenStages made;
  for (const auto& nodes : stages) {
    auto& stage = made.stages.emplace_back();
    for (const int node : nodes) stage.nodes.push_back(static_cast<graph::NodeId>(node));
  }
  return {.by = made};
}

TEST(ChosenStagesTest, AreTakenAsTheyAre) {
  EXPECT_EQ(shown(chain_graph(), chosen({{1, 0}, {2, 3}})), "a b | c d");
}

TEST(ChosenStagesTest, MustHoldEachNodeOnceInOrder) {
  EXPECT_EQ(shown(chain_graph(), chosen({{0, 1}, {3}})),
            "error: chosen stages: node 'c' is in none");
  EXPECT_EQ(shown(chain_graph(), chosen({{0, 1}, {1, 2, 3}})),
            "error: chosen stages: node 'b' is in stage0 and in stage1");
  EXPECT_EQ(shown(chain_graph(), chosen({{0, 2, 3}, {1}})),
            "error: chosen stages: stage0 reads 'tb', which stage1 makes later");
  EXPECT_EQ(shown(chain_graph(), chosen({{0, 1, 2, 3, 4}})),
            "error: chosen stages: no node has index 4");
}

}  // namespace
}  // namespace penstock::partition
