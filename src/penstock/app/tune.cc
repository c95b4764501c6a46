// Runs the steps in order: record, build networks, time stages, propose plans, race, write.
#include "penstock/app/tune.h"

#include <optional>
#include <utility>

#include "penstock/app/networks.h"
#include "penstock/app/parts.h"
#include "penstock/app/race.h"
#include "penstock/app/recording.h"
#include "penstock/app/tuning.h"
#include "penstock/base/files.h"
#include "penstock/base/option_name.h"
#include "penstock/base/run_in_thread.h"
#include "penstock/device/grouping.h"
#include "penstock/device/topology.h"
#include "penstock/frames/random.h"
#include "penstock/frames/values.h"
#include "penstock/plan/calls.h"
#include "penstock/plan/package.h"
#include "penstock/session/session.h"
#include "penstock/tune/plans.h"

namespace penstock::app {
namespace {

bool writes_state(const plan::Plan& plan, const plan::Stage& stage) {
  return std::ranges::any_of(plan.states, [&](const plan::StateEdge& state) {
    return std::ranges::find(stage.outputs, state.from) != stage.outputs.end();
  });
}

class Tuner {
 public:
  Tuner(const App& app, const tune::Options& options, const backend::Registry& backends,
        cost::Database& database, const std::vector<function::Function>& functions,
        const Elsewhere* elsewhere)
      : tuning_{app, options, backends, database, options.devices, elsewhere, functions} {}

  Result<tune::Report> run() {
    PENSTOCK_CHECK_OK(prepare());
    PENSTOCK_TRY(recording_, record(tuning_, written_, frames_));
    if (!recording_.left_out.empty()) report_.notes.push_back(recording_.left_out);
    PENSTOCK_TRY(built_, build_networks(tuning_, written_, recording_, report_));
    PENSTOCK_CHECK_OK(time_stages());
    propose();
    PENSTOCK_CHECK_OK(race_->judge());
    PENSTOCK_CHECK_OK(race_->run(frame_seconds()));
    return write();
  }

 private:
  Status prepare();
  Status time_stages();
  void propose();
  void propose_simple(const char* name, const std::vector<device::Device>& networks,
                      const std::vector<device::Device>& functions);
  void propose_planned(bool replicas);
  Result<tune::Report> write();
  void describe(const Candidate& best, tune::Report& report) const;
  /// What a stage of the plan takes for one frame.
  [[nodiscard]] double seconds_of(const Candidate& plan, std::size_t stage) const {
    const bool tuned = plan.package == &built_.package;
    return tuned ? costs_[stage].seconds : recording_.seconds.at(plan.plan.stages[stage].name);
  }

  [[nodiscard]] double frame_seconds() const {
    double sum = 0;
    for (const auto& cost : costs_) sum += cost.seconds;
    return sum;
  }

  Tuning tuning_;
  measure::Ring frames_;
  plan::Package written_;  ///< As the application says.
  Recording recording_;
  BuiltNetworks built_;
  std::vector<StageCost> costs_;  ///< Of the stages with built networks.
  double lower_bound_ = 0;
  std::optional<Race> race_;
  tune::Report report_;
};

Status Tuner::prepare() {
  tuning_.say("packing the application");
  if (tuning_.devices.empty()) {
    PENSTOCK_TRY(const auto topology, device::read_topology());
    PENSTOCK_CHECK_OK(device::check_here(topology));
    tuning_.devices = device::usual_devices(topology);
  }
  for (const auto& device : tuning_.devices) {
    PENSTOCK_CHECK_OK(device::check_available(device));
    if (!device.is_accelerator()) continue;
    return make_error(
        Code::kUnimplemented, "device '", device::to_string(device),
        "': an application's networks are measured on CPUs alone; build the network by "
        "itself, or name the device at its node");
  }
  PENSTOCK_CHECK_OK(device::check_disjoint(tuning_.devices));
  PENSTOCK_TRY(written_, pack(tuning_.app, tuning_.backends, tuning_.functions));
  if (!tuning_.options.frames.empty()) {
    PENSTOCK_CHECK_OK(frames::check_frames(written_.plan.inputs, tuning_.options.frames));
    frames_ = frames::repeated(tuning_.options.frames, kRing, !written_.plan.states.empty());
    return {};
  }
  PENSTOCK_TRY(frames_, frames::random_frames(written_.plan.inputs, tuning_.options.random, kRing));
  return {};
}

/// Each stage on the first device, one frame at a time, on what the stages before it make. What was
/// built elsewhere stays there.
Status Tuner::time_stages() {
  tuning_.say("timing the stages");
  auto plan = built_.package.plan;
  for (auto& stage : plan.stages) {
    const bool stays = tuning_.elsewhere != nullptr && !is_function(stage);
    if (!stays && !is_fixed(tuning_.node_of(stage))) stage.devices = {tuning_.devices.front()};
  }
  PENSTOCK_TRY(const auto pipeline, tuning_.start(plan, built_.package.folder));
  for (const auto& frame : recording_.ring) {
    if (tuning_.options.stopped()) return stopped_early();
    const auto outputs = pipeline->run(frame);
    if (!outputs) return place_error(tuning_.app, outputs.error());
  }
  const auto stats = pipeline->stats();
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const auto& stage = plan.stages[i];
    costs_.push_back({stats.stages[i].compute_infer.p50_ns / 1e9,
                      stage.stateful || writes_state(plan, stage),
                      is_fixed(tuning_.node_of(stage))});
  }
  return {};
}

/// What a user would have tried: the networks, and the functions, as they are told here.
void Tuner::propose_simple(const char* name, const std::vector<device::Device>& networks,
                           const std::vector<device::Device>& functions) {
  std::vector<std::vector<device::Device>> devices;
  std::size_t dealt = 0;
  for (const auto& stage : written_.plan.stages) {
    auto& chosen = devices.emplace_back();
    if (is_fixed(tuning_.node_of(stage))) continue;
    if (!is_function(stage)) {
      chosen = networks;
    } else if (!functions.empty()) {
      chosen = {functions[dealt++ % functions.size()]};
    }
  }
  race_->enter(name, written_, true, devices);
}

/// The simple ways first: of equals the simplest is taken.
void Tuner::propose() {
  tuning_.say("planning");
  race_.emplace(tuning_, written_, recording_.ring);
  race_->enter("as it is written", written_, true, {});
  propose_simple("each network on all CPUs", {tune::union_of(tuning_.devices)}, {});
  const auto others =
      tuning_.devices.size() == 1
          ? tuning_.devices
          : std::vector<device::Device>(tuning_.devices.begin() + 1, tuning_.devices.end());
  propose_simple("overlap only", {tuning_.devices.front()}, others);
  race_->enter("each network as built by itself", built_.package, false, {});
  if (tuning_.elsewhere != nullptr) return;
  std::vector<std::vector<device::Device>> everywhere(costs_.size(), tuning_.devices);
  for (std::size_t i = 0; i < costs_.size(); ++i) {
    if (costs_[i].single) everywhere[i] = {tuning_.devices.front()};
    if (costs_[i].fixed) everywhere[i].clear();
  }
  race_->enter("each stage on each device", built_.package, false, everywhere);
  for (const bool replicas : {false, true}) propose_planned(replicas);
}

void Tuner::propose_planned(bool replicas) {
  const auto placed = place_stages(built_.package.plan, costs_, tuning_.devices, replicas);
  if (!placed) {
    report_.notes.push_back(concat("left out: a plan ", replicas ? "with" : "without",
                                   " replicas: ", placed.error().message()));
    return;
  }
  race_->enter(replicas ? "planned, with replicas" : "planned", built_.package, false,
               placed->devices);
  if (replicas) lower_bound_ = placed->lower_bound_seconds;
}

/// A node of the report for each stage.
void Tuner::describe(const Candidate& best, tune::Report& report) const {
  const auto& stages = best.plan.stages;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const auto& stage = stages[i];
    const auto backend = join(stage.partitions, "+", [](const auto& part) { return part.backend; });
    tune::NodeReport node{.name = stage.name,
                          .op = is_function(stage) ? "function" : "network",
                          .inputs = {},
                          .stage = static_cast<int>(i),
                          .backend = backend};
    node.seconds = seconds_of(best, i);
    for (std::size_t before = 0; before < i; ++before) {
      const auto& made = stages[before].outputs;
      if (std::ranges::find_first_of(stage.inputs, made) != stage.inputs.end()) {
        node.inputs.push_back(static_cast<int>(before));
      }
    }
    tune::PartReport part;
    part.stage = static_cast<int>(i);
    part.backend = backend;
    part.label = stage.name;
    part.nodes = {static_cast<int>(i)};
    part.reason = concat(node.seconds * 1e6, " us a frame, on ", devices_text(stage.devices),
                         is_fixed(tuning_.node_of(stage)) ? ", as the application says" : "");
    report.limit.workers += static_cast<int>(stage.devices.size());
    report.nodes.push_back(std::move(node));
    report.parts.push_back(std::move(part));
  }
}

Result<tune::Report> Tuner::write() {
  const auto& best = race_->best();
  auto& report = report_;
  report.model = tuning_.app.name;
  report.goal = tuning_.latency() ? "latency" : "throughput";
  auto devices = tuning_.devices;
  for (const auto& stage : best.plan.stages) {
    std::ranges::copy_if(stage.devices, std::back_inserter(devices),
                         [](const auto& device) { return !device.is_local_cpu(); });
  }
  for (const auto& device : devices) {
    const auto name = device::to_string(device);
    if (std::ranges::find(report.devices, name) == report.devices.end())
      report.devices.push_back(name);
  }
  report.chosen = best.way.name;
  for (const auto& candidate : race_->candidates()) {
    report.ways.push_back(candidate.way);
    if (candidate.simple) report.comparison.simple.push_back(candidate.way);
  }
  report.comparison.plan = best.way;
  report.comparison.plan.name = "penstock";
  report.now = report.comparison;
  report.period_seconds = 1 / best.way.frames_per_second;
  if (tuning_.latency()) report.latency_seconds = best.way.latency_seconds;
  if (!tuning_.latency() && lower_bound_ <= report.period_seconds) {
    report.lower_bound_seconds = lower_bound_;
  }
  report.tolerance = tuning_.options.tolerance.value_or(Tolerance().relative);
  race_->describe_outputs(report);
  describe(best, report);
  const auto& folder = best.package->folder;
  PENSTOCK_CHECK_OK(write_whole_file(folder / "build.json", tune::to_json(report)));
  auto plan = best.plan;
  plan.files["build.json"];  // Its hash is taken where it is copied.
  plan.prediction = {report.period_seconds, report.latency_seconds, report.lower_bound_seconds};
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    plan.stages[i].predicted_seconds = seconds_of(best, i);
  }
  tuning_.say("writing the package");
  tuning_.options.on_write();
  const auto written = copy_package({plan, folder, nullptr}, tuning_.options.output);
  if (!written) return written.error();
  for (const auto& note : plan::separate_draws(*written)) tuning_.options.warn(note);
  report.measured_plans += static_cast<int>(race_->candidates().size());
  report.seconds = tuning_.spent();
  return std::move(report_);
}

}  // namespace

Result<tune::Report> build_app(const App& app, const tune::Options& options,
                               const backend::Registry& backends, cost::Database& database,
                               const std::vector<function::Function>& functions,
                               const Elsewhere* elsewhere) {
  PENSTOCK_CHECK_OK(plan::check_target(options.output));
  if (options.most_frames > 1) {
    return invalid_argument(OptionName::kBatch,
                            ": is for a model; an application says 'batch: auto' "
                            "at its networks");
  }
  const auto tune = [&] {
    return Tuner(app, options, backends, database, functions, elsewhere).run();
  };
  return run_in_thread(tune);
}

}  // namespace penstock::app
