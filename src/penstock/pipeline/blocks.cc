// Cuts the slots' tensors out of blocks, which it allocates as they are needed.
#include "penstock/pipeline/blocks.h"

#include <algorithm>

#include "penstock/pipeline/edge.h"

namespace penstock::pipeline {
namespace {

std::int64_t elements_of(const Type& type) {
  std::int64_t count = 1;
  for (const auto& dim : type.dims) count *= dim.size;
  return count;
}

}  // namespace

Blocks::Blocks(backend::Memory* memory, std::span<const Type> types, std::size_t places,
               bool together)
    : memory_(memory), types_(types), places_(places) {
  for (const auto& type : types) blocks_.push_back(plan_block(type, together));
}

Blocks::Block Blocks::plan_block(const Type& type, bool together) const {
  // A result that is taken out of the pipeline keeps the block in which it lies.
  constexpr std::size_t kMostBytes = 1U << 20U;
  const auto bytes = type.max_bytes();
  if (!bytes) return {};
  const bool has_parts = memory_ == nullptr || !memory_->reaches_host();
  const bool rows = together && has_parts && type.fixed() && bits_of(type.dtype) % 8 == 0;
  if (rows) return {*bytes, places_, {}, {}};
  if (memory_ != nullptr) return {};
  const std::size_t lines = std::max<std::size_t>(*bytes, 1) + Tensor::kAlignment - 1;
  const std::size_t stride = lines / Tensor::kAlignment * Tensor::kAlignment;
  return {stride, std::clamp<std::size_t>(kMostBytes / stride, 1, places_), {}, {}};
}

Result<Tensor> Blocks::next_of(Block& block, const Type& type, std::size_t at) const {
  if (block.slots == 0 && memory_ == nullptr) return Tensor();
  if (block.slots == 0) return storage_in(memory_, type);
  const std::size_t row = at % block.slots;
  if (memory_ == nullptr) {
    if (row == 0) {
      block.pages = untouched_pages(block.stride * std::min(block.slots, places_ - at));
    }
    auto* data = static_cast<std::byte*>(block.pages.get()) + row * block.stride;
    return Tensor::view(type.dtype, bound_of(type), data, block.pages);
  }
  if (row == 0) {
    const auto count = static_cast<std::int64_t>(block.slots) * elements_of(type);
    PENSTOCK_TRY(block.rows, storage_in(memory_, Type::tensor(type.dtype, std::vector{count})));
  }
  Tensor made = part_of(block.rows, row * block.stride, block.stride);
  if (!made.set_dims(bound_of(type))) return internal_error("a row is too short for ", type);
  return made;
}

Status Blocks::add(std::size_t at, std::vector<Tensor>& slot) {
  for (std::size_t t = 0; t < types_.size(); ++t) {
    PENSTOCK_TRY(Tensor made, next_of(blocks_[t], types_[t], at));
    slot.push_back(std::move(made));
  }
  return {};
}

}  // namespace penstock::pipeline
