// Allocates the versions of all seats, in blocks where shapes are fixed, and copies values in.
#include "penstock/pipeline/state_edge.h"

#include <cstring>
#include <utility>

#include "penstock/pipeline/edge.h"

namespace penstock::pipeline {
namespace {

// Of each seat a part of one block.
Result<Tensor> block_for(backend::Memory* memory, const Type& type, std::size_t seats) {
  const std::size_t bytes = type.max_bytes().value_or(0);
  if (memory == nullptr) return Tensor::reserve(type.dtype, seats * bytes);
  const auto count = static_cast<std::int64_t>(8 * seats * bytes / bits_of(type.dtype));
  return storage_in(memory, Type::tensor(type.dtype, std::vector{count}));
}

// Storage for a value of each seat.
Result<std::vector<Tensor>> side_by_side(backend::Memory* memory, const Type& type,
                                         std::size_t seats) {
  std::vector<Tensor> values;
  values.reserve(seats);
  if (seats == 1 || !type.fixed()) {
    for (std::size_t seat = 0; seat < seats; ++seat) {
      PENSTOCK_TRY(Tensor value, storage_in(memory, type));
      values.push_back(std::move(value));
    }
    return values;
  }
  PENSTOCK_TRY(const Tensor block, block_for(memory, type, seats));
  const std::size_t bytes = type.max_bytes().value_or(0);
  for (std::size_t seat = 0; seat < seats; ++seat) {
    Tensor& value = values.emplace_back(part_of(block, seat * bytes, bytes));
    if (!value.set_dims(bound_of(type))) return internal_error("no room for ", type);
  }
  return values;
}

}  // namespace

StateEdge::StateEdge(std::string writes, std::string reads, const Type& type, const Tensor& initial,
                     std::size_t seats, std::size_t versions_kept, std::size_t window,
                     backend::Memory* memory)
    : from(std::move(writes)),
      to(std::move(reads)),
      versions(versions_kept),
      type_(type),
      initial_(initial),
      memory_(memory),
      slots_(seats * versions),
      left_(slots_.size()),
      // Readers that may be behind are so by all frames in flight, where most of them fail.
      step_mask_((versions == kVersions ? kVersions : 2 * window) - 1),
      version_of_(seats * (step_mask_ + 1)) {}

Status StateEdge::allocate() {
  const std::size_t seats = slots_.size() / versions;
  for (std::size_t version = 0; version < versions; ++version) {
    PENSTOCK_TRY(auto values, side_by_side(memory_, type_, seats));
    for (std::size_t seat = 0; seat < seats; ++seat) {
      slots_[seat * versions + version] = std::move(values[seat]);
    }
  }
  return reset(0, 0);  // Stream 0 is there always.
}

Status StateEdge::renew(std::size_t at) {
  if (!left_[at].load(std::memory_order_relaxed)) return {};
  PENSTOCK_TRY(slots_[at], storage_in(memory_, type_));
  left_[at].store(false, std::memory_order_relaxed);
  return {};
}

Status StateEdge::set(std::size_t seat, FrameNumber step, const Tensor& value) {
  const std::size_t at = seat * versions + version_of(seat, step);
  Status done = renew(at);
  if (done && memory_ != nullptr) done = copy_tensor(value, slots_[at], *memory_);
  if (!done) return std::move(done).error().within(concat("state '", to, "'"));
  if (memory_ == nullptr) put(slots_[at], value);
  return {};
}

Result<Tensor> StateEdge::saved(std::size_t seat, FrameNumber step) const {
  const Tensor& value = now(seat, step);
  if (memory_ == nullptr) return value.clone();
  auto copy = copied_back(memory_, value);
  if (!copy) return std::move(copy).error().within(concat("state '", to, "'"));
  return copy;
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
