#include "dicts.h"

#include <cstdint>
#include <utility>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "penstock/base/error.h"
#include "penstock/graph/containers.h"
#include "tensors.h"
#include "text.h"

namespace penstock::python {
namespace {

nb::object microseconds(const pipeline::Quantiles& quantiles, double nanoseconds) {
  if (quantiles.count == 0) return nb::none();
  return nb::float_(static_cast<double>(static_cast<std::int64_t>(nanoseconds)) / 1000);
}

nb::dict quantiles_dict(const pipeline::Quantiles& quantiles) {
  nb::dict dict;
  dict["p50"] = microseconds(quantiles, quantiles.p50_ns);
  dict["p90"] = microseconds(quantiles, quantiles.p90_ns);
  dict["p99"] = microseconds(quantiles, quantiles.p99_ns);
  dict["max"] = microseconds(quantiles, quantiles.max_ns);
  return dict;
}

nb::object drift_dict(const std::optional<pipeline::Drift>& drift) {
  if (!drift) return nb::none();
  nb::dict dict;
  dict["predicted_us"] = drift->predicted_ns / 1e3;
  dict["seen_us"] = drift->seen_ns / 1e3;
  dict["ratio"] = drift->ratio;
  dict["beyond_noise"] = drift->beyond_noise;
  return dict;
}

nb::dict stage_dict(const pipeline::StageStats& stage) {
  nb::dict dict;
  dict["name"] = stage.name;
  dict["device"] = stage.device;
  dict["backend"] = stage.backend;
  dict["replicas"] = stage.replicas;
  dict["lanes"] = stage.lanes;
  dict["frames"] = stage.frames;
  dict["errors"] = stage.errors;
  dict["drops"] = stage.drops;
  dict["calls"] = stage.calls;
  dict["surplus"] = stage.surplus;
  dict["copies"] = stage.copies;
  dict["allocations"] = stage.allocations;
  dict["queue_us"] = quantiles_dict(stage.queue);
  dict["compute_input_us"] = quantiles_dict(stage.compute_input);
  dict["compute_infer_us"] = quantiles_dict(stage.compute_infer);
  dict["compute_output_us"] = quantiles_dict(stage.compute_output);
  dict["transfer_us"] = quantiles_dict(stage.transfer);
  dict["drift"] = drift_dict(stage.drift);
  return dict;
}

nb::dict edge_dict(const pipeline::EdgeStats& edge) {
  nb::dict dict;
  dict["name"] = edge.name;
  dict["tensors"] = edge.tensors;
  dict["capacity"] = edge.capacity;
  dict["policy"] = edge.policy;
  dict["depth"] = edge.depth;
  dict["drops"] = edge.drops;
  dict["bytes"] =
      edge.backend_allocated ? nb::object(nb::none()) : nb::object(nb::int_(edge.bytes));
  dict["memory"] = edge.memory;
  nb::dict mirrors;
  for (const auto& [memory, bytes] : edge.mirrors) mirrors[memory.c_str()] = bytes;
  dict["mirrors"] = mirrors;
  dict["backend_allocated"] = edge.backend_allocated;
  return dict;
}

nb::object shape_of(const Type& type) {
  if (type.kind != Type::Kind::kTensor || !type.ranked) return nb::none();
  nb::list shape;
  for (const auto& dim : type.dims) {
    if (dim.fixed()) {
      shape.append(dim.size);
    } else if (dim.symbol.empty()) {
      shape.append(nb::none());
    } else {
      shape.append(dim.symbol);
    }
  }
  return shape;
}

}  // namespace

nb::dict stats_dict(const pipeline::Stats& stats) {
  nb::dict dict;
  dict["pushed"] = stats.pushed;
  dict["popped"] = stats.popped;
  dict["ok"] = stats.ok;
  dict["errors"] = stats.errors;
  dict["drops"] = stats.drops;
  dict["cancelled"] = stats.cancelled;
  dict["streams"] = stats.streams;
  dict["streams_evicted"] = stats.streams_evicted;
  dict["memory_bytes"] = stats.memory_bytes;
  nb::list plans;
  for (const auto& [label, frames] : stats.plans) {
    nb::dict plan;
    plan["label"] = text_object(label);
    plan["frames"] = frames;
    plans.append(plan);
  }
  dict["plans"] = plans;
  nb::list stages;
  for (const auto& stage : stats.stages) stages.append(stage_dict(stage));
  dict["stages"] = stages;
  nb::list edges;
  for (const auto& edge : stats.edges) edges.append(edge_dict(edge));
  dict["edges"] = edges;
  return dict;
}

nb::list infos_list(const std::vector<plan::TensorInfo>& infos) {
  nb::list list;
  for (const auto& info : infos) {
    const nb::object name = nb::steal(PyUnicode_DecodeUTF8(
        info.name.data(), static_cast<Py_ssize_t>(info.name.size()), "surrogateescape"));
    list.append(nb::make_tuple(name, graph::type_text(info.type), numpy_name(info.type.dtype),
                               shape_of(info.type)));
  }
  return list;
}

nb::dict devices_dict(const device::Topology& topology) {
  nb::list cpus, cpuset, caches, nodes;
  for (const auto& cpu : topology.cpus) {
    nb::dict dict;
    dict["device"] = concat("cpu:", cpu.number);
    dict["number"] = cpu.number;
    dict["core"] = cpu.core;
    dict["package"] = cpu.package;
    dict["numa_node"] = cpu.numa_node;
    dict["kind"] = cpu.kind;
    dict["siblings"] = cpu.siblings;
    dict["governor"] = cpu.governor;
    dict["allowed"] = cpu.allowed;
    cpus.append(dict);
    if (cpu.allowed) cpuset.append(cpu.number);
  }
  for (const auto& cache : topology.caches) {
    nb::dict dict;
    dict["level"] = cache.level;
    dict["size_bytes"] = cache.size_bytes;
    dict["line_bytes"] = cache.line_bytes;
    dict["cpus"] = cache.cpus;
    caches.append(dict);
  }
  for (const auto& node : topology.numa_nodes) {
    nb::dict dict;
    dict["number"] = node.number;
    dict["memory_bytes"] = node.memory_bytes;
    dict["cpus"] = node.cpus;
    nodes.append(dict);
  }
  nb::dict dict;
  dict["cpu_model"] = topology.cpu_model;
  dict["fingerprint"] = topology.fingerprint;
  dict["memory_bytes"] = topology.memory_bytes;
  dict["cpuset"] = cpuset;
  dict["cpu_quota"] = topology.cpu_quota;
  dict["cpus"] = cpus;
  dict["caches"] = caches;
  dict["numa_nodes"] = nodes;
  return dict;
}

nb::dict backends_dict(const backend::Registry& registry) {
  nb::list backends;
  for (const auto& backend : registry.all()) {
    const auto described = backend->describe();
    nb::dict dict;
    dict["name"] = described.name;
    dict["available"] = described.unavailable.empty();
    dict["engine_version"] = described.engine_version;
    dict["engine_file"] = described.engine_file;
    dict["unavailable"] = described.unavailable;
    dict["whole_graph"] = described.whole_graph;
    backends.append(dict);
  }
  nb::dict dict;
  dict["backends"] = backends;
  dict["problems"] = registry.problems();
  return dict;
}

}  // namespace penstock::python
