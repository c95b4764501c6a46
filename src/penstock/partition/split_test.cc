// Plans and packages of small and random graphs: edges, outputs, devices, files and batches.
#include "penstock/partition/split.h"

#include <cstdlib>
#include <fstream>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/graph/import.h"
#include "penstock/graph/onnx_text.h"
#include "penstock/partition/test_graph.h"
#include "penstock/tensor/npy.h"
#include "tests/support/temporary_folder.h"

namespace penstock::partition {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class SplitTest : public testing::Test {
 protected:
  SplitTest() { options_.devices = {cpu(0)}; }

  static device::Device cpu(int number) { return {.host = {}, .cpus = {number}}; }

  plan::Plan split(const graph::Graph& graph, std::vector<std::string> cuts = {}) {
    if (!std::holds_alternative<Pins>(options_.by)) options_.by = Cuts{std::move(cuts)};
    const auto made = partition::split(graph, options_, folder_ / "p", {});
    EXPECT_TRUE(made) << made.error().message();
    if (!made) return {};
    check_models(*made);
    const auto loaded = plan::load_package(folder_ / "p");
    EXPECT_TRUE(loaded) << loaded.error().message();
    if (!loaded) return {};
    EXPECT_EQ(loaded->plan, *made);
    return *made;
  }

  /// Each stage's file is a model that says the same as the plan.
  void check_models(const plan::Plan& plan) {
    graph::ImportOptions as_is;
    as_is.as_is = true;
    for (const auto& stage : plan.stages) {
      const auto& part = stage.partitions.at(0);
      const auto model = graph::import_onnx(folder_ / "p" / part.model, as_is);
      ASSERT_TRUE(model) << model.error().message();
      const auto name = [&](graph::ValueId id) { return model->value(id).name; };
      std::vector<std::string> inputs, outputs;
      std::ranges::transform(model->inputs, std::back_inserter(inputs), name);
      std::ranges::transform(model->outputs, std::back_inserter(outputs), name);
      EXPECT_EQ(inputs, part.inputs) << part.model;
      EXPECT_EQ(outputs, part.outputs) << part.model;
    }
  }

  Error error(const graph::Graph& graph) {
    const auto made = partition::split(graph, options_, folder_ / "p", {});
    EXPECT_FALSE(made);
    EXPECT_TRUE(fs::is_empty(folder_));
    return made ? Error{} : made.error();
  }

  const TemporaryFolder temporary_;
  const fs::path& folder_ = temporary_.path();
  SplitOptions options_;
};

/// "input>0:x 0>1:t 1>out:y"
std::string edges(const plan::Plan& plan) {
  const auto end = [](int at) {
    return at == plan::kPipelineInput ? "in" : at == plan::kPipelineOutput ? "out" : concat(at);
  };
  return join(plan.edges, " ", [&](const plan::Edge& edge) {
    return concat(end(edge.from), ">", join(edge.to, "+", end), ":", join(edge.tensors, ","));
  });
}

TEST_F(SplitTest, CutsAChain) {
  const auto plan = split(chain_graph(), {"a", "c"});
  EXPECT_EQ(edges(plan), "in>0:x 0>1:ta 1>2:tc 2>out:y");
  EXPECT_EQ(plan.model, "test");
  EXPECT_EQ(plan.stages[1].name, "stage1");
  EXPECT_THAT(plan.stages[1].nodes, ElementsAre("b", "c"));
  EXPECT_EQ(plan.stages[1].partitions[0].backend, "onnxruntime");
  EXPECT_EQ(plan.stages[1].partitions[0].model, "stages/1.onnx");
  EXPECT_EQ(plan.tensors.size(), 2U);
  EXPECT_EQ(plan.model_hash.size(), 64U);
}

TEST_F(SplitTest, CutsADiamond) {
  EXPECT_EQ(edges(split(diamond_graph(), {"a", "l", "r2"})),
            "in>0:x 0>1+2:ta 1>3:tl 2>3:tr2 3>out:y");
}

TEST_F(SplitTest, CarriesAResidualOverSeveralStages) {
  TestGraph graph;
  graph.input("x").node("a", "Relu", {"x"}, {"ta"}).node("b", "Sin", {"ta"}, {"tb"});
  graph.node("c", "Cos", {"tb"}, {"tc"}).node("d", "Add", {"tc", "ta"}, {"y"}).output("y");
  EXPECT_EQ(edges(split(graph, {"a", "b", "c"})), "in>0:x 0>1+3:ta 1>2:tb 2>3:tc 3>out:y");
}

TEST_F(SplitTest, FeedsAnInputToSeveralStages) {
  TestGraph graph;
  graph.input("x").input("z").node("a", "Add", {"x", "z"}, {"ta"});
  graph.node("b", "Add", {"ta", "x"}, {"tb"}).node("c", "Add", {"tb", "z"}, {"y"}).output("y");
  EXPECT_EQ(edges(split(graph, {"a", "b"})), "in>0+1:x in>0+2:z 0>1:ta 1>2:tb 2>out:y");
}

TEST_F(SplitTest, LetsOneTensorFeedTwoInputsOfANode) {
  TestGraph graph;
  graph.input("x")
      .node("a", "Relu", {"x"}, {"ta"})
      .node("b", "Add", {"ta", "ta"}, {"y"})
      .output("y");
  EXPECT_EQ(edges(split(graph, {"a"})), "in>0:x 0>1:ta 1>out:y");
}

TEST_F(SplitTest, WritesAnOutputWhereItIsMade) {
  const auto graph = chain_graph().output("ta").output("tb");
  EXPECT_EQ(edges(split(graph, {"a", "c"})), "in>0:x 0>1+out:ta 1>out:tb 1>2:tc 2>out:y");
}

TEST_F(SplitTest, KeepsTheOrderOfOutputsAndOneThatStandsTwice) {
  const auto graph = chain_graph().output("ta").output("y");
  const auto plan = split(graph, {"a"});
  ASSERT_EQ(plan.outputs.size(), 3U);
  EXPECT_EQ(plan.outputs[2].name, "y");
  EXPECT_EQ(edges(plan), "in>0:x 0>1+out:ta 1>out:y");
  EXPECT_EQ(edges(split(graph)), "in>0:x 0>out:ta,y");
}

TEST_F(SplitTest, LetsAnInputBeAnOutput) {
  const auto graph = chain_graph().input("z").output("z").output("x");
  EXPECT_EQ(edges(split(graph, {"b"})), "in>0+out:x in>out:z 0>1:tb 1>out:y");
  EXPECT_EQ(edges(split(graph)), "in>0+out:x in>out:z 0>out:y");
}

TEST_F(SplitTest, KeepsAnInputThatNobodyReads) {
  const auto graph = chain_graph().input("unread");
  EXPECT_EQ(edges(split(graph)), "in>0:x,unread 0>out:y");
  const auto plan = split(graph, {"a"});
  EXPECT_EQ(plan.inputs.size(), 2U);
  EXPECT_EQ(edges(plan), "in>0:x 0>1:ta 1>out:y");
}

TEST_F(SplitTest, WritesAConstantThatIsAnOutput) {
  TestGraph graph;
  graph.input("x").constant("w").node("a", "Add", {"x", "w"}, {"ta"});
  graph.node("b", "Add", {"ta", "w"}, {"y"}).output("y").output("w");
  EXPECT_EQ(edges(split(graph)), "in>0:x 0>out:y,w");
  const auto plan = split(graph, {"a"});
  EXPECT_EQ(edges(plan), "in>0:x 0>1:ta 1>out:y,w");
  EXPECT_THAT(plan.stages[1].nodes, ElementsAre("b", "w/identity"));
}

TEST_F(SplitTest, WritesAConstantOutputThatANestedGraphReads) {
  const auto bytes = graph::onnx_bytes_of_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[2] x, bool d) => (float[2] k, float[2] y) {
      k = Constant <value = float[2] {1, 2}> ()
      t = Neg(x)
      u = If (d) <
        then_branch = yes () => (float[2] a) { a = Add(t, k) },
        else_branch = no () => (float[2] b) {
          b = If (d) <
            then_branch = deep () => (float[2] "k/constant") { "k/constant" = Mul(t, k) },
            else_branch = deeper () => (float[2] q) { q = Identity(t) }>
        }>
      y = Abs(u)
    })");
  ASSERT_TRUE(bytes) << bytes.error().message();
  const auto graph = graph::import_onnx_bytes(*bytes, {}, {});
  ASSERT_TRUE(graph) << graph.error().message();
  for (const std::string cut : {"t", "u"}) {
    const auto plan = split(*graph, {cut});
    ASSERT_EQ(plan.stages.size(), 2U);
    EXPECT_THAT(plan.stages[1].outputs, testing::UnorderedElementsAre("k", "y"));
  }
}

TEST_F(SplitTest, MakesOneStageOfAGraphWithoutNodes) {
  TestGraph constant;
  constant.input("x").constant("y").output("y");
  EXPECT_EQ(edges(split(constant)), "in>0:x 0>out:y");
  TestGraph through;
  through.input("x").output("x");
  const auto plan = split(through);
  EXPECT_EQ(edges(plan), "in>0+out:x");
  EXPECT_THAT(plan.stages.at(0).outputs, IsEmpty());
}

TEST_F(SplitTest, DealsDevicesToReplicas) {
  options_.devices = {cpu(0), cpu(1), cpu(2)};
  options_.replicas = 2;
  const auto plan = split(chain_graph(), {"b"});
  EXPECT_THAT(plan.stages[0].devices, ElementsAre(cpu(0), cpu(1)));
  EXPECT_THAT(plan.stages[1].devices, ElementsAre(cpu(2), cpu(0)));
}

TEST_F(SplitTest, UsesEachInheritedCpuWhereNoDeviceIsNamed) {
  options_.devices.clear();
  options_.replicas = static_cast<int>(device::inherited_cpus().size());
  const auto plan = split(chain_graph());
  std::vector<int> used;
  for (const auto& device : plan.stages[0].devices) used.push_back(device.cpus.at(0));
  EXPECT_EQ(used, device::inherited_cpus());
}

TEST_F(SplitTest, PutsPinnedStagesOnTheirDevices) {
  options_.by = Pins{{{"c", cpu(5)}, {"a", cpu(4)}}};
  const auto plan = split(chain_graph());
  EXPECT_THAT(plan.stages[0].devices, ElementsAre(cpu(4)));
  EXPECT_THAT(plan.stages[1].devices, ElementsAre(cpu(5)));
}

TEST_F(SplitTest, RefusesReplicasThatCannotBe) {
  options_.replicas = 0;
  EXPECT_EQ(error(chain_graph()).message(), "replicas: expected 1 to 1024, found 0");
  options_.replicas = 2'000'000'000;
  EXPECT_EQ(error(chain_graph()).message(), "replicas: expected 1 to 1024, found 2000000000");
  options_.replicas = 2;
  options_.by = Pins{{{"a", cpu(0)}}};
  EXPECT_EQ(error(chain_graph()).message(),
            "replicas: expected 1 with pins, which name one device for a stage, found 2");
}

TEST_F(SplitTest, WritesParametersBesideTheStages) {
  TestGraph graph;
  graph.input("x").parameter("w").parameter("v").node("a", "Add", {"x", "w"}, {"ta"});
  graph.node("b", "Add", {"ta", "w"}, {"y"}).output("y");
  const auto plan = split(graph, {"a"});
  ASSERT_EQ(plan.parameters.size(), 2U);
  EXPECT_EQ(plan.parameters[0].file, "parameters/0.npy");
  EXPECT_EQ(plan.parameters[0].type, vector_type());
  EXPECT_THAT(plan.stages[0].parameters, ElementsAre("w"));
  EXPECT_THAT(plan.stages[1].parameters, ElementsAre("w"));
  EXPECT_THAT(plan.stages[1].inputs, ElementsAre("ta"));
  EXPECT_THAT(plan.stages[1].partitions[0].inputs, ElementsAre("ta", "w"));
  const auto value = read_npy(folder_ / "p/parameters/0.npy");
  ASSERT_TRUE(value);
  EXPECT_THAT(value->as<float>(), ElementsAre(1, 1, 1, 1));
}

TEST_F(SplitTest, CopiesCustomOperatorLibraries) {
  fs::create_directories(folder_ / "other");
  std::ofstream(folder_ / "libops.so") << "one";
  std::ofstream(folder_ / "other/libops.so") << "two";
  options_.custom_ops = {folder_ / "libops.so", folder_ / "other/libops.so"};
  const auto plan = split(chain_graph());
  EXPECT_THAT(plan.custom_ops, ElementsAre("custom_ops/libops.so", "custom_ops/1-libops.so"));
  EXPECT_EQ(fs::file_size(folder_ / "p/custom_ops/1-libops.so"), 3U);
}

TEST_F(SplitTest, NamesACustomOperatorLibraryThatIsNotThere) {
  options_.custom_ops = {folder_ / "absent.so"};
  const auto found = error(chain_graph());
  EXPECT_EQ(found.code, Code::kNotFound);
  EXPECT_THAT(found.message(), HasSubstr("absent.so': cannot be copied: No such file"));
}

TEST_F(SplitTest, FlushesDenormalsWhereAConstantHoldsOne) {
  TestGraph graph;
  graph.input("x").constant("w", std::numeric_limits<float>::denorm_min()).constant("v", 0);
  graph.node("a", "Add", {"x", "w"}, {"ta"}).node("b", "Add", {"ta", "v"}, {"y"}).output("y");
  const auto plan = split(graph, {"a"});
  EXPECT_TRUE(plan.stages[0].flush_denormals);
  EXPECT_FALSE(plan.stages[1].flush_denormals);
}

TEST_F(SplitTest, FlushesDenormalsOnRequest) {
  options_.flush_denormals = true;
  EXPECT_TRUE(split(chain_graph(), {"a"}).stages[0].flush_denormals);
}

TEST_F(SplitTest, RefusesAStageThatWritesNothing) {
  auto graph = chain_graph().node("dead", "Sin", {"x"}, {"nothing"});
  options_.by = Cuts{{"d"}};
  EXPECT_THAT(
      error(graph).message(),
      StartsWith("stage 'stage1': nothing reads what its nodes make (the first is 'dead')"));
}

TEST_F(SplitTest, RefusesAGraphWithoutOutputs) {
  TestGraph graph;
  graph.input("x").node("a", "Relu", {"x"}, {"t"});
  EXPECT_EQ(error(graph).message(), "graph 'test': expected outputs, found none");
}

TEST_F(SplitTest, WritesAZip) {
  options_.by = Cuts{{"b"}};
  const auto made = partition::split(chain_graph(), options_, folder_ / "p.zip", {});
  ASSERT_TRUE(made) << made.error().message();
  const auto loaded = plan::load_package(folder_ / "p.zip");
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_EQ(loaded->plan, *made);
}

/// A network of nodes with one or two inputs from anywhere before, and random outputs.
TestGraph random_graph(unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
  };
  TestGraph graph;
  graph.input("x0").input("x1").constant("w");
  std::vector<std::string> values{"x0", "x1", "w"};
  const auto count = below(12) + 2;
  for (std::size_t i = 0; i < count; ++i) {
    const auto made = concat("t", i);
    graph.node(concat("n", i), "Add", {values[below(values.size())], values[below(values.size())]},
               {made});
    values.push_back(made);
  }
  for (const auto& name : values) {
    if (below(4) == 0) graph.output(name);
  }
  // What nobody reads is an output, as after a clean import.
  for (const auto& value : graph.get().values) {
    if (value.producer && value.consumers.empty() && !value.is_output) graph.output(value.name);
  }
  return graph;
}

std::vector<graph::NodeId> nodes_of(const std::vector<int>& numbers) {
  std::vector<graph::NodeId> nodes;
  for (const int number : numbers) nodes.push_back(static_cast<graph::NodeId>(number));
  return nodes;
}

TEST(MakePlanTest, PartsOfAStageBecomePartitionsInTheirOrder) {
  const auto built = chain_graph();
  SplitOptions options;
  ChosenStage first{nodes_of({0, 1, 2}), {{.host = {}, .cpus = {0}}}, {}};
  first.parts = {{"one", {{"key", "value"}}, nodes_of({0})}, {"two", {}, nodes_of({1, 2})}};
  options.by = ChosenStages{{first, {nodes_of({3}), {{.host = {}, .cpus = {1}}}, {}}}, {}};
  const auto stages = assign_stages(built, options);
  ASSERT_TRUE(stages) << stages.error().message();
  const auto plan = make_plan(built, *stages, options);
  ASSERT_TRUE(plan) << plan.error().message();
  ASSERT_EQ(plan->stages.size(), 2U);
  const auto& parts = plan->stages[0].partitions;
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0],
            (plan::Partition{"one", "stages/0.0.onnx", {"x"}, {"ta"}, {{"key", "value"}}}));
  EXPECT_EQ(parts[1], (plan::Partition{"two", "stages/0.1.onnx", {"ta"}, {"tc"}, {}}));
  EXPECT_EQ(plan->stages[0].outputs, std::vector<std::string>{"tc"});  // "ta" stays inside.
  EXPECT_EQ(plan->stages[1].partitions[0].backend, "onnxruntime");
  EXPECT_NE(plan->find_tensor("ta"), nullptr);
}

TEST(MakePlanTest, PartsMustHoldTheStagesNodesInOrder) {
  const auto built = chain_graph();
  SplitOptions options;
  ChosenStage all{nodes_of({0, 1, 2, 3}), {{.host = {}, .cpus = {0}}}, {}};
  all.parts = {{"one", {}, nodes_of({0, 2})}, {"two", {}, nodes_of({1, 3})}};
  options.by = ChosenStages{{all}, {}};
  EXPECT_EQ(assign_stages(built, options).error().message(),
            "chosen stages: part 0 of stage0 reads 'tb', which part 1 of stage0 makes later");
  all.parts.pop_back();
  options.by = ChosenStages{{all}, {}};
  EXPECT_EQ(assign_stages(built, options).error().message(),
            "chosen stages: stage0 has 4 nodes, but its parts have 2");
}

TEST(MakePlanTest, AnyCutOfAnyGraphGivesAValidPlan) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const auto built = random_graph(seed);
    const auto& graph = built.get();
    std::mt19937 random(seed);
    SplitOptions options;
    options.devices = {{.host = {}, .cpus = {0}}};
    Cuts cuts;
    for (std::size_t i = 0; i + 1 < graph.nodes.size(); ++i) {
      if (random() % 3 == 0) cuts.nodes.push_back(concat(i));
    }
    options.by = cuts;
    const auto stages = assign_stages(graph, options);
    if (!stages) {  // The cuts may have taken everything.
      EXPECT_THAT(stages.error().message(), HasSubstr("nothing is left")) << "seed " << seed;
      continue;
    }
    EXPECT_EQ(stages->size(), cuts.nodes.size() + 1) << "seed " << seed;
    const auto plan = make_plan(graph, *stages, options);
    ASSERT_TRUE(plan) << "seed " << seed << ": " << plan.error().message();
    EXPECT_EQ(plan->outputs.size(), graph.outputs.size());
  }
}

TEST_F(SplitTest, WritesTheModelsOfABatchBesideThatOfOneFrame) {
  const auto graph = graph::import_onnx_bytes(
      *graph::onnx_bytes_of_text(R"(<ir_version: 8, opset_import: ["" : 17]> net
          (float[1,2] x) => (float[1,2] y) { [a] t = Relu(x) [b] y = Abs(t) })"),
      {}, {});
  ASSERT_TRUE(graph) << graph.error().message();
  options_.batches = {{"", {.frames = 6, .wait = std::chrono::microseconds(500)}},
                      {"stage1", {.frames = 2}}};
  const auto plan = split(*graph, {"a"});
  ASSERT_EQ(plan.stages.size(), 2);
  EXPECT_EQ(plan.stages[0].batch, (plan::Batch{6, std::chrono::microseconds(500)}));
  EXPECT_THAT(plan.stages[0].partitions[0].batched,
              ElementsAre(plan::BatchedModel{2, "stages/0.b2.onnx"},
                          plan::BatchedModel{4, "stages/0.b4.onnx"},
                          plan::BatchedModel{6, "stages/0.b6.onnx"}));
  EXPECT_EQ(plan.stages[1].batch, plan::Batch{.frames = 2});
  const auto wide = graph::import_onnx(folder_ / "p/stages/0.b6.onnx", {});
  ASSERT_TRUE(wide) << wide.error().message();
  EXPECT_EQ(to_string(wide->value(wide->inputs[0]).type), "f32[6,2]");
}

TEST_F(SplitTest, NamesStageAndNodeThatStopABatch) {
  const auto graph = graph::import_onnx_bytes(
      *graph::onnx_bytes_of_text(R"(<ir_version: 8, opset_import: ["" : 17]> net
          (float[2] x) => (float[2] y) { [a] t = Relu(x) [b] y = Softmax<axis = 0>(t) })"),
      {}, {});
  ASSERT_TRUE(graph) << graph.error().message();
  options_.by = Cuts{{"a"}};
  options_.batches = {{"", {.frames = 2}}};
  EXPECT_EQ(error(*graph).message(),
            "stage 'stage1': node 'b': Softmax cannot take several frames in one call: it works "
            "along each axis of 't', that of the frames too; leave the stage out of the batch "
            "(STAGE=1)");
  options_.batches["stage1"] = {};
  EXPECT_TRUE(partition::split(*graph, options_, folder_ / "p", {}));
}

TEST_F(SplitTest, TellsOfAnInputThatStopsABatchHowToBindIt) {
  const auto graph = graph::import_onnx_bytes(
      *graph::onnx_bytes_of_text(R"(<ir_version: 8, opset_import: ["" : 17]> net
          (float[2] x, float rate) => (float[2] y) { [a] y = Mul(x, rate) })"),
      {}, {});
  ASSERT_TRUE(graph) << graph.error().message();
  options_.batches = {{"", {.frames = 2}}};
  EXPECT_EQ(error(*graph).message(),
            "stage 'stage0': input 'rate': cannot hold several frames: it is f32[]: it has no "
            "dimension that could hold several frames; node 'a' reads it; bind it if it is the "
            "same for all frames (--constant rate=VALUE), or leave the stage out of the batch "
            "(STAGE=1)");
}

TEST_F(SplitTest, RefusesABatchOfAStageThatIsNotThere) {
  options_.batches = {{"stage7", {.frames = 2}}};
  const auto graph = chain_graph();
  EXPECT_EQ(error(graph).message(), "batch: no stage 'stage7'; the stages are stage0");
}

TEST_F(SplitTest, TellsWhichStagesToMeasureCannotTakeSeveralFrames) {
  const auto graph = graph::import_onnx_bytes(
      *graph::onnx_bytes_of_text(R"(<ir_version: 8, opset_import: ["" : 17]> net
          (float[4] x) => (float[4] y)
          { [a] t = Relu(x) [b] u = Softmax<axis = 0>(t) [c] y = Softmax<axis = 0>(u) })"),
      {}, {});
  ASSERT_TRUE(graph) << graph.error().message();
  options_.by = Cuts{{"a", "b"}};
  options_.batches = {{"", {.frames = 4, .measured = true}}, {"stage2", {.frames = 4}}};
  const auto without = stages_without_batch(*graph, options_);
  ASSERT_TRUE(without) << without.error().message();
  ASSERT_EQ(without->size(), 1);
  EXPECT_EQ(without->begin()->first, "stage1");
  EXPECT_THAT(without->begin()->second.message(),
              StartsWith("node 'b': Softmax cannot take several frames in one call: "));
}

TEST(ParseBatchTest, ReadsFramesWaitAndStage) {
  const auto read = [](const std::string& text) {
    const auto batch = parse_batch(text);
    if (!batch) return batch.error().message();
    return concat(batch->first, " ", batch->second.frames, " ", batch->second.wait.count(),
                  batch->second.measured ? " measured" : "");
  };
  EXPECT_EQ(read("8"), " 8 0");
  EXPECT_EQ(read("8:2.5"), " 8 2500");
  EXPECT_EQ(read("a=b=1"), "a=b 1 0");
  EXPECT_EQ(read("node/0=1024:0.001"), "node/0 1024 1");
  EXPECT_EQ(read("auto"), " 8 0 measured");
  EXPECT_EQ(read("b=auto:16"), "b 16 0 measured");
  for (const auto* text : {"", "0", "1025", "8:", "8:0", "8:x", "8:1e13", "=8", "x", "a=", "8 ",
                           "auto:", "auto:1", "auto:1025", "auto8", "auto:8:2", "=auto"}) {
    EXPECT_THAT(read(text), StartsWith(concat("batch '", text, "': expected N, "))) << text;
  }
}

}  // namespace
}  // namespace penstock::partition
