// Finds ideals by hash, normalises the end times of labels, and drops labels that are dominated.
#include "penstock/planner/latency/latency_ideals.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

#include "penstock/planner/problem/index.h"

namespace penstock::planner {
namespace {

constexpr double kTimeRounding = 1e-9;  // Relative: what is less than that better is not better.
constexpr std::size_t kMostNumbers = 30'000'000;
constexpr std::size_t kWidestBorder = 64;

/// Only those that contain no other: the least of a set of maxima is among theirs.
void keep_minimal(std::vector<std::uint64_t>& sets) {
  std::ranges::sort(sets, {}, [](std::uint64_t set) { return std::popcount(set); });
  std::vector<std::uint64_t> kept;
  for (const auto set : sets) {
    if (std::ranges::none_of(kept, [&](auto other) { return (other & ~set) == 0; })) {
      kept.push_back(set);
    }
  }
  sets = std::move(kept);
}

}  // namespace

LatencyIdeals::LatencyIdeals(const LatencyModel& model, const LatencyTails& tails, double limit)
    : model_(model), tails_(tails), ancestors_(ancestors(model)), limit_(limit) {
  std::mt19937_64 random(1);  // NOLINT(*-msc51-cpp): the same every time.
  for (int b = 0; b < model.blocks; ++b) keys_.push_back(random());
  of_size_.resize(at(model.blocks) + 1);
}

bool LatencyIdeals::full() const {
  return numbers_ > kMostNumbers;
}

bool LatencyIdeals::too_late(double end) const {
  return end >= limit_ * (1 - kTimeRounding);
}

int LatencyIdeals::find(const std::vector<std::uint64_t>& blocks, std::uint64_t key, int size) {
  const auto [begin, end] = by_key_.equal_range(key);
  for (auto entry = begin; entry != end; ++entry) {
    if (ideals_[at(entry->second)].blocks == blocks) return entry->second;
  }
  const int made = static_cast<int>(ideals_.size());
  by_key_.emplace(key, made);
  LatencyIdeal ideal;
  ideal.blocks = blocks;
  ideal.key = key;
  ideal.size = size;
  put_border(ideal);
  numbers_ += ideal.blocks.size() + ideal.border.size() + 3 * ideal.exits.size() + 20;
  ideals_.push_back(std::move(ideal));
  of_size_[at(size)].push_back(made);
  return made;
}

void LatencyIdeals::put_border(LatencyIdeal& ideal) const {
  const auto outside = [&](int group) { return !ideal.has(model_.block_of[at(group)]); };
  for (int b = 0; b < model_.blocks; ++b) {
    if (!ideal.has(b)) continue;
    for (const int g : model_.members[b]) {
      if (std::ranges::any_of(model_.follows[g], outside)) ideal.border.push_back(g);
    }
  }
  ideal.waits.resize(ideal.border.size());
  for (std::size_t i = 0; i < ideal.border.size(); ++i) {
    const int g = ideal.border[i];
    const auto later = model_.later[g];
    for (std::size_t j = 0; j < later.size(); ++j) {
      if (!outside(later[j])) continue;
      const auto edge = model_.later_edge[at(model_.later.begin[at(g)]) + j];
      ideal.exits.push_back({static_cast<int>(i), edge});
    }
    if (ideal.border.size() > kWidestBorder) continue;
    for (const int follower : model_.follows[g]) {
      if (!outside(follower)) continue;
      std::uint64_t set = std::uint64_t{1} << i;
      for (std::size_t k = 0; k < ideal.border.size(); ++k) {
        if (ancestors_.has(follower, ideal.border[k])) set |= std::uint64_t{1} << k;
      }
      ideal.waits[i].push_back(set);
    }
    keep_minimal(ideal.waits[i]);
  }
}

/// Lets each group of the border end as late as changes nothing: when every stage that will read it
/// may begin, for the other groups that the stage waits for.
void LatencyIdeals::normalise(const LatencyIdeal& ideal, LatencyLabel& label) const {
  const auto own = label.end;
  for (std::size_t i = 0; i < own.size(); ++i) {
    double earliest = kInfinite;
    for (auto set : ideal.waits[i]) {
      double start = 0;
      for (; set != 0; set &= set - 1) start = std::max(start, own[at(std::countr_zero(set))]);
      earliest = std::min(earliest, start);
    }
    if (earliest < kInfinite) label.end[i] = earliest;
  }
}

/// Whatever follows `b`, the same after `a` ends no later.
bool LatencyIdeals::dominates(const LatencyLabel& a, const LatencyLabel& b) const {
  if (a.done > b.bound || !model_.uses_no_more(a.code, b.code)) return false;
  for (std::size_t i = 0; i < a.end.size(); ++i) {
    if (a.end[i] > b.end[i]) return false;
  }
  return true;
}

bool LatencyIdeals::put(LatencyLabel label) {
  auto& ideal = ideals_[at(label.ideal)];
  normalise(ideal, label);
  label.bound = std::max(label.bound, label.done);
  for (const auto& exit : ideal.exits) {
    label.bound =
        std::max(label.bound, label.end[at(exit.place)] + tails_.tail(exit.edge, label.code));
  }
  if (too_late(label.bound)) return false;
  for (const int other : ideal.labels) {
    if (dominates(labels_[at(other)], label)) return false;
  }
  std::erase_if(ideal.labels, [&](int other) { return dominates(label, labels_[at(other)]); });
  numbers_ += label.end.size() + 10;
  ideal.labels.push_back(static_cast<int>(labels_.size()));
  labels_.push_back(std::move(label));
  return true;
}

double LatencyIdeals::open_bound(int size, std::size_t first) const {
  double least = limit_;
  for (int s = size; s < model_.blocks; ++s) {
    for (std::size_t i = s == size ? first : 0; i < of_size_[at(s)].size(); ++i) {
      for (const int label : ideals_[at(of_size_[at(s)][i])].labels) {
        least = std::min(least, labels_[at(label)].bound);
      }
    }
  }
  return least;
}

}  // namespace penstock::planner
