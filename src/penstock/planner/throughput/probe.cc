// Dynamic programming over multisets of devices and places, and bisection of the period.
#include "penstock/planner/throughput/probe.h"

#include <algorithm>
#include <functional>

#include "penstock/planner/throughput/devices.h"

namespace penstock::planner {
namespace {

constexpr std::int64_t kStepsPerLook = 1 << 14;  // Some hundred microseconds.

}  // namespace

Probe::Probe(const Line& line) : line_(&line), capped_(line.model().latency_cap < kInfinite) {
  const auto& instance = line.model().instance;
  for (int t = 0; t < instance.types; ++t) {
    stride_.push_back(multisets_);
    multisets_ = std::min(multisets_ * (instance.type_count[at(t)] + 1), 2 * kMostMultisets);
  }
  used_.resize(at(instance.types));
  left_.resize(at(instance.types));
}

void Probe::start(double period) {
  period_ = period;
  points_.assign(1, Point{});
  first_point_.assign({0, 1});
  fresh_.clear();
  fresh_at_.assign(at(line_->size()) + 1, -1);
  least_.assign(at(line_->size()) + 2, kInfinite);
  stages_.clear();
  std::ranges::fill(reached_, std::pair{-1, -1});
}

bool Probe::over(const Budget& budget) {
  if (steps_ < kStepsPerLook || over_) return over_;
  steps_ = 0;
  return over_ = budget.over();
}

void Probe::load_counts(std::int64_t multiset) {
  const auto& instance = line_->model().instance;
  for (int t = 0; t < instance.types; ++t) {
    const int count = instance.type_count[at(t)];
    used_[at(t)] = static_cast<int>(multiset / stride_[at(t)] % (count + 1));
    left_[at(t)] = count - used_[at(t)];
  }
  offer_capacity();
}

void Probe::offer_capacity() {
  capacity_.clear();
  for (const auto& prices : line_->model().prices) {
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

/// Of points at one place of one label the one with the least duration will do.
void Probe::put(const Point& point) {
  auto& there = fresh_at_[at(point.place)];
  if (there < 0) {
    there = static_cast<int>(fresh_.size());
    fresh_.push_back(point);
  } else if (point.stage.duration < fresh_[at(there)].stage.duration) {
    fresh_[at(there)] = point;
  }
}

void Probe::extend(int from, int mode, int replicas) {
  const auto point = points_[at(from)];
  const auto asked = stages_.size();
  const auto stages = reach(point.place, mode, replicas);
  // A stage that is met for the first time takes a look at all places that it may end at.
  if (stages_.size() > asked) steps_ += line_->size() - point.place;
  steps_ += 1 + static_cast<std::int64_t>(stages.size());
  for (const auto& stage : stages) {
    Point next{stage.end, from, stage};
    next.stage.duration += point.stage.duration;
    if (completes(next)) put(next);
  }
}

void Probe::extend_all(std::int64_t label, int mode, int replicas, const Budget& budget) {
  const auto i = static_cast<std::size_t>(label);
  for (int p = first_point_[i]; p < first_point_[i + 1] && !over(budget); ++p) {
    extend(p, mode, replicas);
  }
}

/// Whether a point that was kept covers it in no more time.
bool Probe::covered(const Point& point) const {
  double least = kInfinite;
  for (int i = point.place + 1; i > 0; i -= i & -i) least = std::min(least, least_[at(i)]);
  return least <= point.stage.duration;
}

/// Points behind `from` are covered in `duration`; infinite forgets it.
void Probe::cover(int from, double duration) {
  for (int i = from + 1; i < static_cast<int>(least_.size()); i += i & -i) {
    least_[at(i)] = duration < kInfinite ? std::min(least_[at(i)], duration) : kInfinite;
  }
}

/// Moves what no other fresh point covers to points_. Tells whether the line's end is among them;
/// it is then the first.
bool Probe::close_label() {
  std::ranges::sort(fresh_, std::greater<>(), &Point::place);
  const auto first = points_.size();
  int covered_from = line_->size() + 1;
  for (const auto& point : fresh_) {
    fresh_at_[at(point.place)] = -1;
    if (capped_ ? covered(point) : point.place >= covered_from) continue;
    const int from = line_->covered_from(point.place);
    covered_from = std::min(covered_from, from);
    if (capped_) cover(from, point.stage.duration);
    points_.push_back(point);
  }
  for (auto i = first; i < points_.size() && capped_; ++i) {
    cover(line_->covered_from(points_[i].place), kInfinite);
  }
  fresh_.clear();
  first_point_.push_back(static_cast<int>(points_.size()));
  return first < points_.size() && points_[first].place == line_->size();
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
  start(period);
  for (std::int64_t multiset = 1; multiset < multisets_; ++multiset) {
    ++steps_;
    load_counts(multiset);
    for (int m = 0; m < instance.modes; ++m) {
      const auto type = at(instance.mode_type[at(m)]);
      const int most = line_->model().replicas ? used_[type] : std::min(1, used_[type]);
      for (int r = 1; r <= most; ++r) extend_all(multiset - r * stride_[type], m, r, budget);
    }
    if (over(budget)) return {};
    if (close_label()) return trace(first_point_[static_cast<std::size_t>(multiset)]);
  }
  return {};
}

std::vector<Interval> Probe::run(double period, std::span<const int> sequence,
                                 const Budget& budget) {
  const auto& instance = line_->model().instance;
  start(period);
  left_ = instance.type_count;
  for (std::size_t i = 0; i < sequence.size() && !budget.over(); ++i) {
    --left_[at(sequence[i])];
    offer_capacity();
    for (int p = first_point_[i]; p < first_point_[i + 1]; ++p) {  // Those that skip the device.
      if (points_[at(p)].parent >= 0 && completes(points_[at(p)])) put(points_[at(p)]);
    }
    for (int r = 1; at(r) <= i + 1 && sequence[i + 1 - at(r)] == sequence[i]; ++r) {
      if (r > 1 && !line_->model().replicas) break;
      for (int m = 0; m < instance.modes; ++m) {
        if (instance.mode_type[at(m)] != sequence[i]) continue;
        extend_all(static_cast<std::int64_t>(i + 1) - r, m, r, budget);
      }
    }
    if (over(budget)) return {};
    if (close_label()) return trace(first_point_[i + 1]);
  }
  return {};
}

namespace {

double largest_load(std::span<const Interval> stages) {
  double load = 0;
  for (const auto& stage : stages) load = std::max(load, stage.load);
  return load;
}

constexpr double kFarAway = 1.5;
constexpr double kSmallGap = 1e-4;  // Below it, asking for the proof is as good as halving.

/// Bisection; `run(period)` gives stages with loads below the period, or none.
template <typename Run>
LineResult bisect(const Run& run, double lower, double upper, const Budget& budget) {
  LineResult best;
  const auto improve = [&](double period) {
    auto stages = run(period);
    if (stages.empty()) return false;
    best.period = upper = largest_load(stages);
    best.stages = std::move(stages);
    return true;
  };
  // Rise from the lower bound: most lines come close to it. Not where a better plan is at hand.
  if (upper > kFarAway * lower) {
    double step = 0.01;
    while (lower > 0 && lower * (1 + step) < upper && !budget.over()) {
      if (improve(lower * (1 + step))) break;
      lower *= 1 + step;
      step *= 2;
    }
  }
  if (best.stages.empty() && !improve(upper * (1 - kPrecision))) {
    return {{}, kInfinite, !budget.over()};
  }
  while (!budget.over()) {
    const double middle = lower + (upper - lower) / 2;
    if (middle < upper * (1 - kSmallGap)) {
      if (!improve(middle)) lower = middle;
    } else if (!improve(upper * (1 - kPrecision))) {
      best.proved = !budget.over();
      break;
    }
  }
  return best;
}

}  // namespace

LineResult best_on_line(const Line& line, double lower, double upper, const Budget& budget) {
  Probe probe(line);
  if (!probe.possible()) return {};
  return bisect([&](double period) { return probe.run(period, budget); }, lower, upper, budget);
}

LineResult best_on_line(const Line& line, std::span<const int> sequence, double lower, double upper,
                        const Budget& budget) {
  Probe probe(line);
  auto best = bisect([&](double period) { return probe.run(period, sequence, budget); }, lower,
                     upper, budget);
  best.proved = false;
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
