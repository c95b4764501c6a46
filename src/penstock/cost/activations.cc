// Runs the network with every tensor as an output, and writes each value to a .npy file.
#include "penstock/cost/activations.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "penstock/backend/plain_model.h"
#include "penstock/base/files.h"
#include "penstock/device/device.h"
#include "penstock/graph/subgraph.h"
#include "penstock/graph/writer.h"
#include "penstock/tensor/npy.h"
#include "penstock/tensor/number.h"

namespace penstock::cost {
namespace {

namespace fs = std::filesystem;

using Symbols = std::set<std::string>;

/// Names of the inputs' open dimensions.
Symbols symbols_of(const graph::Graph& graph) {
  Symbols symbols;
  for (const auto id : graph.inputs) {
    for (const auto& dim : graph.value(id).type.dims) symbols.insert(dim.symbol);
  }
  symbols.erase("");
  return symbols;
}

/// Whether a run binds the type as the whole network's frames do.
bool tells_shape(const Type& type, const Symbols& symbols) {
  return type.ranked && std::ranges::all_of(type.dims, [&](const Dim& dim) {
           return dim.fixed() || symbols.contains(dim.symbol);
         });
}

/// What the dimensions of the frame call their sizes.
std::map<std::string, std::int64_t> sizes_in(const graph::Graph& graph,
                                             const std::vector<Tensor>& frame) {
  std::map<std::string, std::int64_t> sizes;
  for (std::size_t i = 0; i < std::min(graph.inputs.size(), frame.size()); ++i) {
    const auto& type = graph.value(graph.inputs[i]).type;
    for (std::size_t d = 0; d < std::min(type.dims.size(), frame[i].dims().size()); ++d) {
      if (!type.dims[d].symbol.empty()) sizes.emplace(type.dims[d].symbol, frame[i].dims()[d]);
    }
  }
  return sizes;
}

/// The graph with the tensors that nodes make as outputs: all, or what kSizes wants.
graph::Graph shown(graph::Graph graph, Activations::Kept kept) {
  const auto symbols = symbols_of(graph);
  graph.outputs.clear();
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    auto& value = graph.values[i];
    const bool wanted = kept == Activations::Kept::kAll || is_wide_integer(value.type.dtype) ||
                        !tells_shape(value.type, symbols);
    value.is_output = value.producer && value.type.kind == Type::Kind::kTensor && wanted;
    if (value.is_output) graph.outputs.push_back(static_cast<graph::ValueId>(i));
  }
  return graph;
}

Result<backend::PlainModel> compile(const graph::Graph& shown, backend::Backend& backend,
                                    const std::vector<fs::path>& custom_ops, const fs::path& file,
                                    const graph::WeightStore* weights) {
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
                                           std::string digest, Kept kept) {
  Activations made;
  made.kept_ = kept == Kept::kInputs ? Kept::kAll : kept;
  PENSTOCK_TRY(made.folder_, make_temporary_folder());
  made.digest_ = std::move(digest);
  made.frames_.assign(frames.begin(), frames.end());
  for (std::size_t frame = 0; frame < frames.size(); ++frame) {
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
      PENSTOCK_CHECK_OK(made.keep(frame, graph.value(graph.inputs[i]).name, frames[frame][i]));
    }
  }
  if (kept == Kept::kInputs) made.kept_ = Kept::kSizes;
  return made;
}

double Activations::bytes_of_all(const graph::Graph& graph, const std::vector<Tensor>& frame) {
  const auto sizes = sizes_in(graph, frame);
  double bytes = 0;
  for (const auto& value : graph.values) {
    if (!value.producer || value.type.kind != Type::Kind::kTensor) continue;
    auto count = static_cast<double>(bytes_of(value.type.dtype, 1));
    for (const auto& dim : value.type.dims) {
      const auto known = sizes.find(dim.symbol);
      const bool open = !dim.fixed() && known != sizes.end();
      count *= static_cast<double>(open ? known->second : dim.likely());
    }
    bytes += count;
  }
  return bytes;
}

Status Activations::record(const graph::Graph& graph, backend::Backend& backend,
                           const std::vector<fs::path>& custom_ops,
                           const graph::WeightStore* weights,
                           std::optional<std::chrono::nanoseconds> longest_run) {
  const auto shown_graph = shown(graph, kept_);
  if (shown_graph.outputs.empty()) return {};
  PENSTOCK_TRY(const auto folder, make_temporary_folder());
  PENSTOCK_TRY(auto model,
               compile(shown_graph, backend, custom_ops, *folder / "model.onnx", weights));
  for (std::size_t frame = 0; frame < frames_.size(); ++frame) {
    std::vector<const Tensor*> inputs;
    for (const auto& port : model.inputs()) {
      const auto at = std::ranges::find(graph.inputs, port.name,
                                        [&](graph::ValueId id) { return graph.value(id).name; });
      if (at == graph.inputs.end())
        return not_found("no values").within({Where::kInput, port.name});
      inputs.push_back(&frames_[frame][static_cast<std::size_t>(at - graph.inputs.begin())]);
    }
    PENSTOCK_CHECK_OK(longest_run ? model.run(inputs, *longest_run) : model.run(inputs));
    const auto values = model.take_values();
    for (std::size_t i = 0; i < values.size(); ++i) {
      PENSTOCK_CHECK_OK(keep(frame, model.outputs()[i].name, values[i]));
    }
  }
  return {};
}

graph::Graph Activations::sized(graph::Graph graph) const {
  const auto sizes =
      frames_.empty() ? std::map<std::string, std::int64_t>() : sizes_in(graph, frames_.front());
  for (auto& value : graph.values) {
    if (value.type.kind != Type::Kind::kTensor) continue;
    if (const auto* dims = dims_of(value.name)) {
      value.type = Type::tensor(value.type.dtype, *dims);
      continue;
    }
    for (auto& dim : value.type.dims) {
      const auto known = sizes.find(dim.symbol);
      if (!dim.fixed() && known != sizes.end()) dim = Dim{.size = known->second};
    }
  }
  return graph;
}

std::vector<fs::path> Activations::files_of(const std::string& tensor) const {
  const auto found = files_.find(tensor);
  // Of some frames only: the tensor is not of one kind.
  if (found == files_.end() || found->second.size() != frames_.size()) return {};
  return found->second;
}

const std::vector<std::int64_t>* Activations::dims_of(const std::string& tensor) const {
  const auto found = dims_.find(tensor);
  return found == dims_.end() ? nullptr : &found->second;
}

Status Activations::keep(std::size_t frame, const std::string& tensor, const Tensor& value) {
  const bool is_tensor =
      value.kind() == Tensor::Kind::kDense || value.kind() == Tensor::Kind::kStrings;
  if (!is_tensor) return {};
  if (frame == 0) dims_[tensor].assign(value.dims().begin(), value.dims().end());
  if (kept_ == Kept::kSizes && !is_wide_integer(value.dtype())) return {};
  if (!has_npy_form(value)) return {};  // Of 4 bits: parts that read it are timed on random ones.
  auto& files = files_[tensor];
  const fs::path file = *folder_ / concat(files_.size(), "-", frame, ".npy");
  const Status written = write_npy(value, file);
  // Texts that are bytes: parts that read them are timed on random ones, too.
  if (!written && written.error().code == Code::kInvalidArgument) return {};
  PENSTOCK_CHECK_OK(written);
  files.push_back(file);
  return {};
}

}  // namespace penstock::cost
