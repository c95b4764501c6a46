// Every operator case of ONNX's Python package as a model of several frames: what graph::batched()
// takes must compute what so many calls compute. Of each case the first input holds the frames, or
// the second, or all of them; the others are constants, as weights are in a network.
//
// PENSTOCK_OPERATOR_CASES, PENSTOCK_OPERATOR_CASE, PENSTOCK_SAMPLE: as in operator_cases_test.cc.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>

#include <gtest/gtest.h>

#include "penstock/backend/registry.h"
#include "penstock/graph/batched.h"
#include "penstock/graph/import.h"
#include "penstock/session/session.h"
#include "tests/operator_cases/cases.h"
#include "tests/support/batched_calls.h"
#include "tests/support/sample.h"

namespace penstock::operator_cases {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFrames = 3;

/// Other numbers of the same kind: legal where the places of numbers do not matter.
Tensor turned(const Tensor& tensor, std::size_t by) {
  Tensor copy = tensor.clone();
  const auto count = tensor.count();
  if (tensor.kind() != Tensor::Kind::kDense || count < 2) return copy;
  const std::size_t each = tensor.bytes() / count, shift = by % count * each;
  auto* to = static_cast<std::byte*>(copy.data());
  const auto* from = static_cast<const std::byte*>(tensor.data());
  std::memcpy(to, from + shift, tensor.bytes() - shift);
  std::memcpy(to + tensor.bytes() - shift, from, shift);
  return copy;
}

/// A case with its frames in some of its inputs.
struct Variant {
  graph::Graph graph;
  std::vector<std::vector<Tensor>> frames;
};

std::optional<Variant> variant_of(const graph::Graph& imported, const Values& inputs,
                                  std::size_t which, bool all) {
  Variant variant{imported, std::vector<std::vector<Tensor>>(kFrames)};
  auto& graph = variant.graph;
  graph.inputs.clear();
  for (std::size_t i = 0; i < imported.inputs.size(); ++i) {
    auto& value = graph.values[index(imported.inputs[i])];
    const auto found = inputs.find(value.name);
    if (found == inputs.end() || found->second.kind() != Tensor::Kind::kDense) return std::nullopt;
    value.type = found->second.type();
    if (!all && i != which) {
      value.constant = found->second;
      value.is_input = false;
      continue;
    }
    graph.inputs.push_back(imported.inputs[i]);
    for (std::size_t k = 0; k < kFrames; ++k) {
      variant.frames[k].push_back(turned(found->second, k));
    }
  }
  if (graph.inputs.empty()) return std::nullopt;
  return variant;
}

/// The same with all sizes of its inputs, and so of its outputs, open.
graph::Graph opened(graph::Graph graph) {
  for (const auto* list : {&graph.inputs, &graph.outputs}) {
    for (const auto id : *list) {
      auto& dims = graph.values[index(id)].type.dims;
      for (std::size_t k = 0; k < dims.size(); ++k) {
        dims[k] = {Dim::kOpen, concat("d", index(id), "_", k), Dim::kOpen};
      }
    }
  }
  return graph;
}

class BatchedCases : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const char* root = std::getenv("PENSTOCK_OPERATOR_CASES");
    if (root == nullptr || !fs::is_directory(fs::path(root) / "node")) {
      GTEST_SKIP() << "needs PENSTOCK_OPERATOR_CASES, the folder onnx/backend/test/data of a "
                      "Python environment with onnx 1.22 (script/setup makes one)";
    }
    root_ = root;
    backends_ = std::make_unique<backend::Registry>(backend::Registry::load());
    const auto found = backends_->find("onnxruntime");
    ASSERT_TRUE(found) << found.error().message();
    backend_ = *found;
  }

  /// `of_file`: the variant's graph, or the same with open sizes.
  void check(const Case& test, const std::string& which, const Variant& variant,
             const graph::Graph& of_file) {
    // Once more through the import: shapes that have become constants are folded.
    const auto bytes = graph::to_onnx_bytes(graph::Subgraph::whole(of_file));
    if (!bytes) return;
    graph::ImportOptions options;
    const auto engine = make_engine(*backends_);
    if (engine) options.engine = *engine;
    const auto graph = graph::import_onnx_bytes(*bytes, {}, options);
    if (!graph || graph->inputs.size() != variant.frames.front().size()) return;
    const auto wide = graph::batched(graph::Subgraph::whole(*graph), kFrames);
    const auto& nodes = graph->nodes;
    const auto op = nodes.empty() ? "none" : nodes.front().op;
    if (!wide) {
      ++refused_;
      if (only_ != nullptr) std::cout << test.name << ": " << wide.error().message() << "\n";
      return;
    }
    bool skipped = false;
    const auto problem = batched_difference(*backend_, *graph, *wide, variant.frames, skipped);
    EXPECT_EQ(problem, "") << test.name << ", frames in " << which;
    if (!skipped) ++batched_[op];
  }

  fs::path root_;
  std::unique_ptr<backend::Registry> backends_;
  std::shared_ptr<backend::Backend> backend_;
  const char* only_ = std::getenv("PENSTOCK_OPERATOR_CASE");
  std::size_t refused_ = 0;
  std::map<std::string, std::size_t> batched_;
};

TEST_P(BatchedCases, ComputeWhatSoManyCallsDo) {
  const auto cases = find_cases(root_, GetParam());
  for (const auto i : Sweep(5).places(cases)) {
    const auto& test = cases[i];
    if (only_ != nullptr && test.name.find(only_) == std::string::npos) continue;
    const auto samples = run_file(*backend_, test);
    if (!samples || samples->empty()) continue;
    graph::ImportOptions as_is;
    as_is.as_is = true;
    const auto graph = graph::import_onnx(test.model, as_is);
    if (!graph) continue;
    for (std::size_t which = 0; which < std::min<std::size_t>(graph->inputs.size(), 3); ++which) {
      const bool all = which == 2;
      const auto variant = variant_of(*graph, samples->front().inputs, which, all);
      if (!variant) continue;
      const auto where = all ? "all inputs" : concat("input ", which);
      check(test, where, *variant, variant->graph);
      check(test, where + ", sizes open", *variant, opened(variant->graph));
    }
  }
  std::cout << GetParam() << ": " << refused_ << " refused; taken, by the first operator:";
  for (const auto& [op, count] : batched_) std::cout << " " << op << " " << count;
  std::cout << "\n";
  const bool whole = only_ == nullptr && one_of(5) == 1;  // A sample may hold none that is taken.
  if (whole) {
    EXPECT_FALSE(batched_.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(All, BatchedCases,
                         testing::Values("node", "simple", "pytorch-operator", "pytorch-converted"),
                         [](const auto& given) {
                           auto name = given.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace penstock::operator_cases
