// Imports, splits, packs, copies and opens; finds the model that a package was made from.
#include "penstock/session/session.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include <sys/stat.h>

#include "penstock/backend/evaluate.h"
#include "penstock/backend/settings.h"
#include "penstock/base/files.h"
#include "penstock/base/hash.h"
#include "penstock/base/option_name.h"
#include "penstock/device/topology.h"
#include "penstock/graph/interface.h"
#include "penstock/graph/subgraph.h"
#include "penstock/graph/writer.h"
#include "penstock/plan/plan_json.h"
#include "penstock/session/batch_check.h"
#include "penstock/session/join.h"
#include "penstock/session/load.h"
#include "penstock/session/refused_node.h"
#include "penstock/session/state_loops.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPlanFile = "plan.json";

/// Of the user's file, which is the one to mend.
Status check_first_value(const plan::Plan& plan, const plan::StateEdge& given) {
  if (given.initial.empty()) return {};
  auto value = plan::initial_value(plan, {}, given);
  if (value) return {};
  return std::move(value).error().adding(
      concat(", in '", given.initial, "' (", OptionName::kStates, ")"));
}

/// The states' first values go into the package. `lanes`: what was asked of all stages is none of
/// those that write a state.
/// \pre the plan has its streams: of several, replicas may write a state.
Status add_states(const std::vector<plan::StateEdge>& states, const partition::Lanes& lanes,
                  plan::Plan& plan, const fs::path& folder) {
  for (auto& stage : plan.stages) stage.lanes = 0;
  for (const auto& given : states) {
    plan::StateEdge state = given;
    if (!given.initial.empty()) {
      state.initial = concat("states/", plan.states.size(), ".npy");
      std::error_code error;
      fs::create_directories(folder / "states", error);
      fs::copy_file(given.initial, folder / state.initial, error);
      if (error) {
        return not_found("state '", state.from, "' -> '", state.to, "': initial value '",
                         given.initial, "' cannot be copied: ", error.message(),
                         "; give a file that can be read (", OptionName::kStates, ")");
      }
    }
    PENSTOCK_CHECK_OK(plan::add_state(plan, state));
    PENSTOCK_CHECK_OK(check_first_value(plan, given));
  }
  PENSTOCK_CHECK_OK(partition::add_lanes(lanes, plan));
  return plan::validate(plan);
}

std::set<std::string> backends_of(const partition::SplitOptions& options) {
  const auto* chosen = std::get_if<partition::ChosenStages>(&options.by);
  if (chosen == nullptr) return {options.backend};
  std::set<std::string> names;
  for (const auto& stage : chosen->stages) {
    for (const auto& part : stage.parts) names.insert(part.backend);
    if (stage.parts.empty()) names.insert(options.backend);
  }
  return names;
}

/// Where the backend is there to be asked.
Status check_backend_options(const partition::SplitOptions& options,
                             const backend::Registry& backends) {
  std::map<std::string, std::set<std::map<std::string, std::string>>> given;
  given[options.backend].insert(options.backend_options);
  if (const auto* chosen = std::get_if<partition::ChosenStages>(&options.by)) {
    for (const auto& stage : chosen->stages) {
      const bool elsewhere = std::ranges::all_of(stage.devices, &device::Device::is_remote);
      if (elsewhere) continue;  // The options are for an engine of that machine.
      for (const auto& part : stage.parts) given[part.backend].insert(part.options);
    }
  }
  for (const auto& [name, settings] : given) {
    const auto backend = backends.find(name);
    if (!backend) continue;
    for (const auto& each : settings) {
      PENSTOCK_CHECK_OK(backend::check_settings(**backend, each, {}));
    }
  }
  return {};
}

/// What a package's files become where it is written once more.
enum class Files {
  kCopied,  ///< Those that the plan lists: its folder may be anybody's.
  kLinked,  ///< All, where the file system can: the package is our own, and is about to go.
};

std::error_code copy_listed(const fs::path& folder, const plan::Plan& plan, const fs::path& to) {
  std::error_code error;
  for (const auto& [file, hash] : plan.files) {
    const auto copy = to / file;
    fs::create_directories(copy.parent_path(), error);
    if (!error) fs::copy_file(folder / file, copy, error);
    if (error) break;
  }
  return error;
}

std::error_code link_all(const fs::path& folder, const fs::path& to) {
  std::error_code error;
  constexpr auto kAll = fs::copy_options::recursive;
  fs::copy(folder, to, kAll | fs::copy_options::create_hard_links, error);
  if (error) fs::copy(folder, to, kAll | fs::copy_options::overwrite_existing, error);
  if (!error) fs::remove(to / kPlanFile, error);  // commit() writes the new one.
  return error;
}

/// \error kNotFound  the plan lists a file that is no longer in the folder.
Status check_listed(const fs::path& folder, const plan::Plan& plan) {
  std::error_code ignored;
  for (const auto& [file, hash] : plan.files) {
    if (fs::exists(folder / file, ignored)) continue;
    return not_found("its file '", file, "' is no longer there; save it while it is")
        .within({Where::kPackage, folder.string()});
  }
  return {};
}

/// The package in `folder` once more as `target`, with another plan.
Result<plan::Plan> repack(const fs::path& folder, const plan::Plan& plan, const fs::path& target,
                          Files files) {
  PENSTOCK_CHECK_OK(check_listed(folder, plan));  // Else the target would be blamed.
  PENSTOCK_TRY(auto writer, plan::PackageWriter::create(target));
  const bool linked = files == Files::kLinked;
  const auto error =
      linked ? link_all(folder, writer.folder()) : copy_listed(folder, plan, writer.folder());
  if (error) {
    return make_error(Code::kResourceExhausted, "cannot be written: ", error.message(),
                      error == std::errc::io_error ? "; is the disk full?" : "")
        .within({Where::kPackage, target.string()});
  }
  // Of our own package the hashes were taken a moment ago.
  return writer.commit(plan, linked ? plan.files : std::map<std::string, std::string>());
}

}  // namespace

Result<graph::Engine> make_engine(const backend::Registry& backends,
                                  const std::vector<fs::path>& custom_ops) {
  graph::Engine engine;
  const auto found = backends.find("onnxruntime");
  if (!found || !(*found)->describe().unavailable.empty()) return engine;
  const auto& backend = *found;  // The functions keep a copy.
  // Without an operator's library, folding would fail in silence.
  PENSTOCK_CHECK_OK(backend::check_settings(*backend, {}, custom_ops));
  engine.evaluate = [backend, custom_ops](const std::string& model) {
    return backend::evaluate(*backend, model, {}, custom_ops);
  };
  engine.output_types = [backend, custom_ops](const std::string& model) {
    return backend::output_types(*backend, model, custom_ops);
  };
  return engine;
}

Result<graph::Graph> import_model(const fs::path& file, graph::ImportOptions options,
                                  const backend::Registry& backends,
                                  const std::vector<fs::path>& custom_ops) {
  if (!options.engine.evaluate && !options.engine.output_types) {
    PENSTOCK_TRY(options.engine, make_engine(backends, custom_ops));
  }
  return graph::import_onnx(file, options);
}

std::vector<plan::TensorInfo> inputs_of(const graph::Graph& graph) {
  std::vector<plan::TensorInfo> infos;
  for (const auto id : graph.inputs) {
    const auto& value = graph.value(id);
    infos.push_back({value.name, value.type, value.range, value.words});
  }
  return infos;
}

std::vector<plan::TensorInfo> inputs_of(const graph::Graph& graph,
                                        const std::vector<plan::StateEdge>& states) {
  auto infos = inputs_of(graph);
  std::erase_if(infos, [&](const plan::TensorInfo& info) {
    return std::ranges::find(states, info.name, &plan::StateEdge::to) != states.end();
  });
  return infos;
}

namespace {

/// Of the file as it lies there now. Plans by the dozen come of one file: it is read once, as long
/// as it is not written or replaced. What was written a moment ago may be written again within a
/// tick of the file system's clock, so that is read each time.
Result<std::string> hash_of_origin(const fs::path& file) {
  struct Known {
    dev_t device;
    ino_t inode;
    off_t size;
    std::int64_t changed_ns;
    bool operator==(const Known&) const = default;
  };
  static std::mutex mutex;
  static std::optional<std::pair<Known, std::string>> last;
  struct stat found{};
  if (stat(file.c_str(), &found) != 0) return sha256_of_file(file);
  constexpr std::int64_t kSecond = 1'000'000'000;
  const Known known{found.st_dev, found.st_ino, found.st_size,
                    found.st_ctim.tv_sec * kSecond + found.st_ctim.tv_nsec};
  {
    const std::scoped_lock lock(mutex);
    if (last && last->first == known) return last->second;
  }
  PENSTOCK_TRY(auto hash, sha256_of_file(file));
  const std::chrono::nanoseconds now = std::chrono::system_clock::now().time_since_epoch();
  if (now.count() - known.changed_ns < kSecond) return hash;
  const std::scoped_lock lock(mutex);
  last.emplace(known, hash);
  return hash;
}

}  // namespace

plan::Origin make_origin(const graph::Graph& graph, const backend::Registry& backends,
                         const std::set<std::string>& names) {
  plan::Origin origin;
  if (auto hash = hash_of_origin(graph.import.file)) {
    origin.model_file = graph.import.file.string();
    origin.model_sha256 = *std::move(hash);
  }
  origin.penstock = version();
  if (const auto topology = device::read_topology()) origin.cpu = topology->fingerprint;
  for (const auto& name : names) {
    const auto found = backends.find(name);
    if (!found) continue;
    const auto described = (*found)->describe();
    if (!described.engine_version.empty()) origin.engines[name] = described.engine_version;
  }
  return origin;
}

fs::path find_model(const plan::Origin& origin, const fs::path& path) {
  if (origin.model_file.empty()) return {};
  const fs::path named = origin.model_file;
  std::error_code ignored;
  auto package = fs::absolute(path, ignored).lexically_normal();
  if (!package.has_filename()) package = package.parent_path();
  for (const auto& file : {named, package.parent_path() / named.filename()}) {
    if (!fs::is_regular_file(file, ignored)) continue;
    const auto hash = sha256_of_file(file);
    if (hash && *hash == origin.model_sha256) return file;
  }
  return {};
}

Status check_model(const fs::path& file) {
  auto interface = graph::read_interface(file);
  if (interface) return {};
  auto error = std::move(interface).error();
  if (error.find(Where::kFile) != nullptr) return error;
  return std::move(error).within({Where::kFile, file.string()});
}

namespace {

/// Whether the model, as nobody shaped it, has an input or output of another type than the plan's.
bool has_other_ends(const fs::path& file, const plan::Package& package,
                    const backend::Registry& backends) {
  graph::ImportOptions import;
  import.as_is = true;
  const auto graph = import_model(file, import, backends);
  if (!graph) return false;
  const auto is_other = [&](graph::ValueId id) {
    const auto& value = graph->value(id);
    const auto* const info = package.plan.find_tensor(value.name);
    return info != nullptr && !plan::agree(info->type, value.type);
  };
  return std::ranges::any_of(graph->inputs, is_other) ||
         std::ranges::any_of(graph->outputs, is_other);
}

}  // namespace

Match match_model(const fs::path& file, const plan::Package& package,
                  const backend::Registry& backends) {
  const auto& plan = package.plan;
  const auto& origin = plan.origin;
  const auto bytes = sha256_of_file(file);
  if (bytes && *bytes == origin.model_sha256) return Match::kSame;
  graph::ImportOptions import;
  for (const auto& input : plan.inputs) {
    if (input.type.kind == Type::Kind::kTensor && input.type.ranked) {
      import.shapes[input.name] = input.type.dims;
    }
  }
  for (const auto& state : plan.states) {
    const auto* info = plan.find_tensor(state.to);
    if (info != nullptr && info->type.ranked) import.shapes[state.to] = info->type.dims;
  }
  const auto bound = plan::read_bound_values(plan, package.folder);
  if (!bound) return Match::kUnknown;
  import.constants.insert(bound->begin(), bound->end());
  for (const auto& parameter : plan.parameters) import.parameters.push_back(parameter.name);
  for (const bool as_is : {false, true}) {
    import.as_is = as_is;
    const auto graph = import_model(file, import, backends);
    if (!graph) return has_other_ends(file, package, backends) ? Match::kOther : Match::kUnknown;
    if (graph::canonical_hash(graph::Subgraph::whole(*graph)) == plan.model_hash) {
      return Match::kSame;
    }
  }
  // Another engine or another version of Penstock may fold more or less.
  const auto found = backends.find("onnxruntime");
  const auto made_with = origin.engines.find("onnxruntime");
  const bool comparable = found && made_with != origin.engines.end() &&
                          made_with->second == (*found)->describe().engine_version &&
                          origin.penstock == version();
  return comparable ? Match::kOther : Match::kUnknown;
}

Result<ModelFile> bind_model(const fs::path& file, const plan::BoundValues& bound,
                             const backend::Registry& backends,
                             const std::vector<fs::path>& custom_ops,
                             const graph::WeightStore* weights) {
  const auto mending = graph::needs_mending(file);
  // What cannot be read is refused by who runs it.
  if (bound.empty() && (!mending || !*mending)) return ModelFile{file, nullptr};
  graph::ImportOptions import;
  import.as_is = true;
  import.constants.insert(bound.begin(), bound.end());
  PENSTOCK_TRY(const auto graph, import_model(file, import, backends, custom_ops));
  PENSTOCK_TRY(auto folder, make_temporary_folder());
  fs::path copy = *folder / "model.onnx";
  const auto written = graph::write_onnx(graph::Subgraph::whole(graph), copy, {.weights = weights});
  if (!written) return written.error();
  return ModelFile{std::move(copy), std::move(folder)};
}

Result<plan::Plan> split_model(const graph::Graph& graph, partition::SplitOptions options,
                               const plan::StreamOptions& stream, const fs::path& target,
                               const backend::Registry& backends,
                               const std::vector<plan::StateEdge>& states) {
  PENSTOCK_CHECK_OK(check_backend_options(options, backends));
  PENSTOCK_CHECK_OK(check_states_are_tensors(graph, states));
  PENSTOCK_CHECK_OK(choose_batches(graph, options, backends));
  const auto origin = make_origin(graph, backends, backends_of(options));
  if (stream == plan::StreamOptions() && states.empty() && options.batches.empty()) {
    return partition::split(graph, options, target, origin);
  }
  PENSTOCK_TRY(const auto temporary, make_temporary_folder());
  const auto folder = *temporary / "package";
  PENSTOCK_TRY(auto plan, partition::split(graph, options, folder, origin));
  PENSTOCK_CHECK_OK(check_batches(plan, folder, backends, options.frames));
  if (stream.streams) plan.streams = *stream.streams;
  PENSTOCK_CHECK_OK(add_states(states, options.lanes, plan, folder));
  plan::apply(stream, plan);  // Behind the states: they connect the stages anew.
  return repack(folder, plan, target, Files::kLinked);
}

Result<plan::Plan> copy_package(const plan::Package& package, const fs::path& target) {
  return repack(package.folder, package.plan, target, Files::kCopied);
}

Result<ModelFile> write_joined(const plan::Package& package) {
  PENSTOCK_TRY(const auto graph, join_stages(package));
  PENSTOCK_TRY(auto folder, make_temporary_folder());
  fs::path file = *folder / "model.onnx";
  const auto written = graph::write_onnx(graph::Subgraph::whole(graph), file, {});
  if (!written) return written.error();
  return ModelFile{std::move(file), std::move(folder)};
}

Result<Opened> open_package(const fs::path& path, const pipeline::Options& options,
                            const backend::Registry& backends) {
  try {
    PENSTOCK_TRY(auto package, load_package(path));
    auto pipeline = pipeline::Pipeline::start(package.plan, package.folder, backends, options);
    if (!pipeline) {
      return name_refused_node(std::move(pipeline).error(), package)
          .within({Where::kPackage, path.string()});
    }
    return Opened{std::move(package), *std::move(pipeline), path};
  } catch (const std::exception& error) {
    return plan::thrown(path, error);
  }
}

Result<plan::Package> pack_model(const graph::Graph& graph, partition::SplitOptions split,
                                 const backend::Registry& backends,
                                 const std::vector<plan::StateEdge>& states,
                                 const plan::StreamOptions& stream) {
  PENSTOCK_TRY(const auto temporary, make_temporary_folder());
  const auto* cuts = std::get_if<partition::Cuts>(&split.by);
  const bool whole = cuts != nullptr && cuts->nodes.empty();
  if (whole && split.devices.empty() && split.replicas == 1 && states.empty()) {
    const auto cpus = static_cast<int>(device::inherited_cpus().size());
    split.replicas = std::clamp(cpus, 1, plan::kMostInstances);
  }
  const auto folder = *temporary / "package";
  PENSTOCK_TRY(auto plan, split_model(graph, split, stream, folder, backends, states));
  return plan::Package{std::move(plan), folder, temporary};
}

std::string why_no_single_model(const plan::Plan& plan) {
  for (const auto& stage : plan.stages) {
    for (const auto& partition : stage.partitions) {
      if (partition.backend == plan::kFunctionBackend) return "it holds functions";
      if (partition.served) return "a server has a part of it";
      if (!partition.ports.empty()) return "it is an application of several networks";
    }
  }
  return {};
}

}  // namespace penstock
