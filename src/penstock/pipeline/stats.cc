// Pipeline::stats(): sums what the workers of each stage counted, and reads the edges' depths.
#include "penstock/pipeline/stats.h"

#include <algorithm>

#include "penstock/pipeline/drift.h"
#include "penstock/pipeline/generations.h"
#include "penstock/pipeline/worker.h"

namespace penstock::pipeline {
namespace {

Quantiles over(const std::vector<const Worker*>& workers, const Histogram Meter::* phase) {
  std::vector<const Histogram*> parts;
  for (const Worker* worker : workers) parts.push_back(&(worker->meter.*phase));
  return Histogram::quantiles(parts);
}

/// StageStats::calls
std::vector<std::uint64_t> calls_of(const std::vector<const Worker*>& workers) {
  std::vector<std::uint64_t> calls(workers.front()->meter.calls.size());
  for (const Worker* worker : workers) {
    for (std::size_t n = 0; n < calls.size(); ++n) {
      calls[n] += worker->meter.calls[n].load(std::memory_order_relaxed);
    }
  }
  return calls;
}

InstanceStats stats_of(const Worker& worker, const device::Device& device) {
  return {.device = device::to_string(device),
          .frames = worker.meter.frames.load(std::memory_order_relaxed),
          .infer_ns = Histogram::quantiles({&worker.meter.compute_infer}).sum_ns,
          .able = worker.able()};
}

std::vector<const Worker*> measured_workers(const State& state, const Stage& stage) {
  std::vector<const Worker*> workers;
  for (const auto& worker : state.workers) {
    if (&worker->stage() == &stage) workers.push_back(worker.get());
  }
  return workers;
}

/// Looks at the stages that the plan has a time of. \returns the busiest one's DriftWatch::busy()
/// \pre  state.looked_at is held
double watch_drift(const State& state) {
  double busiest = 0;
  for (const auto& stage : state.stages) {
    if (stage->plan->predicted_seconds <= 0) continue;
    const auto workers = measured_workers(state, *stage);
    std::vector<const Histogram*> parts;
    for (const Worker* worker : workers) parts.push_back(&worker->meter.compute_infer);
    stage->drift.see(DriftWatch::Clock::now(), Histogram::durations(parts), calls_of(workers),
                     stage->plan->devices.size());
    busiest = std::max(busiest, stage->drift.busy());
  }
  return busiest;
}

/// \pre  state.looked_at is held
StageStats stats_of(const State& state, const Stage& stage, double busiest) {
  const auto workers = measured_workers(state, stage);
  StageStats stats;
  stats.name = stage.plan->name;
  stats.device =
      join(stage.plan->devices, ",", [](const auto& device) { return device::to_string(device); });
  stats.backend =
      join(stage.plan->partitions, "+", [](const auto& partition) { return partition.backend; });
  stats.replicas = static_cast<int>(stage.plan->devices.size());
  stats.lanes = static_cast<int>(workers.front()->lanes());
  stats.calls = calls_of(workers);
  for (const Worker* worker : workers) {
    stats.surplus += worker->meter.surplus.load(std::memory_order_relaxed);
    stats.frames += worker->meter.frames.load(std::memory_order_relaxed);
    stats.errors += worker->meter.errors.load(std::memory_order_relaxed);
    stats.busy_ns += worker->meter.busy_ns();
    stats.drops += worker->meter.drops.load(std::memory_order_relaxed);  // By its function.
    const auto counters = worker->counters();
    stats.copies += counters.copies;
    stats.allocations += counters.allocations;
  }
  stats.queue = over(workers, &Meter::queue);
  stats.compute_input = over(workers, &Meter::compute_input);
  stats.compute_infer = over(workers, &Meter::compute_infer);
  stats.compute_output = over(workers, &Meter::compute_output);
  stats.transfer = over(workers, &Meter::transfer);
  for (std::size_t i = 0; i < workers.size(); ++i) {
    stats.instances.push_back(stats_of(*workers[i], stage.places[i]));
  }
  const double predicted_ns = stage.plan->predicted_seconds * 1e9;
  if (predicted_ns > 0) stats.drift = stage.drift.against(predicted_ns, busiest);
  return stats;
}

EdgeStats stats_of(const State& state, const Edge& edge) {
  const auto done = [&](int at) {
    if (at == plan::kPipelineInput) return state.source.done();
    if (at == plan::kPipelineOutput) return state.sink.done();
    return state.stages[static_cast<std::size_t>(at)]->progress.done();
  };
  EdgeStats stats;
  stats.name = edge.name;
  stats.tensors = edge.tensors;
  stats.capacity = edge.capacity();
  FrameNumber behind = UINT64_MAX;
  for (const int to : edge.to) behind = std::min(behind, done(to));
  const FrameNumber written = done(edge.from);
  stats.depth = behind < written ? std::min<FrameNumber>(written - behind,
                                                         static_cast<FrameNumber>(edge.capacity()))
                                 : 0;
  stats.drops = edge.drops.load(std::memory_order_relaxed);
  stats.bytes = edge.bytes_per_slot() * edge.slot_count();
  stats.memory = pipeline::name_of(edge.memory());
  for (const auto* mirror : edge.mirrors()) {
    stats.mirrors[pipeline::name_of(mirror)] = edge.bytes_per_slot() * edge.mirror_count();
  }
  stats.backend_allocated =
      std::ranges::any_of(edge.types, [](const Type& type) { return !type.max_bytes(); });
  stats.policy = plan::to_string(edge.policy);
  return stats;
}

}  // namespace

Stats Pipeline::stats() const {
  const auto [newest, lock] = generations_->look();
  const State& state = *newest;
  Stats stats;
  stats.pushed = state.source.done();
  const Totals& totals = *state.totals;
  stats.ok = totals.of(Outcome::kOk);
  stats.errors = totals.of(Outcome::kError);
  stats.drops = totals.of(Outcome::kDropped);
  stats.cancelled = totals.of(Outcome::kCancelled);
  stats.popped = stats.ok + stats.errors + stats.drops + stats.cancelled;
  stats.streams = state.streams->known();
  stats.streams_evicted = state.streams->evicted();
  stats.memory_bytes = memory_ceiling(state.plan, state.options, state.memories);
  stats.first_calls = generations_->first_calls();
  stats.plans = generations_->plans(stats.pushed);
  const double busiest = watch_drift(state);
  for (const auto& stage : state.stages) stats.stages.push_back(stats_of(state, *stage, busiest));
  for (const auto& edge : state.edges) {
    const auto& of_edge = stats.edges.emplace_back(stats_of(state, *edge));
    if (edge->from >= 0) {
      stats.stages[static_cast<std::size_t>(edge->from)].allocations +=
          edge->allocations.load(std::memory_order_relaxed);
    }
    for (const int to : edge->to) {
      if (to >= 0) stats.stages[static_cast<std::size_t>(to)].drops += of_edge.drops;
    }
  }
  return stats;
}

}  // namespace penstock::pipeline
