// In order: devices, ways, room, frames, the simple ways and the gate, an empty contest.
#include "penstock/tune/prepare.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ranges>
#include <utility>

#include "penstock/base/option_name.h"
#include "penstock/base/words.h"
#include "penstock/device/cgroup.h"
#include "penstock/device/grouping.h"
#include "penstock/device/place.h"
#include "penstock/device/topology.h"
#include "penstock/frames/values.h"
#include "penstock/graph/subgraph.h"
#include "penstock/measure/slow_runs.h"
#include "penstock/session/switches.h"
#include "penstock/tensor/number.h"
#include "penstock/tune/describe.h"
#include "penstock/tune/plans.h"
#include "penstock/tune/sequence.h"
#include "penstock/tune/taken_frames.h"
#include "penstock/tune/typical.h"

namespace penstock::tune {
namespace {

constexpr std::uint64_t kRing = 16;
constexpr std::size_t kPartFrames = 2;  ///< That parts are timed and compared with.
constexpr double kGateStarts = 3;       ///< Of the network, when references are made.

/// More than any sound engine takes for the network, once on each CPU: what wants more is
/// stopped before the machine suffers.
std::uint64_t memory_for(const graph::Graph& graph, std::size_t cpus, bool has_accelerators) {
  constexpr std::uint64_t kEngine = 1ULL << 30U;
  constexpr std::uint64_t kDriver = 8ULL
                                    << 30U;  ///< Of the host's, for a device and its libraries.
  constexpr std::uint64_t kCopies = 6;  ///< Of the weights: as read, packed, and while compiling.
  std::uint64_t weights = 0;
  for (const auto& value : graph.values) {
    if (value.constant) weights += value.type.max_bytes().value_or(0);
  }
  return (kEngine + kCopies * weights) * (cpus + 1) + (has_accelerators ? kDriver : 0);
}

/// Those that the user named, or a CPU each. Without CPUs among them plans stand on accelerators
/// alone, beside simple ways on all CPUs.
Status choose_devices(Context& context) {
  PENSTOCK_TRY(const auto topology, device::read_topology());
  PENSTOCK_CHECK_OK(device::check_here(topology));
  std::vector<device::Device> accelerators;
  for (const auto& device : context.options.devices) {
    if (!device.is_local_cpu() && !device.is_accelerator()) {
      return invalid_argument("device '", device::to_string(device),
                              "': expected one of this machine; other machines are named in a file "
                              "(",
                              OptionName::kHosts, ")");
    }
    (device.is_accelerator() ? accelerators : context.devices).push_back(device);
  }
  context.on_cpus = accelerators.empty() || !context.devices.empty();
  if (context.devices.empty()) context.devices = device::usual_devices(topology);
  PENSTOCK_CHECK_OK(device::check_disjoint(accelerators));
  PENSTOCK_TRY(context.accelerators,
               find_accelerators(accelerators, context.options, context.backends, context.notes));
  const auto cpus = union_of(context.devices).cpus.size();
  const auto allowed = device::allowed_cpus(topology).size();
  if (topology.cpu_quota.value_or(static_cast<double>(allowed)) >= static_cast<double>(allowed)) {
    return {};
  }
  context.notes.push_back(
      concat("this process may use ", counted(allowed, "CPU"), ", and the time of ",
             *topology.cpu_quota, " (cgroup quota): the build has used ", cpus,
             " of them, and rates are within the quota; limits are the CPUs' own"));
  return {};
}

/// What is measured one at a time, and what is left out, hangs on the memory that is left once the
/// store of the weights is written, which may be in memory itself.
void look_for_room(Context& context) {
  const auto weight_bytes = bytes_of_weights(graph::Subgraph::whole(context.graph));
  const auto available = device::available_memory();
  context.room.emplace(weight_bytes, available);
  if (const auto told = warning_of_store(weight_bytes, available, temporary_space())) {
    context.options.warn(*told);
    context.notes.push_back(*told);
  }
  if (const auto told = warning_of_memory(weight_bytes, available)) context.options.warn(*told);
  if (!context.is_one_at_a_time()) return;
  const bool has_room_for_all =
      context.room->holds(context.has_replicas() ? context.devices.size() : 1);
  const auto told =
      concat("memory is short (", context.room->describe(),
             "): plans and simple ways are measured one at a time",
             has_room_for_all ? ""
                              : ", and the network stands on each device only where an engine's "
                                "replicas share one copy");
  context.options.warn(told);
  context.notes.push_back(told);
}

/// In one stage, for all that runs it whole; and the file, with its bound inputs constant.
Status pack_whole(Context& context) {
  PENSTOCK_TRY(context.weights, graph::WeightStore::create(context.graph));
  const double before = context.spent();
  partition::SplitOptions whole;
  whole.weights = context.weights.get();
  whole.devices = {context.devices.front()};
  whole.custom_ops = context.options.custom_ops;
  PENSTOCK_TRY(context.whole,
               pack_model(context.graph, whole, context.backends, context.options.states));
  context.pack_seconds = context.spent() - before;
  for (const auto& state : context.whole.plan.states) {
    PENSTOCK_CHECK_OK(plan::initial_value(context.whole.plan, context.whole.folder, state));
  }
  plan::BoundValues bound;
  for (const auto& input : context.graph.bound_inputs) bound.emplace(input.name, input.value);
  PENSTOCK_TRY(context.file, bind_model(context.graph.import.file, bound, context.backends,
                                        context.options.custom_ops, context.weights.get()));
  return {};
}

/// Whether an input that is no size or place has a range: values outside it, as random ones for a
/// part by itself are, the network may refuse.
bool has_ranges(const Context& context) {
  return std::ranges::any_of(context.whole.plan.inputs, [](const auto& input) {
    return input.range && !is_wide_integer(input.type.dtype);
  });
}

/// Of random frames what must fit together; of the user's, and of those that keep to a range, all,
/// where there is room.
cost::Activations::Kept kept_of_frames(Context& context) {
  using Kept = cost::Activations::Kept;
  const bool random = context.options.frames.empty();
  if (random && !has_ranges(context)) return Kept::kSizes;
  const double bytes =
      cost::Activations::bytes_of_all(context.graph, typical_first(context.ring, 1).front());
  if (has_room_for_values(bytes, kPartFrames, device::available_memory(), temporary_space())) {
    return Kept::kAll;
  }
  context.notes.push_back(
      concat("parts inside the network are timed on random values, not on those of ",
             random ? "the network's" : "your", " frames: what its nodes make of a frame takes ",
             gigabytes(bytes), ", for which memory or the folder of temporary files is too small"));
  return Kept::kInputs;
}

/// Of the first frames; where each is for itself, of those that are typical.
Status take_activations(Context& context, std::size_t count) {
  using Kept = cost::Activations::Kept;
  const bool random = context.options.frames.empty();
  auto digest = random ? std::string() : frames::digest_of(context.ring);
  const auto first = context.ring | std::views::take(count);
  const auto taken = context.options.states.empty() ? typical_first(context.ring, count)
                                                    : measure::Ring(first.begin(), first.end());
  auto frames =
      with_states({context.graph, context.file.file, context.whole, context.backends}, taken);
  if (!frames) return std::move(frames).error().within({Where::kWay, "reference"});
  if (!context.options.states.empty() && !random) digest = frames::digest_of(*frames);
  if (context.kept == Kept::kInputs && !random) digest += " of inputs";
  PENSTOCK_TRY(context.activations, cost::Activations::of_inputs(context.graph, *frames,
                                                                 std::move(digest), context.kept));
  return {};
}

/// Of a sequence nothing has run yet: its states are known for the first frame alone.
Status take_first_activations(Context& context) {
  return take_activations(context, context.options.states.empty() ? kPartFrames : 1);
}

measure::Ring ring_of(const Context& context, measure::Ring frames) {
  const auto& plan = context.whole.plan;
  return frames::repeated(judged_first(std::move(frames), plan), kRing, !plan.states.empty());
}

/// Parts are timed in another process, which gets their inputs in files of tensors.
Status check_inputs_are_tensors(const Context& context) {
  for (const auto& input : context.whole.plan.inputs) {
    if (input.type.kind != Type::Kind::kOther) continue;
    return invalid_argument(
               "expected a tensor, found a sequence, an optional or a map, on which a build times "
               "nothing; split the network by hand ('penstock split'), or begin the network behind "
               "the node that reads it")
        .within({Where::kInput, input.name});
  }
  return {};
}

/// Of random frames, whose sizes nobody gave.
void tell_open_sizes(Context& context) {
  const auto sizes = frames::open_sizes(context.whole.plan.inputs);
  if (sizes.empty()) return;
  context.notes.push_back(concat("measured at ", join(sizes, ", "), ", as ",
                                 sizes.size() == 1 ? "its shape is" : "their shapes are", " open; ",
                                 OptionName::kShapes,
                                 sizes.size() == 1 ? " says another" : " says others"));
}

/// Random ones, or the user's.
Status make_frames(Context& context) {
  if (context.options.frames.empty()) {
    for (const auto& warning : warnings_of_switches(context.graph, context.options.states)) {
      context.options.warn(warning);
    }
    tell_open_sizes(context);
    PENSTOCK_TRY(context.ring,
                 frames::random_frames(context.whole.plan.inputs, context.options.random, kRing));
  } else {
    PENSTOCK_CHECK_OK(frames::check_frames(context.whole.plan.inputs, context.options.frames));
    context.ring = ring_of(context, context.options.frames);
  }
  context.kept = kept_of_frames(context);
  return take_first_activations(context);
}

/// Of the user's frames those that the reference refuses go, once it is known not to crash.
Status settle_frames(Context& context) {
  if (context.options.frames.empty()) return {};
  if (context.is_one_at_a_time()) context.profiler->rest();
  context.say("running the reference on the frames");
  auto taken = take_frames(context.options, context.file.file, context.whole, context.backends,
                           context.tell_long_run);
  for (const auto& note : taken.notes) context.options.warn(note);
  context.notes.insert(context.notes.end(), taken.notes.begin(), taken.notes.end());
  if (taken.frames.size() == context.options.frames.size()) return {};
  context.ring = ring_of(context, std::move(taken.frames));
  return take_first_activations(context);
}

Status start_profiler(Context& context) {
  cost::Profiler::Options settings;
  settings.silence_seconds = context.silence_seconds();
  settings.refresh = context.options.refresh;
  settings.memory_bytes = memory_for(context.graph, union_of(context.devices).cpus.size(),
                                     !context.accelerators.empty());
  settings.stop = context.options.stopped;
  settings.warn = context.options.warn;
  settings.on_long_run = context.tell_long_run;
  settings.weights = context.weights.get();
  settings.activations = &*context.activations;
  settings.on_progress = [&context](std::size_t, std::size_t, const cost::Part& part) {
    context.say(concat("measured ", part.models.front().name, " on ", part.models.front().backend));
  };
  PENSTOCK_TRY(context.profiler,
               cost::Profiler::start(context.backends, &context.database, settings));
  return {};
}

Status make_gate(Context& context) {
  context.say("running the reference");
  if (context.is_one_at_a_time()) context.profiler->rest();
  auto tolerance = Tolerance::of(context.options.tolerance.value_or(Tolerance().relative));
  auto gate = Gate::create({context.file.file, context.whole, context.ring, context.backends,
                            context.simple->runs("onnxruntime"), tolerance, context.options.stopped,
                            context.is_one_at_a_time(), context.weights.get(),
                            [&context] { return context.must_compare(); }, context.tell_long_run});
  if (context.options.stopped())
    return make_error(Code::kCancelled, "stopped before any plan was measured");
  if (!gate && gate.error().find(Where::kWay) == nullptr) {
    return std::move(gate).error().within({Where::kWay, "reference"});
  }
  if (!gate) return std::move(gate).error();
  context.gate = *std::move(gate);
  tolerance.relative *= context.gate->judge().factor();
  tolerance.absolute *= context.gate->judge().factor();
  context.parts->check_within(tolerance);
  for (auto& alike : context.accelerators) alike.parts->check_within(tolerance);
  return {};
}

/// What the nodes make of frames that parts are timed on. \pre  make_gate()
Status record_activations(Context& context) {
  if (!context.options.states.empty()) PENSTOCK_CHECK_OK(take_activations(context, kPartFrames));
  PENSTOCK_TRY(const auto engine, context.backends.find(kSureEngine));
  const bool random = context.options.frames.empty();
  const auto longest = random ? context.gate->judge().limits().changed : measure::kLongestRun;
  auto recorded = context.activations->record(context.graph, *engine, context.options.custom_ops,
                                              context.weights.get(), longest);
  // On random frames parts are timed on what is known without.
  if (recorded || random) return {};
  if (recorded.error().code == Code::kCancelled)
    recorded = measure::endless_run(measure::kLongestRun);
  return std::move(recorded).error().within({Where::kWay, "reference"});
}

/// By what trying the simple ways took.
void tell_if_too_short(const Context& context, double seconds) {
  const auto trials = static_cast<std::size_t>(context.profiler->measured());
  const double least =
      least_seconds({.spent_seconds = context.spent(),
                     .trial_seconds = trials > 0 ? seconds / static_cast<double>(trials) : 0,
                     .whole_networks = context.ways.size() * (context.devices.size() > 1 ? 2 : 1),
                     .compared = trials,  // The plan starts too, in the reference's stead.
                     .comparison_seconds = context.final_seconds()});
  if (least <= context.options.budget_seconds) return;
  context.options.warn(concat(
      context.budget_text(), " is short: whole networks and the simple ways alone take about ",
      std::lround(least), " s; those that take over ", Shortlist::kCheapSeconds,
      " s each are tried as far as there is time"));
}

/// The engines as a user would have them: first the one that tells what is right, then the others
/// as far as there is time.
Status try_simple(Context& context) {
  context.say("trying the simple ways");
  context.simple.emplace(Simple::Setting{context.graph, context.file.file, context.options,
                                         context.devices, context.backends, *context.profiler,
                                         context.database, context.ring, context.whole,
                                         *context.room, context.budget, context.shortlist});
  const double before = context.spent();
  PENSTOCK_CHECK_OK(context.simple->check_reference());
  const double checked = context.spent();
  PENSTOCK_CHECK_OK(settle_frames(context));
  const double settled = context.spent();
  PENSTOCK_CHECK_OK(context.simple->rehearse_first());
  const double ready = context.spent();
  const double first = checked - before + ready - settled;
  PENSTOCK_CHECK_OK(make_gate(context));
  PENSTOCK_CHECK_OK(record_activations(context));
  const double between = context.spent();
  // Where the database knew the trials, this tells what compiling takes.
  context.shortlist.tried(kSureEngine, (between - ready) / kGateStarts);
  context.profiler->options().silence_seconds = context.silence_seconds();
  context.say("trying the other simple ways");
  PENSTOCK_CHECK_OK(context.simple->rehearse_others(context.first_plan_seconds()));
  tell_if_too_short(context, first + context.spent() - between);
  return {};
}

}  // namespace

void start_contest(Context& context, bool refresh) {
  context.contest.reset();  // What runs in it was started by the runners.
  if (context.other_sizes) context.other_sizes->right.clear();
  context.runners.emplace(
      Pipelines::Setting{[&context](bool as_is) { return context.graph_of(as_is); },
                         context.options,
                         context.backends,
                         context.ring,
                         *context.gate,
                         std::chrono::duration<double>(context.silence_seconds()),
                         {},
                         context.weights.get()});
  context.contest.emplace(
      Contest::Setting{.runners = *context.runners,
                       .database = context.database,
                       .budget = context.budget,
                       .goal = context.options.goal,
                       .verdict_key = verdict_key(context.options, context.backends, context.ring) +
                                      text_of(context.accelerators),
                       .say = [&context](const std::string& what) { context.say(what); },
                       .stopped = context.options.stopped,
                       .refresh = refresh,
                       .one_at_a_time = context.is_one_at_a_time()});
}

Status prepare(Context& context) {
  if (context.graph.nodes.empty()) {
    return invalid_argument(
        "nothing is left to build: the import leaves no node of '",
        context.graph.import.file.string(),
        "', as its outputs are constants or inputs; 'penstock split' writes it");
  }
  context.say("importing");
  PENSTOCK_CHECK_OK(choose_devices(context));
  for (const auto& device : context.devices) PENSTOCK_CHECK_OK(device::check_available(device));
  PENSTOCK_CHECK_OK(device::check_disjoint(context.devices));
  if (context.on_cpus) {
    PENSTOCK_TRY(context.ways, usable_ways(context.options, context.backends,
                                           context.devices.front(), context.notes));
  }
  PENSTOCK_TRY(context.copies, Copies::of(context.ways, context.backends));
  PENSTOCK_CHECK_OK(pack_whole(context));
  PENSTOCK_CHECK_OK(check_inputs_are_tensors(context));
  look_for_room(context);
  PENSTOCK_CHECK_OK(make_frames(context));
  PENSTOCK_CHECK_OK(start_profiler(context));
  context.kinds = device::kinds_of(context.profiler->topology(), context.devices);
  PENSTOCK_TRY(context.parts,
               Parts::create({context.graph, context.options, context.devices, context.ways,
                              context.backends, *context.profiler, *context.room}));
  for (auto& alike : context.accelerators) {
    PENSTOCK_TRY(alike.parts,
                 Parts::create({context.graph, context.options, alike.devices, alike.ways,
                                context.backends, *context.profiler, *context.room}));
  }
  PENSTOCK_CHECK_OK(try_simple(context));
  start_contest(context, context.options.refresh);
  return {};
}

}  // namespace penstock::tune
