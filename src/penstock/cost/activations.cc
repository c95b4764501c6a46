// Runs the network with every tensor as an output, and writes each value to a .npy file.
#include "penstock/cost/activations.h"

#include <algorithm>
#include <utility>

#include "penstock/backend/plain_model.h"
#include "penstock/base/files.h"
#include "penstock/device/device.h"
#include "penstock/graph/subgraph.h"
#include "penstock/graph/writer.h"
#include "penstock/tensor/npy.h"

namespace penstock::cost {
namespace {

namespace fs = std::filesystem;

/// The graph with every tensor that a node makes as an output.
graph::Graph all_shown(graph::Graph graph) {
  graph.outputs.clear();
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    auto& value = graph.values[i];
    value.is_output = value.producer && value.type.kind == Type::Kind::kTensor;
    if (value.is_output) graph.outputs.push_back(static_cast<graph::ValueId>(i));
  }
  return graph;
}

Result<backend::PlainModel> compile(const graph::Graph& graph, backend::Backend& backend,
                                    const std::vector<fs::path>& custom_ops, const fs::path& file,
                                    const graph::WeightStore* weights) {
  const auto shown = all_shown(graph);
  PENSTOCK_TRY([[maybe_unused]] const auto written,
               graph::write_onnx(graph::Subgraph::whole(shown), file, {.weights = weights}));
  backend::CompileRequest request;
  request.name = "activations";
  request.file = file;
  request.device.cpus = device::inherited_cpus();
  request.threads = static_cast<int>(std::max<std::size_t>(request.device.cpus.size(), 1));
  request.optimize = false;
  request.custom_ops = custom_ops;
  return backend::PlainModel::create(backend, request);
}

}  // namespace

Result<Activations> Activations::of_inputs(const graph::Graph& graph,
                                           std::span<const std::vector<Tensor>> frames,
                                           std::string digest) {
  Activations made;
  PENSTOCK_TRY(made.folder_, make_temporary_folder());
  made.digest_ = std::move(digest);
  made.frames_.assign(frames.begin(), frames.end());
  for (std::size_t frame = 0; frame < frames.size(); ++frame) {
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
      PENSTOCK_CHECK_OK(made.keep(frame, graph.value(graph.inputs[i]).name, frames[frame][i]));
    }
  }
  return made;
}

Status Activations::record(const graph::Graph& graph, backend::Backend& backend,
                           const std::vector<fs::path>& custom_ops,
                           const graph::WeightStore* weights) {
  PENSTOCK_TRY(const auto folder, make_temporary_folder());
  PENSTOCK_TRY(auto model, compile(graph, backend, custom_ops, *folder / "model.onnx", weights));
  for (std::size_t frame = 0; frame < frames_.size(); ++frame) {
    std::vector<const Tensor*> inputs;
    for (const auto& port : model.inputs()) {
      const auto at = std::ranges::find(graph.inputs, port.name,
                                        [&](graph::ValueId id) { return graph.value(id).name; });
      if (at == graph.inputs.end())
        return not_found("no values").within({Where::kInput, port.name});
      inputs.push_back(&frames_[frame][static_cast<std::size_t>(at - graph.inputs.begin())]);
    }
    PENSTOCK_CHECK_OK(model.run(inputs));
    const auto values = model.take_values();
    for (std::size_t i = 0; i < values.size(); ++i) {
      PENSTOCK_CHECK_OK(keep(frame, model.outputs()[i].name, values[i]));
    }
  }
  return {};
}

std::vector<fs::path> Activations::files_of(const std::string& tensor) const {
  const auto found = files_.find(tensor);
  // Of some frames only: the tensor is not of one kind.
  if (found == files_.end() || found->second.size() != frames_.size()) return {};
  return found->second;
}

Status Activations::keep(std::size_t frame, const std::string& tensor, const Tensor& value) {
  if (value.kind() != Tensor::Kind::kDense) return {};
  auto& files = files_[tensor];
  const fs::path file = *folder_ / concat(files_.size(), "-", frame, ".npy");
  PENSTOCK_CHECK_OK(write_npy(value, file));
  files.push_back(file);
  return {};
}

}  // namespace penstock::cost
