// StageCall: keeps a call that may be lost apart from the slots and states of its frames.
#include <algorithm>

#include "penstock/pipeline/ports.h"
#include "penstock/pipeline/stage_call.h"
#include "penstock/pipeline/state_edge.h"

namespace penstock::pipeline {

// False: the call was abandoned before. No other thread abandons it meanwhile.
bool StageCall::set_apart(std::span<BoundFrame> frames) {
  const auto seen = clock_.read();
  if (!clock_.end()) return false;
  for (auto& frame : frames) {
    if (!frame.apart) detach(frame);
  }
  apart_.store(true, std::memory_order_relaxed);
  clock_.begin(seen.phase == CallClock::Phase::kNone ? now_ns() : seen.since_ns);
  return true;
}

void StageCall::detach(BoundFrame& bound) {
  auto& copies = bound.copies;
  for (std::size_t e = 0; e < bound.in.size(); ++e) {
    for (std::size_t t = 0; t < copies.in[e].size(); ++t) copies.in[e][t] = *(*bound.in[e])[t];
  }
  for (std::size_t e = 0; e < bound.out.size(); ++e) {
    for (std::size_t t = 0; t < copies.out[e].size(); ++t) copies.out[e][t] = (*bound.out[e])[t];
  }
  for (std::size_t s = 0; s < bound.state_in.size(); ++s) copies.state_in[s] = *bound.state_in[s];
  for (std::size_t s = 0; s < bound.state_out.size(); ++s) {
    copies.state_out[s] = *bound.state_out[s];
  }
  // Nothing may be thrown from here on.
  bound.apart = true;
  for (std::size_t e = 0; e < bound.in.size(); ++e) bound.in[e] = &copies.now[e];
  for (std::size_t e = 0; e < bound.out.size(); ++e) bound.out[e] = &copies.out[e];
  for (std::size_t s = 0; s < bound.state_in.size(); ++s) bound.state_in[s] = &copies.state_in[s];
  for (std::size_t s = 0; s < bound.state_out.size(); ++s) {
    bound.state_out[s] = &copies.state_out[s];
  }
}

// What was written is shown where it belongs.
void StageCall::attach(BoundFrame& bound) {
  if (!bound.apart) return;
  bound.apart = false;
  apart_.store(false, std::memory_order_relaxed);
  auto& copies = bound.copies;
  for (auto& tensors : copies.in) {
    for (auto& tensor : tensors) tensor.release();
  }
  for (auto& state : copies.state_in) state.release();
  for (std::size_t e = 0; e < bound.out.size(); ++e) {
    bound.out[e] = &written_of(bound, e);
    std::ranges::swap_ranges(*bound.out[e], copies.out[e]);
    for (auto& tensor : copies.out[e]) tensor.release();
  }
  bind_states(bound);
  for (std::size_t s = 0; s < bound.state_out.size(); ++s) {
    std::swap(*bound.state_out[s], copies.state_out[s]);
    copies.state_out[s].release();
  }
}

// Of the frame's slot, or of its mirror.
std::vector<Tensor>& StageCall::written_of(BoundFrame& bound, std::size_t edge) const {
  if (bound.out_slots[edge] == nullptr) return bound.beside[edge];
  Slot& slot = *bound.out_slots[edge];
  return writes_[edge] == Edge::kOwn ? slot.own : slot.mirrors[writes_[edge]]->own;
}

Status StageCall::abandon() {
  cancel();
  const auto bound = std::span(bound_).first(count_);
  for (auto& lost : bound.subspan(settled())) PENSTOCK_CHECK_OK(leave(lost));
  return {};
}

Status StageCall::leave(BoundFrame& bound) {
  for (Slot* slot : bound.in_slots) slot->left.store(true, std::memory_order_relaxed);
  for (StateEdge* state : stage_.states_in) state->leave(bound.seat, bound.step);
  for (const auto& partition : stage_.partitions) {
    for (const auto& target : partition.outputs) {
      const Wire& wire = target.wire;
      if (wire.kind == Wire::Kind::kLocal) continue;
      Tensor& lost = wire.kind == Wire::Kind::kStateOut
                         ? stage_.states_out[wire.where]->next(bound.seat, bound.step)
                         : written_of(bound, wire.where)[wire.tensor];
      lost.release();
      if (!wire.fresh) PENSTOCK_CHECK_OK(restore_storage_in(memory_of(wire), target.storage, lost));
    }
  }
  return {};
}

}  // namespace penstock::pipeline
