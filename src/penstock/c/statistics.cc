// A snapshot of a pipeline's statistics as structures of C, which point into the snapshot.
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/c/guarded.h"

/// The structures point into `stats`, which stays where it is.
struct penstock_statistics {
  explicit penstock_statistics(penstock::pipeline::Stats taken);
  penstock_statistics(const penstock_statistics&) = delete;
  penstock_statistics& operator=(const penstock_statistics&) = delete;

  penstock::pipeline::Stats stats;
  penstock_totals totals{};
  std::vector<penstock_stage_statistics> stages;
  std::vector<penstock_edge_statistics> edges;
  std::deque<std::vector<const char*>> tensors;
};

namespace penstock::c {
namespace {

penstock_quantiles to_quantiles(const pipeline::Quantiles& from) {
  return {from.count, from.p50_ns, from.p90_ns, from.p99_ns, from.max_ns};
}

penstock_totals to_totals(const pipeline::Stats& from) {
  penstock_totals totals{};
  totals.pushed = from.pushed;
  totals.popped = from.popped;
  totals.ok = from.ok;
  totals.errors = from.errors;
  totals.drops = from.drops;
  totals.cancelled = from.cancelled;
  totals.streams = from.streams;
  totals.streams_evicted = from.streams_evicted;
  totals.memory_bytes = from.memory_bytes.value_or(UINT64_MAX);
  return totals;
}

penstock_stage_statistics to_stage(const pipeline::StageStats& from) {
  penstock_stage_statistics stage{};
  stage.name = from.name.c_str();
  stage.device = from.device.c_str();
  stage.backend = from.backend.c_str();
  stage.replicas = from.replicas;
  stage.lanes = from.lanes;
  stage.frames = from.frames;
  stage.errors = from.errors;
  stage.drops = from.drops;
  stage.surplus = from.surplus;
  stage.copies = from.copies;
  stage.allocations = from.allocations;
  stage.calls = from.calls.data();
  stage.calls_count = from.calls.size();
  stage.queue = to_quantiles(from.queue);
  stage.compute_input = to_quantiles(from.compute_input);
  stage.compute_infer = to_quantiles(from.compute_infer);
  stage.compute_output = to_quantiles(from.compute_output);
  stage.transfer = to_quantiles(from.transfer);
  return stage;
}

penstock_edge_statistics to_edge(const pipeline::EdgeStats& from,
                                 const std::vector<const char*>& tensors) {
  penstock_edge_statistics edge{};
  edge.name = from.name.c_str();
  edge.policy = from.policy.c_str();
  edge.memory = from.memory.c_str();
  edge.tensors = tensors.data();
  edge.tensor_count = tensors.size();
  edge.capacity = from.capacity;
  edge.backend_allocated = from.backend_allocated ? 1 : 0;
  edge.depth = from.depth;
  edge.drops = from.drops;
  edge.bytes = from.bytes;
  return edge;
}

}  // namespace
}  // namespace penstock::c

penstock_statistics::penstock_statistics(penstock::pipeline::Stats taken)
    : stats(std::move(taken)), totals(penstock::c::to_totals(stats)) {
  for (const auto& stage : stats.stages) stages.push_back(penstock::c::to_stage(stage));
  for (const auto& edge : stats.edges) {
    auto& names = tensors.emplace_back();
    for (const auto& name : edge.tensors) names.push_back(name.c_str());
    edges.push_back(penstock::c::to_edge(edge, names));
  }
}

using penstock::Status;
using penstock::c::expect;
using penstock::c::guarded;

extern "C" {

std::int32_t penstock_take_statistics(const penstock_pipeline* pipeline,
                                      penstock_statistics** statistics, penstock_error** error) {
  return guarded(error, [&]() -> Status {
    PENSTOCK_CHECK_OK(expect(pipeline, "pipeline"));
    PENSTOCK_CHECK_OK(expect(statistics, "statistics"));
    *statistics = new penstock_statistics(pipeline->running->stats());
    return {};
  });
}

const penstock_totals* penstock_statistics_totals(const penstock_statistics* statistics) {
  return statistics == nullptr ? nullptr : &statistics->totals;
}

std::size_t penstock_statistics_stage_count(const penstock_statistics* statistics) {
  return statistics == nullptr ? 0 : statistics->stages.size();
}

const penstock_stage_statistics* penstock_statistics_stage(const penstock_statistics* statistics,
                                                           std::size_t index) {
  return index < penstock_statistics_stage_count(statistics) ? &statistics->stages[index] : nullptr;
}

std::size_t penstock_statistics_edge_count(const penstock_statistics* statistics) {
  return statistics == nullptr ? 0 : statistics->edges.size();
}

const penstock_edge_statistics* penstock_statistics_edge(const penstock_statistics* statistics,
                                                         std::size_t index) {
  return index < penstock_statistics_edge_count(statistics) ? &statistics->edges[index] : nullptr;
}

void penstock_statistics_free(penstock_statistics* statistics) {
  delete statistics;
}

}  // extern "C"
