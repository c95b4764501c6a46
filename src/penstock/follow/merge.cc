// Joins stages' partitions, and their inputs and outputs but for what stays inside.
#include "penstock/follow/merge.h"

#include <algorithm>
#include <string>

namespace penstock::follow {
namespace {

void add_new(std::vector<std::string>& to, const std::vector<std::string>& names) {
  for (const auto& name : names) {
    if (std::ranges::find(to, name) == to.end()) to.push_back(name);
  }
}

bool is_read(const plan::Stage& stage, const std::string& name) {
  return std::ranges::find(stage.inputs, name) != stage.inputs.end();
}

/// Of the stages from `begin` to before `end`: what another stage, an output or a state reads.
std::vector<std::string> outputs_of(const plan::Plan& plan, std::size_t begin, std::size_t end) {
  const auto leaves = [&](const std::string& name) {
    for (std::size_t i = 0; i < plan.stages.size(); ++i) {
      if ((i < begin || i >= end) && is_read(plan.stages[i], name)) return true;
    }
    return std::ranges::find(plan.outputs, name, &plan::TensorInfo::name) != plan.outputs.end() ||
           std::ranges::find(plan.states, name, &plan::StateEdge::from) != plan.states.end();
  };
  std::vector<std::string> outputs;
  for (std::size_t i = begin; i < end; ++i) {
    std::ranges::copy_if(plan.stages[i].outputs, std::back_inserter(outputs), leaves);
  }
  return outputs;
}

}  // namespace

bool is_plain(const plan::Stage& stage) {
  const auto computes = [](const plan::Partition& partition) {
    return partition.backend != plan::kFunctionBackend && !partition.served &&
           partition.batched.empty();
  };
  const auto is_local = [](const device::Device& device) { return device.is_local_cpu(); };
  return std::ranges::all_of(stage.partitions, computes) &&
         std::ranges::all_of(stage.devices, is_local) && stage.standby.empty() &&
         stage.each.empty() && !stage.stateful && stage.batch == plan::Batch();
}

bool are_alike(const plan::Stage& a, const plan::Stage& b) {
  return a.pinned == b.pinned && a.flush_denormals == b.flush_denormals &&
         a.max_run.has_value() == b.max_run.has_value() && a.max_left_behind == b.max_left_behind;
}

Devices devices_of(const plan::Plan& plan) {
  Devices all;
  for (const auto& stage : plan.stages) {
    for (const auto& device : stage.devices) {
      if (std::ranges::find(all, device) == all.end()) all.push_back(device);
    }
  }
  return all;
}

plan::Stage merged(const plan::Plan& plan, std::size_t begin, std::size_t end,
                   const Devices& devices) {
  plan::Stage whole = plan.stages[begin];
  whole.devices = devices;
  std::vector<std::string> made = whole.outputs;
  bool foretold = whole.predicted_seconds > 0;
  for (std::size_t i = begin + 1; i < end; ++i) {
    const auto& stage = plan.stages[i];
    for (const auto& name : stage.inputs) {
      if (std::ranges::find(made, name) == made.end()) add_new(whole.inputs, {name});
    }
    add_new(made, stage.outputs);
    add_new(whole.parameters, stage.parameters);
    whole.partitions.insert(whole.partitions.end(), stage.partitions.begin(),
                            stage.partitions.end());
    whole.nodes.insert(whole.nodes.end(), stage.nodes.begin(), stage.nodes.end());
    whole.draws.insert(whole.draws.end(), stage.draws.begin(), stage.draws.end());
    if (whole.max_run) *whole.max_run += *stage.max_run;
    foretold = foretold && stage.predicted_seconds > 0;
    whole.predicted_seconds += stage.predicted_seconds;
  }
  if (!foretold) whole.predicted_seconds = 0;
  whole.outputs = outputs_of(plan, begin, end);
  if (whole.partitions.size() > 1) whole.lanes = 0;
  return whole;
}

void keep_policies(const plan::Plan& of, plan::Plan& plan) {
  for (auto& edge : plan.edges) {
    const auto at_end = [&](const plan::Edge& old) {
      const bool in = edge.from == plan::kPipelineInput && old.from == plan::kPipelineInput;
      const bool out =
          edge.to.back() == plan::kPipelineOutput && old.to.back() == plan::kPipelineOutput;
      return (in || out) &&
             std::ranges::find(old.tensors, edge.tensors.front()) != old.tensors.end();
    };
    const auto old = std::ranges::find_if(of.edges, at_end);
    if (old != of.edges.end()) edge.policy = old->policy;
  }
}

double slower(const Devices& before, const Devices& now) {
  const auto count = [](const Devices& devices) {
    return static_cast<double>(devices.front().cpus.size());
  };
  return std::max(1.0, count(before) / count(now));
}

}  // namespace penstock::follow
