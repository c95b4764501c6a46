#include "penstock/planner/probe.h"

#include <algorithm>

#include "penstock/planner/devices.h"

namespace penstock::planner {

Probe::Probe(const Line& line) : line_(&line), capped_(line.model().latency_cap < kInfinite) {
  const auto& instance = line.model().instance;
  for (int t = 0; t < instance.types; ++t) {
    stride_.push_back(multisets_);
    multisets_ = std::min(multisets_ * (instance.type_count[at(t)] + 1), 2 * kMostMultisets);
  }
  used_.resize(at(instance.types));
  left_.resize(at(instance.types));
}

void Probe::load_counts(std::int64_t multiset) {
  const auto& model = line_->model();
  for (int t = 0; t < model.instance.types; ++t) {
    const int count = model.instance.type_count[at(t)];
    used_[at(t)] = static_cast<int>(multiset / stride_[at(t)] % (count + 1));
    left_[at(t)] = count - used_[at(t)];
  }
  capacity_.clear();
  for (const auto& prices : model.prices) {
    capacity_.push_back(prices.capacity(left_, period_) * (1 + kSlack));
  }
}

/// Whether the devices left may suffice for what lies behind the point.
bool Probe::completes(const Point& point) const {
  if (point.stage.duration > line_->model().latency_cap) return false;
  for (int i = 0; i < static_cast<int>(capacity_.size()); ++i) {
    if (capacity_[at(i)] == kInfinite) continue;
    if (line_->rest(i, point.place) > capacity_[at(i)]) return false;
    if (line_->rest_lacks(i, point.place)) return false;
  }
  return true;
}

std::span<const Interval> Probe::reach(int begin, int mode, int replicas) {
  const int modes = line_->model().instance.modes;
  const auto slot = at((replicas - 1) * modes + mode, line_->size() + 1, begin);
  if (slot >= reached_.size()) {
    reached_.resize(at(replicas * modes, line_->size() + 1, 0), {-1, -1});
  }
  auto& [first, last] = reached_[slot];
  if (first < 0) {
    first = static_cast<int>(stages_.size());
    line_->reach(begin, mode, replicas, period_, capped_, stages_);
    last = static_cast<int>(stages_.size());
  }
  return {stages_.data() + first, static_cast<std::size_t>(last - first)};
}

void Probe::extend(int from, int mode, int replicas) {
  const auto point = points_[at(from)];
  for (const auto& stage : reach(point.place, mode, replicas)) {
    Point next{stage.end, from, stage};
    next.stage.duration += point.stage.duration;
    if (completes(next)) fresh_.push_back(next);
  }
}

/// Moves what no other fresh point covers to points_.
void Probe::keep_uncovered(std::size_t first) {
  std::ranges::sort(fresh_, [](const Point& a, const Point& b) {
    return a.place != b.place ? a.place > b.place : a.stage.duration < b.stage.duration;
  });
  int covered_from = line_->size() + 1;
  for (const auto& point : fresh_) {
    bool covered = point.place >= covered_from;
    if (capped_) {
      covered = std::any_of(points_.begin() + static_cast<std::ptrdiff_t>(first), points_.end(),
                            [&](const Point& other) {
                              return line_->covered_from(other.place) <= point.place &&
                                     other.stage.duration <= point.stage.duration;
                            });
    }
    if (covered) continue;
    covered_from = std::min(covered_from, line_->covered_from(point.place));
    points_.push_back(point);
  }
}

std::vector<Interval> Probe::trace(int point) const {
  std::vector<Interval> stages;
  for (int i = point; points_[at(i)].parent >= 0; i = points_[at(i)].parent) {
    stages.push_back(points_[at(i)].stage);
  }
  std::ranges::reverse(stages);
  return stages;
}

std::vector<Interval> Probe::run(double period, const Budget& budget) {
  const auto& instance = line_->model().instance;
  period_ = period;
  points_.assign(1, Point{});
  first_point_.assign({0, 1});
  stages_.clear();
  std::ranges::fill(reached_, std::pair{-1, -1});
  for (std::int64_t multiset = 1; multiset < multisets_; ++multiset) {
    if (multiset % 64 == 0 && budget.over()) return {};
    load_counts(multiset);
    fresh_.clear();
    for (int m = 0; m < instance.modes; ++m) {
      const auto type = at(instance.mode_type[at(m)]);
      const int most = line_->model().replicas ? used_[type] : std::min(1, used_[type]);
      for (int r = 1; r <= most; ++r) {
        const auto before = static_cast<std::size_t>(multiset - r * stride_[type]);
        for (int p = first_point_[before]; p < first_point_[before + 1]; ++p) extend(p, m, r);
      }
    }
    const auto first = points_.size();
    keep_uncovered(first);
    if (points_.size() > first && points_[first].place == line_->size()) {
      return trace(static_cast<int>(first));
    }
    first_point_.push_back(static_cast<int>(points_.size()));
  }
  return {};
}

namespace {

double largest_load(std::span<const Interval> stages) {
  double load = 0;
  for (const auto& stage : stages) load = std::max(load, stage.load);
  return load;
}

}  // namespace

LineResult best_on_line(const Line& line, double lower, double upper, const Budget& budget) {
  LineResult best;
  Probe probe(line);
  if (!probe.possible()) return best;
  const auto improve = [&](double period) {
    auto stages = probe.run(period, budget);
    if (stages.empty()) return false;
    best.period = upper = largest_load(stages);
    best.stages = std::move(stages);
    return true;
  };
  if (upper < kInfinite) {
    if (!improve(upper * (1 - kPrecision))) return {{}, kInfinite, !budget.over()};
  } else {
    // Rise from the lower bound: most lines come close to it.
    double step = 0.01;
    while (lower > 0 && step < 1e3 && !improve(lower * (1 + step)) && !budget.over()) {
      lower *= 1 + step;
      step *= 2;
    }
    if (best.stages.empty() && !improve(kInfinite)) return {{}, kInfinite, !budget.over()};
  }
  while (!budget.over()) {
    // Halve the gap; when it is small, or halving has just failed, ask for the proof.
    const double middle = lower + (upper - lower) / 2;
    if (middle < upper * (1 - 1e-4)) {
      if (!improve(middle)) lower = middle;
    } else if (!improve(upper * (1 - kPrecision))) {
      best.proved = !budget.over();
      break;
    }
  }
  return best;
}

Split split_of(const Line& line, std::span<const Interval> stages) {
  DeviceDealer dealer(line.model().instance);
  Split split;
  for (const auto& interval : stages) {
    Stage stage;
    stage.groups.assign(line.order().begin() + interval.begin, line.order().begin() + interval.end);
    std::ranges::sort(stage.groups);
    stage.mode = interval.mode;
    stage.devices = dealer.deal(interval.mode, interval.replicas);
    split.stages.push_back(std::move(stage));
  }
  return split;
}

}  // namespace penstock::planner
