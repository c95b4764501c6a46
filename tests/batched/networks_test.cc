// Whole networks: several frames in one call give what so many calls give, or a sentence names the
// node that stops it.
//
// PENSTOCK_TEST_MODELS: a folder of networks, NAME/model.onnx; those tests are skipped without it.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/backend/registry.h"
#include "penstock/session/session.h"
#include "penstock/tensor/random.h"
#include "tests/support/batched_calls.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// What must be known of inputs with open dimensions.
const std::map<std::string, std::vector<std::string>> kShapes = {
    {"basic_pitch", {"serving_default_input_2:0=1x43844x1"}},
    {"silero_vad_16k_op15", {"input=1x576", "state=2x1x128"}},
    {"super_resolution_10", {"input=1x1x224x224"}},
};

/// Networks that cannot, each by what it is itself: an input of one number.
const std::set<std::string> kRefused = {"silero_vad_16k_op15"};

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

/// What refuses the network; empty if it takes several frames, and computes the same.
std::string refusal_of(const fs::path& file, const backend::Registry& backends,
                       backend::Backend& backend) {
  graph::ImportOptions options;
  if (const auto shapes = kShapes.find(name_of(file)); shapes != kShapes.end()) {
    for (const auto& text : shapes->second) options.shapes.insert(*graph::parse_shape(text));
  }
  const auto graph = import_model(file, options, backends);
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
    EXPECT_EQ(!refusal.empty(), kRefused.contains(name_of(file)));
    if (!refusal.empty()) EXPECT_THAT(refusal, HasSubstr("node '"));
  }
}

}  // namespace
}  // namespace penstock
