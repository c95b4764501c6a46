#include "penstock/rest/metrics.h"

#include <functional>
#include <map>
#include <utility>

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

namespace penstock::rest {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using serve::Duration;
using serve::ModelStatistics;

using Labels = std::vector<std::pair<std::string, std::string>>;

ClientMetric labelled(const ModelStatistics& model, Labels more = {}) {
  ClientMetric metric;
  metric.label = {{"model", model.name}, {"version", model.version}};
  for (auto& [name, value] : more) metric.label.push_back({name, std::move(value)});
  return metric;
}

class Families {
 public:
  void add(MetricType type, const std::string& name, const std::string& help, ClientMetric metric,
           double value) {
    const auto [at, is_new] = index_.try_emplace(name, families_.size());
    if (is_new) families_.push_back({.name = name, .help = help, .type = type, .metric = {}});
    metric.counter.value = value;
    metric.gauge.value = value;
    families_[at->second].metric.push_back(std::move(metric));
  }
  void count(const std::string& name, const std::string& help, const ModelStatistics& model,
             double value) {
    add(MetricType::Counter, name, help, labelled(model), value);
  }
  void gauge(const std::string& name, const std::string& help, const ModelStatistics& model,
             double value) {
    add(MetricType::Gauge, name, help, labelled(model), value);
  }
  [[nodiscard]] std::string text() const {
    return prometheus::TextSerializer().Serialize(families_);
  }

 private:
  std::vector<MetricFamily> families_;
  std::map<std::string, std::size_t> index_;
};

double microseconds(const Duration& duration) {
  return static_cast<double>(duration.ns) / 1e3;
}

void add_triton(Families& families, const ModelStatistics& model) {
  families.count("nv_inference_request_success", "Requests that succeeded", model,
                 static_cast<double>(model.success.count));
  for (std::size_t i = 0; i < serve::kFailures; ++i) {
    const auto reason = std::string(to_string(static_cast<serve::Failure>(i)));
    families.add(MetricType::Counter, "nv_inference_request_failure", "Requests that failed",
                 labelled(model, {{"reason", reason}}), static_cast<double>(model.failures[i]));
  }
  families.count("nv_inference_count", "Frames computed", model,
                 static_cast<double>(model.inferences));
  families.count("nv_inference_exec_count", "Calls of the first stage", model,
                 static_cast<double>(model.executions));
  families.count("nv_inference_request_duration_us", "Time of requests from arrival to reply",
                 model, microseconds(model.success));
  families.count("nv_inference_queue_duration_us", "Time in which requests waited for room", model,
                 microseconds(model.queue));
  families.count("nv_inference_compute_input_duration_us", "Time in which inputs were read", model,
                 microseconds(model.compute_input));
  families.count("nv_inference_compute_infer_duration_us", "Time in the pipeline", model,
                 microseconds(model.compute_infer));
  families.count("nv_inference_compute_output_duration_us", "Time in which outputs were written",
                 model, microseconds(model.compute_output));
  families.gauge("nv_inference_pending_request_count", "Requests in progress, those that wait too",
                 model, static_cast<double>(model.pending));
  families.gauge("nv_model_load_duration_secs", "How long the last load took", model,
                 model.load_seconds);
}

void add_own(Families& families, const ModelStatistics& model) {
  families.gauge("penstock_waiting_requests", "Requests that wait for room in the pipeline", model,
                 static_cast<double>(model.waiting));
  families.count("penstock_tensor_copies", "Tensors copied between the wire and the pipeline",
                 model, static_cast<double>(model.copies));
  families.gauge("penstock_memory_bytes", "Memory of the pipeline's edges", model,
                 static_cast<double>(model.memory_bytes));
}

void add_stage(Families& families, const ModelStatistics& model,
               const pipeline::StageStats& stage) {
  const auto add = [&](MetricType type, const char* name, const char* help, double value,
                       Labels more = {}) {
    more.emplace_back("stage", stage.name);
    families.add(type, name, help, labelled(model, std::move(more)), value);
  };
  add(MetricType::Counter, "penstock_stage_frames", "Frames that the stage computed",
      static_cast<double>(stage.frames));
  add(MetricType::Counter, "penstock_stage_errors", "Frames that failed in the stage",
      static_cast<double>(stage.errors));
  add(MetricType::Counter, "penstock_stage_drops", "Frames dropped in the stage or before it",
      static_cast<double>(stage.drops));
  add(MetricType::Gauge, "penstock_stage_instances", "Replicas of the stage",
      static_cast<double>(stage.replicas));
  const std::pair<const char*, const pipeline::Quantiles*> phases[] = {
      {"queue", &stage.queue},
      {"compute_input", &stage.compute_input},
      {"compute_infer", &stage.compute_infer},
      {"compute_output", &stage.compute_output},
      {"transfer", &stage.transfer}};
  for (const auto& [phase, of] : phases) {
    const std::pair<const char*, double> quantiles[] = {
        {"0.5", of->p50_ns}, {"0.9", of->p90_ns}, {"0.99", of->p99_ns}, {"1", of->max_ns}};
    for (const auto& [quantile, ns] : quantiles) {
      add(MetricType::Gauge, "penstock_stage_duration_us",
          "Time of frames in the stage, since its start", ns / 1e3,
          {{"phase", phase}, {"quantile", quantile}});
    }
  }
}

void add_edge(Families& families, const ModelStatistics& model, const pipeline::EdgeStats& edge) {
  const auto labels = [&] { return labelled(model, {{"edge", edge.name}}); };
  families.add(MetricType::Gauge, "penstock_edge_depth", "Frames in the edge now", labels(),
               static_cast<double>(edge.depth));
  families.add(MetricType::Gauge, "penstock_edge_capacity", "Frames that the edge holds", labels(),
               edge.capacity);
  families.add(MetricType::Counter, "penstock_edge_drops", "Frames dropped by the edge's policy",
               labels(), static_cast<double>(edge.drops));
}

}  // namespace

std::string metrics_text(const std::vector<ModelStatistics>& models) {
  Families families;
  for (const auto& model : models) {
    add_triton(families, model);
    add_own(families, model);
    for (const auto& stage : model.pipeline.stages) add_stage(families, model, stage);
    for (const auto& edge : model.pipeline.edges) add_edge(families, model, edge);
  }
  return families.text();
}

}  // namespace penstock::rest
