// Chooses as stand-by the device of another host that has the memory and would be least busy.
#include "penstock/hosts/stages.h"

#include <algorithm>

namespace penstock::hosts {
namespace {

const Host* host_of(const Hosts& hosts, const device::Device& device) {
  const auto found = std::ranges::find(hosts.hosts, device.host, &Host::address);
  return found == hosts.hosts.end() ? nullptr : &*found;
}

class StandBys {
 public:
  StandBys(const Hosts& hosts, const SiteAnswer& answer) : problem_(answer.problem) {
    std::size_t index = 0;
    for (std::size_t t = 0; t < problem_.types.size(); ++t) {
      for (const auto& name : problem_.types[t].devices) {
        const auto device = device::parse_device(name);
        if (device && host_of(hosts, *device) != nullptr) {
          const auto& load = answer.answer.evaluation.devices[index];
          devices_.push_back({*device, t, load.compute, load.memory});
        }
        ++index;
      }
    }
  }

  /// The device of another host that would be the least busy with the stage.
  Result<device::Device> choose(const partition::ChosenStage& stage) {
    Place* best = nullptr;
    double least = planner::kInfinite;
    for (auto& place : devices_) {
      const bool same_host = std::ranges::any_of(
          stage.devices, [&](const auto& device) { return device.host == place.device.host; });
      if (same_host) continue;
      if (place.memory + memory_of(stage) > problem_.types[place.type].memory) continue;
      const double busy = place.compute + seconds_of(stage, place.type);
      if (busy < least) least = busy, best = &place;
    }
    if (best == nullptr) {
      return make_error(Code::kFailedPrecondition, "no host can stand by for the stage on '",
                        device::to_string(stage.devices.front()),
                        "': expected another one with the memory for it");
    }
    best->memory += memory_of(stage);
    best->compute = least;
    return best->device;
  }

 private:
  struct Place {
    device::Device device;
    std::size_t type;
    double compute, memory;
  };

  [[nodiscard]] double memory_of(const partition::ChosenStage& stage) const {
    double sum = 0;
    for (const auto node : stage.nodes) sum += problem_.groups[graph::index(node)].memory;
    return sum;
  }
  [[nodiscard]] double seconds_of(const partition::ChosenStage& stage, std::size_t type) const {
    const auto mode =
        std::ranges::find(problem_.modes, static_cast<int>(type), &planner::Mode::type);
    const auto m = static_cast<std::size_t>(mode - problem_.modes.begin());
    double sum = 0;
    for (const auto node : stage.nodes) {
      // Where a pin forbids it the node's time is infinite, and the device no stand-by.
      sum += problem_.groups[graph::index(node)].time[m];
    }
    return sum;
  }

  const planner::Problem& problem_;
  std::vector<Place> devices_;
};

}  // namespace

Status equip(partition::ChosenStages& stages, const Hosts& hosts, const SiteAnswer& answer,
             bool with_standby) {
  StandBys standbys(hosts, answer);
  for (auto& stage : stages.stages) {
    if (host_of(hosts, stage.devices.front()) == nullptr) continue;
    stage.host_cpus = hosts.caller.host_cpus;
    if (!with_standby) continue;
    PENSTOCK_TRY(auto device, standbys.choose(stage));
    stage.standby.push_back(std::move(device));
  }
  return {};
}

}  // namespace penstock::hosts
