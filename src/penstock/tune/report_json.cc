// Reports as JSON, field by field; older versions are brought up to date and indices checked.
#include <concepts>
#include <fstream>
#include <iterator>
#include <type_traits>
#include <utility>

#include <nlohmann/json.hpp>

#include "penstock/base/nesting.h"
#include "penstock/plan/package.h"
#include "penstock/tune/report.h"

// Fields by name, in the order of report.h, for both ways. In the structs' own namespace, where the
// library looks.
namespace penstock::tune {

namespace {

constexpr int kVersion = 6;
constexpr int kOldest = 3;  ///< That is read.

using Json = nlohmann::ordered_json;

}  // namespace

template <typename T>
  requires std::same_as<std::remove_const_t<T>, WayReport>
static void fields(T& way, const auto& field) {
  field("name", way.name);
  field("what", way.what);
  field("hash", way.hash);
  field("frames_per_second", way.frames_per_second);
  field("latency_seconds", way.latency_seconds);
  field("spread", way.spread);
  field("rounds", way.rounds);
  field("worst_ratio", way.worst_ratio);
  field("failure", way.failure);
}

template <typename T>
  requires std::same_as<std::remove_const_t<T>, TrialReport>
static void fields(T& trial, const auto& field) {
  field("backend", trial.backend);
  field("seconds", trial.seconds);
  field("low", trial.low);
  field("high", trial.high);
  field("pieces", trial.pieces);
  field("failure", trial.failure);
}

template <typename T>
  requires std::same_as<std::remove_const_t<T>, PartReport>
static void fields(T& part, const auto& field) {
  field("stage", part.stage);
  field("backend", part.backend);
  field("label", part.label);
  field("nodes", part.nodes);
  field("trials", part.trials);
  field("reason", part.reason);
  field("seconds", part.seconds);
  field("limit_seconds", part.limit_seconds);
  field("bound", part.bound);
}

template <typename T>
  requires std::same_as<std::remove_const_t<T>, NodeReport>
static void fields(T& node, const auto& field) {
  field("name", node.name);
  field("op", node.op);
  field("inputs", node.inputs);
  field("stage", node.stage);
  field("backend", node.backend);
  field("seconds", node.seconds);
  field("limit_seconds", node.limit_seconds);
}

template <typename T>
  requires std::same_as<std::remove_const_t<T>, HandoverReport>
static void fields(T& handover, const auto& field) {
  field("from", handover.from);
  field("to", handover.to);
  field("bytes", handover.bytes);
}

template <typename T>
  requires std::same_as<std::remove_const_t<T>, LimitReport>
static void fields(T& limit, const auto& field) {
  field("seconds", limit.seconds);
  field("bound", limit.bound);
  field("flops", limit.flops);
  field("flops_per_second", limit.flops_per_second);
  field("bytes", limit.bytes);
  field("bytes_per_second", limit.bytes_per_second);
  field("level", limit.level);
  field("workers", limit.workers);
  field("handovers", limit.handovers);
}

template <typename T>
  requires std::same_as<std::remove_const_t<T>, OutputReport>
static void fields(T& output, const auto& field) {
  field("name", output.name);
  field("allowed", output.allowed);
  field("doubt", output.doubt);
}

template <typename T>
  requires std::same_as<std::remove_const_t<T>, SpanReport>
static void fields(T& span, const auto& field) {
  field("frame", span.frame);
  field("ready", span.ready);
  field("start", span.start);
  field("end", span.end);
}

template <typename T>
  requires std::same_as<std::remove_const_t<T>, LaneReport>
static void fields(T& lane, const auto& field) {
  field("name", lane.name);
  field("spans", lane.spans);
}

template <typename T>
  requires std::same_as<std::remove_const_t<T>, TraceReport>
static void fields(T& trace, const auto& field) {
  field("seconds", trace.seconds);
  field("lanes", trace.lanes);
}

template <typename T>
concept HasFields = requires(T& part) { fields(part, [](const char*, const auto&) {}); };

template <HasFields T>
static void to_json(Json& json, const T& part) {
  json = Json::object();
  fields(part, [&](const char* name, const auto& value) { json[name] = value; });
}

template <HasFields T>
static void from_json(const Json& json, T& part) {
  fields(part, [&](const char* name, auto& value) { json.at(name).get_to(value); });
}

std::vector<WayReport> Comparison::listed() const {
  auto all = simple;
  all.push_back(plan);
  return all;
}

Comparison Comparison::of(std::vector<WayReport> listed) {
  Comparison comparison;
  comparison.plan = std::move(listed.back());
  listed.pop_back();
  comparison.simple = std::move(listed);
  return comparison;
}

std::string to_json(const Report& report) {
  const Json json = {{"version", kVersion},
                     {"model", report.model},
                     {"goal", report.goal},
                     {"devices", report.devices},
                     {"chosen", report.chosen},
                     {"period_seconds", report.period_seconds},
                     {"latency_seconds", report.latency_seconds},
                     {"lower_bound_seconds", report.lower_bound_seconds},
                     {"gap", report.gap()},
                     {"fraction_of_limit", report.fraction_of_limit()},
                     {"limit", report.limit},
                     {"tolerance", report.tolerance},
                     {"outputs", report.outputs},
                     {"ways", report.ways},
                     {"simple", report.comparison.listed()},
                     {"parts", report.parts},
                     {"notes", report.notes},
                     {"nodes", report.nodes},
                     {"trace", report.trace}};
  return json.dump(1) + "\n";
}

/// The text may be anybody's: what is counted must be there.
static Status check_index(int index, std::size_t count, const std::string& place) {
  if (index >= 0 && static_cast<std::size_t>(index) < count) return {};
  if (count == 0) {
    return make_error(Code::kDataLoss, "build.json: ", place, ": expected none, found ", index);
  }
  return make_error(Code::kDataLoss, "build.json: ", place,
                    ": expected an integer from 0 to below ", count, ", found ", index);
}

static Status check(const Report& report) {
  if (report.goal != "throughput" && report.goal != "latency") {
    return make_error(Code::kDataLoss,
                      "build.json: goal: expected 'throughput' or 'latency', found '", report.goal,
                      "'");
  }
  const auto count = report.nodes.size();  // Nor are there more stages: each has a node.
  for (std::size_t i = 0; i < count; ++i) {
    const auto place = concat("nodes[", i, "]");
    PENSTOCK_CHECK_OK(check_index(report.nodes[i].stage, count, place + ".stage"));
    for (const int input : report.nodes[i].inputs) {
      PENSTOCK_CHECK_OK(check_index(input, i, place + ".inputs"));
    }
  }
  for (std::size_t i = 0; i < report.parts.size(); ++i) {
    const auto place = concat("parts[", i, "]");
    PENSTOCK_CHECK_OK(check_index(report.parts[i].stage, count, place + ".stage"));
    for (const int node : report.parts[i].nodes) {
      PENSTOCK_CHECK_OK(check_index(node, count, place + ".nodes"));
    }
  }
  for (std::size_t i = 0; i < report.limit.handovers.size(); ++i) {
    const auto& handover = report.limit.handovers[i];
    const auto place = concat("limit.handovers[", i, "]");
    PENSTOCK_CHECK_OK(check_index(handover.from, report.parts.size(), place + ".from"));
    PENSTOCK_CHECK_OK(check_index(handover.to, report.parts.size(), place + ".to"));
  }
  return {};
}

/// What older versions did not hold is empty.
static void bring_up_to_date(Json& json, int version) {
  if (version < 4) {
    for (const auto* ways : {"ways", "simple"}) {
      for (auto& way : json.at(ways)) way["rounds"] = Json::array();
    }
  }
  if (version < 5) json["trace"] = TraceReport{};
  if (version < 6) {
    json["limit"] = LimitReport{};
    for (auto& node : json.at("nodes")) node["limit_seconds"] = 0;
    for (auto& part : json.at("parts")) {
      part["seconds"] = part["limit_seconds"] = 0;
      part["bound"] = "";
    }
  }
}

Result<Report> report_from_json(std::string_view text) {
  if (Status fits = check_nesting(text); !fits) {
    return std::move(fits).error().within("build.json");
  }
  Report report;
  try {
    auto json = Json::parse(text);
    const int version = json.at("version").get<int>();
    if (version < kOldest || version > kVersion) {
      return make_error(Code::kFailedPrecondition, "build.json: expected version ", kOldest, " to ",
                        kVersion, ", found ", version,
                        "; build the package again with this Penstock");
    }
    bring_up_to_date(json, version);
    json.at("model").get_to(report.model);
    json.at("goal").get_to(report.goal);
    json.at("devices").get_to(report.devices);
    json.at("chosen").get_to(report.chosen);
    json.at("period_seconds").get_to(report.period_seconds);
    json.at("latency_seconds").get_to(report.latency_seconds);
    json.at("lower_bound_seconds").get_to(report.lower_bound_seconds);
    json.at("tolerance").get_to(report.tolerance);
    json.at("outputs").get_to(report.outputs);
    json.at("ways").get_to(report.ways);
    auto measured = json.at("simple").get<std::vector<WayReport>>();
    if (measured.empty()) {
      return make_error(Code::kDataLoss,
                        "build.json: simple: expected at least the chosen plan, found nothing");
    }
    report.comparison = Comparison::of(std::move(measured));
    json.at("parts").get_to(report.parts);
    json.at("notes").get_to(report.notes);
    json.at("nodes").get_to(report.nodes);
    json.at("trace").get_to(report.trace);
    json.at("limit").get_to(report.limit);
  } catch (const Json::exception& error) {
    return make_error(Code::kDataLoss, "build.json: ", error.what());
  }
  PENSTOCK_CHECK_OK(check(report));
  return report;
}

Result<Report> read_report(const std::filesystem::path& path) {
  PENSTOCK_TRY(const auto package, plan::load_package(path));
  auto report = read_report(package);
  if (!report) return std::move(report).error().within({Where::kPackage, path.string()});
  return report;
}

Result<Report> read_report(const plan::Package& package) {
  std::ifstream in(package.folder / "build.json", std::ios::binary);
  if (!in) {
    return not_found(
        "expected build.json, which 'penstock build' writes; 'penstock show' tells what is in a "
        "package that was made otherwise");
  }
  return report_from_json(std::string(std::istreambuf_iterator<char>(in), {}));
}

}  // namespace penstock::tune
