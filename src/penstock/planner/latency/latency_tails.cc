// Chooses a longest path for each group, and prices its runs as calls, from the end backwards.
#include "penstock/planner/latency/latency_tails.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "penstock/planner/problem/index.h"

namespace penstock::planner {
namespace {

constexpr int kNone = -1;
constexpr double kTailWork = 1e9;  // Steps, about: some seconds.

double least_call_time(const LatencyModel& model, int group) {
  double least = kInfinite;
  for (const auto& call : model.calls) least = std::min(least, call.time[planner::at(group)]);
  return least;
}

/// What the pair's values cost at least to send.
double least_sending(const LatencyModel& model, int from, int to) {
  double sum = 0;
  for (const int v : model.reads[to]) {
    if (model.producer[planner::at(v)] != from) continue;
    double least = kInfinite;
    for (const auto& call : model.calls) {
      least = std::min(least, model.send[planner::at(v, model.types, call.type)]);
    }
    sum += least;
  }
  return sum;
}

}  // namespace

/// A set of groups that grows along a path, closed under "between" and "on the same device".
class LatencyTails::Run {
 public:
  explicit Run(const LatencyModel& model)
      : model_(model),
        up_(ancestors(model)),
        down_(descendants(model)),
        above_(1, model.groups),
        below_(1, model.groups),
        inside_(planner::at(model.groups), 0),
        sum_(planner::at(model.groups), 0) {
    for (const auto& call : model.calls) largest_ = std::max(largest_, call.memory);
    largest_ *= 1 + 1e-9;
  }

  void clear() {
    for (const int g : groups_) inside_[planner::at(g)] = 0;
    groups_.clear();
    std::fill_n(above_.row(0), above_.words(), 0);
    std::fill_n(below_.row(0), below_.words(), 0);
    memory_ = 0;
    closed_ = 0;
  }
  /// False where the run is larger than every device.
  bool add(int group) {
    take(group);
    while (closed_ < groups_.size()) {
      for (; closed_ < groups_.size(); ++closed_) {
        const int g = groups_[closed_];
        above_.add_row(0, up_, g);
        below_.add_row(0, down_, g);
        take_partners(g);
      }
      if (memory_ > largest_) return false;
      for (std::size_t w = 0; w < above_.words(); ++w) {
        for (auto bits = above_.row(0)[w] & below_.row(0)[w]; bits != 0; bits &= bits - 1) {
          take(static_cast<int>(w * 64) + std::countr_zero(bits));
        }
      }
    }
    return true;
  }
  [[nodiscard]] bool has(int group) const { return inside_[planner::at(group)] != 0; }

  /// The least time of a call with these groups between `from` and `to` (kNone: the frame's ends).
  double cost(const LatencyModel::CallMode& call, int from, int to) {
    if (memory_ > call.memory * (1 + 1e-9)) return kInfinite;
    double sum = call.launch;
    for (const int g : groups_) sum += call.time[planner::at(g)];
    return sum < kInfinite ? sum + receiving(call, from) + sending(call, to) : kInfinite;
  }
  [[nodiscard]] double compute(const LatencyModel::CallMode& call) const {
    double sum = call.launch;
    for (const int g : groups_) sum += call.time[planner::at(g)];
    return sum;
  }

 private:
  void take(int group) {
    if (has(group)) return;
    inside_[planner::at(group)] = 1;
    groups_.push_back(group);
    memory_ += model_.memory[planner::at(group)];
  }
  void take_partners(int group) {
    const int block = model_.block_of[planner::at(group)];
    for (const int g : model_.members[block]) take(g);
    const int set = model_.set_of[planner::at(block)];
    if (set < 0) return;
    for (const int other : model_.set_blocks[set]) {
      for (const int g : model_.members[other]) take(g);
    }
  }
  double receiving(const LatencyModel::CallMode& call, int from) {
    outside_.clear();
    ++mark_;
    marks_.resize(planner::at(model_.values), 0);
    for (const int g : groups_) {
      for (const int v : model_.reads[g]) {
        const int producer = model_.producer[planner::at(v)];
        if (has(producer) || marks_[planner::at(v)] == mark_) continue;
        marks_[planner::at(v)] = mark_;
        if (sum_[planner::at(producer)] == 0) outside_.push_back(producer);
        sum_[planner::at(producer)] += model_.receive[planner::at(v, model_.types, call.type)];
      }
    }
    double total = 0;
    for (const int producer : outside_) {
      double& sum = sum_[planner::at(producer)];
      const bool surely = from >= 0 && up_.has(from, producer);
      total += surely ? sum : std::min(sum, call.time[planner::at(producer)]);
      sum = 0;
    }
    return total;
  }
  [[nodiscard]] double sending(const LatencyModel::CallMode& call, int to) const {
    double total = 0;
    if (to < 0) return total;
    for (const int g : groups_) {
      for (const int v : model_.writes[g]) {
        const auto readers = model_.consumers[v];
        const bool leaves = std::ranges::any_of(
            readers, [&](int reader) { return !has(reader) && down_.has(to, reader); });
        if (leaves) total += model_.send[planner::at(v, model_.types, call.type)];
      }
    }
    return total;
  }

  const LatencyModel& model_;
  BitRows up_, down_, above_, below_;
  std::vector<char> inside_;
  std::vector<double> sum_;  // [producer] Of the values received from it; 0 between uses.
  std::vector<int> groups_, outside_, marks_;
  std::size_t closed_ = 0;
  int mark_ = 0;
  double memory_ = 0, largest_ = 0;
};

void LatencyTails::choose_paths() {
  const auto count = planner::at(model_.groups);
  next_.assign(count, kNone);
  next_edge_.assign(count, kNone);
  least_.assign(count, 0);
  std::vector<double> weight(count, 0);  // Longest in time, then in what cutting it costs.
  for (auto g = model_.topological.rbegin(); g != model_.topological.rend(); ++g) {
    const auto later = model_.later[*g];
    double& own = weight[planner::at(*g)];
    double& least = least_[planner::at(*g)];
    for (std::size_t i = 0; i < later.size(); ++i) {
      const double now = weight[planner::at(later[i])];
      least = std::max(least, least_[planner::at(later[i])]);
      if (i > 0 && now <= own) continue;
      own = now;
      next_[planner::at(*g)] = later[i];
      next_edge_[planner::at(*g)] =
          model_.later_edge[planner::at(model_.later.begin[planner::at(*g)]) + i];
    }
    const double call = least_call_time(model_, *g);
    least += std::min(call, model_.core_time[planner::at(*g)]);
    own += std::min(call, model_.core_time[planner::at(*g)]);
    if (next_[planner::at(*g)] >= 0)
      own += 0.01 * least_sending(model_, *g, next_[planner::at(*g)]);
  }
}

double LatencyTails::after(int group, int code) const {
  const int edge = next_edge_[planner::at(group)];
  return edge < 0 ? 0 : tail(edge, code);
}

void LatencyTails::put_tail(int from, int to, Run& run, const Budget& budget, double* best) const {
  for (int code = 0; code < model_.codes; ++code) {
    best[code] = model_.core_time[planner::at(to)] + after(to, code);
  }
  const auto offer = [&](const LatencyModel::CallMode& call, double cost, auto rest) {
    const int stride = model_.pools[planner::at(call.pool)].stride;
    for (int code = 0; code < model_.codes && cost < kInfinite; ++code) {
      if (!model_.has_left(code, call.pool)) continue;
      best[code] = std::min(best[code], cost + rest(code + stride));
    }
  };
  run.clear();
  const int longest = budget.over() ? 1 : longest_;
  int steps = 0;
  for (int end = to; end >= 0; end = next_[planner::at(end)]) {
    if (!run.add(end) || (from >= 0 && run.has(from))) return;
    const int next = next_[planner::at(end)];
    if (next >= 0 && run.has(next)) continue;
    const bool last = ++steps >= longest;  // Runs on with transfers free and without a cap.
    for (const auto& call : model_.calls) {
      offer(call, run.cost(call, from, next), [&](int code) { return after(end, code); });
      if (!last || next < 0) continue;
      offer(call, run.compute(call), [&](int) { return least_[planner::at(next)]; });
    }
    if (last) return;
  }
}

void LatencyTails::put_join(int from, int to, int edge) {
  const double sending = least_sending(model_, from, to), time = least_call_time(model_, to);
  const int onward = next_edge_[planner::at(to)];
  for (int code = 0; code < model_.codes; ++code) {
    const double joined = time + (onward < 0 ? 0 : join(onward, code));
    join_[at(edge, code)] = std::min(sending + tail(edge, code), joined);
  }
}

LatencyTails::LatencyTails(const LatencyModel& model, const Budget& budget) : model_(model) {
  choose_paths();
  const auto runs = static_cast<double>(model.earlier.items.size() + 1);
  longest_ = 1 + static_cast<int>(std::sqrt(kTailWork / runs));
  tail_.resize(model.earlier.items.size() * planner::at(model.codes));
  join_.resize(tail_.size());
  Run run(model);
  std::vector<double> whole(planner::at(model.codes));
  for (auto g = model.topological.rbegin(); g != model.topological.rend(); ++g) {
    const auto earlier = model.earlier[*g];
    for (std::size_t i = 0; i < earlier.size(); ++i) {
      const int edge = model.earlier.begin[planner::at(*g)] + static_cast<int>(i);
      put_tail(earlier[i], *g, run, budget, &tail_[at(edge, 0)]);
      put_join(earlier[i], *g, edge);
    }
    if (!earlier.empty()) continue;
    put_tail(kNone, *g, run, budget, whole.data());
    bound_ = std::max(bound_, whole.front());
  }
}

}  // namespace penstock::planner
