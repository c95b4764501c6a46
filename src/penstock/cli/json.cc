// Shapes, errors and a pipeline's statistics as JSON; stages and edges also as tables.
#include "penstock/cli/json.h"

#include <algorithm>

#include "penstock/base/error.h"
#include "penstock/base/words.h"
#include "penstock/cli/text.h"

namespace penstock::cli {
namespace {

double microseconds(double nanoseconds) {
  return static_cast<double>(static_cast<std::int64_t>(nanoseconds)) / 1000;
}

/// "p50/p99" of a phase.
std::string phase(const pipeline::Quantiles& quantiles) {
  if (quantiles.count == 0) return "-";
  return duration(quantiles.p50_ns) + " / " + duration(quantiles.p99_ns);
}

/// "net: 3.50 of up to 4 frames a call, 7 rows computed for no frame" and a line end.
std::string batch_line(const pipeline::StageStats& stage) {
  std::uint64_t calls = 0, frames = 0;
  for (std::size_t i = 0; i < stage.calls.size(); ++i) {
    calls += stage.calls[i];
    frames += stage.calls[i] * (i + 1);
  }
  const auto mean =
      static_cast<double>(frames) / static_cast<double>(std::max<std::uint64_t>(calls, 1));
  return concat(stage.name, ": ", number(mean, 2), " of up to ", stage.calls.size(),
                " frames a call, ", counted(stage.surplus, "row"), " computed for no frame\n");
}

}  // namespace

void print_json(const Json& json, std::FILE* out) {
  print(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n", out);
}

Json shape_json(const Type& type) {
  if (type.kind != Type::Kind::kTensor || !type.ranked) return nullptr;
  Json shape = Json::array();
  for (const auto& dim : type.dims) {
    if (dim.fixed()) {
      shape.push_back(dim.size);
    } else {
      const std::string bound = dim.bound == Dim::kOpen ? "" : concat("<=", dim.bound);
      shape.push_back((dim.symbol.empty() ? "?" : dim.symbol) + bound);
    }
  }
  return shape;
}

Json tensor_json(const std::string& name, const Type& type) {
  return {{"name", name},
          {"type", to_string(type)},
          {"dtype", std::string(to_string(type.dtype))},
          {"shape", shape_json(type)}};
}

Json error_json(const Error& error) {
  Json places = Json::array();
  for (const auto& place : error.places) {
    Json& step = places.emplace_back(Json{{"kind", std::string(to_string(place.kind))}});
    if (is_numbered(place.kind)) {
      step["number"] = place.number;
    } else {
      step["name"] = place.name;
    }
  }
  return {{"code", std::string(to_string(error.code))},
          {"message", error.message()},
          {"reason", error.reason},
          {"places", std::move(places)}};
}

Json quantiles_json(const pipeline::Quantiles& quantiles) {
  const auto us = [&](double nanoseconds) {
    return quantiles.count == 0 ? Json(nullptr) : Json(microseconds(nanoseconds));
  };
  return {{"p50", us(quantiles.p50_ns)},
          {"p90", us(quantiles.p90_ns)},
          {"p99", us(quantiles.p99_ns)},
          {"max", us(quantiles.max_ns)}};
}

Json drift_json(const std::optional<pipeline::Drift>& drift) {
  if (!drift) return nullptr;
  return {{"predicted_us", microseconds(drift->predicted_ns)},
          {"seen_us", microseconds(drift->seen_ns)},
          {"ratio", drift->ratio},
          {"beyond_noise", drift->beyond_noise}};
}

Json stage_json(const pipeline::StageStats& stage) {
  return {{"name", stage.name},
          {"device", stage.device},
          {"backend", stage.backend},
          {"replicas", stage.replicas},
          {"lanes", stage.lanes},
          {"frames", stage.frames},
          {"errors", stage.errors},
          {"drops", stage.drops},
          {"calls", stage.calls},
          {"surplus", stage.surplus},
          {"copies", stage.copies},
          {"allocations", stage.allocations},
          {"queue_us", quantiles_json(stage.queue)},
          {"compute_input_us", quantiles_json(stage.compute_input)},
          {"compute_infer_us", quantiles_json(stage.compute_infer)},
          {"compute_output_us", quantiles_json(stage.compute_output)},
          {"transfer_us", quantiles_json(stage.transfer)},
          {"drift", drift_json(stage.drift)}};
}

Json stages_json(const pipeline::Stats& stats) {
  Json stages = Json::array();
  for (const auto& stage : stats.stages) stages.push_back(stage_json(stage));
  return stages;
}

Json memory_json(std::optional<std::uint64_t> bytes) {
  return bytes ? Json(*bytes) : Json(nullptr);
}

std::string memory_text(std::optional<std::uint64_t> size) {
  return size ? "at most " + bytes(*size)
              : "without bound: the engine allocates what no shape bounds";
}

Json edges_json(const pipeline::Stats& stats) {
  Json edges = Json::array();
  for (const auto& edge : stats.edges) {
    edges.push_back({{"name", edge.name},
                     {"tensors", edge.tensors},
                     {"capacity", edge.capacity},
                     {"policy", edge.policy},
                     {"drops", edge.drops},
                     {"bytes", edge.backend_allocated ? Json(nullptr) : Json(edge.bytes)},
                     {"memory", edge.memory},
                     {"mirrors", edge.mirrors},
                     {"backend_allocated", edge.backend_allocated}});
  }
  return edges;
}

std::string stage_table(const pipeline::Stats& stats) {
  Table table({"stage", "device", "backend", ">frames", ">errors", ">drops", ">copies", ">allocs",
               ">queue p50 / p99", ">compute_input", ">compute_infer", ">compute_output",
               ">transfer"});
  std::string batches;
  for (const auto& stage : stats.stages) {
    table.add({stage.name, stage.device, stage.backend, std::to_string(stage.frames),
               std::to_string(stage.errors), std::to_string(stage.drops),
               std::to_string(stage.copies), std::to_string(stage.allocations), phase(stage.queue),
               phase(stage.compute_input), phase(stage.compute_infer), phase(stage.compute_output),
               phase(stage.transfer)});
    if (stage.calls.size() > 1) batches += batch_line(stage);
  }
  return table.print() + batches;
}

std::string edge_table(const pipeline::Stats& stats) {
  Table table({"edge", ">tensors", ">slots", "when full", ">drops", ">memory"});
  for (const auto& edge : stats.edges) {
    std::string memory = edge.backend_allocated ? "backend's" : bytes(edge.bytes);
    if (edge.memory != "host") memory += " in " + edge.memory;
    for (const auto& [name, size] : edge.mirrors)
      memory += concat(" + ", bytes(size), " in ", name);
    table.add({edge.name, std::to_string(edge.tensors.size()), std::to_string(edge.capacity),
               edge.policy, std::to_string(edge.drops), memory});
  }
  return table.print();
}

}  // namespace penstock::cli
