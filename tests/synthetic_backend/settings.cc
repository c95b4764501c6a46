#include "tests/synthetic_backend/settings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "penstock/plan/json_reader.h"

namespace penstock::synthetic {
namespace {

using plan::Field;

constexpr std::array<std::pair<std::string_view, Kind>, 15> kKinds = {{
    {"crash", Kind::kCrash},
    {"abort", Kind::kAbort},
    {"exit", Kind::kExit},
    {"hang", Kind::kHang},
    {"eat_memory", Kind::kEatMemory},
    {"refuse", Kind::kRefuse},
    {"wrong", Kind::kWrong},
    {"zeros", Kind::kZeros},
    {"shifted", Kind::kShifted},
    {"stale", Kind::kStale},
    {"other", Kind::kOther},
    {"block", Kind::kBlock},
    {"last_row", Kind::kLastRow},
    {"bf16", Kind::kBf16},
    {"swapped", Kind::kSwapped},
}};
constexpr auto kMost = std::numeric_limits<std::int64_t>::max();

void read_amount(const Field& object, std::string_view name, double& amount) {
  const auto field = object.find(name);
  if (!field) return;
  amount = field->number();
  if (!(amount >= 0)) field->fail("0 or more");
}

void read_amounts(const Field& object, std::string_view name,
                  std::map<std::string, double>& amounts) {
  const auto field = object.find(name);
  if (!field) return;
  field->each_named(
      [&](const std::string& key, const Field&) { read_amount(*field, key, amounts[key]); });
}

void read_text(const Field& object, std::string_view name, std::string& text) {
  if (const auto field = object.find(name)) text = field->string();
}

Fault read_fault(const Field& field) {
  field.only({"do", "on", "nodes", "when", "after", "by", "above", "bytes"});
  Fault fault;
  const auto kind = field.at("do").string();
  const auto* const known = std::ranges::find(kKinds, kind, &decltype(kKinds)::value_type::first);
  if (known == kKinds.end()) {
    field.at("do").fail(join(kKinds, ", ", [](const auto& entry) { return entry.first; }));
    return fault;
  }
  fault.kind = known->second;
  fault.at_compile = fault.kind == Kind::kRefuse;
  read_text(field, "on", fault.on);
  if (const auto nodes = field.find("nodes")) fault.nodes = nodes->integer(1, kMost);
  if (const auto when = field.find("when")) {
    fault.at_compile = when->string() == "compile";
    if (!fault.at_compile && when->string() != "run") when->fail("'compile' or 'run'");
  }
  if (const auto after = field.find("after")) fault.after = after->integer(0, kMost);
  if (const auto by = field.find("by")) fault.by = by->number();
  if (const auto above = field.find("above")) {
    fault.above = static_cast<std::size_t>(above->integer(0, kMost));
  }
  if (const auto bytes = field.find("bytes")) {
    fault.bytes = static_cast<std::uint64_t>(bytes->integer(0, kMost));
  }
  return fault;
}

Accelerator read_accelerator(const Field& field) {
  field.only({"devices", "contexts", "copy_latency", "copy_bandwidth", "name", "absent"});
  constexpr std::int64_t kMostDevices = 8, kMostContexts = 64;
  Accelerator made;
  if (const auto devices = field.find("devices")) {
    made.devices = static_cast<int>(devices->integer(1, kMostDevices));
  }
  if (const auto contexts = field.find("contexts")) {
    made.contexts = static_cast<int>(contexts->integer(1, kMostContexts));
  }
  read_amount(field, "copy_latency", made.copy_latency);
  read_amount(field, "copy_bandwidth", made.copy_bandwidth);
  read_text(field, "name", made.name);
  read_text(field, "absent", made.absent);
  return made;
}

Settings read_settings(const Field& field) {
  field.only({"version",    "unavailable", "whole_graph",      "rules",
              "seconds",    "fusion",      "seconds_per_call", "seconds_per_byte",
              "noise",      "speedup",     "sibling",          "kinds",
              "cache",      "bandwidth",   "compile_seconds",  "one_place",
              "room",       "faults",      "precisions",       "log",
              "accelerator"});
  Settings settings;
  read_text(field, "version", settings.version);
  read_text(field, "unavailable", settings.unavailable);
  if (const auto whole = field.find("whole_graph")) settings.whole_graph = whole->boolean();
  if (const auto rules = field.find("rules")) settings.rules = rules->json().dump();
  read_amounts(field, "seconds", settings.seconds);
  read_amount(field, "fusion", settings.fusion);
  read_amount(field, "seconds_per_call", settings.seconds_per_call);
  read_amount(field, "seconds_per_byte", settings.seconds_per_byte);
  read_amount(field, "noise", settings.noise);
  if (const auto speedup = field.find("speedup")) settings.speedup = speedup->number();
  read_amount(field, "sibling", settings.sibling);
  read_amounts(field, "kinds", settings.kinds);
  read_amount(field, "cache", settings.cache);
  read_amount(field, "bandwidth", settings.bandwidth);
  read_amount(field, "compile_seconds", settings.compile_seconds);
  if (const auto place = field.find("one_place")) settings.one_place = place->boolean();
  if (const auto room = field.find("room")) settings.room = room->integer(1, kMost);
  if (const auto faults = field.find("faults")) {
    faults->each([&](const Field& fault) { settings.faults.push_back(read_fault(fault)); });
  }
  if (const auto precisions = field.find("precisions")) {
    precisions->each_named([&](const std::string& name, const Field& lower) {
      lower.only({"speedup", "error"});
      read_amount(lower, "speedup", settings.precisions[name].speedup);
      read_amount(lower, "error", settings.precisions[name].error);
    });
  }
  if (const auto accelerator = field.find("accelerator")) {
    settings.accelerator = read_accelerator(*accelerator);
  }
  if (const auto log = field.find("log")) settings.log = log->string();
  return settings;
}

double boundary_bytes(const graph::Graph& model) {
  double bytes = 0;
  for (const auto* list : {&model.inputs, &model.outputs}) {
    for (const auto id : *list) {
      bytes += static_cast<double>(model.value(id).type.max_bytes().value_or(0));
    }
  }
  return bytes;
}

}  // namespace

double Settings::seconds_of(const graph::Node& node) const {
  for (const auto& name : {node.name, node.op, std::string("*")}) {
    if (const auto found = seconds.find(name); found != seconds.end()) return found->second;
  }
  return 0;
}

double Settings::seconds_of(const graph::Graph& model, const Spot& spot) const {
  double nodes = 0, discount = 1, weights = 0;
  for (const auto& node : model.nodes) {
    nodes += seconds_of(node) * discount;
    discount *= fusion;
  }
  for (const auto& value : model.values) {
    if (value.constant) weights += static_cast<double>(value.type.max_bytes().value_or(0));
  }
  return seconds_of(nodes, weights, spot) + seconds_per_call +
         seconds_per_byte * boundary_bytes(model);
}

double Settings::seconds_of(double nodes, double weight_bytes, const Spot& spot) const {
  const double threads = spot.cores + sibling * (spot.threads - spot.cores);
  const auto kind = kinds.find(concat(spot.kind));
  const double compute =
      nodes / (1 + speedup * (threads - 1)) * (kind == kinds.end() ? 1 : kind->second);
  const double read = std::max(0.0, weight_bytes - cache * spot.caches);
  return bandwidth > 0 ? std::max(compute, read / (bandwidth * spot.nodes)) : compute;
}

Spot spot_of(const device::Topology& topology, const std::vector<int>& cpus,
             const std::vector<int>& busy) {
  const auto has = [](const std::vector<int>& list, int cpu) {
    return std::ranges::find(list, cpu) != list.end();
  };
  // Of places that CPUs share: how many of them the threads have, by their part of each.
  const auto part = [&](const auto& places) {
    double sum = 0;
    for (const auto& place : places) {
      const auto own = std::ranges::count_if(place, [&](int cpu) { return has(cpus, cpu); });
      const auto all = std::ranges::count_if(place, [&](int cpu) { return has(busy, cpu); });
      if (own > 0) sum += static_cast<double>(own) / static_cast<double>(all);
    }
    return sum > 0 ? sum : 1;
  };
  int last = 0;
  for (const auto& cache : topology.caches) last = std::max(last, cache.level);
  std::vector<std::vector<int>> caches, nodes;
  for (const auto& cache : topology.caches) {
    if (cache.level == last) caches.push_back(cache.cpus);
  }
  for (const auto& node : topology.numa_nodes) nodes.push_back(node.cpus);
  Spot spot;
  spot.threads = static_cast<int>(cpus.size());
  spot.kind = std::numeric_limits<int>::max();
  std::set<int> cores;
  for (const auto& cpu : topology.cpus) {
    if (!has(cpus, cpu.number)) continue;
    cores.insert(cpu.core);
    spot.kind = std::min(spot.kind, cpu.kind);
  }
  spot.cores = static_cast<int>(cores.size());
  spot.caches = part(caches);
  spot.nodes = part(nodes);
  return spot;
}

Result<Settings> parse_settings(const std::string& json, const std::string& backend) {
  PENSTOCK_TRY(const auto document, plan::Document::parse(json));
  std::optional<Error> error;
  const Field root(document.value(), "", error);
  const auto own = root.find(backend);
  if (!own && document.value().is_object()) return not_found("no entry '", backend, "'");
  auto settings = read_settings(own.value_or(root));
  if (error) return *std::move(error);
  return settings;
}

}  // namespace penstock::synthetic
