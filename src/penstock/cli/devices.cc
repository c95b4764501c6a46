// penstock devices: what this machine is.
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/cli/command.h"
#include "penstock/cli/devices_hosts.h"
#include "penstock/cli/interrupt.h"
#include "penstock/cli/json.h"
#include "penstock/cli/numbers.h"
#include "penstock/cli/plugins.h"
#include "penstock/cli/text.h"
#include "penstock/cost/database.h"
#include "penstock/cost/machine.h"
#include "penstock/cost/peaks_json.h"
#include "penstock/device/device.h"
#include "penstock/device/place.h"
#include "penstock/device/topology.h"

namespace penstock::cli {
namespace {

struct DevicesOptions {
  std::filesystem::path hosts;
  bool peaks = false, refresh = false, json = false;
};

/// Ctrl-C ends it in good order: what measures has a folder of temporary files.
Result<std::vector<cost::DevicePeaks>> peaks_of(const backend::Registry& backends, bool refresh) {
  PENSTOCK_TRY(auto database, cost::Database::open(cost::Database::default_path()));
  const InterruptGuard guard;
  return cost::peaks_of_machine(backends, database, refresh, interrupted);
}

std::string to_text(const std::vector<cost::DevicePeaks>& machine) {
  Table table({"device", "what", ">at most"});
  for (const auto& [device, peaks] : machine) {
    const auto name = device::to_string(device);
    for (const auto& width : peaks.widths) {
      table.add({name, "fp32 in vectors of " + width.name,
                 number(width.flops_per_second * 1e-9, 1) + " GFLOP/s"});
    }
    for (const auto& level : peaks.levels) {
      table.add(
          {name, "reading from " + level.name, number(level.bytes_per_second * 1e-9, 1) + " GB/s"});
    }
  }
  return "\npeaks, all CPUs of a device together\n" + table.print();
}

Json to_json(const std::vector<backend::Accelerator>& accelerators) {
  Json list = Json::array();
  for (const auto& [device, name, backend] : accelerators) {
    list.push_back({{"device", device}, {"name", name}, {"backend", backend}});
  }
  return list;
}

std::string to_text(const std::vector<backend::Accelerator>& accelerators) {
  if (accelerators.empty()) return "";
  Table table({"device", "name", "backend"});
  for (const auto& [device, name, backend] : accelerators) table.add({device, name, backend});
  return "\naccelerators\n" + table.print();
}

Json to_json(const device::Topology& topology) {
  Json cpus = Json::array();
  for (const auto& cpu : topology.cpus) {
    cpus.push_back({{"device", concat("cpu:", cpu.number)},
                    {"number", cpu.number},
                    {"core", cpu.core},
                    {"package", cpu.package},
                    {"numa_node", cpu.numa_node},
                    {"kind", cpu.kind},
                    {"siblings", cpu.siblings},
                    {"governor", cpu.governor},
                    {"allowed", cpu.allowed}});
  }
  Json caches = Json::array();
  for (const auto& cache : topology.caches) {
    caches.push_back({{"level", cache.level},
                      {"size_bytes", cache.size_bytes},
                      {"line_bytes", cache.line_bytes},
                      {"cpus", cache.cpus}});
  }
  Json nodes = Json::array();
  for (const auto& node : topology.numa_nodes) {
    nodes.push_back(
        {{"number", node.number}, {"memory_bytes", node.memory_bytes}, {"cpus", node.cpus}});
  }
  const Json quota = topology.cpu_quota ? Json(*topology.cpu_quota) : Json(nullptr);
  return {{"cpu_model", topology.cpu_model},
          {"fingerprint", topology.fingerprint},
          {"memory_bytes", topology.memory_bytes},
          {"cpuset", device::allowed_cpus(topology)},
          {"cpu_quota", quota},
          {"cpus", std::move(cpus)},
          {"caches", std::move(caches)},
          {"numa_nodes", std::move(nodes)}};
}

std::string cache_text(const device::Topology& topology) {
  std::string text;
  for (const auto& cache : topology.caches) {
    text += concat("  L", cache.level, "  ", bytes(cache.size_bytes), "  shared by cpu ",
                   ranges(cache.cpus), "\n");
  }
  return text;
}

std::string to_text(const device::Topology& topology) {
  std::string text =
      concat(topology.cpu_model.empty() ? "unknown CPU" : topology.cpu_model, ", ",
             bytes(topology.memory_bytes), " of memory, fingerprint ", topology.fingerprint, "\n");
  text += concat("this process may use cpu ", ranges(device::allowed_cpus(topology)));
  if (topology.cpu_quota) {
    text += concat(", and the time of ", number(*topology.cpu_quota, 2), " CPUs (cgroup quota)");
  }
  text += "\n\n";
  Table table(
      {"device", ">core", ">package", ">numa", ">kind", "smt siblings", "governor", "usable"});
  for (const auto& cpu : topology.cpus) {
    table.add({concat("cpu:", cpu.number), std::to_string(cpu.core), std::to_string(cpu.package),
               std::to_string(cpu.numa_node), std::to_string(cpu.kind),
               cpu.siblings.empty() ? "-" : ranges(cpu.siblings),
               cpu.governor.empty() ? "-" : cpu.governor, cpu.allowed ? "yes" : "no"});
  }
  text += table.print();
  if (!topology.caches.empty()) text += "\ncaches\n" + cache_text(topology);
  if (!topology.numa_nodes.empty()) text += "\nmemory nodes\n";
  for (const auto& node : topology.numa_nodes) {
    text += concat("  ", node.number, "  ", bytes(node.memory_bytes), "  cpu ", ranges(node.cpus),
                   "\n");
  }
  return text;
}

Result<int> run(const DevicesOptions& options) {
  if (!options.hosts.empty()) return show_hosts(options.hosts, options.json);
  PENSTOCK_TRY(const auto topology, device::read_topology());
  const auto backends = load_backends();
  const auto accelerators = backends.accelerators();
  std::vector<cost::DevicePeaks> peaks;
  if (options.peaks) {
    PENSTOCK_TRY(peaks, peaks_of(backends, options.refresh));
  }
  if (options.json) {
    Json json = to_json(topology);
    json["accelerators"] = to_json(accelerators);
    if (options.peaks) json["peaks"] = Json::parse(cost::to_json(peaks));
    print_json(json);
  } else {
    print(to_text(topology) + to_text(accelerators) + (options.peaks ? to_text(peaks) : ""));
  }
  return kOk;
}

}  // namespace

void declare_devices(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<DevicesOptions>();
  auto* command = add_command(
      app, "devices",
      "Shows the machine: CPUs, cores, SMT siblings, core kinds, caches, memory nodes, and what "
      "this "
      "process may use of them.",
      R"(The names in the first column are those that --devices takes: 'cpu:0' is one CPU, 'cpu:0-3' or
'cpu:0+2' one device of several. Kinds order the cores by power, 0 the weakest; all 0 where alike.
Accelerators are those that a backend finds: 'cuda:0'.

With --hosts it shows what the workers of that file say of their machines, and measures how long a word
takes between any two of them and here, and how many bytes a second get through each way.

With --peaks it measures, once, what one CPU of each kind and all together can do at most: fp32 numbers
multiplied and added, a multiplication and an addition counted as two, by each width of vectors that the
CPU has; bytes read from each level of the caches and from memory.

Examples:
  penstock devices --json
  penstock devices --peaks
  penstock devices --hosts hosts.yaml)");
  command
      ->add_option("--hosts", options->hosts,
                   "Show the machines of this file instead, and the links between them "
                   "(docs/hosts.md)")
      ->check(not_empty("a file"));
  auto* peaks = command->add_flag(
      "--peaks", options->peaks,
      "Show what the CPUs can do at most, measured once and kept among the costs");
  command->add_flag("--refresh", options->refresh, "Measure the peaks again")->needs(peaks);
  command->get_option("--hosts")->excludes(peaks);
  command->add_flag("--json", options->json, "Print JSON");
  set_action(command, chosen, options, run);
}

}  // namespace penstock::cli
