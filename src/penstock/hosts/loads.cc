// Adds up what a split sends between hosts, on wires and on the CPUs that send and receive it.
#include "penstock/hosts/loads.h"

#include <algorithm>
#include <map>
#include <set>

#include "penstock/planner/problem/index.h"

namespace penstock::hosts {
namespace {

using planner::at;
using planner::Problem;
using planner::Split;

/// The host of each device of the problem, in its order.
std::vector<int> hosts_of_devices(const Problem& problem, const Hosts& hosts) {
  std::vector<int> found;
  for (const auto& type : problem.types) {
    for (const auto& name : type.devices) {
      const auto device = device::parse_device(name);
      const auto host =
          device ? std::ranges::find(hosts.hosts, device->host, &Host::address) : hosts.hosts.end();
      found.push_back(host == hosts.hosts.end() ? kCaller
                                                : static_cast<int>(host - hosts.hosts.begin()));
    }
  }
  return found;
}

/// What goes from one host to another for each frame. Between hosts each tensor is a message; what
/// goes between the caller and a stage goes in one.
struct Sent {
  double bytes = 0, messages = 0;
};

std::map<Ends, Sent> sent_between(const Problem& problem, const Split& split,
                                  const std::vector<int>& host_of) {
  std::vector<const planner::Stage*> stage_of(problem.groups.size());
  for (const auto& stage : split.stages) {
    for (const int group : stage.groups) stage_of[at(group)] = &stage;
  }
  std::map<Ends, Sent> between;
  std::map<Ends, double> with_caller;  // Frames, by devices.
  for (const auto& value : problem.values) {
    const auto& from = stage_of[at(value.producer)]->devices;
    std::set<const planner::Stage*> readers;
    for (const int group : value.consumers) readers.insert(stage_of[at(group)]);
    readers.erase(stage_of[at(value.producer)]);
    std::map<Ends, double> shares;  // Of frames, to each device once.
    for (const auto* reader : readers) {
      const auto pairs = static_cast<double>(from.size() * reader->devices.size());
      for (const int a : from) {
        for (const int b : reader->devices) {
          auto& share = shares[{a, b}];
          share = std::max(share, 1 / pairs);
        }
      }
    }
    for (const auto& [ends, share] : shares) {
      const Ends hosts(host_of[at(ends.first)], host_of[at(ends.second)]);
      if (hosts.first == hosts.second) continue;
      between[hosts].bytes += value.bytes * share;
      if (hosts.first == kCaller || hosts.second == kCaller) {
        with_caller[ends] = std::max(with_caller[ends], share);
      } else {
        between[hosts].messages += share;
      }
    }
  }
  for (const auto& [ends, share] : with_caller) {
    between[{host_of[at(ends.first)], host_of[at(ends.second)]}].messages += share;
  }
  return between;
}

void add_wires(const std::map<Ends, Sent>& between, const Network& network,
               std::vector<WireLoad>& loads) {
  std::vector<double> bytes(network.all_wires().size(), 0);
  for (const auto& [ends, sent] : between) {
    for (const int wire : network.wires(ends.first, ends.second)) bytes[at(wire)] += sent.bytes;
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto& wire = network.all_wires()[i];
    if (bytes[i] > 0) loads.push_back({wire.name, bytes[i] / wire.bandwidth});
  }
}

/// CPUs' time that passes in a second.
double capacity_of(const Host& host, const std::vector<device::Device>& devices) {
  if (host.quota) return *host.quota;
  std::set<int> cpus;
  for (const auto& device : devices) cpus.insert(device.cpus.begin(), device.cpus.end());
  return static_cast<double>(cpus.size());
}

/// CPU seconds that stages compute on the host.
double computed_on(int number, const Host& host, const std::vector<device::Device>& devices,
                   const Problem& problem, const planner::Evaluation& evaluation,
                   const std::vector<int>& host_of) {
  double seconds = 0;
  int index = 0;
  for (const auto& type : problem.types) {
    for (const auto& name : type.devices) {
      const auto& load = evaluation.devices[at(index)];
      if (host_of[at(index++)] != number) continue;
      const auto device = device::parse_device(name);
      if (!device) continue;
      seconds += load.compute * share_of(host, devices, *device) *
                 static_cast<double>(device->cpus.size());
    }
  }
  return seconds;
}

void add_cpus(const Problem& problem, const Split& split, const Hosts& hosts,
              const Network& network, const std::map<Ends, Sent>& between,
              const std::vector<int>& host_of, std::vector<WireLoad>& loads) {
  const auto evaluation = planner::evaluate(problem, split);
  for (const auto& [number, costs] : network.messages()) {
    double handled = 0;
    for (const auto& [ends, sent] : between) {
      const bool out = ends.first == number;
      if (!out && ends.second != number) continue;
      handled +=
          sent.messages * costs.message + sent.bytes * (out ? costs.byte_out : costs.byte_in);
    }
    const auto& host = hosts.hosts[at(number)];
    const auto devices = devices_of(host);
    if (handled == 0 || !devices) continue;
    const double computed = computed_on(number, host, *devices, problem, evaluation, host_of);
    loads.push_back({cpus_of(host), (computed + handled) / capacity_of(host, *devices)});
  }
}

}  // namespace

double share_of(const Host& host, const std::vector<device::Device>& devices,
                const device::Device& device) {
  if (!host.quota) return 1;
  std::size_t cpus = 0;
  for (const auto& each : devices) cpus += each.cpus.size();
  const double own =
      *host.quota * static_cast<double>(device.cpus.size()) / static_cast<double>(cpus);
  return std::min(1.0, own / static_cast<double>(device.cpus.size()));
}

std::string cpus_of(const Host& host) {
  return "CPUs of '" + host.name + "'";
}

std::vector<WireLoad> loads_of(const Problem& problem, const Split& split, const Hosts& hosts,
                               const Network& network) {
  const auto host_of = hosts_of_devices(problem, hosts);
  const auto between = sent_between(problem, split, host_of);
  std::vector<WireLoad> loads;
  add_wires(between, network, loads);
  add_cpus(problem, split, hosts, network, between, host_of, loads);
  std::erase_if(loads, [](const WireLoad& load) { return load.seconds <= 0; });
  std::ranges::stable_sort(loads, std::greater(), &WireLoad::seconds);
  return loads;
}

}  // namespace penstock::hosts
