// Longest paths of least times to the end, and the earlier groups that a stage must wait for.
#include "penstock/planner/throughput/ready_times.h"

#include <algorithm>

#include "penstock/planner/problem/index.h"

namespace penstock::planner {

ReadyTimes::ReadyTimes(const Instance& instance)
    : instance_(&instance), chain_(at(instance.groups), 0) {
  for (int g = instance.groups - 1; g >= 0; --g) {
    double least = kInfinite;
    for (int m = 0; m < instance.modes; ++m) {
      const bool any = instance.type_count[at(instance.mode_type[at(m)])] > 0;
      if (any) least = std::min(least, instance.time_of(g, m));
    }
    double behind = 0;
    for (const int after : instance.after[g]) behind = std::max(behind, chain_[at(after)]);
    chain_[at(g)] = least + behind;
  }
  for (int g = 0; g < instance.groups; ++g) {
    std::vector<int> values;
    for (const int v : instance.values_of[g]) {
      if (instance.producer[at(v)] == g) values.push_back(v);
    }
    produced_.add(values);
  }
}

template <typename Test>
bool ReadyTimes::any_reader(int group, Test test) const {
  if (std::ranges::any_of(instance_->after[group], test)) return true;
  return std::ranges::any_of(produced_[group],
                             [&](int v) { return std::ranges::any_of(instance_->pins[v], test); });
}

double ReadyTimes::tail(std::span<const Word> ideal, int group) const {
  double longest = 0;
  for (const int after : instance_->after[group]) {
    if (!has_bit(ideal, after)) longest = std::max(longest, chain_[at(after)]);
  }
  return longest;
}

void ReadyTimes::append_sources(std::span<const Word> ideal, std::vector<int>& sources) const {
  for (int g = 0; g < instance_->groups; ++g) {
    if (!has_bit(ideal, g)) continue;
    if (any_reader(g, [&](int reader) { return !has_bit(ideal, reader); })) sources.push_back(g);
  }
}

std::vector<int> ReadyTimes::awaited(std::span<const int> sources, std::span<const Word> before,
                                     std::span<const Word> after) const {
  std::vector<int> places;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto in_stage = [&](int reader) {
      return has_bit(after, reader) && !has_bit(before, reader);
    };
    if (any_reader(sources[i], in_stage)) places.push_back(static_cast<int>(i));
  }
  return places;
}

}  // namespace penstock::planner
