#include "empty.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <string_view>
#include <utility>

#include "penstock/graph/outline.h"
#include "penstock/graph/reshape_before.h"

namespace penstock::ort {
namespace {

constexpr std::array<std::string_view, 3> kEmptyEnds = {"DynamicQuantizeLSTM", "GRU", "LSTM"};

constexpr const char* kWhy =
    "ONNX Runtime ends the process on a batch without sequences or steps, found ";

/// The first of [steps, sequences, features] that must not be 0; the last is the sequences.
std::size_t first_axis(std::string_view op) {
  return op == "GRU" ? 0 : 1;
}

std::vector<graph::ReshapeRule> reshape_rules() {
  std::vector<graph::ReshapeRule> rules;
  for (const auto op : kEmptyEnds) {
    const bool keeps_steps = first_axis(op) == 0;
    rules.push_back({op, keeps_steps ? std::vector<std::int64_t>{0, 0, -1}
                                     : std::vector<std::int64_t>{-1, 0, 0}});
  }
  return rules;
}

/// Adds each input's dimension that has the symbol. \returns whether there is one.
bool add_axes(const graph::Outline& outline, const std::string& symbol,
              const std::vector<Where>& node, std::vector<FilledAxis>& axes) {
  const auto before = axes.size();
  for (const auto& [name, type] : outline.inputs) {
    for (std::size_t axis = 0; axis < type.dims.size(); ++axis) {
      if (!symbol.empty() && type.dims[axis].symbol == symbol) axes.push_back({name, axis, node});
    }
  }
  return axes.size() > before;
}

/// Whether shapes tell all of the node. A branch or a loop may be there to keep the frames off that
/// its inputs tell of.
Result<bool> is_told(const graph::Outline& outline, const graph::OutlinedNode& node,
                     std::vector<FilledAxis>& axes) {
  constexpr std::size_t kRank = 3;
  const auto& [name, type] = node.inputs.front();
  if (type.dims.size() != kRank) return false;
  bool told = true;
  for (std::size_t axis = first_axis(node.op); axis < 2; ++axis) {
    const auto& dim = type.dims[axis];
    if (dim.fixed() && dim.size == 0) {
      return make_error(Code::kUnimplemented, kWhy, "'", name, "' ", type).within(node.place);
    }
    if (dim.fixed()) continue;
    told = !node.nested && add_axes(outline, dim.symbol, node.place, axes) && told;
  }
  return told;
}

/// Where a place is a Reshape's: its number.
const std::vector<Where>* node_behind(const Filled& filled, const Where& place) {
  const std::string_view name = place.name;
  const auto at = name.find(graph::kReshapeName);  // Inlined functions have names of their own.
  if (place.kind != Where::kNode || at == name.npos) return nullptr;
  std::size_t number = filled.nodes.size();
  std::from_chars(name.data() + at + graph::kReshapeName.size(), name.data() + name.size(), number);
  return number < filled.nodes.size() ? &filled.nodes[number] : nullptr;
}

}  // namespace

Result<Filled> filled_of(const backend::CompileRequest& request) {
  Filled filled;
  const auto outline = graph::outline(request.file, request.bytes, kEmptyEnds);
  if (!outline) return filled;
  bool all_told = true;
  for (const auto& node : outline->nodes) {
    if (node.inputs.empty()) continue;
    PENSTOCK_TRY(const bool told, is_told(*outline, node, filled.axes));
    all_told = all_told && told;
  }
  if (all_told) return filled;
  PENSTOCK_TRY(auto reshaped, graph::with_reshapes(request.file, request.bytes, reshape_rules()));
  filled.model = std::move(reshaped.bytes);
  filled.nodes = std::move(reshaped.places);
  return filled;
}

Status refuse_empty(const Filled& filled, const std::string& input, const Tensor& tensor) {
  if (tensor.kind() != Tensor::Kind::kDense) return {};
  for (const auto& [name, axis, node] : filled.axes) {
    const bool is_empty = name == input && axis < tensor.dims().size() && tensor.dims()[axis] == 0;
    if (is_empty) {
      return invalid_argument(kWhy, tensor.type(), "; leave such frames out").within(node);
    }
  }
  return {};
}

bool names_reshape(const Filled& filled, std::string_view text) {
  return !filled.nodes.empty() && text.find(graph::kReshapeName) != text.npos;
}

Error behind_reshape(const Filled& filled, Error error) {
  constexpr std::string_view kShape = "nput shape:{";
  for (auto place = error.places.begin(); place != error.places.end(); ++place) {
    const auto* node = node_behind(filled, *place);
    if (node == nullptr) continue;
    error.places.erase(place, error.places.end());
    std::ranges::copy(*node, std::back_inserter(error.places));
    std::string_view shape = error.reason;
    const auto at = shape.find(kShape);
    shape = at == shape.npos ? "" : shape.substr(at + kShape.size());
    error.code = Code::kInvalidArgument;
    error.reason = concat(kWhy, "[", shape.substr(0, shape.find('}')), "]; leave such frames out");
    return error;
  }
  return error;
}

}  // namespace penstock::ort
