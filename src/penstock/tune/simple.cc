#include "penstock/tune/simple.h"

#include <algorithm>
#include <array>
#include <utility>

#include "penstock/base/quantile.h"
#include "penstock/cost/turn.h"
#include "penstock/device/affinity.h"
#include "penstock/measure/rounds.h"
#include "penstock/tune/parts.h"
#include "penstock/tune/plans.h"

namespace penstock::tune {
namespace {

constexpr std::array<SimpleWay, 5> kSimpleWays{
    {{"onnxruntime", "onnxruntime", false, ""},
     {"onnxruntime-per-core", "onnxruntime", true, ""},
     {"openvino-latency", "openvino", false, "LATENCY"},
     {"openvino-throughput", "openvino", true, "THROUGHPUT"},
     {"openvino-per-core", "openvino", true, ""}}};

constexpr SimpleWay kReference{"reference", "onnxruntime", false, ""};

/// As Simple::run_beside() runs it.
cost::Part part_of(const SimpleWay& way, const Simple::Setting& setting) {
  cost::Part part;
  auto& model = part.models.emplace_back();
  model.name = concat("the file as it is, ", way.name);
  model.file = setting.file;
  model.backend = way.backend;
  if (!way.hint.empty()) model.options["PERFORMANCE_HINT"] = way.hint;
  part.device = union_of(setting.devices);
  const auto cpus = part.device.cpus;
  if (way.on_each_device && way.hint.empty()) {
    std::vector<device::Device> each;
    for (const int cpu : cpus) each.push_back({.host = {}, .cpus = {cpu}});
    part.device = each.front();
    part.neighbours = neighbours_of(setting.profiler.topology(), part.device, each);
  }
  part.threads = static_cast<int>(part.device.cpus.size());
  part.custom_ops = setting.options.custom_ops;
  for (const auto id : setting.graph.inputs) {
    const auto& value = setting.graph.value(id);
    auto& dims = part.shapes[value.name];
    for (const auto& dim : cost::bound(value.type).dims) dims.push_back(dim.size);
  }
  return part;
}

/// One that fails is left out, with its reason.
Result<std::vector<measure::Measured>> measure_what_runs(measure::PlainSides& simple,
                                                         const measure::Rounds& rounds) {
  for (;;) {
    auto measured = measure::measure_in_turn(simple.sides, rounds);
    if (measured || measured.error().code == Code::kCancelled) return measured;
    const auto plan = simple.sides.end() - 1;
    const auto failed = std::find_if(simple.sides.begin(), plan, [&](const auto& side) {
      const Where* const way = measured.error().find(Where::kWay);
      return way != nullptr && way->name == side->name();
    });
    if (failed == plan) return measured;
    simple.missing.push_back({(*failed)->name(), measured.error()});
    simple.sides.erase(failed);
  }
}

}  // namespace

void note_rounds(measure::Measured& side, bool latency, WayReport& way) {
  way.frames_per_second = median(side.rates);
  way.latency_seconds = quantile(side.latencies_ns, 0.5) / 1e9;
  way.spread = spread(side.rates);
  way.rounds = side.rates;
  if (!latency) return;
  way.rounds.clear();
  for (const double ns : side.middle_latencies_ns) way.rounds.push_back(ns > 0 ? 1e9 / ns : 0);
}

Result<std::optional<cost::Failure>> Simple::failure_of(const cost::Part& part) {
  PENSTOCK_TRY(const auto costs, setting_.profiler.measure(std::span(&part, 1)));
  return costs.front() ? costs.front()->failure : std::nullopt;
}

std::string Simple::in_users_words(std::string text) const {
  const auto file = setting_.file.string();
  const auto at = text.find(file);
  return at == std::string::npos
             ? text
             : text.replace(at, file.size(), setting_.graph.import.file.string());
}

Status Simple::rehearse() {
  auto reference = part_of(kReference, setting_);
  reference.models.front().options["graph_optimization_level"] = "0";
  PENSTOCK_TRY(auto broken, failure_of(reference));
  const auto crashes = [&] { return broken && broken->kind == cost::FailureKind::kCrash; };
  if (crashes()) {
    PENSTOCK_TRY(const auto again, setting_.profiler.measure_again(reference));
    broken = again ? again->failure : std::nullopt;
  }
  if (crashes()) {
    return make_error(Code::kFailedPrecondition,
                      "reference (onnxruntime without optimisation): crash: ",
                      in_users_words(broken->message), "; no plan can be compared with it");
  }
  for (const auto& way : kSimpleWays) {
    const auto backend = setting_.backends.find(std::string(way.backend));
    if (!backend || !(*backend)->describe().unavailable.empty()) continue;
    PENSTOCK_TRY(const auto failure, failure_of(part_of(way, setting_)));
    if (!failure) continue;
    failed_[std::string(way.name)] =
        internal_error(cost::to_string(failure->kind), ": ", in_users_words(failure->message));
  }
  return {};
}

Result<std::vector<WayReport>> Simple::run_beside(Running& plan, double seconds, int count) {
  const auto& options = setting_.options;
  const auto cpus = union_of(setting_.devices).cpus;
  const bool all = cpus == device::inherited_cpus();
  if (!all) PENSTOCK_CHECK_OK(device::pin_this_thread(cpus));
  if (!sides_) {
    sides_ = measure::make_plain_sides(
        {setting_.file, options.custom_ops, cpus, all, &plan.package, &setting_.ring, failed_},
        setting_.backends);
  }
  sides_->sides.push_back(std::move(plan.side));
  const measure::Rounds rounds{.seconds = seconds, .count = count, .stopped = options.stopped};
  const auto turn = cost::Turn::wait(setting_.database.file(), options.stopped);
  auto measured = measure_what_runs(*sides_, rounds);
  plan.side = std::move(sides_->sides.back());
  sides_->sides.pop_back();
  if (options.stopped()) return make_error(Code::kCancelled, "stopped");
  std::vector<WayReport> reports;
  if (measured) {
    for (auto& side : *measured) {
      auto& way = reports.emplace_back();
      way.name = side.name;
      way.what = side.explain;
      note_rounds(side, options.goal == Goal::kLatency, way);
    }
  } else {
    reports.push_back({.name = plan.side->name(), .failure = measured.error().message()});
  }
  for (const auto& [name, reason] : sides_->missing) {
    reports.insert(reports.end() - 1, WayReport{.name = name, .failure = reason.message()});
  }
  return reports;
}

bool may_be_chosen(std::string_view name, const std::vector<Way>& ways) {
  const auto way = std::ranges::find(kSimpleWays, name, &SimpleWay::name);
  return way != kSimpleWays.end() &&
         std::ranges::find(ways, way->backend, &Way::backend) != ways.end();
}

std::optional<SimpleWay> better_than_plan(const std::vector<WayReport>& reports,
                                          const std::vector<Way>& ways, bool latency) {
  std::optional<SimpleWay> best;
  double most = reports.back().worth(latency) * kAhead;
  for (const auto& way : kSimpleWays) {
    const auto report = std::ranges::find(reports, way.name, &WayReport::name);
    if (report == reports.end() || report->worth(latency) <= most) continue;
    if (!may_be_chosen(way.name, ways)) continue;
    best = way;
    most = report->worth(latency);
  }
  return best;
}

}  // namespace penstock::tune
