// Counts a device's cores, nodes and caches, and the CPUs of others that share them, as text.
#include "penstock/device/place.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

namespace penstock::device {
namespace {

bool has(const std::vector<int>& sorted, int number) {
  return std::ranges::binary_search(sorted, number);
}

bool overlap(const std::vector<int>& cpus, const std::vector<int>& sorted) {
  return std::ranges::any_of(cpus, [&](int cpu) { return has(sorted, cpu); });
}

/// The CPUs of the device with what the machine tells of them.
std::vector<Cpu> cpus_of(const Topology& topology, const Device& device) {
  std::vector<Cpu> cpus;
  std::ranges::copy_if(topology.cpus, std::back_inserter(cpus),
                       [&](const Cpu& cpu) { return has(device.cpus, cpu.number); });
  return cpus;
}

/// How many CPUs share what.
struct Shared {
  int core = 0, node = 0;
  std::map<int, int> caches;  ///< By level, of all that the machine has.
};

Shared shared_of(const Topology& topology, const Device& device,
                 const std::vector<Device>& others) {
  Shared shared;
  std::set<int> cores, nodes;
  for (const auto& cache : topology.caches) shared.caches.emplace(cache.level, 0);
  for (const auto& cpu : cpus_of(topology, device)) {
    cores.insert(cpu.core);
    nodes.insert(cpu.numa_node);
  }
  for (const auto& other : others) {
    for (const auto& cpu : cpus_of(topology, other)) {
      shared.core += cores.contains(cpu.core) ? 1 : 0;
      shared.node += nodes.contains(cpu.numa_node) ? 1 : 0;
      for (const auto& cache : topology.caches) {
        if (std::ranges::find(cache.cpus, cpu.number) == cache.cpus.end()) continue;
        if (overlap(cache.cpus, device.cpus)) ++shared.caches[cache.level];
      }
    }
  }
  return shared;
}

}  // namespace

std::string place_of(const Topology& topology, const Device& device) {
  std::set<int> cores, nodes;
  std::map<int, int> kinds, caches;
  for (const auto& cpu : cpus_of(topology, device)) {
    cores.insert(cpu.core);
    nodes.insert(cpu.numa_node);
    ++kinds[cpu.kind];
  }
  for (const auto& cache : topology.caches) {
    if (overlap(cache.cpus, device.cpus)) ++caches[cache.level];
  }
  const auto kind = [](const auto& entry) { return concat(entry.second, "k", entry.first); };
  const auto cache = [](const auto& entry) { return concat("/", entry.second, "L", entry.first); };
  return concat(join(kinds, "+", kind), "/", cores.size(), "cores/", nodes.size(), "nodes",
                join(caches, "", cache));
}

std::vector<int> allowed_cpus(const Topology& topology) {
  std::vector<int> numbers;
  for (const auto& cpu : topology.cpus) {
    if (cpu.allowed) numbers.push_back(cpu.number);
  }
  return numbers;
}

std::string limits_of(const Topology& topology, const std::vector<int>& cpus) {
  std::string text;
  const auto allowed = static_cast<double>(allowed_cpus(topology).size());
  if (topology.cpu_quota.value_or(allowed) < allowed) text = concat("/quota", *topology.cpu_quota);
  std::set<std::string> governors;
  for (const auto& cpu : topology.cpus) {
    if (has(cpus, cpu.number) && !cpu.governor.empty()) governors.insert(cpu.governor);
  }
  for (const auto& governor : governors) text += "/" + governor;
  return text;
}

std::string shared_with(const Topology& topology, const Device& device,
                        const std::vector<Device>& others) {
  const auto shared = shared_of(topology, device, others);
  std::vector<std::string> texts;
  const auto tell = [&](const std::string& what, int count) {
    if (count > 0) texts.push_back(concat(what, ":", count));
  };
  tell("core", shared.core);
  for (const auto& [level, count] : shared.caches) tell(concat("L", level), count);
  tell("node", shared.node);
  return join(texts, " ", [](const std::string& text) { return text; });
}

std::vector<Device> nearest(const Topology& topology, const Device& device,
                            const std::vector<Device>& others, std::size_t count) {
  if (others.size() <= count) return others;
  std::vector<std::pair<std::vector<int>, std::size_t>> ranks;
  for (std::size_t i = 0; i < others.size(); ++i) {
    const auto shared = shared_of(topology, device, {others[i]});
    std::vector<int> rank{-shared.core};
    for (const auto& [level, number] : shared.caches) rank.push_back(-number);
    rank.push_back(-shared.node);
    ranks.emplace_back(std::move(rank), i);
  }
  std::ranges::sort(ranks);
  ranks.resize(count);
  std::ranges::sort(ranks, {}, [](const auto& rank) { return rank.second; });
  std::vector<Device> near;
  for (const auto& [rank, number] : ranks) near.push_back(others[number]);
  return near;
}

std::vector<std::string> kinds_of(const Topology& topology, const std::vector<Device>& devices) {
  std::vector<std::string> kinds;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    auto others = devices;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    kinds.push_back(concat(place_of(topology, devices[i]), " beside ",
                           shared_with(topology, devices[i], others)));
  }
  return kinds;
}

}  // namespace penstock::device
