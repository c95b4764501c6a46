// States stages and devices as a problem for the planner, and reads devices from its answer.
#include "penstock/app/placement.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "penstock/base/words.h"
#include "penstock/cost/analytic.h"
#include "penstock/planner/solve.h"

namespace penstock::app {
namespace {

constexpr double kSearchSeconds = 2;

/// Devices of as many CPUs are of one type; more CPUs are faster by what the analytic model knows
/// of no stage, so that none is.
void add_devices(const std::vector<device::Device>& devices, planner::Problem& problem) {
  std::vector<std::size_t> sizes;
  for (const auto& device : devices) {
    const auto same = std::ranges::find(sizes, device.cpus.size());
    const auto type = static_cast<std::size_t>(same - sizes.begin());
    if (same == sizes.end()) {
      sizes.push_back(device.cpus.size());
      problem.types.emplace_back().name = counted(device.cpus.size(), "CPU");
      problem.modes.push_back({"", static_cast<int>(type), 0});
    }
    problem.types[type].devices.push_back(device::to_string(device));
  }
}

void add_stages(const plan::Plan& plan, const std::vector<StageCost>& costs,
                planner::Problem& problem) {
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    auto& group = problem.groups.emplace_back();
    group.name = plan.stages[i].name;
    group.nodes = {static_cast<int>(i)};
    group.time.assign(problem.modes.size(), costs[i].fixed ? 0 : costs[i].seconds);
  }
  for (const auto& edge : plan.edges) {
    if (edge.from < 0) continue;
    planner::Value value;
    value.name = edge.tensors.front();
    value.producer = edge.from;
    value.transfer_time = cost::Figures().seconds_per_transfer;
    for (const int reader : edge.to) {
      if (reader < 0) continue;
      value.consumers.push_back(reader);
      problem.order.emplace_back(edge.from, reader);
    }
    if (!value.consumers.empty()) problem.values.push_back(std::move(value));
  }
}

/// By the numbers that the planner gives devices.
std::vector<device::Device> in_order(const planner::Problem& problem,
                                     const std::vector<device::Device>& devices) {
  std::vector<device::Device> ordered;
  for (const auto& type : problem.types) {
    for (const auto& name : type.devices) {
      ordered.push_back(
          *std::ranges::find(devices, name, [](const auto& device) { return to_string(device); }));
    }
  }
  return ordered;
}

}  // namespace

Result<Placement> place_stages(const plan::Plan& plan, const std::vector<StageCost>& costs,
                               const std::vector<device::Device>& devices, bool replicas) {
  planner::Problem problem;
  add_devices(devices, problem);
  add_stages(plan, costs, problem);
  // A device that something is pinned to stands in for no other.
  const auto& largest = *std::ranges::max_element(
      devices, {}, [](const device::Device& device) { return device.cpus.size(); });
  for (std::size_t i = 0; i < costs.size(); ++i) {
    if (!replicas || !costs[i].single || costs[i].fixed) continue;
    PENSTOCK_TRY(problem,
                 planner::pin(std::move(problem), static_cast<int>(i), device::to_string(largest)));
  }
  planner::Options options;
  options.replicas = replicas;
  options.segments_per_device = replicas ? 1 : static_cast<int>(plan.stages.size());
  options.seconds = kSearchSeconds;
  PENSTOCK_TRY(const auto answer, planner::solve(problem, options));
  const auto ordered = in_order(problem, devices);
  Placement placement;
  placement.lower_bound_seconds = answer.lower_bound;
  placement.devices.reserve(plan.stages.size());
  for (const auto& stage : plan.stages) placement.devices.push_back(stage.devices);
  for (const auto& stage : answer.split.stages) {
    for (const int group : stage.groups) {
      const auto at = static_cast<std::size_t>(group);
      if (costs[at].fixed) continue;
      placement.devices[at].clear();
      for (const int device : stage.devices) {
        placement.devices[at].push_back(ordered[static_cast<std::size_t>(device)]);
      }
    }
  }
  return placement;
}

}  // namespace penstock::app
