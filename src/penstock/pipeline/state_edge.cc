// Allocates the versions of all seats, in blocks where shapes are fixed, and copies values in.
#include "penstock/pipeline/state_edge.h"

#include <cstring>
#include <utility>

#include "penstock/pipeline/edge.h"

namespace penstock::pipeline {
namespace {

// Storage for a value of each seat.
std::vector<Tensor> side_by_side(const Type& type, std::size_t seats) {
  std::vector<Tensor> values;
  values.reserve(seats);
  if (seats == 1 || !type.fixed()) {
    for (std::size_t seat = 0; seat < seats; ++seat) values.push_back(storage_for(type));
    return values;
  }
  const std::size_t bytes = type.max_bytes().value_or(0);
  Tensor block = Tensor::reserve(type.dtype, seats * bytes);
  auto* const data = static_cast<std::byte*>(block.data());
  std::vector<std::int64_t> dims;
  for (const auto& dim : type.dims) dims.push_back(dim.size);
  for (std::size_t seat = 0; seat < seats; ++seat) {
    values.push_back(Tensor::view(type.dtype, dims, data + seat * bytes, block.owner()));
  }
  return values;
}

}  // namespace

StateEdge::StateEdge(std::string writes, std::string reads, const Type& type, const Tensor& initial,
                     std::size_t seats, std::size_t versions_kept, std::size_t window)
    : from(std::move(writes)),
      to(std::move(reads)),
      versions(versions_kept),
      type_(type),
      initial_(initial),
      slots_(seats * versions),
      left_(slots_.size()),
      // Readers that may be behind are so by all frames in flight, where most of them fail.
      step_mask_((versions == kVersions ? kVersions : 2 * window) - 1),
      version_of_(seats * (step_mask_ + 1)) {
  for (std::size_t version = 0; version < versions; ++version) {
    auto values = side_by_side(type, seats);
    for (std::size_t seat = 0; seat < seats; ++seat) {
      slots_[seat * versions + version] = std::move(values[seat]);
    }
  }
  reset(0, 0);  // Stream 0 is there always.
}

void StateEdge::renew(std::size_t at) {
  if (!left_[at].load(std::memory_order_relaxed)) return;
  slots_[at] = storage_for(type_);
  left_[at].store(false, std::memory_order_relaxed);
}

bool StateEdge::put(Tensor& slot, const Tensor& value) {
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
