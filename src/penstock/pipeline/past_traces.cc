// Copies spans out of plans that have ended, and drops what later frames have taken the place of.
#include "penstock/pipeline/past_traces.h"

#include <algorithm>
#include <utility>

namespace penstock::pipeline {
namespace {

TraceContent looked_into(State& state) {
  const std::scoped_lock lock(state.looked_at);
  return content_of(state);
}

/// Of the stage instance that has most.
std::size_t most_spans(const TraceContent& content) {
  std::size_t most = 0;
  for (const auto& worker : content.workers) most = std::max(most, worker.kept.size());
  return most;
}

std::uint64_t kept_spans(const TraceContent& content) {
  std::uint64_t sum = 0;
  for (const auto& worker : content.workers) sum += worker.kept.size();
  return sum;
}

}  // namespace

void PastTraces::make_room() {
  const std::scoped_lock lock(mutex_);
  recent_.reserve(recent_.size() + 1);
}

void PastTraces::add(std::shared_ptr<State> replaced) {
  const std::scoped_lock lock(mutex_);
  recent_.push_back(std::move(replaced));
}

void PastTraces::settle(std::size_t spans_kept, const std::function<bool(const State&)>& is_over) {
  for (;;) {
    std::shared_ptr<State> first;
    {
      const std::scoped_lock lock(mutex_);
      if (!recent_.empty()) first = recent_.front();
    }
    if (first == nullptr || !is_over(*first)) break;
    const auto content = std::make_shared<const TraceContent>(looked_into(*first));
    const std::scoped_lock lock(mutex_);
    if (kept_spans(*content) > 0) settled_.push_back(content);
    recent_.erase(recent_.begin());
  }
  drop_oldest(spans_kept);
}

void PastTraces::drop_oldest(std::size_t spans_kept) {
  const std::scoped_lock lock(mutex_);
  std::size_t newer = 0;
  auto first = settled_.end();
  while (first != settled_.begin() && newer < spans_kept) newer += most_spans(**--first);
  for (auto dropped = settled_.begin(); dropped != first; ++dropped) {
    lost_ += kept_spans(**dropped) + (*dropped)->lost();
  }
  settled_.erase(settled_.begin(), first);
}

PastTraces::Found PastTraces::all_but(const State* but) const {
  std::unique_lock lock(mutex_);
  const auto recent = recent_;
  const auto settled = settled_;
  Found found{{}, lost_};
  lock.unlock();
  for (const auto& content : settled) found.plans.push_back(*content);
  for (const auto& state : recent) {
    if (state.get() == but) continue;
    auto content = looked_into(*state);
    if (kept_spans(content) > 0) found.plans.push_back(std::move(content));
  }
  for (const auto& content : found.plans) found.lost += content.lost();
  return found;
}

}  // namespace penstock::pipeline
