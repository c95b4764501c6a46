// Takes each value from a text, a .npy file or a tensor and turns its input into a constant.
#include "penstock/graph/bind.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "penstock/base/option_name.h"
#include "penstock/graph/containers.h"
#include "penstock/graph/inference.h"
#include "penstock/tensor/literal.h"
#include "penstock/tensor/npy.h"
#include "penstock/tensor/reshaping.h"

namespace penstock::graph {
namespace {

Result<Tensor> tensor_of_text(const std::string& text, const Type& type) {
  if (text.ends_with(".npz") && type.dtype != DType::kString) {
    return invalid_argument("expected a value or a .npy file, found '", text,
                            "', an archive of several: write the array alone (numpy.save)");
  }
  if (!text.ends_with(".npy")) return parse_literal(text, type);
  const bool told = type.kind == Type::Kind::kTensor;
  return read_npy(text, told ? std::optional(type.dtype) : std::nullopt);
}

Result<Tensor> value_for(const Type& type, const InputValue& given) {
  if (type.kind == Type::Kind::kOther) {
    return invalid_argument("expected an input that is a tensor, found ", type_text(type),
                            ": leave it out here, and give its value with each frame (",
                            OptionName::kFrames, ")");
  }
  const auto* text = std::get_if<std::string>(&given);
  PENSTOCK_TRY(Tensor tensor,
               text == nullptr ? std::get<Tensor>(given) : tensor_of_text(*text, type));
  if (tensor.kind() != Tensor::Kind::kDense && tensor.kind() != Tensor::Kind::kStrings) {
    return invalid_argument("expected a tensor, found a sequence or nothing");
  }
  if (type.kind != Type::Kind::kTensor) return tensor;
  auto fits = check_matches(type, tensor);
  if (fits) return tensor;
  const auto conversion = converting(type.dtype);
  if (type.dtype == tensor.dtype() || conversion.empty()) return std::move(fits).error();
  return std::move(fits).error().adding("; " + conversion);
}

/// An input, or a constant that the file lists as one: its value is only the default.
std::optional<ValueId> find_bindable(const Draft& draft, const std::string& name) {
  const auto& graph = draft.graph;
  for (const auto id : graph.inputs) {
    if (graph.value(id).name == name) return id;
  }
  return draft.defaults.contains(name) ? graph.find_value(name) : std::nullopt;
}

/// The longest name of an input with which "NAME=VALUE" begins, and the value; where there is none,
/// they are as they were parted at the first '='.
std::pair<std::string, InputValue> parted(const Draft& draft, const std::string& name,
                                          const InputValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr) return {name, value};
  const auto whole = name + "=" + *text;
  for (auto end = whole.rfind('=', whole.size() - 2); end != std::string::npos && end > name.size();
       end = whole.rfind('=', end - 1)) {
    if (find_bindable(draft, whole.substr(0, end))) {
      return {whole.substr(0, end), whole.substr(end + 1)};
    }
  }
  return {name, value};
}

Error no_bindable(const Graph& graph, const std::string& name) {
  const auto id = graph.find_value(name);
  if (!id || !graph.value(*id).constant) {
    return not_found("the model has no input '", name, "'; its inputs are ",
                     names_of_inputs(graph));
  }
  return not_found("'", name,
                   "' has its value in the file already, as an initializer: leave it out here and "
                   "change the file, or keep it replaceable (",
                   OptionName::kParameters, ", in an application 'parameters')");
}

}  // namespace

Status bind_inputs(Draft& draft, const std::map<std::string, InputValue>& constants) {
  auto& graph = draft.graph;
  std::map<std::string, std::vector<Dim>> shapes;
  std::vector<ValueId> bound;
  for (const auto& [begin, rest] : constants) {
    const auto [name, given] = parted(draft, begin, rest);
    const auto id = find_bindable(draft, name);
    if (!id) return no_bindable(graph, name).within(std::string(name_of(OptionName::kConstants)));
    if (std::ranges::find(bound, *id) != bound.end()) {
      return Error(invalid_argument("input '", name, "' is given twice"))
          .within(std::string(name_of(OptionName::kConstants)));
    }
    bound.push_back(*id);
    auto& input = graph.values[index(*id)];
    auto value = value_for(input.type, given);
    if (!value) {
      return std::move(value)
          .error()
          .within({Where::kInput, name})
          .within(std::string(name_of(OptionName::kConstants)));
    }
    const bool has_shape = input.type.kind == Type::Kind::kTensor && !draft.defaults.contains(name);
    if (has_shape) shapes[name] = value->type().dims;
    input.constant = *std::move(value);
  }
  if (auto status = bind_shapes(graph, shapes); !status) {
    return std::move(status).error().within(std::string(name_of(OptionName::kConstants)));
  }
  // In the model's order, those with a default behind the others.
  std::ranges::stable_sort(bound, {},
                           [&](ValueId id) { return std::ranges::find(graph.inputs, id); });
  for (const auto id : bound) {
    const auto position = std::ranges::find(graph.inputs, id) - graph.inputs.begin();
    auto& input = graph.values[index(id)];
    input.type = input.constant->type();
    input.is_input = false;
    graph.bound_inputs.push_back({input.name, *input.constant, static_cast<std::size_t>(position)});
    draft.remove(input.name, "an input that is bound to a value");
  }
  std::erase_if(graph.inputs, [&](ValueId id) { return !graph.value(id).is_input; });
  return {};
}

}  // namespace penstock::graph
