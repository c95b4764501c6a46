// Walks hwloc's tree, and hashes CPU model, flags and cache sizes into the fingerprint.
#include "penstock/device/topology.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string_view>

#include <hwloc.h>

#include "penstock/base/hash.h"
#include "penstock/base/memory_left.h"
#include "penstock/device/cgroup.h"
#include "penstock/device/cpu_info.h"
#include "penstock/device/device.h"
#include "penstock/device/governor.h"
#include "penstock/device/place.h"

namespace penstock::device {
namespace {

using Hwloc = std::unique_ptr<hwloc_topology, void (*)(hwloc_topology_t)>;

constexpr std::array<const char*, 2> kDescriptions = {"HWLOC_XMLFILE", "HWLOC_SYNTHETIC"};

bool is_set(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0';
}

Error unreadable(const char* name) {
  return invalid_argument("environment variable ", name, "='", std::getenv(name),
                          "': hwloc cannot read it; expected ",
                          std::string_view(name) == "HWLOC_SYNTHETIC"
                              ? "levels down to CPUs, such as 'pack:2 core:4 pu:1'"
                              : "a file that 'lstopo FILE.xml' wrote",
                          "; mend it, or unset it to plan for this machine");
}

/// Of levels such as "pack:2 [numa(memory=1GB)] core:4 pu:2"; what is in brackets makes no CPUs.
double cpus_in(std::string_view description) {
  std::string levels;
  int depth = 0;
  for (const char c : description) {
    if (c == '(' || c == '[') ++depth;
    if (depth == 0) levels += c;
    if (c == ')' || c == ']') --depth;
  }
  std::istringstream in(levels);
  double cpus = 1;
  for (std::string level; in >> level;) {
    const auto colon = level.find(':');
    const auto digits = colon == std::string::npos ? 0 : colon + 1;
    const double count = std::strtod(level.c_str() + digits, nullptr);
    if (count > 0) cpus *= count;
  }
  return cpus;
}

/// hwloc takes hours for what has no end.
Status check_size() {
  constexpr double kMost = 8192;  // Of Linux.
  const char* name = "HWLOC_SYNTHETIC";
  if (!is_set(name) || cpus_in(std::getenv(name)) <= kMost) return {};
  return invalid_argument("environment variable ", name, "='", std::getenv(name),
                          "': ", cpus_in(std::getenv(name)), " CPUs; expected at most ", kMost);
}

Result<Hwloc> load() {
  PENSTOCK_CHECK_OK(check_size());
  constexpr std::size_t kMoreThanItTakes = std::size_t{32} << 20U;
  PENSTOCK_CHECK_OK(check_memory_left(kMoreThanItTakes));
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return internal_error("hwloc: no topology");
  Hwloc topology(raw, [](hwloc_topology_t t) { hwloc_topology_destroy(t); });
  // CPUs outside the cpuset too: `allowed` tells them apart.
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  hwloc_topology_set_all_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  if (hwloc_topology_load(raw) != 0) {
    for (const auto* name : kDescriptions) {
      if (is_set(name)) return unreadable(name);
    }
    return internal_error("hwloc: cannot read this machine");
  }
  return topology;
}

std::vector<int> numbers_in(hwloc_const_bitmap_t set) {
  std::vector<int> numbers;
  if (set == nullptr) return numbers;
  for (int i = hwloc_bitmap_first(set); i >= 0; i = hwloc_bitmap_next(set, i)) numbers.push_back(i);
  return numbers;
}

int index_above(hwloc_topology_t topology, hwloc_obj_t object, hwloc_obj_type_t type) {
  const hwloc_obj_t above = hwloc_get_ancestor_obj_by_type(topology, type, object);
  return above == nullptr ? 0 : static_cast<int>(above->logical_index);
}

bool is_here(hwloc_topology_t topology) {
  return hwloc_topology_is_thissystem(topology) != 0;
}

/// What the environment describes and hwloc could not read it left out without a word.
Status check_described(hwloc_topology_t topology) {
  if (std::getenv("HWLOC_THISSYSTEM") != nullptr) return {};  // Whatever is described is here.
  for (const auto* name : kDescriptions) {
    if (!is_set(name) || !is_here(topology)) continue;
    return unreadable(name);
  }
  return {};
}

Cpu read_cpu(hwloc_topology_t topology, hwloc_obj_t unit, const std::vector<int>& allowed) {
  Cpu cpu;
  cpu.number = static_cast<int>(unit->os_index);
  cpu.core = index_above(topology, unit, HWLOC_OBJ_CORE);
  cpu.package = index_above(topology, unit, HWLOC_OBJ_PACKAGE);
  cpu.numa_node = std::max(hwloc_bitmap_first(unit->nodeset), 0);
  cpu.kind = std::max(hwloc_cpukinds_get_by_cpuset(topology, unit->cpuset, 0), 0);
  if (const auto core = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, unit)) {
    cpu.siblings = numbers_in(core->cpuset);
    std::erase(cpu.siblings, cpu.number);
  }
  if (is_here(topology)) {
    cpu.allowed = std::ranges::binary_search(allowed, cpu.number);
    cpu.governor = read_governor("/sys/devices/system/cpu", cpu.number);
  }
  return cpu;
}

std::vector<Cpu> read_cpus(hwloc_topology_t topology) {
  const std::vector<int> allowed = inherited_cpus();
  std::vector<Cpu> cpus;
  hwloc_obj_t unit = nullptr;
  while ((unit = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, unit)) != nullptr) {
    cpus.push_back(read_cpu(topology, unit, allowed));
  }
  std::ranges::sort(cpus, {}, &Cpu::number);
  return cpus;
}

std::vector<Cache> read_caches(hwloc_topology_t topology) {
  std::vector<Cache> caches;
  for (const auto type : {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE,
                          HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L5CACHE}) {
    hwloc_obj_t object = nullptr;
    while ((object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr) {
      const auto& attributes = object->attr->cache;
      caches.push_back({static_cast<int>(attributes.depth),
                        static_cast<std::size_t>(attributes.size),
                        static_cast<std::size_t>(attributes.linesize), numbers_in(object->cpuset)});
    }
  }
  return caches;
}

std::vector<NumaNode> read_numa_nodes(hwloc_topology_t topology) {
  std::vector<NumaNode> nodes;
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, object)) != nullptr) {
    nodes.push_back({static_cast<int>(object->os_index),
                     static_cast<std::size_t>(object->attr->numanode.local_memory),
                     numbers_in(object->cpuset)});
  }
  return nodes;
}

/// Memory that was plugged in while the machine ran is in no node's count, but in the machine's.
std::size_t total_memory(hwloc_topology_t topology, const std::vector<NumaNode>& nodes) {
  std::size_t bytes = 0;
  for (const auto& node : nodes) bytes += node.memory_bytes;
  if (!is_here(topology)) return bytes;
  return std::max(bytes, static_cast<std::size_t>(read_machine_memory("/proc/meminfo")));
}

std::string fingerprint_of(const Topology& topology, const std::string& flags) {
  std::map<int, std::size_t> cache_sizes;
  for (const auto& cache : topology.caches) cache_sizes.emplace(cache.level, cache.size_bytes);
  Sha256 hash;
  hash.update(topology.cpu_model + "\n" + flags + "\n");
  for (const auto& [level, bytes] : cache_sizes) hash.update(concat(level, ":", bytes, "\n"));
  return hash.finish().substr(0, 16);
}

}  // namespace

Result<Topology> read_topology() {
  PENSTOCK_TRY(const Hwloc hwloc, load());
  PENSTOCK_CHECK_OK(check_described(hwloc.get()));
  const CpuInfo info = read_cpu_info("/proc/cpuinfo");
  Topology topology;
  topology.cpu_model = info.model;
  topology.cpus = read_cpus(hwloc.get());
  topology.caches = read_caches(hwloc.get());
  topology.numa_nodes = read_numa_nodes(hwloc.get());
  topology.memory_bytes = total_memory(hwloc.get(), topology.numa_nodes);
  topology.fingerprint = fingerprint_of(topology, info.flags);
  topology.made_up = !is_here(hwloc.get());
  if (!topology.made_up) topology.cpu_quota = device::cpu_quota();
  return topology;
}

Result<std::string> cpu_fingerprint() {
  static std::mutex mutex;
  static auto* known = new std::string;  // Never freed: a start may go on as the process ends.
  const std::scoped_lock lock(mutex);
  if (known->empty()) {
    PENSTOCK_TRY(const auto topology, read_topology());
    *known = topology.fingerprint;
  }
  return *known;
}

Result<std::vector<int>> cpus_to_plan_for() {
  if (std::ranges::none_of(kDescriptions, is_set)) return inherited_cpus();
  PENSTOCK_TRY(const auto topology, read_topology());
  return allowed_cpus(topology);
}

Status check_here(const Topology& topology) {
  if (!topology.made_up) return {};
  return make_error(Code::kFailedPrecondition,
                    "the machine is made up: HWLOC_SYNTHETIC or HWLOC_XMLFILE describes another; "
                    "'penstock plan' plans for it, but to measure or run here unset them");
}

}  // namespace penstock::device
