// Marks lent frames in an atomic ring; gives edges fresh slots where lent ones are wanted back.
#include "penstock/pipeline/loans.h"

#include <algorithm>
#include <new>
#include <span>
#include <utility>

namespace penstock::pipeline {

void Loans::configure(std::vector<Edge*> edges, Progress& sink, std::size_t window,
                      FrameNumber in_flight, int most) {
  edges_ = std::move(edges);
  sink_ = &sink;
  mask_ = window - 1;
  slots_ = in_flight;
  for (const Edge* edge : edges_) {
    slots_ = std::min(slots_, static_cast<FrameNumber>(edge->capacity()));
  }
  most_ = static_cast<std::size_t>(std::max(most, 0));
  entries_ = std::make_unique<std::atomic<FrameNumber>[]>(window);
  kept_.reserve(most_);
}

void Loans::lend(FrameNumber frame) {
  entry(frame).store(lent(frame), std::memory_order_seq_cst);
  replace_wanted(frame);
}

void Loans::pass(FrameNumber frame) {
  let_go(frame);
  replace_wanted(frame);
}

// Who takes one result after the other gives each back before the next: that needs no slots. But
// behind one slot, or beside callbacks, no next one may come.
void Loans::replace_wanted(FrameNumber popped) {
  const bool last = slots_ == 1 || calls_back_.load(std::memory_order_relaxed);
  const FrameNumber before = last ? popped + 1 : popped;
  if (sink_->done() < std::min(wanted_.load(std::memory_order_seq_cst), before))
    replace_slots(before);
}

void Loans::let_go(FrameNumber frame) {
  for (Edge* edge : edges_) edge->end_read(frame);
  sink_->complete(frame);
}

Slot& Loans::slot(Edge& edge, FrameNumber frame) {
  if (!edge.lossy() && entry(frame).load(std::memory_order_acquire) == lent(frame)) {
    Slot& found = edge.slot(frame);
    if (entry(frame).load(std::memory_order_acquire) == lent(frame)) return found;
  }
  const std::scoped_lock lock(mutex_);
  const Kept* const kept = find_kept(frame);
  if (kept == nullptr) return edge.slot(frame);
  return *kept->slots[static_cast<std::size_t>(std::ranges::find(edges_, &edge) - edges_.begin())];
}

void Loans::give_back(FrameNumber frame) {
  FrameNumber expected = lent(frame);
  if (entry(frame).compare_exchange_strong(expected, 0, std::memory_order_seq_cst)) {
    return let_go(frame);
  }
  {
    const std::scoped_lock lock(mutex_);
    Kept* const kept = find_kept(frame);
    for (std::size_t e = 0; e < edges_.size(); ++e) edges_[e]->put_aside(*kept->slots[e]);
    std::swap(*kept, kept_[--kept_count_]);
  }
  replace_slots(UINT64_MAX);  // Another one may keep its own now.
}

void Loans::want_back(FrameNumber least) {
  FrameNumber known = wanted_.load(std::memory_order_seq_cst);
  while (known < least && !wanted_.compare_exchange_weak(known, least, std::memory_order_seq_cst)) {
  }
  replace_slots(least);
}

void Loans::replace_slots(FrameNumber before) {
  const std::scoped_lock lock(mutex_);
  const FrameNumber end = std::min(before, wanted_.load(std::memory_order_seq_cst));
  for (FrameNumber frame = sink_->done(); frame < end && kept_count_ < most_; ++frame) {
    if (entry(frame).load(std::memory_order_seq_cst) != lent(frame)) continue;
    if (!replace_slots_of(frame)) return;
  }
}

bool Loans::replace_slots_of(FrameNumber frame) {
  std::size_t fresh = 0;
  const auto put_fresh_aside = [&] {
    while (fresh-- > 0) edges_[fresh]->put_aside(*kept_[kept_count_].slots[fresh]);
  };
  try {
    if (kept_count_ == kept_.size()) {
      kept_.push_back({.frame = frame, .slots = std::vector<Slot*>(edges_.size())});
    }
    for (; fresh < edges_.size(); ++fresh) {
      kept_[kept_count_].slots[fresh] = &edges_[fresh]->fresh_slot();
    }
  } catch (const std::bad_alloc&) {
    put_fresh_aside();
    return false;
  }
  FrameNumber expected = lent(frame);
  if (!entry(frame).compare_exchange_strong(expected, 0, std::memory_order_seq_cst)) {
    put_fresh_aside();
    return true;  // It was given back this moment.
  }
  Kept& kept = kept_[kept_count_++];
  kept.frame = frame;
  for (std::size_t e = 0; e < edges_.size(); ++e) {
    kept.slots[e] = edges_[e]->replace_slot(frame, *kept.slots[e]);
  }
  sink_->complete(frame);
  return true;
}

Loans::Kept* Loans::find_kept(FrameNumber frame) {
  const std::span kept(kept_.data(), kept_count_);
  const auto found = std::ranges::find(kept, frame, &Kept::frame);
  return found == kept.end() ? nullptr : &*found;
}

}  // namespace penstock::pipeline
