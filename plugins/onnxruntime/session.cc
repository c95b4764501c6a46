#include "session.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "penstock/backend/request.h"
#include "penstock/base/option_name.h"
#include "penstock/graph/import.h"
#include "wire.h"

namespace penstock::ort {
namespace {

namespace fs = std::filesystem;
using backend::CompileRequest;

constexpr int kSpinDurationSince = 26;  // session.intra_op.spin_duration_us
constexpr const char* kThreadsOption = "intra_op_num_threads";

/// How sums of products of bytes stay whole where the processor has no VNNI.
enum class Products {
  kUnsigned,  ///< ONNX Runtime makes constant signed bytes unsigned.
  /// It leaves them, and what stands between DequantizeLinear and QuantizeLinear is floats: for
  /// models that multiply no unsigned bytes by signed ones elsewhere.
  kFloats,
};

/// Session options under construction.
class Settings {
 public:
  static Result<Settings> from(const Engine& engine, const CompileRequest& request,
                               Products products);
  [[nodiscard]] const OrtSessionOptions* get() const { return options_.get(); }

 private:
  explicit Settings(const Engine& engine) : engine_(&engine) {}

  Status set_threads(const CompileRequest& request);
  Status set_own_threads(const std::string& value, const device::Device& device);
  Status set_whole_products(Products products);
  Status set_option(const std::string& key, const std::string& value);
  Status set_optimization_level(const std::string& value);
  Status set_execution_mode(const std::string& value);
  Status add_custom_ops(const fs::path& library);
  Status entry(const char* key, const std::string& value) {
    return engine_->check(api().AddSessionConfigEntry(options_.get(), key, value.c_str()));
  }
  [[nodiscard]] const OrtApi& api() const { return *engine_->api; }

  const Engine* engine_;
  Handle<OrtSessionOptions> options_;
};

Error bad_option(const std::string& key, std::string_view expected, const std::string& found) {
  return invalid_argument("backend option 'onnxruntime:", key, "': expected ", expected,
                          ", found '", found, "'");
}

/// ONNX Runtime takes every key in silence, and versions differ in those that they know.
constexpr std::array<std::string_view, 4> kSessionKeys = {"session.", "optimization.", "mlas.",
                                                          "ep."};

constexpr const char* kProductsOfFourBits = "session.qdq_matmulnbits_accuracy_level";
constexpr const char* kWholeProducts = "session.x64quantprecision";

bool is_session_key(std::string_view key) {
  return std::ranges::any_of(kSessionKeys, [&](auto prefix) { return key.starts_with(prefix); });
}

Result<Settings> Settings::from(const Engine& engine, const CompileRequest& request,
                                Products products) {
  Settings settings(engine);
  OrtSessionOptions* raw = nullptr;
  PENSTOCK_CHECK_OK(engine.check(engine.api->CreateSessionOptions(&raw)));
  settings.options_ = {raw, {engine.api->ReleaseSessionOptions}};
  PENSTOCK_CHECK_OK(settings.set_threads(request));
  PENSTOCK_CHECK_OK(engine.check(engine.api->SetSessionGraphOptimizationLevel(
      raw, request.optimize ? ORT_ENABLE_ALL : ORT_DISABLE_ALL)));
  // Of weights of four bits, which it would else multiply with activations rounded to eight.
  if (!request.options.contains(kProductsOfFourBits)) {
    PENSTOCK_CHECK_OK(settings.entry(kProductsOfFourBits, "1"));
  }
  if (!request.options.contains(kWholeProducts)) {
    PENSTOCK_CHECK_OK(settings.set_whole_products(products));
  }
  if (request.flush_denormals) {
    PENSTOCK_CHECK_OK(settings.entry("session.set_denormal_as_zero", "1"));
  }
  for (const auto& [key, value] : request.options) {
    PENSTOCK_CHECK_OK(settings.set_option(key, value));
  }
  for (const auto& library : request.custom_ops) {
    PENSTOCK_CHECK_OK(settings.add_custom_ops(library));
  }
  return settings;
}

/// `threads` include the caller: the pool has one less, and they inherit this thread's CPUs.
Status Settings::set_threads(const CompileRequest& request) {
  OrtSessionOptions* options = options_.get();
  if (const auto own = request.options.find(kThreadsOption); own != request.options.end()) {
    return set_own_threads(own->second, request.device);
  }
  PENSTOCK_CHECK_OK(engine_->check(api().SetIntraOpNumThreads(options, request.threads)));
  PENSTOCK_CHECK_OK(engine_->check(api().SetInterOpNumThreads(options, 1)));
  PENSTOCK_CHECK_OK(engine_->check(api().SetSessionExecutionMode(options, ORT_SEQUENTIAL)));
  if (request.threads == 1) return {};
  if (request.spin.count() == 0) return entry("session.intra_op.allow_spinning", "0");
  if (engine_->minor >= kSpinDurationSince) {
    return entry("session.intra_op.spin_duration_us", std::to_string(request.spin.count()));
  }
  // The nearest that older versions have: spin within a run, not after it.
  return entry("session.force_spinning_stop", "1");
}

/// ONNX Runtime's own pool, with its own spinning; 0 leaves the number and the CPUs to it too. Only
/// for who names no CPUs: a stage's threads are those of its device.
Status Settings::set_own_threads(const std::string& value, const device::Device& device) {
  if (!device.cpus.empty()) {
    return invalid_argument("backend option 'onnxruntime:", kThreadsOption,
                            "': a stage computes with one thread for each CPU of its device; leave "
                            "the option out and give the stage its CPUs (",
                            OptionName::kDevices, "), such as cpu:0-3");
  }
  int threads = 0;
  const char* const end = value.data() + value.size();
  const auto [at, error] = std::from_chars(value.data(), end, threads);
  if (error != std::errc{} || at != end || threads < 0) {
    return bad_option(kThreadsOption, "a number of threads, 0 for ONNX Runtime's default", value);
  }
  return engine_->check(api().SetIntraOpNumThreads(options_.get(), threads));
}

/// Where the processor has no VNNI, sums of two products of eight bits would else be cut off at
/// sixteen.
Status Settings::set_whole_products(Products products) {
  if (products == Products::kUnsigned) return entry(kWholeProducts, "1");
  PENSTOCK_CHECK_OK(entry(kWholeProducts, "0"));
  return entry("session.disable_quant_qdq", "1");
}

Status Settings::set_option(const std::string& key, const std::string& value) {
  if (key == kThreadsOption) return {};  // See set_threads().
  if (key == "graph_optimization_level") return set_optimization_level(value);
  if (key == "execution_mode") return set_execution_mode(value);
  if (!is_session_key(key)) {
    return invalid_argument("backend option 'onnxruntime:", key,
                            "': unknown; expected graph_optimization_level, execution_mode, "
                            "or a session configuration key of ONNX Runtime, which begins with ",
                            join(kSessionKeys, ", "));
  }
  auto outcome = entry(key.c_str(), value);
  if (outcome) return {};
  return std::move(outcome).error().within(concat("backend option 'onnxruntime:", key, "'"));
}

Status Settings::set_optimization_level(const std::string& value) {
  constexpr std::array kLevels = {"0", "1", "2", "3", "99"};
  constexpr std::string_view kExpected =
      "0 (none), 1 (basic), 2 (extended), 3 (layout) or 99 (all)";
  if (std::ranges::find(kLevels, value) == kLevels.end()) {
    return bad_option("graph_optimization_level", kExpected, value);
  }
  const auto level = static_cast<GraphOptimizationLevel>(std::stoi(value));
  auto outcome = engine_->check(api().SetSessionGraphOptimizationLevel(options_.get(), level));
  if (outcome) return {};
  return std::move(outcome).error().within("backend option 'onnxruntime:graph_optimization_level'");
}

Status Settings::set_execution_mode(const std::string& value) {
  if (value != "sequential" && value != "parallel") {
    return bad_option("execution_mode", "'sequential' or 'parallel'", value);
  }
  return engine_->check(api().SetSessionExecutionMode(
      options_.get(), value == "parallel" ? ORT_PARALLEL : ORT_SEQUENTIAL));
}

Status Settings::add_custom_ops(const fs::path& library) {
  const Where name{Where::kCustomOps, library.string()};
  std::error_code ignored;
  if (!fs::exists(library, ignored)) return not_found("no such file; check the path").within(name);
  // A name without a folder would be sought among the system's libraries.
  const auto path = fs::absolute(library, ignored);
  auto outcome = engine_->check(api().RegisterCustomOpsLibrary_V2(options_.get(), path.c_str()));
  if (outcome) return {};
  Error error = std::move(outcome).error().within(name);
  error.code = Code::kInvalidArgument;
  return std::move(error).adding("; expected a shared library that exports RegisterCustomOps");
}

Status check_request(const CompileRequest& request) {
  PENSTOCK_CHECK_OK(backend::check_on_cpu(request, "onnxruntime"));
  if (request.precision != backend::Precision::kF32) {
    return make_error(Code::kUnimplemented,
                      "backend 'onnxruntime' computes a model in its own precision only");
  }
  return {};
}

Result<Handle<OrtSession>> create_session(const Engine& engine, const CompileRequest& request,
                                          const OrtSessionOptions* options) {
  const backend::KeptFloatingPointMode kept;
  OrtSession* raw = nullptr;
  OrtStatus* outcome =
      request.file.empty()
          ? engine.api->CreateSessionFromArray(engine.env, request.bytes.data(),
                                               request.bytes.size(), options, &raw)
          : engine.api->CreateSession(engine.env, request.file.c_str(), options, &raw);
  PENSTOCK_CHECK_OK(engine.check(outcome));
  return Handle<OrtSession>(raw, {engine.api->ReleaseSession});
}

/// The one or two ways to try, the faster one first.
std::vector<Products> ways_of(const CompileRequest& request) {
  if (!graph::may_cut_byte_products() || !request.optimize ||
      request.options.contains(kWholeProducts)) {
    return {Products::kUnsigned};
  }
  const auto cut = graph::cut_products(request.file, request.bytes);
  if (!cut || cut->of_bytes) return {Products::kUnsigned};
  if (cut->of_floats) return {Products::kFloats};
  // With signed data, or a weight that two nodes read, it may make what it does not take.
  return {Products::kUnsigned, Products::kFloats};
}

constexpr int kFolderOfWeightsSince = 21;  // session.model_external_initializers_file_folder_path

/// With the model `in_place` of the request's, whose external data stay where they are.
CompileRequest with_model(CompileRequest request, const std::string& in_place) {
  if (!request.file.empty()) {
    std::error_code ignored;
    request.options["session.model_external_initializers_file_folder_path"] =
        fs::absolute(request.file, ignored).parent_path().string();
  }
  request.file.clear();
  request.bytes = in_place;
  return request;
}

using CountFunction = OrtStatus*(ORT_API_CALL*)(const OrtSession*, std::size_t*);
using NameFunction = OrtStatus*(ORT_API_CALL*)(const OrtSession*, std::size_t, OrtAllocator*,
                                               char**);
using TypeFunction = OrtStatus*(ORT_API_CALL*)(const OrtSession*, std::size_t, OrtTypeInfo**);

Result<std::vector<backend::Port>> read_ports(const Engine& engine, const OrtSession* session,
                                              CountFunction count_of, NameFunction name_of,
                                              TypeFunction type_of) {
  std::size_t count = 0;
  PENSTOCK_CHECK_OK(engine.check(count_of(session, &count)));
  std::vector<backend::Port> ports;
  for (std::size_t i = 0; i < count; ++i) {
    char* name = nullptr;
    PENSTOCK_CHECK_OK(engine.check(name_of(session, i, engine.allocator, &name)));
    backend::Port port{name, {}};
    PENSTOCK_CHECK_OK(engine.check(engine.api->AllocatorFree(engine.allocator, name)));
    OrtTypeInfo* raw = nullptr;
    PENSTOCK_CHECK_OK(engine.check(type_of(session, i, &raw)));
    const Handle<OrtTypeInfo> info(raw, {engine.api->ReleaseTypeInfo});
    PENSTOCK_TRY(port.type, read_type(engine, *info));
    ports.push_back(std::move(port));
  }
  return ports;
}

}  // namespace

Result<std::shared_ptr<const Model>> compile_model(std::shared_ptr<const Engine> engine,
                                                   const CompileRequest& given) {
  PENSTOCK_CHECK_OK(check_request(given));
  auto filled = filled_of(given);
  if (!filled) return backend::in_model(std::move(filled).error(), given);
  const bool replaced =
      !filled->model.empty() && (given.file.empty() || engine->minor >= kFolderOfWeightsSince);
  std::optional<CompileRequest> replacing;
  if (replaced) replacing = with_model(given, filled->model);
  const CompileRequest& request = replacing ? *replacing : given;
  const auto ways = ways_of(request);
  PENSTOCK_TRY(const Settings settings, Settings::from(*engine, request, ways.front()));
  auto session = create_session(*engine, request, settings.get());
  if (!session && ways.size() > 1) {
    PENSTOCK_TRY(const Settings others, Settings::from(*engine, request, ways.back()));
    if (auto other = create_session(*engine, request, others.get())) session = std::move(other);
  }
  if (!session) {
    Error error = behind_reshape(*filled, std::move(session).error());
    // A model that fails to load without a better reason is a wrong model.
    if (error.code == Code::kUnknown) error.code = Code::kInvalidArgument;
    return backend::in_model(std::move(error), given);
  }

  auto model = std::make_shared<Model>();
  const OrtApi& api = *engine->api;
  model->engine = std::move(engine);
  model->session = *std::move(session);
  model->filled = *std::move(filled);
  model->filled.model.clear();
  PENSTOCK_TRY(model->inputs,
               read_ports(*model->engine, model->session.get(), api.SessionGetInputCount,
                          api.SessionGetInputName, api.SessionGetInputTypeInfo));
  PENSTOCK_TRY(model->outputs,
               read_ports(*model->engine, model->session.get(), api.SessionGetOutputCount,
                          api.SessionGetOutputName, api.SessionGetOutputTypeInfo));
  for (const auto& port : model->inputs) model->input_names.push_back(port.name.c_str());
  for (const auto& port : model->outputs) model->output_names.push_back(port.name.c_str());
  return std::shared_ptr<const Model>(std::move(model));
}

Result<Handle<OrtValue>> evaluate_constant(const Engine& engine, const std::string& model) {
  CompileRequest request;
  request.bytes = model;
  request.optimize = false;
  PENSTOCK_TRY(const Settings settings, Settings::from(engine, request, Products::kUnsigned));
  PENSTOCK_TRY(const auto session, create_session(engine, request, settings.get()));
  const char* name = "value";
  OrtValue* value = nullptr;
  PENSTOCK_CHECK_OK(
      engine.check(engine.api->Run(session.get(), nullptr, nullptr, nullptr, 0, &name, 1, &value)));
  return Handle<OrtValue>(value, {engine.api->ReleaseValue});
}

}  // namespace penstock::ort
