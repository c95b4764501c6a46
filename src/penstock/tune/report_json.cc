// Reports as JSON, field by field; older versions are read as well and indices are checked.
#include <cmath>
#include <concepts>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include <nlohmann/json.hpp>

#include "penstock/plan/document.h"
#include "penstock/plan/json_reader.h"
#include "penstock/plan/package.h"
#include "penstock/tune/report.h"

// Fields by name, in the order of report.h, for both ways, with the version that had one first. In
// the structs' own namespace, where the library looks.
namespace penstock::tune {

namespace {

constexpr int kVersion = 8;
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
  field("rounds", way.rounds, 4);
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
  field("seconds", part.seconds, 6);
  field("limit_seconds", part.limit_seconds, 6);
  field("bound", part.bound, 6);
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
  field("limit_seconds", node.limit_seconds, 6);
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
  field("frames", trace.frames, 7);
  field("lanes", trace.lanes);
}

template <typename T>
concept HasFields =
    requires(T& part) { fields(part, [](const char*, const auto&, int = kOldest) {}); };

template <HasFields T>
static void to_json(Json& json, const T& part) {
  json = Json::object();
  fields(part, [&](const char* name, const auto& value, int = kOldest) { json[name] = value; });
}

namespace {

/// Reads values of the types that reports are made of; the first that is wrong is the field's
/// error.
class Reader {
 public:
  explicit Reader(std::int64_t version) : version_(version) {}

  /// What older versions did not hold stays as it is: empty.
  template <typename T>
  void member(const plan::Field& object, const char* name, T& value, int since = kOldest) const {
    if (version_ >= since) read(object.at(name), value);
  }

 private:
  static void read(const plan::Field& field, std::string& value) { value = field.string(); }
  static void read(const plan::Field& field, double& value) { value = field.number(); }
  static void read(const plan::Field& field, int& value) {
    using Limits = std::numeric_limits<int>;
    value = static_cast<int>(field.integer(Limits::min(), Limits::max()));
  }
  static void read(const plan::Field& field, std::uint64_t& value) {
    value = static_cast<std::uint64_t>(field.integer(0, std::numeric_limits<std::int64_t>::max()));
  }
  template <typename T>
  void read(const plan::Field& field, std::vector<T>& values) const {
    field.each([&](const plan::Field& one) { read(one, values.emplace_back()); });
  }
  template <HasFields T>
  void read(const plan::Field& field, T& part) const {
    fields(part, [&](const char* name, auto& value, int since = kOldest) {
      member(field, name, value, since);
    });
  }

  std::int64_t version_;
};

/// JSON has no infinity: what is none of its numbers is not known. As deep as a report nests.
void make_finite(Json& json) {
  for (auto& member : json) {
    if (member.is_structured()) make_finite(member);
    if (member.is_number_float() && !std::isfinite(member.get<double>())) member = 0;
  }
}

}  // namespace

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

static Json content_of(const Report& report) {
  Json json = {{"model", report.model},
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
  return json;
}

std::string to_json(const Report& report) {
  Json json = {{"version", kVersion}};
  json.update(content_of(report));
  auto& networks = json["networks"] = Json::array();
  for (const auto& network : report.networks) {
    networks.push_back({{"node", network.node}});
    networks.back().update(content_of(network));
  }
  make_finite(json);
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

/// `within`: "networks[0]." of a network's
static Status check(const Report& report, const std::string& within = {}) {
  if (report.goal != "throughput" && report.goal != "latency") {
    return make_error(Code::kDataLoss, "build.json: ", within,
                      "goal: expected 'throughput' or 'latency', found '", report.goal, "'");
  }
  const auto count = report.nodes.size();  // Nor are there more stages: each has a node.
  for (std::size_t i = 0; i < count; ++i) {
    const auto place = concat(within, "nodes[", i, "]");
    PENSTOCK_CHECK_OK(check_index(report.nodes[i].stage, count, place + ".stage"));
    for (const int input : report.nodes[i].inputs) {
      PENSTOCK_CHECK_OK(check_index(input, i, place + ".inputs"));
    }
  }
  for (std::size_t i = 0; i < report.parts.size(); ++i) {
    const auto place = concat(within, "parts[", i, "]");
    PENSTOCK_CHECK_OK(check_index(report.parts[i].stage, count, place + ".stage"));
    for (const int node : report.parts[i].nodes) {
      PENSTOCK_CHECK_OK(check_index(node, count, place + ".nodes"));
    }
  }
  for (std::size_t i = 0; i < report.limit.handovers.size(); ++i) {
    const auto& handover = report.limit.handovers[i];
    const auto place = concat(within, "limit.handovers[", i, "]");
    PENSTOCK_CHECK_OK(check_index(handover.from, report.parts.size(), place + ".from"));
    PENSTOCK_CHECK_OK(check_index(handover.to, report.parts.size(), place + ".to"));
  }
  for (std::size_t i = 0; i < report.networks.size(); ++i) {
    PENSTOCK_CHECK_OK(check(report.networks[i], concat("networks[", i, "].")));
  }
  return {};
}

static void read_fields(const plan::Field& root, std::int64_t version, Report& report) {
  const Reader reader(version);
  const auto member = [&](const char* name, auto& value, int since = kOldest) {
    reader.member(root, name, value, since);
  };
  member("model", report.model);
  member("goal", report.goal);
  member("devices", report.devices);
  member("chosen", report.chosen);
  member("period_seconds", report.period_seconds);
  member("latency_seconds", report.latency_seconds);
  member("lower_bound_seconds", report.lower_bound_seconds);
  member("tolerance", report.tolerance);
  member("outputs", report.outputs);
  member("ways", report.ways);
  std::vector<WayReport> measured;
  member("simple", measured);
  if (measured.empty()) {
    root.at("simple").fail("at least the chosen plan");
  } else {
    report.comparison = Comparison::of(std::move(measured));
  }
  member("parts", report.parts);
  member("notes", report.notes);
  member("nodes", report.nodes);
  member("trace", report.trace, 5);
  member("limit", report.limit, 6);
}

static void read_networks(const plan::Field& root, std::int64_t version, Report& report) {
  if (version < 8) return;
  root.at("networks").each([&](const plan::Field& one) {
    auto& network = report.networks.emplace_back();
    network.node = one.at("node").string();
    read_fields(one, version, network);
  });
}

/// \error kDataLoss, kFailedPrecondition  as report_from_json()
static Result<Report> report_of(const plan::Json& json) {
  std::optional<Error> error;
  const plan::Field root(json, "", error);
  const auto version = root.at("version").integer(0, std::numeric_limits<int>::max());
  if (!error && (version < kOldest || version > kVersion)) {
    return make_error(Code::kFailedPrecondition, "expected version ", kOldest, " to ", kVersion,
                      ", found ", version, "; build the package again with this Penstock");
  }
  Report report;
  if (!error) read_fields(root, version, report);
  if (!error) read_networks(root, version, report);
  if (!error) return report;
  error->code = Code::kDataLoss;
  return *std::move(error);
}

Result<Report> report_from_json(std::string_view text) {
  const auto document = plan::Document::parse(text);
  if (!document) return Error(document.error()).within("build.json");
  auto report = report_of(document->value());
  if (!report) return std::move(report).error().within("build.json");
  PENSTOCK_CHECK_OK(check(*report));
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
