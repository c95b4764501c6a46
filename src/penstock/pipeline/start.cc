// Pipeline::start(): from a plan to threads that wait for frame 0.
#include <algorithm>
#include <new>
#include <set>

#include "penstock/device/cgroup.h"
#include "penstock/device/topology.h"
#include "penstock/pipeline/generations.h"
#include "penstock/pipeline/late.h"
#include "penstock/pipeline/ports.h"
#include "penstock/pipeline/requests.h"
#include "penstock/pipeline/sharing.h"
#include "penstock/pipeline/state.h"
#include "penstock/pipeline/supported.h"
#include "penstock/pipeline/wiring.h"
#include "penstock/pipeline/worker.h"
#include "penstock/plan/calls.h"

namespace penstock::pipeline {
namespace {

std::string what_keeps_one_lane(const Stage& stage, const Worker::Executables& executables) {
  const auto& backend = stage.plan->partitions.front().backend;
  if (!executables.front()->is_asynchronous()) {
    return concat("backend '", backend, "' computes on the stage's own thread; several replicas ",
                  "compute side by side");
  }
  if (!StageCall::goes_on_alone(stage, executables)) {
    return "a state that it reads, or that is written behind it, needs its frames one by one";
  }
  if (executables.front()->recommended_contexts() <= 1) {
    return concat("backend '", backend, "' takes one at a time");
  }
  return "an edge of it holds no more frames; expected a larger capacity";
}

/// `executables`: what the worker runs.
void warn_of_lanes(const State& state, const Worker& worker,
                   const Worker::Executables& executables) {
  const auto& stage = worker.stage();
  const int asked = stage.plan->lanes;
  if (!state.options.warn || worker.replica() > 0 || asked <= 1 || worker.lanes() > 1) return;
  state.options.warn(
      concat("stage '", stage.plan->name, "': may have ", asked,
             " calls in flight (lanes), and has 1: ", what_keeps_one_lane(stage, executables)));
}

/// `shared`: what replicas before it compiled, and then what it did.
Status start_worker(const State& state, Worker& worker, Worker::Executables& shared,
                    WarmUp& warm_up) {
  const auto& stage = *worker.stage().plan;
  const auto& device = worker.stage().places[worker.replica()];
  PENSTOCK_TRY(const auto requests, requests_for(state, state.folder, worker.stage(), device));
  const bool first = worker.replica() == 0 || worker.replica() == stage.devices.size();
  const auto bytes = bytes_of_models(requests);
  if (first || !compiled_once(device, static_cast<double>(bytes))) shared.clear();
  Status started = worker.start(requests, cpus_for(state, stage, device), shared, warm_up);
  if (!started) {
    return blame_model(std::move(started).error(), state, state.folder, stage, requests);
  }
  warn_of_lanes(state, worker, shared);
  return {};
}

/// What its warm-up is remembered by: a hash, or what an application is made of.
std::string network_of(const plan::Plan& plan) {
  if (!plan.model_hash.empty()) return plan.model_hash;
  auto name = plan.model;
  for (const auto& stage : plan.stages) {
    for (const auto& partition : stage.partitions) {
      name += concat("\n", stage.name, "\n", partition.model);
    }
  }
  return name;
}

/// A worker whose device is not there, and why.
struct Away {
  Worker* worker;
  Error why;
};

/// Whether others of the stage may do without the instance.
bool is_away(const Worker& worker, const Error& why) {
  const auto& places = worker.stage().places;
  return places.size() > 1 && places[worker.replica()].is_remote() &&
         why.code == Code::kUnavailable && why.find(Where::kPeer) != nullptr;
}

/// Starts it as one whose device is lost. \error  why it is, where no other of its stage is there.
Status start_without_device(const State& state, const Away& away, WarmUp& warm_up) {
  Worker& worker = *away.worker;
  const auto& stage = worker.stage();
  const auto& device = stage.places[worker.replica()];
  const auto other = std::ranges::find_if(state.workers, [&](const auto& candidate) {
    return &candidate->stage() == &stage && !candidate->executables().empty();
  });
  if (other == state.workers.end()) return away.why;
  PENSTOCK_TRY(const auto requests, requests_for(state, state.folder, stage, device));
  const auto mask = cpus_for(state, *stage.plan, device);
  Worker::Executables late;
  for (std::size_t r = 0; r < requests.size(); ++r) {
    const auto& remote = stage.partitions[r % stage.partitions.size()].remote;
    PENSTOCK_TRY(auto made, compile_late(remote, requests[r], *(*other)->executables()[r], mask));
    late.push_back(std::move(made));
  }
  if (state.options.warn) {
    state.options.warn(concat("stage '", stage.plan->name, "': device '", device::to_string(device),
                              "' is not there (", away.why.message(),
                              "); the stage's other devices compute until it is"));
  }
  return worker.start(requests, mask, late, warm_up);
}

// One worker after the other, so that memory peaks once and new threads have one possible maker.
Status start_workers(State& state) {
  Worker::Executables shared;
  WarmUp warm_up(network_of(state.plan));
  std::vector<Away> away;
  for (auto& worker : state.workers) {
    const Where place{Where::kStage, worker->stage().plan->name};
    if (state.options.stopped && state.options.stopped()) {
      return make_error(Code::kCancelled, "stopped before it was started")
          .within({Where::kReplica, worker->replica()})
          .within(place);
    }
    Status started = start_worker(state, *worker, shared, warm_up);
    if (started) continue;
    if (!is_away(*worker, started.error())) return std::move(started).error().within(place);
    shared.clear();
    away.push_back({worker.get(), std::move(started).error()});
  }
  for (const auto& each : away) {
    Status started = start_without_device(state, each, warm_up);
    if (!started) {
      return std::move(started).error().within({Where::kStage, each.worker->stage().plan->name});
    }
  }
  return {};
}

void warn_of_differences(const State& state, const backend::Registry& backends) {
  if (!state.options.warn) return;
  const auto& origin = state.plan.origin;
  for (const auto& [name, version] : origin.engines) {
    const auto found = backends.find(name);
    if (!found) continue;
    // Where the engine cannot be loaded, the start of a stage that needs it says why.
    const auto here = (*found)->describe().engine_version;
    if (here.empty() || here == version) continue;
    state.options.warn(concat("the package was made with ", name, " ", version, ", here is ", here,
                              "; check it with 'penstock verify'"));
  }
  if (origin.cpu.empty()) return;
  const auto cpu = device::cpu_fingerprint();
  if (cpu && *cpu != origin.cpu) {
    state.options.warn("the package was made on another CPU; check it with 'penstock verify'");
  }
}

Status check_backend_options(const plan::Plan& plan, const Options& options) {
  std::set<std::string> used;
  for (const auto& stage : plan.stages) {
    for (const auto& partition : stage.partitions) {
      if (partition.backend != plan::kFunctionBackend) used.insert(partition.backend);
    }
    if (std::ranges::any_of(places_of(stage), &device::Device::is_remote)) {
      used.insert(std::string(plan::kRemoteBackend));
    }
  }
  for (const auto& [backend, settings] : options.backend_options) {
    if (used.contains(backend) || settings.empty()) continue;
    const auto expected = used.empty() ? "none, as only functions run"
                                       : "options of backend '" + join(used, "' or '") + "'";
    return invalid_argument("backend option '", backend, ":", settings.begin()->first,
                            "': expected ", expected, ", found of '", backend, "'");
  }
  return {};
}

Status watch(State& state) {
  std::vector<Worker*> watched;
  for (const auto& worker : state.workers) {
    if (worker->watched_ns() > 0) watched.push_back(worker.get());
  }
  if (watched.empty()) return {};
  PENSTOCK_TRY(state.watchdog, Watchdog::start(std::move(watched), state.source));
  return {};
}

// To read how much there is takes longer than the rest of a short start.
Status check_memory_left(const plan::Plan& plan, const Options& options, const Memories& memories) {
  constexpr std::uint64_t kIsThere = std::uint64_t{16} << 20U;
  if (check_memory(plan, options, memories, kIsThere)) return {};
  const auto available = device::available_memory();
  return available ? check_memory(plan, options, memories, *available) : Status();
}

}  // namespace

Result<std::shared_ptr<State>> make_generation(const plan::Plan& plan,
                                               const std::filesystem::path& folder,
                                               const backend::Registry& backends,
                                               const Options& options) {
  PENSTOCK_CHECK_OK(plan::validate(plan));
  PENSTOCK_CHECK_OK(check_supported(plan));
  // Before any file of the package is opened.
  if (!options.native_code) PENSTOCK_CHECK_OK(plan::refuse_native_code(plan));
  PENSTOCK_CHECK_OK(check_backend_options(plan, options));
  auto memories = memories_of(plan, backends);
  PENSTOCK_CHECK_OK(check_memory_left(plan, options, memories));
  auto state = std::make_shared<State>();
  state->plan = plan;
  state->folder = folder;
  state->backends = backends;
  state->options = options;
  if (options.trace) state->journeys = std::make_unique<Journeys>(options.spans_kept);
  state->memories = std::move(memories);
  warn_of_differences(*state, backends);
  if (options.warn) {
    for (const auto& note : plan::batches_beyond_edges(plan)) options.warn(note);
    for (const auto& note : plan::batches_beyond_streams(plan)) options.warn(note);
    for (const auto& note : plan::batches_beyond_models(plan)) options.warn(note);
    for (const auto& note : plan::calls_never_left_behind(plan)) options.warn(note);
    for (const auto& note : plan::separate_draws(plan)) options.warn(note);
  }
  PENSTOCK_CHECK_OK(wire(*state, folder, backends));
  return state;
}

Status start_generation(State& state) {
  struct Ender {  // Of what has started, should a later worker fail.
    ~Ender() {
      if (state != nullptr) state->end();
    }
    State* state;
  } ender{&state};
  PENSTOCK_CHECK_OK(start_workers(state));
  PENSTOCK_CHECK_OK(watch(state));
  ender.state = nullptr;
  return {};
}

Result<std::unique_ptr<Pipeline>> Pipeline::start(const plan::Plan& plan,
                                                  const std::filesystem::path& folder,
                                                  const backend::Registry& backends,
                                                  const Options& options) {
  try {
    PENSTOCK_TRY(auto state, make_generation(plan, folder, backends, options));
    // Before there are threads: it ends them where anything fails.
    std::unique_ptr<Pipeline> pipeline(new Pipeline(std::make_unique<Generations>(state)));
    PENSTOCK_CHECK_OK(start_generation(*state));
    state->gate.open();
    return pipeline;
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
}

}  // namespace penstock::pipeline
