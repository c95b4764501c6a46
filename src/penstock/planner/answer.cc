// Tells the binding resource from the largest load; tries each move of a group to a next stage.
#include "penstock/planner/answer.h"

#include <algorithm>
#include <map>
#include <set>

#include "penstock/base/printable.h"
#include "penstock/planner/problem/index.h"

namespace penstock::planner {
namespace {

using Kind = Binding::Kind;

/// Name and type of device `index`, counted through all types.
std::pair<std::string, const DeviceType*> device_at(const Problem& problem, std::size_t index) {
  for (const auto& type : problem.types) {
    if (index < type.devices.size()) return {type.devices[index], &type};
    index -= type.devices.size();
  }
  return {"", nullptr};
}

/// The only group on `device` without which it would have nothing, or -1.
int only_group(const Split& split, int device) {
  int only = -1;
  for (const auto& stage : split.stages) {
    if (std::ranges::count(stage.devices, device) == 0) continue;
    if (only >= 0 || stage.groups.size() != 1) return -1;
    only = stage.groups.front();
  }
  return only;
}

Kind largest_part(const DeviceLoad& load, Overlap overlap) {
  if (overlap == Overlap::kHalfDuplex && load.in + load.out > load.compute) {
    return load.in >= load.out ? Kind::kIn : Kind::kOut;
  }
  if (load.compute >= load.in && load.compute >= load.out) return Kind::kCompute;
  return load.in >= load.out ? Kind::kIn : Kind::kOut;
}

/// The place of each group's stage in `split`.
std::vector<int> stages_of(const Split& split, std::size_t groups) {
  std::vector<int> stage_of(groups, -1);
  for (std::size_t s = 0; s < split.stages.size(); ++s) {
    for (const int group : split.stages[s].groups) stage_of[at(group)] = static_cast<int>(s);
  }
  return stage_of;
}

/// `split` with `group` in stage `to`; a stage that it leaves empty goes.
Split moved(Split split, int group, int from, int to) {
  std::erase(split.stages[at(from)].groups, group);
  auto& groups = split.stages[at(to)].groups;
  groups.insert(std::ranges::upper_bound(groups, group), group);
  if (split.stages[at(from)].groups.empty()) split.stages.erase(split.stages.begin() + from);
  return split;
}

}  // namespace

double gap_of(double cost, double lower_bound) {
  if (cost == 0) return 0;
  return lower_bound > 0 ? cost / lower_bound - 1 : kInfinite;
}

void settle(Answer& answer) {
  answer.lower_bound = std::min(answer.lower_bound, answer.cost);
  answer.gap = gap_of(answer.cost, answer.lower_bound);
  answer.proved = answer.gap <= kProofGap;
}

void replace_split(const Problem& problem, const Options& options, Split split, Answer& answer) {
  answer.runner_up = RunnerUp{std::move(answer.split), answer.cost};
  answer.split = std::move(split);
  answer.evaluation = evaluate(problem, answer.split);
  answer.cost = cost_of(answer.evaluation, options.goal);
  answer.binding = find_binding(problem, options, answer.split, answer.evaluation);
  settle(answer);
}

bool same_stages(const Split& a, const Split& b) {
  if (a.stages.size() != b.stages.size()) return false;
  std::set<std::vector<int>> stages;
  for (const auto& stage : a.stages) stages.insert(stage.groups);
  return std::ranges::all_of(b.stages,
                             [&](const Stage& stage) { return stages.contains(stage.groups); });
}

Binding find_binding(const Problem& problem, const Options& options, const Split& split,
                     const Evaluation& evaluation) {
  Binding binding;
  if (options.goal == Goal::kLatency) {
    binding.kind = Kind::kPath;
    return binding;
  }
  std::size_t worst = 0;
  for (std::size_t d = 1; d < evaluation.devices.size(); ++d) {
    if (evaluation.devices[d].load > evaluation.devices[worst].load) worst = d;
  }
  if (evaluation.latency >= options.latency_cap * (1 - kProofGap)) {
    binding.kind = Kind::kLatencyCap;
    return binding;
  }
  if (evaluation.devices.empty() || evaluation.devices[worst].load == 0) return binding;
  const auto [name, type] = device_at(problem, worst);
  binding.device = name;
  binding.kind = largest_part(evaluation.devices[worst], type->overlap);
  const int only = only_group(split, static_cast<int>(worst));
  if (only >= 0 && binding.kind == Kind::kCompute) {
    binding.kind = Kind::kGroup;
    binding.group = problem.groups[at(only)].name;
  }
  return binding;
}

std::string to_string(const Binding& binding) {
  const auto on = binding.device.empty() ? "" : " of device '" + binding.device + "'";
  switch (binding.kind) {
    case Kind::kCompute:
      return "compute" + on;
    case Kind::kIn:
      return "receiving" + on;
    case Kind::kOut:
      return "sending" + on;
    case Kind::kGroup:
      return "group '" + printable(binding.group) + "', which cannot be divided, on device '" +
             binding.device + "'";
    case Kind::kMemory:
      return "memory: without its caps a cheaper plan exists";
    case Kind::kLatencyCap:
      return "the latency cap";
    case Kind::kLink:
      return binding.device;
    case Kind::kPath:
      return "the longest path of one frame";
  }
  return "";
}

std::optional<RunnerUp> best_neighbour(const Problem& problem, const Options& options,
                                       const Split& split, const Budget& budget) {
  const auto stage_of = stages_of(split, problem.groups.size());
  std::optional<RunnerUp> best;
  std::set<std::pair<int, int>> tried;  // Group, stage.
  for (const auto& pair : problem.order) {
    const int stages[] = {stage_of[at(pair.first)], stage_of[at(pair.second)]};
    if (stages[0] == stages[1]) continue;
    for (const int side : {0, 1}) {
      const int group = side == 0 ? pair.first : pair.second;
      if (budget.over()) return best;
      if (!tried.emplace(group, stages[1 - side]).second) continue;
      auto other = moved(split, group, stages[side], stages[1 - side]);
      const auto found = evaluate(problem, other);
      if (!found.violations.empty() || !keeps_cap(options, found)) continue;
      const double cost = cost_of(found, options.goal);
      if (!best || cost < best->cost) best = RunnerUp{std::move(other), cost};
    }
  }
  return best;
}

}  // namespace penstock::planner
