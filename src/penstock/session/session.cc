#include "penstock/session/session.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "penstock/backend/evaluate.h"
#include "penstock/device/topology.h"
#include "penstock/plan/plan_json.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPlanFile = "plan.json";

/// A folder of our own among the temporary ones, removed with the last reference.
Result<std::shared_ptr<const fs::path>> make_temporary_folder() {
  std::error_code error;
  std::string pattern = (fs::temp_directory_path(error) / "penstock-XXXXXX").string();
  if (error || ::mkdtemp(pattern.data()) == nullptr) {
    return make_error(Code::kPermissionDenied, "folder '", pattern,
                      "': cannot be made; set TMPDIR to a folder that can be written");
  }
  return std::shared_ptr<const fs::path>(new fs::path(pattern), [](const fs::path* folder) {
    std::error_code ignored;
    fs::remove_all(*folder, ignored);
    delete folder;
  });
}

bool is_empty(const StreamOptions& stream) {
  return !stream.input_policy && !stream.capacity && !stream.max_age && !stream.on_error;
}

void apply(const StreamOptions& stream, plan::Plan& plan) {
  for (auto& edge : plan.edges) {
    if (stream.capacity) edge.capacity = *stream.capacity;
    if (!stream.input_policy || edge.from != plan::kPipelineInput) continue;
    edge.policy = *stream.input_policy;
    if (edge.policy == plan::FullPolicy::kLatest) edge.capacity = 1;
  }
  if (stream.max_age) plan.max_age = stream.max_age;
  if (stream.on_error) plan.on_error = *stream.on_error;
}

/// Moves the package in `folder` to `target`, with another plan.
Result<plan::Plan> repack(const fs::path& folder, const plan::Plan& plan, const fs::path& target) {
  PENSTOCK_TRY(auto writer, plan::PackageWriter::create(target));
  std::error_code error;
  fs::remove(folder / kPlanFile, error);  // commit() writes the new one.
  constexpr auto kHow = fs::copy_options::recursive | fs::copy_options::overwrite_existing;
  if (!error) fs::copy(folder, writer.folder(), kHow, error);
  if (error) {
    return make_error(Code::kResourceExhausted, "package '", target.string(),
                      "': cannot be written: ", error.message());
  }
  return writer.commit(plan);
}

}  // namespace

std::string_view version() {
  return PENSTOCK_VERSION;
}

graph::Engine make_engine(const backend::Registry& backends) {
  const auto found = backends.find("onnxruntime");
  if (!found || !(*found)->describe().unavailable.empty()) return {};
  const std::shared_ptr<backend::Backend> backend = *found;
  graph::Engine engine;
  engine.evaluate = [backend](const std::string& model) {
    return backend::evaluate(*backend, model);
  };
  engine.output_types = [backend](const std::string& model) {
    return backend::output_types(*backend, model);
  };
  return engine;
}

Result<graph::Graph> import_model(const fs::path& file, graph::ImportOptions options,
                                  const backend::Registry& backends) {
  if (!options.engine.evaluate && !options.engine.output_types) {
    options.engine = make_engine(backends);
  }
  return graph::import_onnx(file, options);
}

plan::Origin make_origin(const backend::Registry& backends, std::string_view backend) {
  plan::Origin origin;
  origin.penstock = version();
  if (const auto topology = device::read_topology()) origin.cpu = topology->fingerprint;
  if (const auto found = backends.find(backend)) {
    const auto described = (*found)->describe();
    if (!described.engine_version.empty())
      origin.engines[described.name] = described.engine_version;
  }
  return origin;
}

Result<plan::Plan> split_model(const graph::Graph& graph, const partition::SplitOptions& options,
                               const StreamOptions& stream, const fs::path& target,
                               const backend::Registry& backends) {
  const auto origin = make_origin(backends, options.backend);
  if (is_empty(stream)) return partition::split(graph, options, target, origin);
  PENSTOCK_TRY(const auto temporary, make_temporary_folder());
  const auto folder = *temporary / "package";
  PENSTOCK_TRY(auto plan, partition::split(graph, options, folder, origin));
  apply(stream, plan);
  return repack(folder, plan, target);
}

bool names_package(const fs::path& path) {
  std::error_code ignored;
  std::string suffix = path.extension().string();
  std::ranges::transform(suffix, suffix.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return suffix == ".zip" || fs::is_directory(path, ignored);
}

Result<Opened> open_package(const fs::path& path, const pipeline::Options& options,
                            const backend::Registry& backends) {
  PENSTOCK_TRY(auto package, plan::load_package(path));
  auto pipeline = pipeline::Pipeline::start(package.plan, package.folder, backends, options);
  if (!pipeline) {
    return std::move(pipeline).error().within("package '" + path.string() + "'");
  }
  return Opened{std::move(package), *std::move(pipeline)};
}

Result<plan::Package> pack_model(const fs::path& file, graph::ImportOptions import,
                                 partition::SplitOptions split, const backend::Registry& backends) {
  PENSTOCK_TRY(const auto graph, import_model(file, std::move(import), backends));
  PENSTOCK_TRY(const auto temporary, make_temporary_folder());
  if (split.cuts.empty() && split.devices.empty() && split.replicas == 1) {
    split.replicas = static_cast<int>(std::max<std::size_t>(device::inherited_cpus().size(), 1));
  }
  const auto folder = *temporary / "package";
  PENSTOCK_TRY(auto plan, split_model(graph, split, {}, folder, backends));
  return plan::Package{std::move(plan), folder, temporary};
}

}  // namespace penstock
