#include "penstock/cli/plain_model.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace penstock::cli {
namespace {

/// Whether every open dimension carries the name of one of the inputs'.
bool follows(const Type& type, const std::set<std::string>& symbols) {
  return type.ranked && std::ranges::all_of(type.dims, [&](const Dim& dim) {
           return dim.fixed() || (!dim.symbol.empty() && symbols.contains(dim.symbol));
         });
}

}  // namespace

Result<PlainModel> PlainModel::create(backend::Backend& backend,
                                      const backend::CompileRequest& request) {
  PlainModel model;
  PENSTOCK_TRY(model.executable_, backend.compile(request));
  PENSTOCK_TRY(model.context_, model.executable_->create_context());
  model.values_ = std::make_unique<std::vector<Tensor>>(model.executable_->outputs().size());
  for (auto& value : *model.values_) model.pointers_.push_back(&value);
  return model;
}

Status PlainModel::bind_outputs(std::span<const Tensor* const> inputs) {
  PENSTOCK_CHECK_OK(run(inputs));
  std::set<std::string> symbols;
  for (const auto& port : this->inputs()) {
    for (const auto& dim : port.type.dims) symbols.insert(dim.symbol);
  }
  for (std::size_t i = 0; i < values_->size(); ++i) {
    Tensor& value = (*values_)[i];
    if (value.kind() == Tensor::Kind::kDense && follows(outputs()[i].type, symbols)) {
      value = Tensor::allocate(value.dtype(), value.dims());
    } else {
      unbound_.push_back(i);
    }
  }
  return {};
}

Status PlainModel::run(std::span<const Tensor* const> inputs) {
  for (const auto i : unbound_) (*values_)[i] = Tensor();
  PENSTOCK_CHECK_OK(context_->run(inputs, pointers_));
  return context_->wait();
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
