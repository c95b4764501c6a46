#include "penstock/cli/plain_model.h"

#include <algorithm>
#include <utility>

namespace penstock::cli {

Result<PlainModel> PlainModel::create(backend::Backend& backend,
                                      const backend::CompileRequest& request) {
  PlainModel model;
  PENSTOCK_TRY(model.executable_, backend.compile(request));
  PENSTOCK_TRY(model.context_, model.executable_->create_context());
  model.values_ = std::make_unique<std::vector<Tensor>>(model.executable_->outputs().size());
  for (auto& value : *model.values_) model.pointers_.push_back(&value);
  return model;
}

void PlainModel::bind_outputs() {
  for (std::size_t i = 0; i < values_->size(); ++i) {
    const Type& type = outputs()[i].type;
    if (!type.fixed() || bits_of(type.dtype) == 0) continue;
    std::vector<std::int64_t> dims;
    for (const auto& dim : type.dims) dims.push_back(dim.size);
    (*values_)[i] = Tensor::allocate(type.dtype, std::move(dims));
  }
}

std::vector<Tensor> PlainModel::take_values() {
  std::vector<Tensor> taken(values_->size());
  std::swap(taken, *values_);
  for (std::size_t i = 0; i < pointers_.size(); ++i) pointers_[i] = &(*values_)[i];
  return taken;
}

Result<std::vector<std::size_t>> match_inputs(const PlainModel& model,
                                              const std::vector<plan::TensorInfo>& inputs) {
  std::vector<std::size_t> positions;
  for (const auto& port : model.inputs()) {
    const auto found = std::ranges::find(inputs, port.name, &plan::TensorInfo::name);
    if (found == inputs.end()) {
      return invalid_argument("--model: its input '", port.name,
                              "' is none of the package's; expected the model that the package was "
                              "made from");
    }
    positions.push_back(static_cast<std::size_t>(found - inputs.begin()));
  }
  return positions;
}

}  // namespace penstock::cli
