// Reuses an output's buffer in each run if the inputs' shapes, which stay, determine its shape.
#include "penstock/backend/plain_model.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "penstock/base/thread.h"

namespace penstock::backend {
namespace {

/// Whether every open dimension carries the name of one of the inputs'.
bool follows(const Type& type, const std::set<std::string>& symbols) {
  return type.ranked && std::ranges::all_of(type.dims, [&](const Dim& dim) {
           return dim.fixed() || (!dim.symbol.empty() && symbols.contains(dim.symbol));
         });
}

bool have_one_shape(std::span<const std::vector<const Tensor*>> frames) {
  return std::ranges::all_of(frames, [&](const auto& frame) {
    return std::ranges::equal(frame, frames.front(), [](const Tensor* a, const Tensor* b) {
      return std::ranges::equal(a->dims(), b->dims());
    });
  });
}

}  // namespace

Result<PlainModel> PlainModel::create(Backend& backend, const CompileRequest& request) {
  PENSTOCK_TRY(auto executable, backend.compile(request));
  return create(std::shared_ptr<Executable>(std::move(executable)));
}

Result<PlainModel> PlainModel::create(std::shared_ptr<Executable> executable) {
  PlainModel model;
  model.executable_ = std::move(executable);
  PENSTOCK_TRY(model.context_, model.executable_->create_context());
  model.values_ = std::make_unique<std::vector<Tensor>>(model.executable_->outputs().size());
  for (auto& value : *model.values_) model.pointers_.push_back(&value);
  return model;
}

Status PlainModel::bind_outputs(std::span<const std::vector<const Tensor*>> frames) {
  PENSTOCK_CHECK_OK(run(frames.front()));
  const bool one_shape = have_one_shape(frames);
  std::set<std::string> symbols;
  for (const auto& port : this->inputs()) {
    for (const auto& dim : port.type.dims) symbols.insert(dim.symbol);
  }
  for (std::size_t i = 0; i < values_->size(); ++i) {
    Tensor& value = (*values_)[i];
    if (one_shape && value.kind() == Tensor::Kind::kDense && follows(outputs()[i].type, symbols)) {
      value = Tensor::allocate(value.dtype(), value.dims());
    } else {
      unbound_.push_back(i);
    }
  }
  return {};
}

Status PlainModel::start(std::span<const Tensor* const> inputs) {
  for (const auto i : unbound_) (*values_)[i] = Tensor();
  return context_->run({}, inputs, pointers_);
}

Status PlainModel::run(std::span<const Tensor* const> inputs) {
  PENSTOCK_CHECK_OK(start(inputs));
  return wait();
}

Status PlainModel::run(std::span<const Tensor* const> inputs, std::chrono::nanoseconds limit) {
  return run_within(limit, [this] { context_->cancel(); }, [&] { return run(inputs); });
}

std::vector<Tensor> PlainModel::take_values() {
  std::vector<Tensor> taken(values_->size());
  std::swap(taken, *values_);
  for (std::size_t i = 0; i < pointers_.size(); ++i) pointers_[i] = &(*values_)[i];
  return taken;
}

}  // namespace penstock::backend
