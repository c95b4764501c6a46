// Requests under Triton's names of figures, then figures of Penstock's own and of the pipeline.
#include "penstock/rest/metrics.h"

#include "penstock/metrics/pipeline.h"
#include "penstock/metrics/process.h"

namespace penstock::rest {
namespace {

using metrics::Families;
using metrics::Kind;
using metrics::Labels;
using serve::Duration;
using serve::ModelStatistics;

double microseconds(const Duration& duration) {
  return static_cast<double>(duration.ns) / 1e3;
}

void add_triton(Families& families, const Labels& labels, const ModelStatistics& model) {
  const auto count = [&](const char* name, const char* help, double value) {
    families.add(Kind::kCounter, name, help, labels, value);
  };
  count("nv_inference_request_success", "Requests that succeeded",
        static_cast<double>(model.success.count));
  for (std::size_t i = 0; i < serve::kFailures; ++i) {
    const auto reason = std::string(to_string(static_cast<serve::Failure>(i)));
    families.add(Kind::kCounter, "nv_inference_request_failure", "Requests that failed",
                 metrics::with(labels, {{"reason", reason}}),
                 static_cast<double>(model.failures[i]));
  }
  count("nv_inference_count", "Frames computed", static_cast<double>(model.inferences));
  count("nv_inference_exec_count", "Calls of the first stage",
        static_cast<double>(model.executions));
  count("nv_inference_request_duration_us", "Time of requests from arrival to reply",
        microseconds(model.success));
  count("nv_inference_queue_duration_us", "Time in which requests waited for room",
        microseconds(model.queue));
  count("nv_inference_compute_input_duration_us", "Time in which inputs were read",
        microseconds(model.compute_input));
  count("nv_inference_compute_infer_duration_us", "Time in the pipeline",
        microseconds(model.compute_infer));
  count("nv_inference_compute_output_duration_us", "Time in which outputs were written",
        microseconds(model.compute_output));
  families.add(Kind::kGauge, "nv_inference_pending_request_count",
               "Requests in progress, those that wait too", labels,
               static_cast<double>(model.pending));
  families.add(Kind::kGauge, "nv_model_load_duration_secs", "How long the last load took", labels,
               model.load_seconds);
}

void add_own(Families& families, const Labels& labels, const ModelStatistics& model) {
  families.add(Kind::kGauge, "penstock_waiting_requests",
               "Requests that wait for room in the pipeline", labels,
               static_cast<double>(model.waiting));
  families.add(Kind::kCounter, "penstock_tensor_copies",
               "Tensors copied between the wire and the pipeline", labels,
               static_cast<double>(model.copies));
}

}  // namespace

std::string metrics_text(const std::vector<ModelStatistics>& models,
                         const std::function<void(Families&)>& more) {
  Families families;
  for (const auto& model : models) {
    const Labels labels = {{"model", model.name}, {"version", model.version}};
    add_triton(families, labels, model);
    add_own(families, labels, model);
    metrics::add_pipeline(families, labels, model.pipeline);
  }
  metrics::add_process(families);
  if (more) more(families);
  return families.text();
}

}  // namespace penstock::rest
