#include "penstock/planner/pareto.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "penstock/planner/index.h"
#include "penstock/planner/solve.h"

namespace penstock::planner {
namespace {

constexpr int kMostCounts = 40;   // Combinations of device counts.
constexpr int kMostCaps = 6;      // Latency caps for each of them.
constexpr double kNextCap = 0.9;  // Times the latency that the last one gave.

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
Problem with_counts(Problem problem, const Counts& counts) {
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

ParetoPoint point_of(const Problem& problem, Split split) {
  const auto found = evaluate(problem, split);
  std::set<int> used;
  for (const auto& stage : split.stages) used.insert(stage.devices.begin(), stage.devices.end());
  ParetoPoint point{std::move(split), found.period, found.latency, static_cast<int>(used.size()),
                    0};
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

}  // namespace

std::vector<ParetoPoint> pareto_front(const Problem& problem, const Options& options,
                                      double seconds) {
  const Budget budget(seconds, options.interrupted);
  const auto counts = counts_of(problem);
  std::vector<ParetoPoint> front;
  if (options.user_split) front.push_back(point_of(problem, *options.user_split));
  for (std::size_t i = 0; i < counts.size() && !budget.over(); ++i) {
    const auto fewer = with_counts(problem, counts[i]);
    const auto part = budget.part(budget.left() / static_cast<double>(counts.size() - i));
    auto capped = options;
    capped.user_split.reset();
    for (int c = 0; c < kMostCaps && !part.over(); ++c) {
      capped.seconds = part.left() / (c == 0 ? 2 : kMostCaps - c);
      auto answer = solve(fewer, capped);
      if (!answer) break;
      for (const auto& baseline : answer->baselines) {
        if (!baseline.competes()) continue;
        add(point_of(problem, with_all(problem, counts[i], *baseline.split)), front);
      }
      capped.latency_cap = kNextCap * answer->evaluation.latency;
      add(point_of(problem, with_all(problem, counts[i], std::move(answer->split))), front);
    }
  }
  std::ranges::stable_sort(front, {}, &ParetoPoint::period);
  return front;
}

}  // namespace penstock::planner
