// For each count of devices, solves below caps on latency and memory that fall from plan to plan.
#include "penstock/planner/report/pareto.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <numeric>
#include <set>

#include "penstock/planner/problem/index.h"
#include "penstock/planner/solve.h"

namespace penstock::planner {
namespace {

constexpr int kMostCounts = 40;     // Combinations of device counts.
constexpr int kMostBoxes = 200;     // Solved for each of them.
constexpr int kMostHalvings = 24;   // Of what the least memory may be.
constexpr double kLargeStep = 0.9;  // The next cap, times what the last one gave.
constexpr double kLeastStep = 1 - 1e-8;
constexpr double kSolveShare = 0.25;  // Of the time left for a combination of counts.
constexpr double kLeastShare = 0.02;  // Of its time; less is not worth another solve.

using Counts = std::vector<int>;  // Devices of each type.

/// All counts but none at all, few devices first; thinned out evenly where they are too many.
std::vector<Counts> counts_of(const Problem& problem) {
  std::vector<Counts> all{{}};
  for (const auto& type : problem.types) {
    std::vector<Counts> longer;
    const int most = static_cast<int>(type.devices.size());
    const int step = 1 + most / kMostCounts;
    for (const auto& counts : all) {
      for (int n = most; n >= 0; n -= step) {
        longer.push_back(counts);
        longer.back().push_back(n);
      }
    }
    if (longer.size() > 4096) {  // Many types: keep the few and the full.
      std::erase_if(longer, [&](const Counts& counts) {
        return counts.back() != 0 && counts.back() != most;
      });
    }
    all = std::move(longer);
  }
  const auto devices = [](const Counts& counts) {
    return std::accumulate(counts.begin(), counts.end(), 0);
  };
  std::erase_if(all, [&](const Counts& counts) { return devices(counts) == 0; });
  std::ranges::stable_sort(all, {}, devices);
  std::vector<Counts> kept;
  const auto size = all.size();
  for (std::size_t i = 0; i < size; ++i) {
    const auto share = std::min<std::size_t>(size, kMostCounts);
    if (i + 1 == size || (i + 1) * share / size != i * share / size) kept.push_back(all[i]);
  }
  return kept;
}

/// `problem` with the first devices of each type only.
Problem with_devices(Problem problem, const Counts& counts) {
  for (std::size_t t = 0; t < counts.size(); ++t) problem.types[t].devices.resize(at(counts[t]));
  return problem;
}

/// The split's devices as those of the whole problem.
Split with_all(const Problem& problem, const Counts& counts, Split split) {
  std::vector<int> index;
  int first = 0;
  for (std::size_t t = 0; t < counts.size(); ++t) {
    for (int d = 0; d < counts[t]; ++d) index.push_back(first + d);
    first += static_cast<int>(problem.types[t].devices.size());
  }
  for (auto& stage : split.stages) {
    for (int& device : stage.devices) device = index[at(device)];
  }
  return split;
}

/// For each type how many of its devices the split uses.
Counts used_by(const Problem& problem, const Split& split) {
  std::set<int> devices;
  for (const auto& stage : split.stages) devices.insert(stage.devices.begin(), stage.devices.end());
  Counts counts;
  int first = 0;
  for (const auto& type : problem.types) {
    const int end = first + static_cast<int>(type.devices.size());
    counts.push_back(
        static_cast<int>(std::distance(devices.lower_bound(first), devices.lower_bound(end))));
    first = end;
  }
  return counts;
}

ParetoPoint point_of(const Problem& problem, Split split) {
  const auto found = evaluate(problem, split);
  const auto used = used_by(problem, split);
  ParetoPoint point;
  point.split = std::move(split);
  point.period = found.period;
  point.latency = found.latency;
  point.devices = std::accumulate(used.begin(), used.end(), 0);
  for (const auto& device : found.devices) point.memory = std::max(point.memory, device.memory);
  return point;
}

bool as_good(const ParetoPoint& a, const ParetoPoint& b) {
  constexpr double kNoise = 1 + 1e-9;
  return a.period <= b.period * kNoise && a.latency <= b.latency * kNoise &&
         a.devices <= b.devices && a.memory <= b.memory * kNoise;
}

void add(ParetoPoint point, std::vector<ParetoPoint>& front) {
  for (const auto& other : front) {
    if (as_good(other, point)) return;
  }
  std::erase_if(front, [&](const ParetoPoint& other) { return as_good(point, other); });
  front.push_back(std::move(point));
}

/// Plans on some of the devices within caps on latency and memory, and what solving gave.
struct Box {
  double latency = kInfinite, memory = kInfinite;
  double lower_bound = 0;  ///< Of the period; infinite where it is proved that there is no plan.
  std::optional<ParetoPoint> best;  ///< Absent: none, or none found in time.
};

/// The front on `counts` of the devices.
class Explorer {
 public:
  Explorer(const Problem& problem, const Options& options, Counts counts, const Budget& budget,
           std::vector<ParetoPoint>& front)
      : problem_(problem),
        options_(options),
        fewer_(with_devices(problem, counts)),
        counts_(std::move(counts)),
        budget_(budget),
        least_left_(kLeastShare * budget.left()),
        front_(front) {
    options_.user_split.reset();
    options_.report = {};
    options_.goal = Goal::kThroughput;
  }

  void run() {
    const double cap = options_.latency_cap;
    if (!solve_box(cap, kInfinite)) return;
    if (const auto least = least_latency()) solve_box(*least, kInfinite);
    halve_memory(cap);
    for (const double step : {kLargeStep, kLeastStep}) descend(cap, step);
  }

  [[nodiscard]] const std::vector<Box>& boxes() const { return boxes_; }
  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  [[nodiscard]] bool over() const {
    return budget_.over() || (budget_.left() < kInfinite && budget_.left() <= least_left_) ||
           std::ssize(boxes_) >= kMostBoxes;
  }

  /// What is known of the box without solving: a larger one has no plan, or its best is in this; or
  /// it was solved.
  [[nodiscard]] const Box* known(double latency, double memory) const {
    for (const auto& box : boxes_) {
      if (box.latency < latency || box.memory < memory) continue;
      const bool same = box.latency == latency && box.memory == memory;
      if (same || box.lower_bound == kInfinite) return &box;
      if (box.best && box.best->latency <= latency && box.best->memory <= memory) return &box;
    }
    return nullptr;
  }

  /// The plan of least period in the box, absent where none is found.
  std::optional<ParetoPoint> solve_box(double latency, double memory) {
    if (const auto* box = known(latency, memory)) return box->best;
    if (over()) return std::nullopt;
    auto problem = fewer_;
    for (auto& type : problem.types) {
      if (!type.unlimited) type.memory = std::min(type.memory, memory);
    }
    options_.latency_cap = latency;
    options_.seconds = kSolveShare * budget_.left();
    Box box{latency, memory, 0, {}};
    options_.report = [&](double lower, double /*cost*/) { box.lower_bound = lower; };
    auto answer = solve_unexplained(problem, options_);
    if (answer) {
      box.lower_bound = answer->lower_bound;
      for (const auto& baseline : answer->baselines) {
        if (baseline.competes()) add(of_all(*baseline.split), front_);
      }
      box.best = of_all(std::move(answer->split));
      add(*box.best, front_);
    }
    options_.report = {};
    boxes_.push_back(std::move(box));
    return boxes_.back().best;
  }

  [[nodiscard]] ParetoPoint of_all(Split split) const {
    return point_of(problem_, with_all(problem_, counts_, std::move(split)));
  }

  std::optional<double> least_latency() {
    auto options = options_;
    options.goal = Goal::kLatency;
    options.seconds = kSolveShare * budget_.left();
    auto answer = solve_unexplained(fewer_, options);
    if (!answer) return std::nullopt;
    const double least = answer->cost;
    add(of_all(std::move(answer->split)), front_);
    return least;
  }

  /// Towards the least memory that there is a plan for.
  void halve_memory(double latency) {
    double none = 0, there = boxes_.front().best->memory;
    for (int i = 0; i < kMostHalvings && none < there * kLeastStep && !over(); ++i) {
      const double half = (none + there) / 2;
      const auto found = solve_box(latency, half);
      (found ? there : none) = found ? found->memory : half;
    }
  }

  /// From each plan to those of less latency and to those of less memory, by `step`.
  void descend(double latency, double step) {
    std::deque<std::pair<double, double>> open{{latency, kInfinite}};
    std::set<std::pair<double, double>> seen;
    for (; !open.empty() && !over(); open.pop_front()) {
      const auto [most_latency, most_memory] = open.front();
      if (!seen.insert(open.front()).second) continue;
      const auto found = solve_box(most_latency, most_memory);
      if (!found) continue;
      open.emplace_back(found->latency * step, most_memory);
      if (found->memory > 0) open.emplace_back(most_latency, found->memory * step);
    }
  }

  const Problem& problem_;
  Options options_;
  Problem fewer_;
  Counts counts_;
  Budget budget_;
  double least_left_;
  std::vector<ParetoPoint>& front_;
  std::vector<Box> boxes_;
};

void raise(double lower_bound, ParetoPoint& point) {
  point.lower_bound = std::max(point.lower_bound, std::min(lower_bound, point.period));
  point.proved = point.period <= point.lower_bound * (1 + kProofGap);
}

/// Each solved box that a plan and all of its devices lie in bounds its period.
void bound_by(const Problem& problem, const Explorer& explorer, std::vector<ParetoPoint>& front) {
  for (auto& point : front) {
    const auto used = used_by(problem, point.split);
    if (!std::ranges::equal(used, explorer.counts(), std::less_equal())) continue;
    for (const auto& box : explorer.boxes()) {
      if (point.latency > box.latency || point.memory > box.memory) continue;
      raise(box.lower_bound, point);
    }
  }
}

}  // namespace

std::vector<ParetoPoint> pareto_front(const Problem& problem, const Options& options,
                                      double seconds, double lower_bound) {
  const Budget budget(seconds, options.interrupted);
  const auto counts = counts_of(problem);
  std::vector<ParetoPoint> front;
  if (options.user_split) front.push_back(point_of(problem, *options.user_split));
  std::vector<Explorer> explored;
  explored.reserve(counts.size());
  for (std::size_t i = 0; i < counts.size() && !budget.over(); ++i) {
    const auto part = budget.part(budget.left() / static_cast<double>(counts.size() - i));
    explored.emplace_back(problem, options, counts[i], part, front).run();
  }
  for (auto& point : front) raise(lower_bound, point);
  for (const auto& explorer : explored) bound_by(problem, explorer, front);
  std::ranges::stable_sort(front, {}, &ParetoPoint::period);
  return front;
}

}  // namespace penstock::planner
