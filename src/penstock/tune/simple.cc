// Five ways of ONNX Runtime and OpenVINO: each tried in a process, then measured in turn.
#include "penstock/tune/simple.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "penstock/base/quantile.h"
#include "penstock/cost/turn.h"
#include "penstock/device/affinity.h"
#include "penstock/measure/rounds.h"
#include "penstock/tune/parts.h"
#include "penstock/tune/plans.h"
#include "penstock/tune/told.h"

namespace penstock::tune {
namespace {

constexpr std::array<SimpleWay, 5> kSimpleWays{
    {{"onnxruntime", "onnxruntime", false, ""},
     {"onnxruntime-per-core", "onnxruntime", true, ""},
     {"openvino-latency", "openvino", false, "LATENCY"},
     {"openvino-throughput", "openvino", true, "THROUGHPUT"},
     {"openvino-per-core", "openvino", true, ""}}};

constexpr SimpleWay kReference{"reference", "onnxruntime", false, ""};
constexpr double kTimedSeconds = 1;  ///< Of a rehearsal, about: the rest is compiling.

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

/// What ran in turn.
struct InTurn {
  measure::Measured plan;
  std::vector<measure::Measured> simple;
};

/// A simple way that fails is left out, with its reason.
Result<InTurn> measure_what_runs(measure::Side& plan, measure::PlainSides& simple,
                                 const measure::Rounds& rounds) {
  for (;;) {
    std::vector<measure::Side*> turns{&plan};
    for (const auto& side : simple.sides) turns.push_back(side.get());
    auto measured = measure::measure_in_turn(turns, rounds);
    if (measured) {
      InTurn all{std::move(measured->front()), {}};
      std::move(measured->begin() + 1, measured->end(), std::back_inserter(all.simple));
      return all;
    }
    const auto failed = std::ranges::find_if(simple.sides, [&](const auto& side) {
      const Where* const way = measured.error().find(Where::kWay);
      return way != nullptr && way->name == side->name();
    });
    if (measured.error().code == Code::kCancelled || failed == simple.sides.end()) {
      return std::move(measured).error();
    }
    simple.missing.push_back({(*failed)->name(), measured.error()});
    simple.sides.erase(failed);
  }
}

WayReport report_of(measure::Measured& side, bool latency) {
  WayReport way;
  way.name = side.name;
  way.what = side.explain;
  note_rounds(side, latency, way);
  return way;
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

/// None: it was not known, and not measured before the deadline.
Result<std::optional<cost::Cost>> Simple::cost_of(const cost::Part& part,
                                                  Clock::time_point deadline) {
  auto& profiler = setting_.profiler;
  const double before = setting_.budget.spent();
  profiler.options().deadline = deadline;
  const auto costs = profiler.measure(std::span(&part, 1));
  profiler.options().deadline = Clock::time_point::max();
  setting_.shortlist.tried(part.models.front().backend, setting_.budget.spent() - before);
  if (!costs) return costs.error();
  return costs->front();
}

std::string Simple::in_users_words(std::string text) const {
  const auto file = setting_.file.string();
  const auto at = text.find(file);
  return at == std::string::npos
             ? text
             : text.replace(at, file.size(), setting_.graph.import.file.string());
}

/// Of the network, while the way runs.
std::size_t Simple::copies_of(const SimpleWay& way) const {
  const bool one_a_core = way.on_each_device && way.hint.empty();
  return one_a_core ? union_of(setting_.devices).cpus.size() : 1;
}

Status Simple::check_reference() {
  auto reference = part_of(kReference, setting_);
  reference.models.front().options["graph_optimization_level"] = "0";
  PENSTOCK_TRY(auto cost, cost_of(reference, Clock::time_point::max()));
  const auto crashes = [&] {
    return cost && cost->failure && cost->failure->kind == cost::FailureKind::kCrash;
  };
  if (crashes()) {
    PENSTOCK_TRY(cost, setting_.profiler.measure_again(reference));
  }
  if (crashes()) {
    return make_error(Code::kFailedPrecondition,
                      "reference (onnxruntime without optimisation): crash: ",
                      in_users_words(cost->failure->message), "; no plan can be compared with it");
  }
  return {};
}

Status Simple::rehearse_first() {
  return rehearse(kSimpleWays.front(), Clock::time_point::max());
}

Status Simple::rehearse_others(double rest) {
  for (const auto& way : kSimpleWays) {
    if (way.name == kSimpleWays.front().name) continue;
    const auto backend = std::string(way.backend);
    const double own = std::max(0.0, setting_.shortlist.trial_seconds(backend) - kTimedSeconds);
    PENSTOCK_CHECK_OK(
        rehearse(way, setting_.shortlist.trial_until(backend, rest + start_seconds() + own)));
  }
  return {};
}

Status Simple::rehearse(const SimpleWay& way, Clock::time_point deadline) {
  const auto backend = setting_.backends.find(std::string(way.backend));
  if (!backend || !(*backend)->describe().unavailable.empty()) return {};
  const auto copies = copies_of(way);
  const std::string name(way.name);
  if (!setting_.room.holds(copies)) {
    failed_[name] = make_error(Code::kResourceExhausted, "there is no room for ", copies,
                               " copies of the network: ", setting_.room.describe());
    return {};
  }
  if (const auto hung = hung_.find(way.backend); hung != hung_.end()) {
    failed_[name] = internal_error("not tried, as ", hung->second, " hangs");
    return {};
  }
  const double before = setting_.budget.spent();
  PENSTOCK_TRY(const auto cost, cost_of(part_of(way, setting_), deadline));
  took_[name] = setting_.budget.spent() - before;
  if (!cost && !setting_.options.stopped()) leave_out(way);
  if (!cost || !cost->failure) return {};
  if (cost->failure->kind == cost::FailureKind::kHang) hung_.emplace(way.backend, name);
  failed_[name] = internal_error(
      in_users_words(told(*cost->failure, setting_.profiler.options().silence_seconds)));
  return {};
}

void Simple::leave_out(const SimpleWay& way) {
  const std::string name(way.name);
  failed_[name] = make_error(Code::kDeadlineExceeded, "the budget left no time for it");
  setting_.shortlist.leave_out("the simple way " + name);
}

/// About what compiling takes, by the rehearsal; 0 of what is cheap.
double Simple::start_seconds(const SimpleWay& way) const {
  const std::string name(way.name);
  const auto took = took_.find(name);
  if (took == took_.end() || failed_.contains(name)) return 0;
  return took->second <= Shortlist::kCheapSeconds ? 0 : took->second - kTimedSeconds;
}

double Simple::start_seconds() const {
  double sum = 0;
  for (const auto& way : kSimpleWays) sum += start_seconds(way);
  return sum;
}

/// Those that start in time for a comparison of so many seconds; the first in any case.
void Simple::keep_within(double seconds) {
  double starting = 0;
  for (const auto& way : kSimpleWays) {
    const double own = start_seconds(way);
    const bool first = way.name == kSimpleWays.front().name;
    if (first || setting_.shortlist.has_room_for(own, starting + seconds)) {
      starting += own;
    } else {
      leave_out(way);
    }
  }
}

/// All at once take a copy of the network for each way that runs on all CPUs together, one for each
/// CPU for each way of a model a core, and one for each device for the plan.
bool Simple::is_one_at_a_time() const {
  std::size_t copies = setting_.devices.size();
  for (const auto& way : kSimpleWays) copies += copies_of(way);
  return !setting_.room.holds(copies);
}

measure::PlainRequest Simple::request(const plan::Package& package,
                                      const std::map<std::string, Error>& left_out) const {
  const auto cpus = union_of(setting_.devices).cpus;
  const bool all = cpus == device::inherited_cpus();
  return {setting_.file, setting_.options.custom_ops, cpus, all, &package, &setting_.ring,
          left_out};
}

/// Compiled, measured and gone.
WayReport Simple::run_alone(const SimpleWay& way, const measure::Rounds& rounds) const {
  WayReport report{.name = std::string(way.name)};
  auto left_out = failed_;
  for (const auto& other : kSimpleWays) {
    if (other.name != way.name) left_out.emplace(other.name, Error{});
  }
  auto simple = measure::make_plain_sides(request(setting_.package, left_out), setting_.backends);
  if (simple.sides.empty()) {
    using Missing = measure::PlainSides::Missing;
    const auto missing = std::ranges::find(simple.missing, report.name, &Missing::name);
    report.failure = missing->reason.message();
    return report;
  }
  auto measured = measure::measure_in_turn(simple.sides, rounds);
  if (measured) return report_of(measured->front(), setting_.options.goal == Goal::kLatency);
  report.failure = measured.error().message();
  return report;
}

Status Simple::run_alone(double seconds, int count) {
  const auto& stopped = setting_.options.stopped;
  PENSTOCK_CHECK_OK(keep_to_cpus());
  keep_within(seconds);
  const measure::Rounds rounds{.seconds = seconds / static_cast<double>(kSimpleWays.size() + 1),
                               .count = count,
                               .stopped = stopped};
  alone_.clear();
  const auto turn = cost::Turn::wait(setting_.database.file(), stopped);
  for (const auto& way : kSimpleWays) {
    alone_.push_back(run_alone(way, rounds));
    if (stopped()) return make_error(Code::kCancelled, "stopped before any plan was measured");
  }
  return {};
}

/// Engines that choose their CPUs themselves take those that this thread may use.
Status Simple::keep_to_cpus() const {
  const auto cpus = union_of(setting_.devices).cpus;
  return cpus == device::inherited_cpus() ? Status() : device::pin_this_thread(cpus);
}

Result<Comparison> Simple::run_beside(Running& plan, double seconds, int count) {
  const auto& options = setting_.options;
  PENSTOCK_CHECK_OK(keep_to_cpus());
  if (!sides_ && is_one_at_a_time()) sides_.emplace();
  if (!sides_) {
    keep_within(seconds);
    sides_ = measure::make_plain_sides(request(plan.package, failed_), setting_.backends);
  }
  const measure::Rounds rounds{.seconds = seconds / static_cast<double>(alone_.size() + 1),
                               .count = count,
                               .stopped = options.stopped};
  const auto turn = cost::Turn::wait(setting_.database.file(), options.stopped);
  auto measured = measure_what_runs(*plan.side, *sides_, rounds);
  if (options.stopped())
    return make_error(Code::kCancelled, "stopped before any plan was measured");
  const bool latency = options.goal == Goal::kLatency;
  Comparison comparison;
  comparison.simple = alone_;
  if (measured) {
    comparison.plan = report_of(measured->plan, latency);
    for (auto& side : measured->simple) comparison.simple.push_back(report_of(side, latency));
  } else {
    comparison.plan = {.name = plan.side->name(), .failure = measured.error().message()};
  }
  for (const auto& [name, reason] : sides_->missing) {
    comparison.simple.push_back({.name = name, .failure = reason.message()});
  }
  return comparison;
}

bool may_be_chosen(std::string_view name, const std::vector<Way>& ways) {
  const auto way = std::ranges::find(kSimpleWays, name, &SimpleWay::name);
  return way != kSimpleWays.end() &&
         std::ranges::find(ways, way->backend, &Way::backend) != ways.end();
}

std::optional<SimpleWay> better_than_plan(const Comparison& comparison,
                                          const std::vector<Way>& ways, bool latency,
                                          const std::vector<SimpleWay>& answered) {
  std::optional<SimpleWay> best;
  double most = comparison.plan.worth(latency) * kAhead;
  for (const auto& way : kSimpleWays) {
    const auto report = std::ranges::find(comparison.simple, way.name, &WayReport::name);
    if (report == comparison.simple.end() || report->worth(latency) <= most) continue;
    if (!may_be_chosen(way.name, ways)) continue;
    const auto does_the_same = [&](const SimpleWay& other) {
      return other.backend == way.backend && other.on_each_device == way.on_each_device;
    };
    if (std::ranges::any_of(answered, does_the_same)) continue;
    best = way;
    most = report->worth(latency);
  }
  return best;
}

}  // namespace penstock::tune
