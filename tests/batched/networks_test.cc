// Whole networks: several frames in one call give what so many calls give, or a sentence names the
// node that stops it.
//
// PENSTOCK_TEST_MODELS: a folder of networks, NAME/model.onnx; those tests are skipped without it.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string_view>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/backend/registry.h"
#include "penstock/graph/test_support.h"
#include "penstock/session/session.h"
#include "penstock/tensor/random.h"
#include "tests/support/batched_calls.h"
#include "tests/support/sample.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// What must be known of inputs with open dimensions: network and --shape.
constexpr std::pair<std::string_view, const char*> kShapes[] = {
    {"basic_pitch", "serving_default_input_2:0=1x43844x1"},
    {"silero_vad_16k_op15", "input=1x576"},
    {"silero_vad_16k_op15", "state=2x1x128"},
    {"super_resolution_10", "input=1x1x224x224"},
};

/// The network that cannot, by what it is itself: it has an input of one number.
constexpr std::string_view kRefused = "silero_vad_16k_op15";

std::vector<fs::path> networks() {
  std::vector<fs::path> found;
  const char* given = std::getenv("PENSTOCK_TEST_MODELS");
  for (const char* folder : {given, PENSTOCK_MADE_NETWORKS}) {
    if (folder == nullptr) continue;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (fs::exists(entry.path() / "model.onnx")) found.push_back(entry.path() / "model.onnx");
      if (entry.path().extension() == ".onnx") found.push_back(entry.path());
    }
  }
  std::ranges::sort(found);
  return found;
}

std::string name_of(const fs::path& file) {
  return file.filename() == "model.onnx" ? file.parent_path().filename() : file.stem();
}

Result<graph::Graph> import_network(const fs::path& file, const backend::Registry& backends) {
  graph::ImportOptions options;
  for (const auto& [network, text] : kShapes) {
    if (network == name_of(file)) options.shapes.insert(*graph::parse_shape(text));
  }
  return import_model(file, options, backends);
}

/// What refuses the network; empty if it takes several frames, and computes the same.
std::string refusal_of(const fs::path& file, const backend::Registry& backends,
                       backend::Backend& backend) {
  const auto graph = import_network(file, backends);
  if (!graph) return "import: " + graph.error().message();
  for (const std::size_t count : {2, 3}) {
    const auto wide = graph::batched(graph::Subgraph::whole(*graph), static_cast<int>(count));
    if (!wide) return wide.error().message();
    Random random(7);
    std::vector<std::vector<Tensor>> frames(count);
    for (auto& frame : frames) {
      for (const auto id : graph->inputs) {
        frame.push_back(*random_tensor(graph->value(id).type, random));
      }
    }
    bool skipped = false;
    EXPECT_EQ(batched_difference(backend, *graph, *wide, frames, skipped), "") << count;
    EXPECT_FALSE(skipped);
  }
  return {};
}

TEST(BatchedNetworks, ComputeTheSameOrAreRefusedByANode) {
  const auto backends = backend::Registry::load();
  const auto backend = backends.find("onnxruntime");
  ASSERT_TRUE(backend) << backend.error().message();
  for (const auto& file : networks()) {
    SCOPED_TRACE(name_of(file));
    const auto refusal = refusal_of(file, backends, **backend);
    std::cout << name_of(file) << ": " << (refusal.empty() ? "batched" : refusal) << "\n";
    EXPECT_EQ(!refusal.empty(), name_of(file) == kRefused);
    if (!refusal.empty()) {
      EXPECT_THAT(refusal, HasSubstr("node '"));
    }
  }
}

/// The network with the first dimensions of its inputs open, under one name.
Result<graph::Graph> with_open_first(const fs::path& file, const backend::Registry& backends) {
  PENSTOCK_TRY(auto graph, import_network(file, backends));
  for (const auto id : graph.inputs) {
    auto& dims = graph.values[index(id)].type.dims;
    if (!dims.empty()) dims.front() = {Dim::kOpen, "n", Dim::kOpen};
  }
  for (const auto id : graph.outputs) {
    for (auto& dim : graph.values[index(id)].type.dims) dim = Dim();
  }
  PENSTOCK_TRY(const auto bytes, graph::to_onnx_bytes(graph::Subgraph::whole(graph)));
  return graph::import_onnx_bytes(bytes, {}, {});
}

TEST(BatchedNetworks, OfAnOpenFirstDimensionComputeTheSameOrAreRefusedByANode) {
  const auto backends = backend::Registry::load();
  const auto backend = backends.find("onnxruntime");
  ASSERT_TRUE(backend) << backend.error().message();
  for (const auto& file : networks()) {
    SCOPED_TRACE(name_of(file));
    const auto graph = with_open_first(file, backends);
    if (!graph) continue;  // Its constants say how many there are.
    const auto wide = graph::batched(graph::Subgraph::whole(*graph), 2);
    std::cout << name_of(file) << ": " << (wide ? "batched" : wide.error().message()) << "\n";
    if (!wide) {
      EXPECT_THAT(wide.error().message(), HasSubstr("node '"));
      continue;
    }
    Random random(7);
    std::vector<std::vector<Tensor>> frames(2);
    for (auto& frame : frames) {
      for (const auto id : graph->inputs) {
        auto type = graph->value(id).type;
        if (!type.dims.empty()) type.dims.front() = {1, {}, Dim::kOpen};
        frame.push_back(*random_tensor(type, random));
      }
    }
    bool skipped = false;
    EXPECT_EQ(batched_difference(**backend, *graph, *wide, frames, skipped), "");
  }
}

/// Wherever the cuts are, the tensors between stages hold the frames along their first dimension.
TEST(BatchedNetworks, MayBeCutAnywhere) {
  const auto backends = backend::Registry::load();
  const TemporaryFolder folder;
  for (const auto& file : networks()) {
    if (name_of(file) == kRefused) continue;
    const auto graph = import_network(file, backends);
    ASSERT_TRUE(graph) << graph.error().message();
    Sweep sweep(4, "/" + name_of(file));
    for (const auto number : sweep.numbers(1, 5)) {
      SCOPED_TRACE(concat(name_of(file), " cut ", number));
      const auto last = graph->nodes.size() - 2;
      partition::SplitOptions options;
      options.by = partition::Cuts{{concat(last * number / 12), concat(last * (number + 6) / 12)}};
      options.batches[""] = {.frames = 3};
      const auto plan = split_model(*graph, options, {}, folder.path() / "p", backends);
      ASSERT_TRUE(plan) << plan.error().message();
      EXPECT_EQ(plan->stages.size(), 3);
      for (const auto& stage : plan->stages) EXPECT_EQ(stage.partitions[0].batched.size(), 2);
    }
  }
}

}  // namespace
}  // namespace penstock
