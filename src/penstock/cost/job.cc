// Writes and parses jobs and reports with nlohmann/json; an infinite ratio is written as null.
#include "penstock/cost/job.h"

#include <array>
#include <cmath>
#include <utility>

#include <nlohmann/json.hpp>

#include "penstock/backend/request.h"
#include "penstock/cost/peaks_json.h"

namespace penstock::cost {
namespace {

using Json = nlohmann::ordered_json;
using Event = JobReport::Event;

constexpr std::array<std::pair<Event, std::string_view>, 5> kEvents{{
    {Event::kReady, "ready"},
    {Event::kAlive, "alive"},
    {Event::kDone, "done"},
    {Event::kFailed, "failed"},
    {Event::kRefused, "refused"},
}};

template <typename Value, std::size_t kCount>
std::string_view name_of(const std::array<std::pair<Value, std::string_view>, kCount>& names,
                         Value value) {
  for (const auto& [known, name] : names) {
    if (known == value) return name;
  }
  return "?";
}

template <typename Value, std::size_t kCount>
Value value_of(const std::array<std::pair<Value, std::string_view>, kCount>& names,
               std::string_view text, Value otherwise) {
  for (const auto& [known, name] : names) {
    if (name == text) return known;
  }
  return otherwise;
}

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json paths_json(const std::vector<std::filesystem::path>& paths) {
  Json list = Json::array();
  for (const auto& path : paths) list.push_back(path.string());
  return list;
}

Json model_json(const JobModel& model) {
  return {{"name", model.name},
          {"file", model.file.string()},
          {"backend", model.backend},
          {"precision", backend::to_string(model.precision)},
          {"optimize", model.optimize},
          {"options", model.options},
          {"custom_ops", paths_json(model.custom_ops)}};
}

JobModel model_of(const Json& json) {
  JobModel model;
  model.name = json.at("name");
  model.file = json.at("file").get<std::string>();
  model.backend = json.at("backend");
  if (auto known = backend::parse_precision(json.at("precision").get<std::string>())) {
    model.precision = *known;
  }
  model.optimize = json.at("optimize");
  model.options = json.at("options");
  for (const auto& path : json.at("custom_ops")) {
    model.custom_ops.emplace_back(path.get<std::string>());
  }
  return model;
}

/// JSON has no infinity.
Json number_json(double number) {
  return std::isfinite(number) ? Json(number) : Json(nullptr);
}

double number_of(const Json& json) {
  return json.is_number() ? json.get<double>() : INFINITY;
}

Result<Job> job_of(const Json& json) {
  Job job;
  job.id = json.at("id");
  for (const auto& model : json.at("models")) job.models.push_back(model_of(model));
  job.cpus = json.at("cpus").get<std::vector<int>>();
  job.device = json.value("device", "");  // A caller of an older version has no such jobs.
  job.memory_of = json.value("memory_of", "");
  job.to_host = json.value("to_host", false);
  job.link_to = json.at("link_to").get<std::vector<int>>();
  job.peaks = json.at("peaks");
  job.threads = json.at("threads");
  job.flush_denormals = json.at("flush_denormals");
  job.neighbours = json.at("neighbours").get<std::vector<std::vector<int>>>();
  job.shapes = json.at("shapes").get<std::map<std::string, std::vector<std::int64_t>>>();
  for (const auto& [name, files] : json.at("values").items()) {
    for (const auto& file : files) job.values[name].emplace_back(file.get<std::string>());
  }
  job.min_seconds = json.at("min_seconds");
  job.max_seconds = json.at("max_seconds");
  job.seeds = json.at("seeds").get<std::vector<std::uint64_t>>();
  job.write_outputs = json.at("write_outputs").get<std::string>();
  job.reference = json.at("reference").get<std::string>();
  job.tolerance = {json.at("relative"), json.at("absolute"), json.at("steps")};
  return job;
}

Result<JobReport> report_of(const Json& json) {
  JobReport report;
  report.id = json.at("id");
  report.event = value_of(kEvents, json.at("event").get<std::string>(), Event::kAlive);
  report.phase = json.at("phase");
  report.seconds = json.at("seconds");
  report.low = json.at("low");
  report.high = json.at("high");
  report.runs = json.at("runs");
  report.neighbours = json.at("neighbours");
  report.bytes_per_second = json.at("bytes_per_second");
  report.error = {static_cast<Code>(json.at("code").get<int>()), json.at("message")};
  if (const auto check = json.find("check"); check != json.end()) {
    report.check = JobCheck{number_of(check->at("worst_ratio")), check->at("ok"),
                            check->at("output"), check->at("place"), check->at("problem")};
  }
  if (const auto peaks = json.find("peaks"); peaks != json.end()) {
    PENSTOCK_TRY(report.peaks, peaks_from_json(peaks->dump()));
  }
  return report;
}

/// nlohmann's exceptions end here.
template <typename Value>
Result<Value> parse(const std::string& line, Result<Value> (*read)(const Json&)) {
  try {
    return read(Json::parse(line));
  } catch (const Json::exception& error) {
    return invalid_argument("penstock-measure: a line that is none: ", error.what());
  }
}

}  // namespace

std::string to_line(const Job& job) {
  Json models = Json::array();
  for (const auto& model : job.models) models.push_back(model_json(model));
  Json values = Json::object();
  for (const auto& [name, files] : job.values) {
    for (const auto& file : files) values[name].push_back(file.string());
  }
  return dump({{"id", job.id},
               {"models", std::move(models)},
               {"cpus", job.cpus},
               {"device", job.device},
               {"memory_of", job.memory_of},
               {"to_host", job.to_host},
               {"link_to", job.link_to},
               {"peaks", job.peaks},
               {"threads", job.threads},
               {"flush_denormals", job.flush_denormals},
               {"neighbours", job.neighbours},
               {"shapes", job.shapes},
               {"values", std::move(values)},
               {"min_seconds", job.min_seconds},
               {"max_seconds", job.max_seconds},
               {"seeds", job.seeds},
               {"write_outputs", job.write_outputs.string()},
               {"reference", job.reference.string()},
               {"relative", job.tolerance.relative},
               {"absolute", job.tolerance.absolute},
               {"steps", job.tolerance.steps}});
}

std::string to_line(const JobReport& report) {
  Json json = {{"id", report.id},
               {"event", name_of(kEvents, report.event)},
               {"phase", report.phase},
               {"seconds", report.seconds},
               {"low", report.low},
               {"high", report.high},
               {"runs", report.runs},
               {"neighbours", report.neighbours},
               {"bytes_per_second", report.bytes_per_second},
               {"code", static_cast<int>(report.error.code)},
               {"message", report.error.message()}};
  if (report.check) {
    json["check"] = {{"worst_ratio", number_json(report.check->worst_ratio)},
                     {"ok", report.check->ok},
                     {"output", report.check->output},
                     {"place", report.check->place},
                     {"problem", report.check->problem}};
  }
  if (report.peaks) json["peaks"] = Json::parse(to_json(*report.peaks));
  return dump(json);
}

Result<Job> parse_job(const std::string& line) {
  return parse(line, job_of);
}

Result<JobReport> parse_report(const std::string& line) {
  return parse(line, report_of);
}

}  // namespace penstock::cost
