// A dynamic program over stages in order and sets of devices, for each number of stages.
#include "penstock/follow/replan.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <utility>

#include "penstock/follow/merge.h"

namespace penstock::follow {
namespace {

using Mask = std::uint32_t;  // Of blocks.

constexpr std::size_t kMostBlocks = 8;   ///< Each triples the work.
constexpr std::size_t kMostStages = 16;  ///< The work grows with their third power.
constexpr double kChanged = 1.1;
constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// Of the slowest of its CPUs; 0: one is missing.
double pace_on(const device::Device& device, const Paces& paces) {
  double least = kInfinite;
  for (const int cpu : device.cpus) {
    const auto found = paces.find(cpu);
    least = std::min(least, found == paces.end() ? 0 : found->second);
  }
  return device.cpus.empty() ? 0 : least;
}

/// Those that compute, the fastest first.
Devices usable(Devices devices, const Paces& paces) {
  std::erase_if(devices, [&](const auto& device) { return pace_on(device, paces) <= 0; });
  std::ranges::stable_sort(devices, std::greater{},
                           [&](const auto& device) { return pace_on(device, paces); });
  return devices;
}

/// Each by itself, or in blocks with which any number can be had.
std::vector<Devices> blocks_of(const Devices& devices) {
  std::vector<Devices> blocks;
  for (std::size_t first = 0; first < devices.size();) {
    const bool single = devices.size() <= kMostBlocks || blocks.size() < 2;
    const auto left = devices.size() - first;
    const bool last = blocks.size() + 1 == kMostBlocks;
    const auto size = last ? left : std::min(left, single ? 1 : blocks.back().size() * 2);
    const auto begin = devices.begin() + static_cast<std::ptrdiff_t>(first);
    blocks.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(size));
    first += size;
  }
  return blocks;
}

/// A run of stages and where it stands.
struct Run {
  std::size_t begin = 0, end = 0;
  Devices devices;
};

struct Division {
  std::vector<Run> runs;
  double rate = 0;
};

class Divider {
 public:
  Divider(const plan::Plan& plan, const std::vector<double>& seconds, const Paces& paces,
          const Devices& devices)
      : plan_(plan),
        seconds_(seconds),
        paces_(paces),
        blocks_(blocks_of(usable(devices, paces))),
        stages_(plan.stages.size()),
        all_((Mask{1} << blocks_.size()) - 1) {}

  /// By number of runs, less one; without runs: there is none.
  std::vector<Division> run() {
    std::vector<Division> best;
    rows_.assign(1, row());
    state(0, 0, 0).rate = kInfinite;
    for (std::size_t runs = 1; runs <= stages_; ++runs) {
      rows_.push_back(row());
      for (std::size_t begin = 0; begin < stages_; ++begin) {
        for (std::size_t end = begin + 1; end <= stages_ && joins(begin, end); ++end) {
          extend(runs, begin, end);
        }
      }
      best.push_back(trace(runs));
    }
    return best;
  }

 private:
  struct State {
    double rate = 0;  // Frames per second of the slowest run so far.
    std::size_t begin = 0;
    Mask blocks = 0;  // Of the last run.
  };

  [[nodiscard]] std::vector<State> row() const {
    return std::vector<State>((stages_ + 1) * (std::size_t{all_} + 1));
  }
  State& state(std::size_t runs, std::size_t end, Mask mask) {
    return rows_[runs][end * (std::size_t{all_} + 1) + mask];
  }

  [[nodiscard]] bool joins(std::size_t begin, std::size_t end) const {
    return are_alike(plan_.stages[begin], plan_.stages[end - 1]);
  }

  [[nodiscard]] bool is_alone(std::size_t begin, std::size_t end) const {
    const auto has = [](const std::vector<std::string>& names, const std::string& name) {
      return std::ranges::find(names, name) != names.end();
    };
    return std::ranges::any_of(plan_.states, [&](const plan::StateEdge& edge) {
      for (auto i = begin; i < end; ++i) {
        if (has(plan_.stages[i].outputs, edge.from) || has(plan_.stages[i].inputs, edge.to)) {
          return true;
        }
      }
      return false;
    });
  }

  /// Of the stages from `begin` to before `end` there.
  [[nodiscard]] double rate_on(std::size_t begin, std::size_t end,
                               const device::Device& device) const {
    double seconds = 0;
    for (auto i = begin; i < end; ++i) {
      seconds += seconds_[i] * slower(plan_.stages[i].devices, {device});
    }
    return seconds > 0 ? pace_on(device, paces_) / seconds : 0;
  }

  /// Where a run stands that has these blocks.
  [[nodiscard]] Devices devices_in(Mask blocks, bool alone) const {
    Devices devices;
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      if ((blocks >> b & 1U) == 0) continue;
      devices.insert(devices.end(), blocks_[b].begin(), blocks_[b].end());
    }
    if (alone) devices.resize(1);  // The fastest.
    return devices;
  }

  void extend(std::size_t runs, std::size_t begin, std::size_t end) {
    const bool alone = is_alone(begin, end);
    std::vector<double> rates(std::size_t{all_} + 1);
    for (Mask blocks = 1; blocks <= all_; ++blocks) {
      for (const auto& device : devices_in(blocks, alone)) {
        rates[blocks] += rate_on(begin, end, device);
      }
    }
    for (Mask mask = 1; mask <= all_; ++mask) {
      for (Mask own = mask; own != 0; own = (own - 1) & mask) {
        const double before = state(runs - 1, begin, mask & ~own).rate;
        const double rate = std::min(before, rates[own]);
        auto& known = state(runs, end, mask);
        if (rate > known.rate) known = {rate, begin, own};
      }
    }
  }

  /// The fastest, of those as fast one of fewest blocks.
  Division trace(std::size_t runs) {
    Mask best = 0;
    for (Mask mask = 1; mask <= all_; ++mask) {
      const double rate = state(runs, stages_, mask).rate, known = state(runs, stages_, best).rate;
      const bool fewer = std::popcount(mask) < std::popcount(best);
      if (rate > known * (1 + 1e-9) || (fewer && rate >= known * (1 - 1e-9))) best = mask;
    }
    Division division;
    division.rate = state(runs, stages_, best).rate;
    if (division.rate <= 0) return {};
    auto end = stages_;
    for (auto run = runs; run > 0; --run) {
      const auto& last = state(run, end, best);
      division.runs.push_back(
          {last.begin, end, devices_in(last.blocks, is_alone(last.begin, end))});
      end = last.begin;
      best &= ~last.blocks;
    }
    std::ranges::reverse(division.runs);
    return division;
  }

  const plan::Plan& plan_;
  const std::vector<double>& seconds_;
  const Paces& paces_;
  const std::vector<Devices> blocks_;
  const std::size_t stages_;
  const Mask all_;
  std::vector<std::vector<State>> rows_;  // [runs][end][blocks in use]
};

std::optional<Variant> variant_of(const plan::Plan& plan, const Division& division) {
  Variant made{{}, plan, {}};
  made.plan.stages.clear();
  made.plan.prediction = {};
  for (const auto& run : division.runs) {
    made.plan.stages.push_back(merged(plan, run.begin, run.end, run.devices));
    auto& from = made.from.emplace_back();
    std::string names;
    for (auto i = run.begin; i < run.end; ++i) {
      from.push_back(i);
      names += (names.empty() ? "" : "+") + plan.stages[i].name;
    }
    const auto devices =
        join(run.devices, ", ", [](const auto& device) { return device::to_string(device); });
    made.name += concat(made.name.empty() ? "" : " | ", names, " on ", devices);
  }
  plan::connect(made.plan);
  keep_policies(plan, made.plan);
  if (!plan::violations(made.plan).empty()) return std::nullopt;
  return made;
}

Devices each_cpu_of(const Devices& devices) {
  Devices single;
  for (const auto& device : devices) {
    for (const int cpu : device.cpus) single.push_back({.host = {}, .cpus = {cpu}});
  }
  return single;
}

/// Whether each CPU has about the same pace.
bool are_near(const Paces& a, const Paces& b) {
  return std::ranges::equal(a, b, [](const auto& one, const auto& other) {
    const auto [least, most] = std::minmax(one.second, other.second);
    return one.first == other.first && most <= kChanged * least;
  });
}

}  // namespace

std::vector<Variant> plans_for(const plan::Plan& plan, const std::vector<double>& seconds,
                               const Paces& paces) {
  std::vector<Variant> plans;
  const bool fits = !plan.stages.empty() && plan.stages.size() <= kMostStages;
  if (!fits || !std::ranges::all_of(plan.stages, is_plain)) return plans;
  const auto devices = devices_of(plan), single = each_cpu_of(devices);
  auto best = Divider(plan, seconds, paces, devices).run();
  if (single != devices) {
    auto others = Divider(plan, seconds, paces, single).run();
    for (std::size_t i = 0; i < best.size(); ++i) {
      if (others[i].rate > best[i].rate) best[i] = std::move(others[i]);
    }
  }
  for (const auto& division : best) {
    if (division.runs.empty()) continue;
    if (auto made = variant_of(plan, division)) plans.push_back(*std::move(made));
  }
  return plans;
}

std::vector<Variant> Replanner::see(const Paces& paces) {
  if (paces.empty() || (last_ && are_near(*last_, paces))) return {};
  last_ = paces;
  return plans_for(plan_, seconds_, paces);
}

}  // namespace penstock::follow
