// Enumerates calls by recursion: each block is added or excluded, with start times for all labels.
#include "penstock/planner/latency/latency_calls.h"

#include <algorithm>

#include "penstock/planner/problem/index.h"

namespace penstock::planner {

LatencyCalls::LatencyCalls(LatencyFront& front, LatencyIdeals& ideals, const LatencyTails& tails,
                           std::function<void(LatencyLabel)> put, std::function<bool()> stopped)
    : front_(front),
      ideals_(ideals),
      model_(front.model),
      tails_(tails),
      put_(std::move(put)),
      stopped_(std::move(stopped)),
      inside_(at(model_.values), 0),
      lost_(at(model_.values), 0),
      in_set_(at(model_.set_blocks.size()), 0) {}

void LatencyCalls::run(int mode, const std::vector<int>& next) {
  mode_ = mode;
  call_ = &model_.calls[at(mode)];
  stride_ = model_.pools[at(call_->pool)].stride;
  callers_.clear();
  for (const int l : front_.labels) {
    if (model_.has_left(ideals_.label(l).code, call_->pool)) callers_.push_back(l);
  }
  if (callers_.empty()) return;
  Growing call;
  call.compute = call_->launch;
  call.start.assign(callers_.size(), 0);
  call.onward = call.start;
  grow(std::move(call), next);
}

int LatencyCalls::code_after(std::size_t caller) const {
  return ideals_.label(callers_[caller]).code + stride_;
}

void LatencyCalls::grow(Growing call, const std::vector<int>& next) {
  const auto lost_before = lost_values_.size();
  for (std::size_t i = 0; i < next.size(); ++i) {
    if ((++steps_ & 255U) == 0) over_ = over_ || stopped_();
    if (over_) break;
    const int block = next[i];
    auto grown = call;
    if (add(block, grown)) {
      emit(grown);
      std::vector<int> further(next.begin() + static_cast<std::ptrdiff_t>(i) + 1, next.end());
      for (const int b : model_.after[block]) {
        if (front_.ready(b)) further.push_back(b);
      }
      std::ranges::sort(further);
      grow(std::move(grown), further);
    }
    remove(block);
    if (!exclude(block, call)) break;
  }
  for (; lost_values_.size() > lost_before; lost_values_.pop_back()) {
    lost_[at(lost_values_.back())] = 0;
  }
}

bool LatencyCalls::add(int block, Growing& call) {
  front_.add(block);
  if (const int set = model_.set_of[at(block)]; set >= 0) open_sets_ += change_set(set, 1);
  for (const int g : model_.members[block]) {
    front_.place[at(g)] = LatencyFront::kInCall;
    call.memory += model_.memory[at(g)];
    call.compute += call_->time[at(g)];
  }
  for (const int g : model_.members[block]) {
    for (const int other : model_.earlier[g]) wait_for(other, call);
    for (const int v : model_.reads[g]) read(v, block, call);
  }
  for (const int g : model_.members[block]) {
    for (const int v : model_.writes[g]) write(v, call);
  }
  if (call.memory > call_->memory * (1 + 1e-9) || call.compute == kInfinite) return false;
  return of_use_with(block, call);
}

void LatencyCalls::remove(int block) {
  front_.remove(block);
  if (const int set = model_.set_of[at(block)]; set >= 0) open_sets_ += change_set(set, -1);
  for (const int g : model_.members[block]) {
    front_.place[at(g)] = LatencyFront::kOutside;
    for (const int v : model_.reads[g]) --inside_[at(v)];
  }
}

int LatencyCalls::change_set(int set, int more) {
  const int all = static_cast<int>(model_.set_blocks[set].size());
  const auto open = [&] { return in_set_[at(set)] > 0 && in_set_[at(set)] < all ? 1 : 0; };
  const int before = open();
  in_set_[at(set)] += more;
  return open() - before;
}

double LatencyCalls::sending(int value) const {
  return model_.send[at(value, model_.types, call_->type)];
}

double LatencyCalls::receiving(int value) const {
  return model_.receive[at(value, model_.types, call_->type)];
}

int LatencyCalls::readers(int value) const {
  return static_cast<int>(model_.consumers[value].size());
}

void LatencyCalls::wait_for(int group, Growing& call) const {
  const int place = front_.place[at(group)];
  if (place < 0) return;
  for (std::size_t c = 0; c < callers_.size(); ++c) {
    call.start[c] = std::max(call.start[c], front_.end(callers_[c], place));
  }
}

void LatencyCalls::read(int value, int block, Growing& call) {
  const int producer = model_.producer[at(value)];
  const bool first = inside_[at(value)]++ == 0;
  if (model_.block_of[at(producer)] == block) return;
  if (front_.place[at(producer)] == LatencyFront::kInCall) {
    if (inside_[at(value)] == readers(value)) call.out -= sending(value);
  } else if (first) {
    (front_.place[at(producer)] >= 0 ? call.in : call.back_in) += receiving(value);
    wait_for(producer, call);
  }
}

void LatencyCalls::write(int value, Growing& call) const {
  const int block = model_.block_of[at(model_.producer[at(value)])];
  const auto in_block = [&](int g) { return model_.block_of[at(g)] == block; };
  const auto own = std::ranges::count_if(model_.consumers[value], in_block);
  if (inside_[at(value)] > own) call.back_in -= receiving(value);
  if (inside_[at(value)] < readers(value)) call.out += sending(value);
}

bool LatencyCalls::of_use_with(int block, Growing& call) const {
  for (const int g : model_.members[block]) {
    const auto later = model_.later[g];
    for (std::size_t i = 0; i < later.size(); ++i) {
      if (model_.block_of[at(later[i])] == block) continue;
      const int edge = model_.later_edge[at(model_.later.begin[at(g)]) + i];
      for (std::size_t c = 0; c < callers_.size(); ++c) {
        const double end = call.start[c] + call.compute + call.in;
        if (ideals_.too_late(end + tails_.join(edge, code_after(c)))) call.start[c] = kInfinite;
      }
    }
  }
  return of_use(call);
}

bool LatencyCalls::of_use(Growing& call) const {
  bool any = false;
  for (std::size_t c = 0; c < callers_.size(); ++c) {
    const double end = call.start[c] + call.compute + call.in + call.sure_out + call.onward[c];
    if (ideals_.too_late(end)) call.start[c] = kInfinite;
    any = any || call.start[c] < kInfinite;
  }
  return any;
}

bool LatencyCalls::exclude(int block, Growing& call) {
  for (const int g : model_.members[block]) {
    for (const int v : model_.reads[g]) {
      if (front_.place[at(model_.producer[at(v)])] != LatencyFront::kInCall || lost_[at(v)] != 0)
        continue;
      lost_[at(v)] = 1;
      lost_values_.push_back(v);
      call.sure_out += sending(v);
    }
    const auto earlier = model_.earlier[g];
    for (std::size_t i = 0; i < earlier.size(); ++i) {
      follow_later(earlier[i], model_.earlier.begin[at(g)] + static_cast<int>(i), call);
    }
  }
  return of_use(call);
}

void LatencyCalls::follow_later(int group, int edge, Growing& call) const {
  const int place = front_.place[at(group)];
  for (std::size_t c = 0; c < callers_.size() && place != LatencyFront::kOutside; ++c) {
    const double tail = tails_.tail(edge, code_after(c));
    if (place == LatencyFront::kInCall) {
      call.onward[c] = std::max(call.onward[c], tail);
    } else if (ideals_.too_late(front_.end(callers_[c], place) + tail)) {
      call.start[c] = kInfinite;
    }
  }
}

void LatencyCalls::emit(const Growing& call) {
  if (open_sets_ != 0) return;
  const double duration = call.compute + call.in + call.back_in + call.out;
  int to = -1;
  for (std::size_t c = 0; c < callers_.size(); ++c) {
    const double end = call.start[c] + duration;
    if (ideals_.too_late(end + call.onward[c])) continue;
    if (to < 0) to = ideals_.find(front_.blocks, front_.key, front_.size);
    auto made = front_.follow(callers_[c], to, mode_);
    made.code = code_after(c);
    made.done = std::max(made.done, end);
    for (const int g : ideals_.ideal(to).border) {
      const int place = front_.place[at(g)];
      made.end.push_back(place >= 0 ? front_.end(callers_[c], place) : end);
    }
    put_(std::move(made));
  }
}

}  // namespace penstock::planner
