// Allocates slots in blocks, copies them to mirrors, and drops frames by the edge's policy.
#include "penstock/pipeline/edge.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "penstock/base/words.h"

namespace penstock::pipeline {

std::vector<std::int64_t> bound_of(const Type& type) {
  std::vector<std::int64_t> dims;
  dims.reserve(type.dims.size());
  for (const auto& dim : type.dims) dims.push_back(dim.fixed() ? dim.size : dim.bound);
  return dims;
}

Tensor storage_for(const Type& type) {
  const auto bytes = type.max_bytes();
  if (!bytes) return {};
  Tensor tensor = Tensor::reserve(type.dtype, *bytes);
  static_cast<void>(tensor.set_dims(bound_of(type)));
  return tensor;
}

bool has_room_for(const Type& type, Tensor& tensor) {
  return tensor.kind() == Tensor::Kind::kDense && tensor.dtype() == type.dtype &&
         tensor.capacity_bytes() >= type.max_bytes().value_or(0) && tensor.set_dims(bound_of(type));
}

void restore_storage_for(const Type& type, Tensor& tensor) {
  if (!has_room_for(type, tensor)) tensor = storage_for(type);
}

void Edge::set_to_bounds(Slot& slot) const {
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (bounds_[i].empty() || slot.own[i].set_dims(bounds_[i])) continue;
    slot.own[i] = storage_for(types[i]);
  }
}

std::string edge_name(const plan::Plan& plan, const plan::Edge& edge) {
  const auto end = [&](int at) {
    if (at == plan::kPipelineInput) return std::string("input");
    if (at == plan::kPipelineOutput) return std::string("output");
    return plan.stages[static_cast<std::size_t>(at)].name;
  };
  return end(edge.from) + " -> " + join(edge.to, "+", end);
}

Edge::Edge(const plan::Edge& plan, std::vector<Type> types_of_tensors, int capacity,
           std::string edge_name)
    : name(std::move(edge_name)),
      from(plan.from),
      to(plan.to),
      tensors(plan.tensors),
      types(std::move(types_of_tensors)),
      policy(plan.policy),
      capacity_(capacity) {
  for (const auto& type : types) {
    const bool varies = !type.fixed() && type.max_bytes();
    bounds_.push_back(varies ? bound_of(type) : std::vector<std::int64_t>());
  }
}

std::size_t Edge::mirror_in(const backend::Memory* memory) const {
  if (same_memory(memory, memory_)) return kOwn;
  for (const auto* there : {memory, static_cast<const backend::Memory*>(nullptr)}) {
    const auto found = std::ranges::find_if(
        mirrors_, [&](const auto* mirror) { return same_memory(mirror, there); });
    if (found != mirrors_.end()) return static_cast<std::size_t>(found - mirrors_.begin());
  }
  return kOwn;
}

Status Edge::add_mirrors(Slot& slot, std::size_t at, std::span<Blocks> mirrors) {
  for (auto& blocks : mirrors) {
    auto& mirror = *slot.mirrors.emplace_back(std::make_unique<Mirror>());
    PENSTOCK_CHECK_OK(blocks.add(at, mirror.own));
    for (const auto& tensor : mirror.own) mirror.now.push_back(&tensor);
  }
  return {};
}

Status Edge::bring(Slot& slot, std::size_t at, FrameNumber frame, std::uint64_t& copies) {
  Mirror& mirror = *slot.mirrors[at];
  const std::scoped_lock lock(mirror.mutex);
  if (mirror.frame == frame && frame != Mirror::kNoFrame) return {};
  mirror.frame = Mirror::kNoFrame;
  const auto* source = &slot.now;
  auto* source_memory = memory_;
  if (!copies_directly(memory_, mirrors_[at])) {
    const std::size_t host = mirror_in(nullptr);
    PENSTOCK_CHECK_OK(bring(slot, host, frame, copies));
    source = &slot.mirrors[host]->now;
    source_memory = nullptr;
  }
  PENSTOCK_CHECK_OK(
      copy_tensors(tensors, *source, source_memory, mirror.own, mirrors_[at], copies));
  mirror.frame = frame;
  return {};
}

Status Edge::bring_back(Slot& slot, std::size_t at, FrameNumber frame, std::uint64_t& copies) {
  Mirror& mirror = *slot.mirrors[at];
  PENSTOCK_CHECK_OK(copy_tensors(tensors, mirror.now, mirrors_[at], slot.own, memory_, copies));
  const std::scoped_lock lock(mirror.mutex);
  mirror.frame = frame;
  return {};
}

bool Edge::is_lost(Slot& slot, std::size_t at, FrameNumber frame) const {
  if (at != kOwn) {  // What was brought there is not.
    Mirror& mirror = *slot.mirrors[at];
    const std::scoped_lock lock(mirror.mutex);
    if (mirror.frame == frame) return false;
  }
  return std::ranges::any_of(slot.now,
                             [&](const Tensor* tensor) { return memory_->is_lost(*tensor); });
}

Result<Slot*> Edge::make_slot(Blocks* own) {
  auto slot = std::make_unique<Slot>();
  if (from == plan::kPipelineInput) slot->lent.resize(tensors.size());
  slot->now.resize(tensors.size());
  if (own != nullptr) PENSTOCK_CHECK_OK(own->add(slots_.size(), slot->own));
  if (own_storage_) PENSTOCK_CHECK_OK(make_own(*slot));
  if (own_storage_) point_at(*slot, slot->own);
  slots_.push_back(std::move(slot));
  return slots_.back().get();
}

Status Edge::allocate(bool own_storage, int spare, std::size_t window, int kept, bool together) {
  const std::size_t count = static_cast<std::size_t>(capacity_) + static_cast<std::size_t>(spare);
  own_storage_ = own_storage;
  place_count_ = count;
  most_slots_ = count + static_cast<std::size_t>(kept);
  power_of_two_ = std::has_single_bit(count);
  capacity_mask_ = count - 1;
  std::optional<Blocks> own;
  if (own_storage || together) own.emplace(memory_, types, count, together);
  std::vector<Blocks> mirrors;
  for (auto* memory : mirrors_) mirrors.emplace_back(memory, types, count, together);
  slots_.reserve(most_slots_);
  aside_.reserve(most_slots_);
  places_ = std::make_unique<std::atomic<Slot*>[]>(count);
  for (std::size_t i = 0; i < count; ++i) {
    auto made = make_slot(own ? &*own : nullptr);
    if (made) {
      if (Status mirrored = add_mirrors(**made, i, mirrors); !mirrored)
        made = std::move(mirrored).error();
    }
    if (!made) return std::move(made).error().within(concat("edge '", name, "'"));
    places_[i] = *made;
  }
  if (!lossy()) return {};
  window_mask_ = window - 1;
  slot_of_.assign(window, kNoSlot);
  readers_left_.assign(window, 0);
  waiting_.reserve(static_cast<std::size_t>(capacity_));
  free_.reserve(count);
  for (std::size_t i = count; i-- > 0;) free_.push_back(static_cast<std::uint32_t>(i));
  return {};
}

Status Edge::make_own(Slot& slot) const {
  if (!slot.own.empty()) return {};
  for (const auto& type : types) {
    PENSTOCK_TRY(Tensor storage, storage_in(memory_, type));
    slot.own.push_back(std::move(storage));
  }
  return {};
}

Status Edge::replace_all(Slot& slot) {
  PENSTOCK_CHECK_OK(replace(slot.own, memory_));
  for (std::size_t m = 0; m < slot.mirrors.size(); ++m) {
    PENSTOCK_CHECK_OK(replace(slot.mirrors[m]->own, mirrors_[m]));
  }
  slot.left.store(false, std::memory_order_relaxed);
  return {};
}

Status Edge::replace(std::vector<Tensor>& own, backend::Memory* memory) {
  for (std::size_t i = 0; i < own.size(); ++i) {
    own[i].release();
    if (!types[i].max_bytes()) continue;
    PENSTOCK_CHECK_OK(restore_storage_in(memory, types[i], own[i]));
    allocations.fetch_add(1, std::memory_order_relaxed);
  }
  return {};
}

std::size_t Edge::bytes_per_slot() const {
  std::size_t sum = 0;
  for (const auto& type : types) sum += type.max_bytes().value_or(0);
  return sum;
}

void Edge::ensure_own(Slot& slot) const {
  if (!slot.own.empty()) return set_to_bounds(slot);
  std::vector<Tensor> made;  // All of it or, where there is no memory, nothing.
  for (const auto& type : types) made.push_back(storage_for(type));
  slot.own = std::move(made);
}

void Edge::point_at(Slot& slot, const std::vector<Tensor>& tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) slot.now[i] = &tensors[i];
}

void Edge::keep_shapes(std::size_t window) {
  shapes_ = std::vector<std::atomic<std::uint64_t>>(window);
}

void Edge::note_shape(FrameNumber frame) {
  std::uint64_t shape = 0;
  const auto add = [&](std::uint64_t number) {  // As splitmix64 does: every bit counts.
    shape += number + 0x9e3779b97f4a7c15;
    shape = (shape ^ (shape >> 30U)) * 0xbf58476d1ce4e5b9;
    shape = (shape ^ (shape >> 27U)) * 0x94d049bb133111eb;
    shape ^= shape >> 31U;
  };
  const Slot& written = slot(frame);
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i].fixed()) continue;
    const auto& dims = written.now[i]->dims();
    add(dims.size());
    for (const auto dim : dims) add(static_cast<std::uint64_t>(dim));
  }
  shapes_[frame & (shapes_.size() - 1)].store(shape, std::memory_order_relaxed);
}

Slot& Edge::fresh_slot() {
  if (aside_.empty()) {
    const auto made = make_slot(nullptr);
    if (!made) throw std::bad_alloc();  // A device has none left.
    if (own_storage_) allocations.fetch_add(tensors.size(), std::memory_order_relaxed);
    return **made;
  }
  Slot& slot = *aside_.back();
  aside_.pop_back();
  return slot;
}

void Edge::put_aside(Slot& slot) {
  for (auto& tensor : slot.lent) tensor.release();
  aside_.push_back(&slot);
}

Slot* Edge::replace_slot(FrameNumber frame, Slot& fresh) {
  const auto replace = [&] {
    fresh.mirrors.swap(slot(frame).mirrors);  // Results are read in the host's memory alone.
    return place_of(frame).exchange(&fresh, std::memory_order_acq_rel);
  };
  if (!lossy()) return replace();
  const std::scoped_lock lock(mutex_);
  Slot* replaced = replace();
  free_slot(frame);
  return replaced;
}

bool Edge::begin_write(FrameNumber frame) {
  const std::scoped_lock lock(mutex_);
  // Never the only one that waits: a fast writer would take each from readers that wake up for it.
  const bool has_older = waiting_.size() > 1 && waiting_.front() < frame;
  if (free_.empty() && keeps_newest() && has_older) drop_oldest();
  if (free_.empty()) return false;
  slot_of_[frame & window_mask_] = free_.back();
  free_.pop_back();
  return true;
}

bool Edge::end_write(FrameNumber frame) {
  const std::scoped_lock lock(mutex_);
  if (waiting_.size() >= static_cast<std::size_t>(capacity_)) {
    if (!keeps_newest()) {
      lose(frame);
      return policy != plan::FullPolicy::kError;
    }
    drop_oldest();
  }
  // Replicas end out of order; the oldest frame is the first to go.
  waiting_.insert(std::ranges::upper_bound(waiting_, frame), frame);
  readers_left_[frame & window_mask_] = readers_;
  return true;
}

void Edge::drop_oldest() {
  lose(waiting_.front());
  waiting_.erase(waiting_.begin());
}

void Edge::lose(FrameNumber frame) {
  free_slot(frame);
  drops.fetch_add(1, std::memory_order_relaxed);
  if (policy != plan::FullPolicy::kError) on_drop(*this, frame);
}

Error Edge::was_full(Code code) const {
  return make_error(code, "edge '", name, "' was full (", counted(capacity_, "frame"),
                    "), policy '", plan::to_string(policy), "'");
}

void Edge::abandon_write(FrameNumber frame) {
  if (!lossy()) return let_go(slot(frame));
  const std::scoped_lock lock(mutex_);
  free_slot(frame);
}

void Edge::begin_read(FrameNumber frame) {
  const std::scoped_lock lock(mutex_);
  const auto found = std::ranges::lower_bound(waiting_, frame);
  if (found != waiting_.end() && *found == frame) waiting_.erase(found);
}

void Edge::end_read(FrameNumber frame) {
  if (lossy()) {
    const std::scoped_lock lock(mutex_);
    if (slot_of_[frame & window_mask_] == kNoSlot) return;
    if (--readers_left_[frame & window_mask_] == 0) free_slot(frame);
  } else if (lets_go()) {
    Slot& read = slot(frame);
    if (readers_ > 1 && read.readers.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
    let_go(read);
  }
}

void Edge::let_go(Slot& slot) {
  for (auto& tensor : slot.lent) tensor.release();
  if (memory_ == nullptr) return;
  for (auto& tensor : slot.own) memory_->forget(tensor);
}

bool Edge::full() const {
  const std::scoped_lock lock(mutex_);
  return waiting_.size() >= static_cast<std::size_t>(capacity_) || free_.empty();
}

void Edge::free_slot(FrameNumber frame) {
  auto& slot = slot_of_[frame & window_mask_];
  if (slot == kNoSlot) return;
  let_go(*places_[slot].load());
  free_.push_back(slot);
  slot = kNoSlot;
}

}  // namespace penstock::pipeline
