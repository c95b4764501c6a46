// Names, help texts and labels of the figures of frames, stages, edges and latency.
#include "penstock/metrics/pipeline.h"

#include <utility>

namespace penstock::metrics {
namespace {

double number(std::uint64_t count) {
  return static_cast<double>(count);
}

void add_frames(Families& families, const Labels& labels, const pipeline::Stats& stats) {
  families.add(Kind::kCounter, "penstock_pushed_frames", "Frames pushed", labels,
               number(stats.pushed));
  const std::pair<const char*, std::uint64_t> outcomes[] = {{"ok", stats.ok},
                                                            {"error", stats.errors},
                                                            {"dropped", stats.drops},
                                                            {"cancelled", stats.cancelled}};
  for (const auto& [outcome, count] : outcomes) {
    families.add(Kind::kCounter, "penstock_frames", "Frames that came out, by how they ended",
                 with(labels, {{"outcome", outcome}}), number(count));
  }
  families.add(Kind::kGauge, "penstock_frames_in_flight", "Frames pushed that have not come out",
               labels, number(stats.pushed > stats.popped ? stats.pushed - stats.popped : 0));
  families.add(Kind::kGauge, "penstock_streams", "Streams that are known now", labels,
               number(stats.streams));
  families.add(Kind::kCounter, "penstock_streams_evicted", "Streams that made room for others",
               labels, number(stats.streams_evicted));
  families.add(Kind::kGauge, "penstock_memory_bytes",
               "Memory of the pipeline's edges; 0: nothing bounds it", labels,
               number(stats.memory_bytes.value_or(0)));
}

/// The time of computing frames, for the mean of any interval, and what was foretold of it.
void add_service(Families& families, const Labels& labels, const pipeline::StageStats& stage) {
  const auto of_stage = with(labels, {{"stage", stage.name}});
  double sum_ns = 0;
  for (const auto& instance : stage.instances) sum_ns += instance.infer_ns;
  families.add(Kind::kCounter, "penstock_stage_compute_seconds_sum",
               "Time of computing frames, all together", of_stage, sum_ns / 1e9);
  families.add(Kind::kCounter, "penstock_stage_compute_seconds_count", "How many frames these are",
               of_stage, number(stage.frames));
  if (!stage.drift) return;
  families.add(Kind::kGauge, "penstock_stage_predicted_seconds",
               "Time of computing a frame, as the plan foretold", of_stage,
               stage.drift->predicted_ns / 1e9);
  families.add(Kind::kGauge, "penstock_stage_drift",
               "Time of computing a frame over what the plan foretold", of_stage,
               stage.drift->ratio);
  families.add(Kind::kGauge, "penstock_stage_drift_beyond_noise",
               "1: that differs from 1 by more than the noise", of_stage,
               stage.drift->beyond_noise ? 1 : 0);
}

/// The quantiles, in microseconds; their label stands before those of `more`.
void add_quantiles(Families& families, const char* name, const char* help, const Labels& labels,
                   const pipeline::Quantiles& of, const Labels& more = {}) {
  const std::pair<const char*, double> quantiles[] = {
      {"0.5", of.p50_ns}, {"0.9", of.p90_ns}, {"0.99", of.p99_ns}, {"1", of.max_ns}};
  for (const auto& [quantile, ns] : quantiles) {
    families.add(Kind::kGauge, name, help, with(with(labels, {{"quantile", quantile}}), more),
                 ns / 1e3);
  }
}

/// Of each replica: on which device, of which peer (empty: this machine), and whether it computes.
void add_instances(Families& families, const Labels& labels, const pipeline::StageStats& stage) {
  for (std::size_t i = 0; i < stage.instances.size(); ++i) {
    const auto& instance = stage.instances[i];
    const auto slash = instance.device.find('/');
    const std::string peer =
        slash == std::string::npos ? std::string() : instance.device.substr(0, slash);
    const auto of_instance = with(labels, {{"stage", stage.name},
                                           {"instance", std::to_string(i)},
                                           {"device", instance.device},
                                           {"peer", peer}});
    families.add(Kind::kGauge, "penstock_instance_able", "0: its device is lost, or its calls hang",
                 of_instance, instance.able ? 1 : 0);
    families.add(Kind::kCounter, "penstock_instance_frames", "Frames that the replica computed",
                 of_instance, number(instance.frames));
    families.add(Kind::kCounter, "penstock_instance_compute_seconds",
                 "Time in which the replica computed them", of_instance, instance.infer_ns / 1e9);
  }
}

/// How many frames calls held, where a call may hold several.
void add_calls(Families& families, const Labels& labels, const pipeline::StageStats& stage) {
  if (stage.calls.size() < 2) return;
  for (std::size_t n = 1; n <= stage.calls.size(); ++n) {
    families.add(Kind::kCounter, "penstock_stage_calls", "Calls, by how many frames they held",
                 with(labels, {{"stage", stage.name}, {"frames", std::to_string(n)}}),
                 number(stage.calls[n - 1]));
  }
}

void add_stage(Families& families, const Labels& labels, const pipeline::StageStats& stage) {
  const auto add = [&](Kind kind, const char* name, const char* help, double value) {
    families.add(kind, name, help, with(labels, {{"stage", stage.name}}), value);
  };
  add(Kind::kCounter, "penstock_stage_frames", "Frames that the stage computed",
      number(stage.frames));
  add(Kind::kCounter, "penstock_stage_errors", "Frames that failed in the stage",
      number(stage.errors));
  add(Kind::kCounter, "penstock_stage_drops", "Frames dropped in the stage or before it",
      number(stage.drops));
  add(Kind::kGauge, "penstock_stage_instances", "Replicas of the stage",
      static_cast<double>(stage.replicas));
  add(Kind::kGauge, "penstock_stage_lanes", "Calls in flight, at most, of each replica",
      static_cast<double>(stage.lanes));
  add(Kind::kCounter, "penstock_stage_copies", "Tensors copied by the runtime or the backend",
      number(stage.copies));
  add(Kind::kCounter, "penstock_stage_allocations", "Tensor buffers allocated after the start",
      number(stage.allocations));
  add_instances(families, labels, stage);
  add_calls(families, labels, stage);
  add(Kind::kCounter, "penstock_stage_busy_seconds",
      "Time in which the stage had frames, of all replicas together", stage.busy_ns / 1e9);
  add_service(families, labels, stage);
  const std::pair<const char*, const pipeline::Quantiles*> phases[] = {
      {"queue", &stage.queue},
      {"compute_input", &stage.compute_input},
      {"compute_infer", &stage.compute_infer},
      {"compute_output", &stage.compute_output},
      {"transfer", &stage.transfer}};
  for (const auto& [phase, of] : phases) {
    add_quantiles(families, "penstock_stage_duration_us",
                  "Time of frames in the stage, since its start", with(labels, {{"phase", phase}}),
                  *of, {{"stage", stage.name}});
  }
}

void add_edge(Families& families, const Labels& labels, const pipeline::EdgeStats& edge) {
  const auto of_edge = with(labels, {{"edge", edge.name}});
  families.add(Kind::kGauge, "penstock_edge_depth", "Frames in the edge now", of_edge,
               number(edge.depth));
  families.add(Kind::kGauge, "penstock_edge_capacity", "Frames that the edge holds", of_edge,
               edge.capacity);
  families.add(Kind::kGauge, "penstock_edge_bytes",
               "Memory of the edge's slots; 0: the backend allocates them",
               with(of_edge, {{"memory", edge.memory}}), number(edge.bytes));
  families.add(Kind::kCounter, "penstock_edge_drops", "Frames dropped by the edge's policy",
               of_edge, number(edge.drops));
}

}  // namespace

void add_pipeline(Families& families, const Labels& labels, const pipeline::Stats& stats) {
  add_frames(families, labels, stats);
  for (const auto& stage : stats.stages) add_stage(families, labels, stage);
  for (const auto& edge : stats.edges) add_edge(families, labels, edge);
}

void add_latency(Families& families, const Labels& labels, const pipeline::Quantiles& latency) {
  families.add(Kind::kCounter, "penstock_latency_seconds_sum",
               "Time of frames from push to pop, all together", labels, latency.sum_ns / 1e9);
  families.add(Kind::kCounter, "penstock_latency_seconds_count", "How many frames these are",
               labels, number(latency.count));
  add_quantiles(families, "penstock_latency_us",
                "Time of frames from push to pop, since somebody looks", labels, latency);
}

}  // namespace penstock::metrics
