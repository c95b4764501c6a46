#include "penstock/planner/pipedream.h"

#include <algorithm>

#include "penstock/planner/blocks.h"
#include "penstock/planner/index.h"

namespace penstock::planner {
namespace {

constexpr double kMostSteps = 5e7;  // Some tenths of a second.

struct Choice {
  double load = kInfinite;
  int mode = -1;
};

/// What the interval [begin, end) of blocks costs on each type, while begin moves down.
class Interval {
 public:
  explicit Interval(const Instance& instance)
      : instance_(instance), inside_(at(instance.values), 0), has_producer_(at(instance.values)) {}

  void clear() {
    std::ranges::fill(inside_, 0);
    std::fill(has_producer_.begin(), has_producer_.end(), false);
    compute_ = instance_.mode_launch;
    in_.assign(at(instance_.types), 0);
    out_.assign(at(instance_.types), 0);
    memory_ = 0;
  }

  void add(int group) {
    memory_ += instance_.memory[at(group)];
    for (int m = 0; m < instance_.modes; ++m) compute_[at(m)] += instance_.time_of(group, m);
    for (const int v : instance_.values_of[group]) {
      move(v, -1);
      ++inside_[at(v)];
      if (instance_.producer[at(v)] == group) has_producer_[at(v)] = true;
      move(v, 1);
    }
  }

  [[nodiscard]] Choice best(int type) const {
    Choice choice;
    if (memory_ > instance_.type_memory[at(type)]) return choice;
    for (int m = 0; m < instance_.modes; ++m) {
      if (instance_.mode_type[at(m)] != type) continue;
      const double load = combine(compute_[at(m)], type);
      if (load < choice.load) choice = {load, m};
    }
    return choice;
  }

 private:
  /// Adds the value's transfers, or takes them away.
  void move(int value, double sign) {
    if (inside_[at(value)] == 0) return;
    const bool sends = has_producer_[at(value)];
    if (sends && inside_[at(value)] == static_cast<int>(instance_.pins[value].size())) return;
    for (int t = 0; t < instance_.types; ++t) {
      const auto where = at(value, instance_.types, t);
      (sends ? out_ : in_)[at(t)] += sign * (sends ? instance_.send : instance_.receive)[where];
    }
  }

  [[nodiscard]] double combine(double compute, int type) const {
    const double in = in_[at(type)], out = out_[at(type)];
    switch (instance_.type_overlap[at(type)]) {
      case Overlap::kSerial:
        return compute + in + out;
      case Overlap::kHalfDuplex:
        return std::max(compute, in + out);
      case Overlap::kFullDuplex:
        return std::max({compute, in, out});
    }
    return kInfinite;
  }

  const Instance& instance_;
  std::vector<int> inside_;         // [value] Pins inside.
  std::vector<bool> has_producer_;  // [value]
  std::vector<double> compute_;     // [mode]
  std::vector<double> in_, out_;    // [type]
  double memory_ = 0;
};

class Cutter {
 public:
  Cutter(const Instance& instance, const std::vector<bool>& usable)
      : instance_(instance),
        blocks_(find_blocks(instance)),
        size_(static_cast<int>(blocks_.size())) {
    for (int t = 0; t < instance.types; ++t) {
      radix_.push_back(states_);
      count_.push_back(usable[at(t)] ? instance.type_count[at(t)] : 0);
      states_ *= count_.back() + 1;
    }
  }

  std::optional<Split> run() {
    if (states_ * instance_.types * 0.5 * size_ * size_ > kMostSteps) return std::nullopt;
    const int states = static_cast<int>(states_);
    cost_.assign(at(states) * at(size_ + 1), kInfinite);
    from_.assign(cost_.size(), {});
    for (int s = 0; s < states; ++s) cost_[at(s, size_ + 1, 0)] = 0;
    Interval interval(instance_);
    for (int end = 1; end <= size_; ++end) {
      interval.clear();
      for (int begin = end - 1; begin >= 0; --begin) {
        for (const int group : blocks_[at(begin)]) interval.add(group);
        for (int t = 0; t < instance_.types; ++t) {
          if (count_[at(t)] > 0) extend(begin, end, t, interval.best(t), states);
        }
      }
    }
    return trace(states - 1);
  }

 private:
  struct From {
    int state = 0, begin = 0, mode = -1;
  };

  [[nodiscard]] int used(int state, int type) const {
    return static_cast<int>(state / radix_[at(type)]) % (count_[at(type)] + 1);
  }

  void extend(int begin, int end, int type, Choice choice, int states) {
    if (choice.mode < 0) return;
    const int step = static_cast<int>(radix_[at(type)]);
    for (int s = step; s < states; ++s) {
      if (used(s, type) == 0) continue;
      const double cost = std::max(choice.load, cost_[at(s - step, size_ + 1, begin)]);
      auto& best = cost_[at(s, size_ + 1, end)];
      if (cost >= best) continue;
      best = cost;
      from_[at(s, size_ + 1, end)] = {s - step, begin, choice.mode};
    }
  }

  [[nodiscard]] std::optional<Split> trace(int state) const {
    if (cost_[at(state, size_ + 1, size_)] == kInfinite) return std::nullopt;
    std::vector<int> device(1, 0);  // Next of each type.
    for (const int count : instance_.type_count) device.push_back(device.back() + count);
    Split split;
    for (int end = size_; end > 0;) {
      const auto& from = from_[at(state, size_ + 1, end)];
      const int type = instance_.mode_type[at(from.mode)];
      Stage stage{{}, from.mode, {device[at(type)]++}};
      for (int b = from.begin; b < end; ++b) {
        stage.groups.insert(stage.groups.end(), blocks_[at(b)].begin(), blocks_[at(b)].end());
      }
      std::ranges::sort(stage.groups);
      split.stages.push_back(std::move(stage));
      end = from.begin;
      state = from.state;
    }
    std::ranges::reverse(split.stages);
    return split;
  }

  const Instance& instance_;
  std::vector<std::vector<int>> blocks_;
  int size_;
  std::vector<double> radix_;  // A state is the sum of radix * devices used of each type.
  std::vector<int> count_;
  double states_ = 1;
  std::vector<double> cost_;  // [state][end]
  std::vector<From> from_;
};

}  // namespace

std::optional<Split> pipedream_split(const Instance& instance, const std::vector<bool>& usable) {
  return Cutter(instance, usable).run();
}

}  // namespace penstock::planner
