#include "penstock/graph/bind.h"

#include <algorithm>

#include "penstock/graph/inference.h"
#include "penstock/tensor/literal.h"
#include "penstock/tensor/npy.h"

namespace penstock::graph {
namespace {

Result<Tensor> tensor_of_text(const std::string& text, const Type& type) {
  if (!text.ends_with(".npy")) return parse_literal(text, type);
  const bool told = type.kind == Type::Kind::kTensor;
  auto tensor = read_npy(text, told ? std::optional(type.dtype) : std::nullopt);
  if (!tensor) return std::move(tensor).error().within({Where::kFile, text});
  return tensor;
}

Result<Tensor> value_for(const Type& type, const InputValue& given) {
  if (type.kind == Type::Kind::kOther) {
    return invalid_argument("expected an input that is a tensor, found ", type);
  }
  const auto* text = std::get_if<std::string>(&given);
  PENSTOCK_TRY(Tensor tensor,
               text == nullptr ? std::get<Tensor>(given) : tensor_of_text(*text, type));
  if (tensor.kind() != Tensor::Kind::kDense && tensor.kind() != Tensor::Kind::kStrings) {
    return invalid_argument("expected a tensor, found a sequence or nothing");
  }
  if (type.kind == Type::Kind::kTensor) PENSTOCK_CHECK_OK(check_matches(type, tensor));
  return tensor;
}

}  // namespace

Status bind_inputs(Draft& draft, const std::map<std::string, InputValue>& constants) {
  auto& graph = draft.graph;
  std::map<std::string, std::vector<Dim>> shapes;
  for (const auto& [name, given] : constants) {
    const auto id = std::ranges::find(graph.inputs, name,
                                      [&](ValueId input) { return graph.value(input).name; });
    if (id == graph.inputs.end()) {
      return not_found("--constant: the model has no input '", name, "'; its inputs are ",
                       names_of_inputs(graph));
    }
    auto& input = graph.values[index(*id)];
    auto value = value_for(input.type, given);
    if (!value) {
      return std::move(value).error().within({Where::kInput, name}).within("--constant");
    }
    if (input.type.kind == Type::Kind::kTensor) shapes[name] = value->type().dims;
    input.constant = *std::move(value);
  }
  PENSTOCK_CHECK_OK(bind_shapes(graph, shapes));
  for (const auto id : graph.inputs) {
    auto& input = graph.values[index(id)];
    if (!input.constant) continue;
    input.type = input.constant->type();
    input.is_input = false;
    graph.bound_inputs.push_back({input.name, *input.constant});
    draft.remove(input.name, "an input that is bound to a value");
  }
  std::erase_if(graph.inputs, [&](ValueId id) { return !graph.value(id).is_input; });
  return {};
}

}  // namespace penstock::graph
