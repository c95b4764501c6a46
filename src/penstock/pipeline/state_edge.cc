#include "penstock/pipeline/state_edge.h"

#include <cstring>
#include <utility>

#include "penstock/pipeline/edge.h"

namespace penstock::pipeline {

StateEdge::StateEdge(std::string writes, std::string reads, const Type& type, const Tensor& initial,
                     std::size_t window)
    : from(std::move(writes)),
      to(std::move(reads)),
      initial_(initial),
      after_(2 * window),
      mask_(2 * window - 1) {
  for (auto& slot : slots_) slot = storage_for(type);
  take(initial);  // Into the storage, which may have room for more: version 8 is written there.
  std::swap(slots_[0], slots_[1]);
}

void StateEdge::reset(FrameNumber next) {
  if (next == 0) return;
  take(initial_);
  advance();
  complete(next - 1);
}

bool StateEdge::take(const Tensor& value) {
  Tensor& slot = next();
  if (value.kind() != Tensor::Kind::kDense) {  // Shares what is never written again.
    slot = value;
    return false;
  }
  const bool fits = slot.kind() == Tensor::Kind::kDense && slot.dtype() == value.dtype() &&
                    slot.set_dims(value.dims());
  if (fits) {
    if (value.bytes() > 0) std::memcpy(slot.data(), value.data(), value.bytes());
  } else {
    slot = value.clone();
  }
  return true;
}

}  // namespace penstock::pipeline
