// Takes differences of statistics between two looks; describes stages and edges of each new plan.
#include "penstock/watch/samples.h"

#include <algorithm>
#include <utility>

#include "penstock/base/hash.h"
#include "penstock/base/version.h"
#include "penstock/device/device.h"
#include "penstock/plan/package.h"
#include "penstock/tune/report.h"

namespace penstock::watch {
namespace {

double seconds_between(std::chrono::steady_clock::time_point from,
                       std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

std::int64_t unix_ms(std::chrono::system_clock::time_point at) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(at.time_since_epoch()).count();
}

/// Microseconds, or null where nothing was measured.
Json us(const pipeline::Quantiles& of, double ns) {
  return of.count == 0 ? Json(nullptr) : Json(ns / 1e3);
}

Json stage_about(const plan::Stage& stage, const pipeline::StageStats& stats) {
  Json devices = Json::array(), cpus = Json::array();
  for (const auto& device : stage.devices) {
    devices.push_back(device::to_string(device));
    if (!device.is_local_cpu()) continue;  // Its numbers are those of another machine.
    for (const int cpu : device.cpus) cpus.push_back(cpu);
  }
  return {{"name", stats.name},       {"devices", std::move(devices)}, {"cpus", std::move(cpus)},
          {"backend", stats.backend}, {"replicas", stats.replicas},    {"lanes", stats.lanes}};
}

Json edge_about(const plan::Edge& edge, const pipeline::EdgeStats& stats) {
  return {{"name", stats.name},
          {"capacity", stats.capacity},
          {"policy", stats.policy},
          {"bytes", stats.backend_allocated ? Json(nullptr) : Json(stats.bytes)},
          {"from", edge.from},
          {"to", edge.to}};
}

/// Seen over foretold, and whether that is beyond the noise; null: nothing is known.
Json drift_json(const std::optional<pipeline::Drift>& drift) {
  return drift ? Json{drift->ratio, drift->beyond_noise} : Json(nullptr);
}

/// `before`: null where another plan ran then.
Json stage_sample(const pipeline::StageStats& stage, const pipeline::StageStats* before,
                  double seconds) {
  const double busy_ns = before == nullptr ? 0 : stage.busy_ns - before->busy_ns;
  const double most_ns = seconds * 1e9 * std::max(1, stage.replicas);
  return {{"load", most_ns > 0 ? std::clamp(busy_ns / most_ns, 0.0, 1.0) : 0},
          {"frames", stage.frames},
          {"errors", stage.errors},
          {"drops", stage.drops},
          {"queue_us", {us(stage.queue, stage.queue.p50_ns), us(stage.queue, stage.queue.p99_ns)}},
          {"infer_us",
           {us(stage.compute_infer, stage.compute_infer.p50_ns),
            us(stage.compute_infer, stage.compute_infer.p99_ns)}},
          {"drift", drift_json(stage.drift)}};
}

/// What the build of a plan said of it, if it is still there.
Json report_of(const plan::Plan& plan, const std::filesystem::path& folder) {
  const auto listed = plan.files.find("build.json");
  if (listed == plan.files.end()) return nullptr;
  const auto hash = sha256_of_file(folder / listed->first);
  if (!hash || *hash != listed->second) return nullptr;  // Another package lies there now.
  const auto report = tune::read_report(plan::Package{plan, folder, nullptr});
  return report ? Json::parse(tune::to_json(*report)) : Json(nullptr);
}

Json failure_json(const pipeline::Failure& failure) {
  const Where* stage = failure.error.find(Where::kStage);
  return {{"frame", failure.frame},
          {"stream", failure.stream},
          {"stage", stage == nullptr ? "" : stage->name},
          {"message", failure.error.message()},
          {"at_ms", unix_ms(failure.at)}};
}

}  // namespace

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Sampler::Sampler(std::shared_ptr<const pipeline::Pipeline> pipeline, const std::string& report)
    : pipeline_(std::move(pipeline)), cpus_(device::inherited_cpus()), last_(look()) {
  about_ = {{"penstock", std::string(version())},
            {"generation", 0},
            {"started_ms", unix_ms(std::chrono::system_clock::now())},
            {"cpus", cpus_.cpus()}};
  auto known = report.empty() ? Json(nullptr) : Json::parse(report, nullptr, false);
  describe(last_, known.is_discarded() ? Json(nullptr) : std::move(known));
}

/// Of one plan: another may begin meanwhile.
Sampler::Look Sampler::look() const {
  while (true) {
    Look look{.at = Clock::now(),
              .plan = pipeline_->shared_plan(),
              .folder = pipeline_->folder(),
              .stats = pipeline_->stats(),
              .seen = pipeline_->observe(),
              .process = metrics::read_process()};
    if (look.plan == pipeline_->shared_plan()) return look;
  }
}

void Sampler::describe(const Look& now, Json report) {
  const auto& plan = *now.plan;
  const auto& stats = now.stats;
  Json stages = Json::array(), edges = Json::array();
  for (std::size_t i = 0; i < stats.stages.size(); ++i) {
    stages.push_back(stage_about(plan.stages[i], stats.stages[i]));
  }
  for (std::size_t i = 0; i < stats.edges.size(); ++i) {
    edges.push_back(edge_about(plan.edges[i], stats.edges[i]));
  }
  auto about = about_;
  about["model"] = plan.model;
  about["stages"] = std::move(stages);
  about["edges"] = std::move(edges);
  about["generation"] = about_["generation"].get<int>() + 1;
  about["predicted"] = {{"period_seconds", plan.prediction.period_seconds},
                        {"latency_seconds", plan.prediction.latency_seconds}};
  about["memory_bytes"] = stats.memory_bytes ? Json(*stats.memory_bytes) : Json(nullptr);
  about["report"] = std::move(report);
  plan_ = plan;
  about_ = std::move(about);  // Both or, where memory is short, none.
}

/// One that could not take the place of the old one may have made that start again: it is no other.
void Sampler::look_for_another_plan(const Look& now) {
  if (now.plan == last_.plan || *now.plan == plan_) return;
  describe(now, report_of(*now.plan, now.folder));
}

Json Sampler::frames_json(const Look& now, double seconds) const {
  const auto& stats = now.stats;
  const auto latency = now.seen.latencies.since(last_.seen.latencies).quantiles();
  const auto ok = static_cast<double>(stats.ok - std::min(stats.ok, last_.stats.ok));
  Json json = {{"n", number_},
               {"t", seconds_between(begin_, now.at)},
               {"pushed", stats.pushed},
               {"ok", stats.ok},
               {"errors", stats.errors},
               {"drops", stats.drops},
               {"cancelled", stats.cancelled},
               {"in_flight", stats.pushed - std::min(stats.pushed, stats.popped)},
               {"fps", seconds > 0 ? ok / seconds : 0}};
  if (latency.count == 0) {
    json["latency_us"] = nullptr;
  } else {
    json["latency_us"] = {latency.p50_ns / 1e3, latency.p90_ns / 1e3, latency.p99_ns / 1e3,
                          latency.max_ns / 1e3};
  }
  json["rss"] = now.process.resident_bytes;
  const double cpu = now.process.cpu_seconds - last_.process.cpu_seconds;
  json["cpu"] = seconds > 0 ? cpu / seconds : 0;
  return json;
}

void Sampler::add_failures(const Look& now, Sample& sample) const {
  const auto fresh = now.seen.failed - std::min(now.seen.failed, last_.seen.failed);
  const auto& kept = now.seen.failures;
  const auto shown = std::min<std::uint64_t>(fresh, kept.size());
  for (auto i = kept.size() - shown; i < kept.size(); ++i) {
    sample.failures.push_back(failure_json(kept[i]));
  }
  sample.missed = fresh - shown;
}

Sample Sampler::take() {
  auto now = look();
  look_for_another_plan(now);
  const int generation = about_["generation"].get<int>();
  Sample sample;
  sample.renewed = generation != generation_;
  sample.number = ++number_;
  const double seconds = seconds_between(last_.at, now.at);
  sample.json = frames_json(now, seconds);
  Json stages = Json::array(), edges = Json::array();
  for (std::size_t i = 0; i < now.stats.stages.size(); ++i) {
    const bool same = !sample.renewed && i < last_.stats.stages.size();
    stages.push_back(
        stage_sample(now.stats.stages[i], same ? &last_.stats.stages[i] : nullptr, seconds));
  }
  for (const auto& edge : now.stats.edges) {
    edges.push_back({{"depth", edge.depth}, {"drops", edge.drops}});
  }
  sample.json["stages"] = std::move(stages);
  sample.json["edges"] = std::move(edges);
  sample.json["cpus"] = cpus_.since_last();
  const auto closed = pipeline_->closed_by();
  sample.json["closed"] = closed ? Json(closed->message()) : Json(nullptr);
  // An end by its owner's wish has no place.
  sample.json["stopped"] = closed && !closed->places.empty();
  add_failures(now, sample);
  last_ = std::move(now);
  generation_ = generation;
  return sample;
}

}  // namespace penstock::watch
