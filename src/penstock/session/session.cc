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
#include "penstock/base/hash.h"
#include "penstock/device/topology.h"
#include "penstock/graph/subgraph.h"
#include "penstock/graph/writer.h"
#include "penstock/plan/plan_json.h"
#include "penstock/session/join.h"

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

graph::Engine make_engine(const backend::Registry& backends,
                          const std::vector<fs::path>& custom_ops) {
  const auto found = backends.find("onnxruntime");
  if (!found || !(*found)->describe().unavailable.empty()) return {};
  const std::shared_ptr<backend::Backend> backend = *found;
  graph::Engine engine;
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
    options.engine = make_engine(backends, custom_ops);
  }
  return graph::import_onnx(file, options);
}

plan::Origin make_origin(const graph::Graph& graph, const backend::Registry& backends,
                         std::string_view backend) {
  plan::Origin origin;
  if (auto hash = sha256_of_file(graph.import.file)) {
    origin.model_file = graph.import.file.string();
    origin.model_sha256 = *std::move(hash);
  }
  origin.penstock = version();
  if (const auto topology = device::read_topology()) origin.cpu = topology->fingerprint;
  if (const auto found = backends.find(backend)) {
    const auto described = (*found)->describe();
    if (!described.engine_version.empty())
      origin.engines[described.name] = described.engine_version;
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

Match match_model(const fs::path& file, const plan::Plan& plan, const backend::Registry& backends) {
  const auto& origin = plan.origin;
  const auto bytes = sha256_of_file(file);
  if (bytes && *bytes == origin.model_sha256) return Match::kSame;
  graph::ImportOptions import;
  for (const auto& input : plan.inputs) {
    if (input.type.kind == Type::Kind::kTensor && input.type.ranked) {
      import.shapes[input.name] = input.type.dims;
    }
  }
  for (const auto& parameter : plan.parameters) import.parameters.push_back(parameter.name);
  for (const bool as_is : {false, true}) {
    import.as_is = as_is;
    const auto graph = import_model(file, import, backends);
    if (!graph) return Match::kUnknown;
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

Result<plan::Plan> split_model(const graph::Graph& graph, const partition::SplitOptions& options,
                               const StreamOptions& stream, const fs::path& target,
                               const backend::Registry& backends) {
  const auto origin = make_origin(graph, backends, options.backend);
  if (is_empty(stream)) return partition::split(graph, options, target, origin);
  PENSTOCK_TRY(const auto temporary, make_temporary_folder());
  const auto folder = *temporary / "package";
  PENSTOCK_TRY(auto plan, partition::split(graph, options, folder, origin));
  apply(stream, plan);
  return repack(folder, plan, target);
}

Result<JoinedModel> write_joined(const plan::Package& package) {
  PENSTOCK_TRY(const auto graph, join_stages(package));
  PENSTOCK_TRY(auto folder, make_temporary_folder());
  fs::path file = *folder / "model.onnx";
  const auto written = graph::write_onnx(graph::Subgraph::whole(graph), file, {});
  if (!written) return written.error();
  return JoinedModel{std::move(file), std::move(folder)};
}

bool names_package(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return true;
  if (fs::is_regular_file(path, ignored)) {
    std::ifstream in(path, std::ios::binary);
    std::string magic(2, '\0');
    in.read(magic.data(), 2);
    return magic == "PK";
  }
  std::string suffix = path.extension().string();
  std::ranges::transform(suffix, suffix.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return suffix == ".zip";
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

Result<plan::Package> pack_model(const graph::Graph& graph, partition::SplitOptions split,
                                 const backend::Registry& backends) {
  PENSTOCK_TRY(const auto temporary, make_temporary_folder());
  if (split.cuts.empty() && split.devices.empty() && split.replicas == 1) {
    split.replicas = static_cast<int>(std::max<std::size_t>(device::inherited_cpus().size(), 1));
  }
  const auto folder = *temporary / "package";
  PENSTOCK_TRY(auto plan, split_model(graph, split, {}, folder, backends));
  return plan::Package{std::move(plan), folder, temporary};
}

}  // namespace penstock
