// Makes plans in which one stage has the whole network, or two stages exchange their devices.
#include "penstock/follow/variants.h"

#include <algorithm>
#include <set>
#include <utility>

namespace penstock::follow {
namespace {

using Devices = std::vector<device::Device>;

/// Whether it computes a network's part on CPUs of this machine, frame by frame.
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

/// Each once, as they come first.
Devices devices_of(const plan::Plan& plan) {
  Devices all;
  for (const auto& stage : plan.stages) {
    for (const auto& device : stage.devices) {
      if (std::ranges::find(all, device) == all.end()) all.push_back(device);
    }
  }
  return all;
}

void add_new(std::vector<std::string>& to, const std::vector<std::string>& names) {
  for (const auto& name : names) {
    if (std::ranges::find(to, name) == to.end()) to.push_back(name);
  }
}

/// What no later stage, output or state reads stays inside.
std::vector<std::string> outputs_of_all(const plan::Plan& plan) {
  std::vector<std::string> outputs;
  for (const auto& stage : plan.stages) {
    for (const auto& name : stage.outputs) {
      const auto is_from = [&](const plan::StateEdge& state) { return state.from == name; };
      if (std::ranges::find(plan.outputs, name, &plan::TensorInfo::name) != plan.outputs.end() ||
          std::ranges::any_of(plan.states, is_from)) {
        outputs.push_back(name);
      }
    }
  }
  return outputs;
}

plan::Stage one_stage(const plan::Plan& plan, const Devices& devices) {
  plan::Stage whole = plan.stages.front();
  whole.devices = devices;
  whole.predicted_seconds = 0;
  whole.inputs.clear();
  whole.partitions.clear();
  whole.parameters.clear();
  whole.nodes.clear();
  std::vector<std::string> made;
  for (const auto& stage : plan.stages) {
    for (const auto& name : stage.inputs) {
      if (std::ranges::find(made, name) == made.end()) add_new(whole.inputs, {name});
    }
    add_new(made, stage.outputs);
    add_new(whole.parameters, stage.parameters);
    whole.partitions.insert(whole.partitions.end(), stage.partitions.begin(),
                            stage.partitions.end());
    whole.nodes.insert(whole.nodes.end(), stage.nodes.begin(), stage.nodes.end());
    if (whole.max_run && &stage != &plan.stages.front()) *whole.max_run += *stage.max_run;
    whole.predicted_seconds += stage.predicted_seconds;
  }
  if (std::ranges::any_of(plan.stages, [](const auto& s) { return s.predicted_seconds == 0; })) {
    whole.predicted_seconds = 0;
  }
  whole.outputs = outputs_of_all(plan);
  if (whole.partitions.size() > 1) whole.lanes = 0;
  return whole;
}

/// What happens where the ends of the pipeline are full stays.
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

std::string names_of(const Devices& devices) {
  return join(devices, ", ", [](const auto& device) { return device::to_string(device); });
}

class Finder {
 public:
  explicit Finder(const plan::Plan& plan) : plan_(plan) {}

  std::vector<Variant> run() && {
    add("as it is", plan_, each_by_itself());
    if (!std::ranges::all_of(plan_.stages, is_plain)) return std::move(found_);
    const auto like_first = [&](const auto& s) { return are_alike(s, plan_.stages.front()); };
    if (std::ranges::all_of(plan_.stages, like_first)) add_whole();
    add_exchanged();
    return std::move(found_);
  }

 private:
  [[nodiscard]] std::vector<std::vector<std::size_t>> each_by_itself() const {
    std::vector<std::vector<std::size_t>> from;
    for (std::size_t i = 0; i < plan_.stages.size(); ++i) from.push_back({i});
    return from;
  }

  void add(std::string name, plan::Plan plan, std::vector<std::vector<std::size_t>> from) {
    const auto is_same = [&](const Variant& known) { return known.plan.stages == plan.stages; };
    if (std::ranges::any_of(found_, is_same)) return;
    if (!found_.empty() && !plan::violations(plan).empty()) return;
    found_.push_back({std::move(name), std::move(plan), std::move(from)});
  }

  void add_whole(const std::string& name, const Devices& devices) {
    plan::Plan plan = plan_;
    plan.stages = {one_stage(plan_, devices)};
    plan.prediction = {};
    plan::connect(plan);
    keep_policies(plan_, plan);
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < plan_.stages.size(); ++i) all.push_back(i);
    add(name, std::move(plan), {all});
  }

  void add_whole() {
    const auto all = devices_of(plan_);
    add_whole(all);
    Devices single;
    for (const auto& device : all) {
      for (const int cpu : device.cpus) single.push_back({.host = {}, .cpus = {cpu}});
    }
    add_whole(single);
  }

  void add_whole(const Devices& all) {
    for (const auto& device : all) add_whole("whole on " + device::to_string(device), {device});
    if (!plan_.states.empty() || all.size() < 2) return;  // What writes a state has one instance.
    add_whole("whole on each of " + names_of(all), all);
    for (std::size_t i = 0; i < all.size() && all.size() > 2; ++i) {
      auto fewer = all;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      add_whole("whole on each but " + device::to_string(all[i]), fewer);
    }
  }

  void add_exchanged() {
    for (std::size_t a = 0; a < plan_.stages.size(); ++a) {
      for (std::size_t b = a + 1; b < plan_.stages.size(); ++b) {
        auto plan = plan_;
        auto &one = plan.stages[a], &other = plan.stages[b];
        if (one.devices.size() != 1 || other.devices.size() != 1) continue;
        std::swap(one.devices, other.devices);
        add(concat("'", one.name, "' and '", other.name, "' changed"), std::move(plan),
            each_by_itself());
      }
    }
  }

  const plan::Plan& plan_;
  std::vector<Variant> found_;
};

}  // namespace

std::vector<Variant> variants_of(const plan::Plan& plan) {
  return Finder(plan).run();
}

}  // namespace penstock::follow
