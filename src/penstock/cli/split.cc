// penstock split: a model and where to cut it -> a package.
#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <set>

#include <spdlog/spdlog.h>

#include "penstock/app/app.h"
#include "penstock/backend/registry.h"
#include "penstock/base/permissions.h"
#include "penstock/base/words.h"
#include "penstock/cli/command.h"
#include "penstock/cli/import_options.h"
#include "penstock/cli/numbers.h"
#include "penstock/cli/outputs.h"
#include "penstock/cli/package_needs.h"
#include "penstock/cli/plugins.h"
#include "penstock/cli/show_plan.h"
#include "penstock/cli/stream_options.h"
#include "penstock/cli/text.h"
#include "penstock/device/device.h"
#include "penstock/device/topology.h"
#include "penstock/graph/external_files.h"
#include "penstock/graph/writer.h"
#include "penstock/partition/stage_name.h"
#include "penstock/plan/calls.h"
#include "penstock/session/identify.h"
#include "penstock/session/session.h"

namespace penstock::cli {
namespace {

struct SplitOptions {
  std::filesystem::path model;
  std::filesystem::path package;
  std::vector<std::string> cuts;
  std::vector<std::string> pins;
  bool annotations = false;
  std::filesystem::path annotate;
  int replicas = 1;
  std::string devices, standby;
  std::string backend = "onnxruntime";
  bool unpinned = false;
  bool flush_denormals = false;
  ImportArguments import;
  BackendArguments engine;
  StreamArguments stream;
  std::vector<std::string> states;
  std::vector<std::string> batches;
  std::vector<std::string> lanes;
  bool no_native_code = false;
  bool json = false;
};

/// Devices of this machine must be there; those of others are not checked here.
Status check_devices(const std::vector<device::Device>& devices, const std::vector<int>& cpus) {
  for (const auto& device : devices) {
    if (device.is_remote()) continue;
    PENSTOCK_CHECK_OK(device::check_available(device, cpus));
  }
  return {};
}

/// `option` is the one that `text` is given by.
Result<std::vector<device::Device>> to_devices(const std::string& text, const std::string& option,
                                               const std::vector<int>& cpus) {
  if (text.empty()) return std::vector<device::Device>();
  auto devices = device::parse_devices(text, cpus);
  if (!devices) return std::move(devices).error().within(option);
  PENSTOCK_CHECK_OK(check_devices(*devices, cpus));
  return devices;
}

Result<partition::Lanes> to_lanes(const std::vector<std::string>& lanes) {
  partition::Lanes read;
  for (const auto& text : lanes) {
    PENSTOCK_TRY(auto asked, partition::parse_lanes(text));
    if (read.insert(std::move(asked)).second) continue;
    return invalid_argument("lanes '", text, "': its stages have lanes already");
  }
  return read;
}

/// What `options` say of the way to other machines.
Status warn_of_the_way(const BackendArguments& options) {
  PENSTOCK_TRY(const auto given, to_options_of_the_way(options));
  if (given.empty()) return {};
  spdlog::warn(
      "--backend-option {}:{}: not in the package, as none says how other machines are "
      "reached; give it to what runs the package, such as 'penstock run'",
      plan::kRemoteBackend, given.begin()->first);
  return {};
}

Result<partition::SplitOptions> to_split_options(const SplitOptions& options) {
  partition::SplitOptions split;
  split.replicas = options.replicas;
  split.backend = options.backend;
  split.custom_ops = options.engine.custom_ops;
  split.pinned = !options.unpinned;
  split.flush_denormals = options.flush_denormals;
  PENSTOCK_TRY(const auto cpus, device::cpus_to_plan_for());
  std::vector<std::pair<std::string, device::Device>> pins;
  for (const auto& text : options.pins) {
    PENSTOCK_TRY(auto pin, parse_pin(text));
    auto available = check_devices({pin.second}, cpus);
    if (!available) return std::move(available).error().within("--pin " + text);
    pins.push_back(std::move(pin));
  }
  bool elsewhere =
      std::ranges::any_of(pins, [](const auto& pin) { return pin.second.is_remote(); });
  PENSTOCK_TRY(split.by, partition::split_by(options.cuts, std::move(pins), options.annotations));
  PENSTOCK_TRY(split.batches, to_batches(options.batches));
  PENSTOCK_TRY(split.lanes, to_lanes(options.lanes));
  PENSTOCK_TRY(split.devices, to_devices(options.devices, "--devices", cpus));
  PENSTOCK_TRY(split.standby, to_devices(options.standby, "--standby", cpus));
  for (const auto* devices : {&split.devices, &split.standby}) {
    elsewhere = elsewhere || std::ranges::any_of(*devices, &device::Device::is_remote);
  }
  PENSTOCK_TRY(split.backend_options, to_options_of(options.backend, options.engine, elsewhere));
  if (elsewhere) PENSTOCK_CHECK_OK(warn_of_the_way(options.engine));
  return split;
}

/// Writes the whole model with the stage of each node, in ONNX's words and in ONNX Runtime's.
Status annotate(const graph::Graph& graph, const partition::SplitOptions& split,
                const std::filesystem::path& file) {
  PENSTOCK_CHECK_OK(check_writable("--annotate", file, true, ""));
  PENSTOCK_TRY(const auto stages, partition::assign_stages(graph, split));
  graph::WriteOptions write;
  write.pipeline_stages.assign(graph.nodes.size(), -1);
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    for (const auto node : stages[stage]) {
      write.pipeline_stages[graph::index(node)] = static_cast<int>(stage);
      write.layer_annotations[graph::index(node)] = partition::stage_name(stage);
    }
  }
  const auto written = graph::write_onnx(graph::Subgraph::whole(graph), file, write);
  if (!written) return written.error();
  const auto given = graph::common_permissions(graph.import.file);
  for (const auto& each : *written) keep_from_others(each, given);
  return {};
}

/// Where the backend is not present, CPUs of this machine are taken for possible.
bool runs_on(const std::string& name, const device::Device& device,
             const backend::Registry& backends) {
  const auto backend = backends.find(device.is_remote() ? std::string(plan::kRemoteBackend) : name);
  return backend ? (*backend)->accepts(device) : device.is_local_cpu();
}

/// Devices of other machines and kinds are legitimate: a package may be made for elsewhere.
void warn_of_foreign_devices(const plan::Plan& plan, const backend::Registry& backends) {
  std::set<std::string> foreign;
  for (const auto& stage : plan.stages) {
    for (const auto& device : stage.devices) {
      const bool here = std::ranges::all_of(stage.partitions, [&](const plan::Partition& part) {
        return runs_on(part.backend, device, backends);
      });
      if (!here) foreign.insert(device::to_string(device));
    }
  }
  if (foreign.empty()) return;
  spdlog::warn("no backend that is present runs {}: the package is for another machine",
               join(foreign, ", "));
}

/// Two pinned workers on one CPU take turns at it.
void warn_of_shared_cpus(const plan::Plan& plan) {
  std::map<int, std::size_t> workers;
  for (const auto& stage : plan.stages) {
    for (const auto& device : stage.devices) {
      if (!stage.pinned || device.is_remote()) continue;
      for (const int cpu : device.cpus) ++workers[cpu];
    }
  }
  std::vector<int> shared, free;
  for (const auto& [cpu, count] : workers) {
    if (count > 1) shared.push_back(cpu);
  }
  if (const auto cpus = device::cpus_to_plan_for()) {
    std::ranges::copy_if(*cpus, std::back_inserter(free),
                         [&](int cpu) { return !workers.contains(cpu); });
  }
  if (shared.empty()) return;
  spdlog::warn("several stages or replicas take turns on cpu {}; {}", ranges(shared),
               free.empty() ? "there are fewer CPUs than workers"
                            : "cpu " + ranges(free) + " would be free (--devices)");
}

/// They are dealt in turn: where there are fewer stages and replicas, the last get none. 'all' are
/// those that may be used.
void warn_of_idle_devices(const plan::Plan& plan, const std::string& named) {
  const auto given = device::parse_devices(named == "all" ? "" : named, {});
  if (!given) return;
  std::set<std::string> idle;
  for (const auto& device : *given) idle.insert(device::to_string(device));
  std::size_t places = 0;
  for (const auto& stage : plan.stages) {
    for (const auto& device : stage.devices) idle.erase(device::to_string(device));
    places += stage.devices.size();
  }
  if (idle.empty()) return;
  spdlog::warn(
      "--devices: {} {} not used, as the stages and their replicas take {} alone; cut into more "
      "(--cut) or give --replicas",
      join(idle, ", "), idle.size() == 1 ? "is" : "are", counted(places, "device"));
}

void warn_of_devices(const plan::Plan& plan, const backend::Registry& backends) {
  warn_of_foreign_devices(plan, backends);
  warn_of_silent_hosts(plan);
  warn_of_shared_cpus(plan);
}

Json choices_json(const std::vector<BatchChoice>& choices) {
  Json json = Json::array();
  for (const auto& choice : choices) {
    Json trials = Json::array();
    for (const auto& trial : choice.trials) {
      trials.push_back({{"frames", trial.frames},
                        {"gain", trial.gain},
                        {"low", trial.low},
                        {"high", trial.high}});
    }
    json.push_back({{"stage", choice.stage},
                    {"frames", choice.frames},
                    {"trials", std::move(trials)},
                    {"note", choice.note}});
  }
  return json;
}

/// "stage0: up to 8 frames a call; measured 2: 1.40 x (1.35 to 1.44), ..." for each.
std::string choices_text(const std::vector<BatchChoice>& choices) {
  std::string text;
  for (const auto& choice : choices) {
    text += concat(choice.stage, ": ", choice.frames > 1 ? "up to " : "",
                   counted(choice.frames, "frame"), " a call");
    if (!choice.trials.empty()) {
      text += "; frames a second, of those one by one: ";
      text += join(choice.trials, ", ", [](const BatchTrial& trial) {
        return concat(trial.frames, " frames ", number(trial.gain, 2), " x (", number(trial.low, 2),
                      " to ", number(trial.high, 2), ")");
      });
    }
    if (!choice.note.empty()) text += "; " + choice.note;
    text += "\n";
  }
  return text;
}

void report(const SplitOptions& options, const plan::Plan& plan, const backend::Registry& backends,
            const std::vector<BatchChoice>& choices = {}) {
  log_plan(plan, backends);
  warn_of_devices(plan, backends);
  warn_of_idle_devices(plan, options.devices);
  if (options.json) {
    Json json = plan_json(plan, backends);
    json["package"] = options.package.string();
    json["measured_batches"] = choices_json(choices);
    print_json(json);
    return;
  }
  print(plan_text(plan, backends));
  print(choices_text(choices));
  print(concat("written to '", options.package.string(), "'\n"));
}

/// What the plan says and its pipeline does not do.
void warn_of_plan(const plan::Plan& plan) {
  for (const auto& note : plan::batches_beyond_edges(plan)) spdlog::warn("{}", note);
  for (const auto& note : plan::batches_beyond_streams(plan)) spdlog::warn("{}", note);
  for (const auto& note : plan::calls_never_left_behind(plan)) spdlog::warn("{}", note);
  for (const auto& note : plan::separate_draws(plan)) spdlog::warn("{}", note);
}

/// An application says all but where it goes.
Result<int> run_app(const SplitOptions& options) {
  const bool plain = options.cuts.empty() && options.pins.empty() && !options.annotations &&
                     options.annotate.empty() && options.replicas == 1 && options.lanes.empty() &&
                     options.devices.empty() && !options.unpinned && !options.flush_denormals &&
                     options.import.shapes.empty() && options.import.constants.empty() &&
                     options.import.parameters.empty() && !options.import.as_is &&
                     options.engine.options.empty() && options.engine.custom_ops.empty() &&
                     options.states.empty() && options.batches.empty() &&
                     options.stream.policy.empty() && !options.stream.capacity &&
                     !options.stream.max_age_ms && options.stream.on_error.empty() &&
                     !options.stream.max_run_ms && !options.stream.max_left_behind &&
                     options.stream.streams.empty();
  if (!plain) {
    return invalid_argument("'", options.model.string(),
                            "': an application says at its nodes how they are split; of the "
                            "options, expected -o, --no-native-code and --json only");
  }
  const auto backends = load_backends();
  PENSTOCK_TRY(const auto application, app::read_yaml(options.model));
  if (options.no_native_code) PENSTOCK_CHECK_OK(app::refuse_native_code(application));
  PENSTOCK_TRY(const auto plan, app::write_package(application, options.package, backends));
  for (const auto& stage : app::lanes_left_out(application, plan)) spdlog::warn("{}", stage);
  warn_of_plan(plan);
  report(options, plan, backends);
  return kOk;
}

/// One stage, though the file says where to cut.
void warn_of_unused_annotations(const graph::Graph& graph, const SplitOptions& options) {
  const bool annotated = std::ranges::any_of(graph.pipeline_stages, [](int s) { return s >= 0; });
  if (!annotated || options.annotations || !options.cuts.empty() || !options.pins.empty()) return;
  spdlog::warn(
      "the model has pipeline_stage annotations, and is not split by them; --annotations does");
}

/// What only a package takes, and none is written. `command`: as it was called.
void warn_of_no_package(const CLI::App& command, const SplitOptions& options) {
  constexpr std::array kOfThePackage = {
      "--replicas", "--lanes",   "--devices",         "--standby", "--backend",
      "--unpinned", "--state",   "--flush-denormals", "--batch",   "--policy",
      "--capacity", "--max-age", "--on-error",        "--max-run", "--max-left-behind",
      "--streams",  "--json"};
  std::vector<std::string> given;
  for (const char* name : kOfThePackage) {
    if (command.count(name) > 0) given.emplace_back(name);
  }
  if (given.empty()) return;
  spdlog::warn(
      "{}: of a package only, and none is written, but '{}' alone; expected -o PACKAGE too",
      join(given, ", "), options.annotate.string());
}

Result<int> run(const SplitOptions& options) {
  if (identify(options.model) == FileKind::kApplication) return run_app(options);
  PENSTOCK_TRY(auto split, to_split_options(options));
  PENSTOCK_TRY(const auto stream, to_stream_options(options.stream));
  PENSTOCK_TRY(const auto states, to_states(options.states));
  const auto backends = load_backends();
  if (const auto backend = backends.find(options.backend); !backend) return backend.error();
  PENSTOCK_TRY(const auto graph,
               import_file(options.model, options.import, backends, options.engine.custom_ops));
  warn_of_unused_annotations(graph, options);
  warn_of_refusal(graph, backends, options.engine.custom_ops);
  if (std::error_code none; std::filesystem::equivalent(options.annotate, options.model, none)) {
    return invalid_argument("--annotate '", options.annotate.string(),
                            "': the model is read from it; choose another name");
  }
  if (!options.annotate.empty()) PENSTOCK_CHECK_OK(annotate(graph, split, options.annotate));
  if (options.package.empty()) return kOk;
  PENSTOCK_TRY(const auto choices, choose_batches(graph, split, backends));
  PENSTOCK_TRY(const auto plan,
               split_model(graph, split, stream, options.package, backends, states));
  warn_of_options(stream, plan);
  warn_of_plan(plan);
  for (const auto& stage : partition::lanes_left_out(split.lanes, plan)) {
    spdlog::warn("--lanes {}: {}", split.lanes.at(""), stage);
  }
  report(options, plan, backends, choices);
  return kOk;
}

constexpr const char* kSplitFooter =
    R"(A cut ends a stage after a node, named by its name, by a tensor that it makes, or by its index in
'penstock show': the stage holds that node and all that it needs; N cuts give N+1 stages. Pins give
the nodes named to devices, one stage for each device, instead. Without cuts or pins the whole network
is one stage, which --replicas multiplies.

Stages take the devices in turn, replica by replica; without --devices, one CPU each. A package that
exists is replaced; anything else at its place is not.

Examples:
  penstock split model.onnx --cut layer3.conv1 -o model.penstock
  penstock split model.onnx --cut 12 --cut 40 --devices cpu:0,cpu:1,cpu:2-3 -o model.penstock.zip
  penstock split model.onnx --replicas 2 -o model.penstock         one session per core
  penstock split model.onnx --pin conv1=cpu:0 --pin fc=cpu:1 -o model.penstock
  penstock split model.onnx --cut 12 --batch 8:2 --batch stage1=1 -o model.penstock      frames together in the first stage
  penstock split model.onnx --batch auto -o model.penstock         as many as measuring says
  penstock split model.onnx --cut 12 --devices cuda:0,host:8001/cpu:0 --lanes stage1=4 -o model.penstock
  penstock split model.onnx --cut 12 --policy latest --max-age 50 -o model.penstock
  penstock split app.yaml -o app.penstock                          networks and functions (docs/composition.md)
  penstock split denoise.onnx --state cache_out=cache_in -o denoise.penstock      one frame's state for the next
  penstock split denoise.onnx --state cache_out=cache_in --streams 8 -o denoise.penstock    of eight sequences)";

}  // namespace

void declare_split(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<SplitOptions>();
  auto* command = add_command(
      app, "split", "Splits a model into stages and writes them as a package.", kSplitFooter);
  command
      ->add_option("model", options->model,
                   "A model (.onnx), or an application (.yaml), which is packed as it says")
      ->required();
  auto* package = command->add_option("-o,--output", options->package,
                                      "The package to write: a folder, or a file ending in .zip");
  auto* cut =
      add_list(command, "--cut", options->cuts,
               "End a stage after this node: name, tensor or index; repeat for more stages");
  auto* pin = add_list(command, "--pin", options->pins,
                       "NODE=DEVICE: this node on that device; repeat for more nodes")
                  ->check(taken_by(parse_pin));
  auto* annotations = command->add_flag(
      "--annotations", options->annotations,
      "Stages from the model's own pipeline_stage annotations, or else layer_ann");
  cut->excludes(pin)->excludes(annotations);
  pin->excludes(annotations);
  command->add_option("--annotate", options->annotate,
                      "Also write the whole model to this file, with the stage of each node as "
                      "pipeline_stage (IR 11) and layer_ann");
  command->add_option("--replicas", options->replicas, "Instances of every stage")
      ->capture_default_str()
      ->check(whole_number(1, plan::kMostInstances));
  add_list(command, "--lanes", options->lanes,
           "[STAGE=]N: calls in flight of each instance of a stage that computes elsewhere, of all "
           "that may have several or of this one; 0: as many as its backend recommends; repeat for "
           "more stages")
      ->check(taken_by(partition::parse_lanes));
  command
      ->add_option("--devices", options->devices,
                   "Devices in turn, such as cpu:0,cpu:1 or cpu:0-1,cpu:2+3; all: each CPU; "
                   "HOST:PORT/cpu:0-3: of a machine that runs 'penstock worker'")
      ->check(not_empty("devices such as cpu:0,cpu:1 or all"))
      ->check(device_list());
  command
      ->add_option("--standby", options->standby,
                   "Devices that take over the frames of stages on other machines that are lost")
      ->check(not_empty("devices such as host:8001/cpu:0 or cpu:0"))
      ->check(device_list());
  command->add_option("--backend", options->backend, "Who runs the stages")
      ->capture_default_str()
      ->type_name(kBackendType);
  command->add_flag("--unpinned", options->unpinned,
                    "Let the stages move among all CPUs of the plan");
  command->add_flag("--flush-denormals", options->flush_denormals,
                    "Compute with numbers too small to be normal as zeros (by default where the "
                    "weights hold some)");
  add_import_options(command, options->import);
  add_backend_options(command, options->engine);
  add_stream_options(command, options->stream);
  add_state_option(command, options->states);
  add_batch_option(command, options->batches);
  add_native_code_option(command, options->no_native_code);
  command->add_flag("--json", options->json, "Print the plan as JSON");
  set_action(command, chosen, options, run);
  command->callback([&chosen, options, package, command] {
    if (package->empty() && options->annotate.empty()) {
      throw CLI::RequiredError("--output");
    }
    chosen = [options, package, command] {
      if (package->empty()) warn_of_no_package(*command, *options);
      return run(*options);
    };
  });
}

}  // namespace penstock::cli
