#include "model.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "empty.h"
#include "penstock/backend/request.h"
#include "penstock/base/words.h"
#include "penstock/graph/interface.h"

namespace penstock::openvino {
namespace {

using backend::CompileRequest;

constexpr const char* kDevice = "CPU";
constexpr const char* kPerformanceHint = "PERFORMANCE_HINT";

Status check_request(const CompileRequest& request) {
  PENSTOCK_CHECK_OK(backend::check_on_cpu(request, "openvino"));
  if (request.precision == backend::Precision::kI8) {
    return make_error(Code::kUnimplemented,
                      "backend 'openvino' computes in f32, bf16 or f16; for int8 give it a "
                      "quantised model");
  }
  return {};
}

const char* name_of(backend::Precision precision) {
  switch (precision) {
    case backend::Precision::kBF16:
      return "bf16";
    case backend::Precision::kF16:
      return "f16";
    default:
      return "f32";
  }
}

/// CompileRequest::optimize has no meaning here: OpenVINO has no mode without graph optimisation.
/// The reference run is ONNX Runtime's.
std::map<std::string, std::string> properties_for(const CompileRequest& request) {
  std::map<std::string, std::string> properties = request.options;
  // Left to itself, OpenVINO computes in bf16 where the processor can.
  properties.emplace("INFERENCE_PRECISION_HINT", name_of(request.precision));
  properties.emplace("EXECUTION_MODE_HINT", "ACCURACY");
  // Its own int8 kernels round a quantised network otherwise than the file says: as far off as
  // bf16.
  if (request.precision == backend::Precision::kF32) properties.emplace("LP_TRANSFORMS_MODE", "NO");
  if (properties.contains(kPerformanceHint)) return properties;
  // One stream computes on the thread that calls. Pinning would widen that thread's mask.
  properties.emplace("NUM_STREAMS", "1");
  properties.emplace("INFERENCE_NUM_THREADS", std::to_string(request.threads));
  properties.emplace("ENABLE_CPU_PINNING", "NO");
  return properties;
}

Result<Handle<ov_model_t>> read_model(const Engine& engine, const CompileRequest& request) {
  ov_model_t* raw = nullptr;
  auto read = engine.check(
      request.file.empty()
          ? engine.api.ov_core_read_model_from_memory_buffer(engine.core, request.bytes.data(),
                                                             request.bytes.size(), nullptr, &raw)
          : engine.api.ov_core_read_model(engine.core, request.file.c_str(), nullptr, &raw));
  if (!read && !request.custom_ops.empty()) {
    return std::move(read).error().adding(
        "; what custom-operator libraries bring is run by 'onnxruntime' only");
  }
  PENSTOCK_CHECK_OK(read);
  return Handle<ov_model_t>(raw, {engine.api.ov_model_free});
}

/// The option that OpenVINO's text complains of, if it does.
Error blame_option(Error error, const CompileRequest& request) {
  for (const auto& [key, value] : request.options) {
    if (error.reason.find(key) == error.reason.npos) continue;  // OpenVINO's words, not ours.
    error.code = Code::kInvalidArgument;
    return std::move(error).within(concat("backend option 'openvino:", key, "' = '", value, "'"));
  }
  return error;
}

using CountFunction = decltype(Api::ov_compiled_model_inputs_size);
using PortFunction = decltype(Api::ov_compiled_model_input_by_index);

Result<std::size_t> count_ports(const Engine& engine, const ov_compiled_model_t* model,
                                CountFunction count_of) {
  std::size_t count = 0;
  PENSTOCK_CHECK_OK(engine.check(count_of(model, &count)));
  return count;
}

Result<std::vector<PortHandle>> ports_by_index(const Engine& engine,
                                               const ov_compiled_model_t* model, std::size_t count,
                                               PortFunction port_of) {
  std::vector<PortHandle> ports;
  for (std::size_t i = 0; i < count; ++i) {
    ov_output_const_port_t* raw = nullptr;
    PENSTOCK_CHECK_OK(engine.check(port_of(model, i, &raw)));
    ports.push_back({raw, {engine.api.ov_output_const_port_free}});
  }
  return ports;
}

/// OpenVINO leaves out inputs that it has no use for, and may name one by a copy of it.
Result<std::vector<PortHandle>> input_ports(const Engine& engine, const ov_compiled_model_t* model,
                                            const std::vector<backend::Port>& inputs) {
  const Api& api = engine.api;
  PENSTOCK_TRY(const auto count, count_ports(engine, model, api.ov_compiled_model_inputs_size));
  if (count == inputs.size()) {
    return ports_by_index(engine, model, count, api.ov_compiled_model_input_by_index);
  }
  std::vector<PortHandle> ports;
  std::size_t named = 0;
  for (const auto& input : inputs) {
    ov_output_const_port_t* raw = nullptr;
    const auto found = api.ov_compiled_model_input_by_name(model, input.name.c_str(), &raw);
    ports.push_back({found == OK ? raw : nullptr, {api.ov_output_const_port_free}});
    if (found == OK) ++named;
  }
  if (named != count) {
    return make_error(Code::kUnimplemented, "OpenVINO keeps ", count, " of the model's ",
                      counted(inputs.size(), "input"), " and the names of ", named, " only");
  }
  return ports;
}

Result<std::vector<PortHandle>> output_ports(const Engine& engine, const ov_compiled_model_t* model,
                                             std::size_t expected) {
  const Api& api = engine.api;
  PENSTOCK_TRY(const auto count, count_ports(engine, model, api.ov_compiled_model_outputs_size));
  if (count != expected) {
    return internal_error("OpenVINO makes ", counted(count, "output"), " of the model's ",
                          expected);
  }
  return ports_by_index(engine, model, count, api.ov_compiled_model_output_by_index);
}

/// What OpenVINO knows of a dimension, else what the file says of it.
Dim merge(const ov_dimension_t& engine, const Type& file, std::size_t axis, std::size_t rank) {
  if (engine.min == engine.max) return {engine.min, {}, Dim::kOpen};
  if (file.ranked && file.dims.size() == rank) return file.dims[axis];
  return {};
}

bool is_fixed(const ov_partial_shape_t& shape) {
  if (shape.rank.min != shape.rank.max) return false;
  return std::all_of(shape.dims, shape.dims + shape.rank.min,
                     [](const ov_dimension_t& dim) { return dim.min == dim.max; });
}

/// Completes `port`, which has the file's type. \returns whether the shape is OpenVINO's own.
Result<bool> complete(const Engine& engine, const ov_output_const_port_t* port,
                      backend::Port& ours) {
  ov_element_type_e element = DYNAMIC;
  PENSTOCK_CHECK_OK(engine.check(engine.api.ov_port_get_element_type(port, &element)));
  Type type = Type::tensor(from_engine(element), std::vector<Dim>());
  if (ours.type.kind != Type::Kind::kTensor || type.dtype != ours.type.dtype) {
    return make_error(Code::kUnimplemented, "tensor '", ours.name, "' (", ours.type,
                      "): OpenVINO passes plain tensors only");
  }
  ov_partial_shape_t shape{};
  PENSTOCK_CHECK_OK(engine.check(engine.api.ov_port_get_partial_shape(port, &shape)));
  const bool fixed = is_fixed(shape);
  if (shape.rank.min == shape.rank.max) {
    const auto rank = static_cast<std::size_t>(shape.rank.min);
    for (std::size_t i = 0; i < rank; ++i) {
      type.dims.push_back(merge(shape.dims[i], ours.type, i, rank));
    }
    ours.type = std::move(type);
  }
  engine.api.ov_partial_shape_free(&shape);
  return fixed;
}

Status complete_ports(Model& model) {
  const Compiled& compiled = *model.first;
  for (std::size_t i = 0; i < model.inputs.size(); ++i) {
    if (compiled.inputs[i] == nullptr) continue;
    PENSTOCK_TRY([[maybe_unused]] const bool fixed,
                 complete(*model.engine, compiled.inputs[i].get(), model.inputs[i]));
  }
  for (std::size_t i = 0; i < model.outputs.size(); ++i) {
    PENSTOCK_TRY(const bool fixed,
                 complete(*model.engine, compiled.outputs[i].get(), model.outputs[i]));
    model.open_outputs.push_back(!fixed);
    model.any_open_output = model.any_open_output || !fixed;
    auto& dims = model.output_dims.emplace_back();
    if (!fixed) continue;
    for (const Dim& dim : model.outputs[i].type.dims) dims.push_back(dim.size);
  }
  return {};
}

int optimal_contexts(const Engine& engine, const ov_compiled_model_t* model) {
  char* text = nullptr;
  int count = 1;
  if (engine.api.ov_compiled_model_get_property(model, "OPTIMAL_NUMBER_OF_INFER_REQUESTS", &text) !=
      OK) {
    return count;
  }
  const std::string_view digits = text;
  std::from_chars(digits.data(), digits.data() + digits.size(), count);
  engine.api.ov_free(text);
  return std::max(count, 1);
}

std::vector<backend::Port> ports_of(const std::vector<graph::Interface::Entry>& entries) {
  std::vector<backend::Port> ports;
  ports.reserve(entries.size());
  for (const auto& entry : entries) ports.push_back({entry.name, entry.type});
  return ports;
}

Status fill(Model& model, const CompileRequest& request, std::shared_ptr<WorkerPool> pool) {
  PENSTOCK_TRY(const auto interface, request.file.empty()
                                         ? graph::read_interface_bytes(request.bytes)
                                         : graph::read_interface(request.file));
  model.inputs = ports_of(interface.inputs);
  model.outputs = ports_of(interface.outputs);
  const auto properties = properties_for(request);
  model.properties.assign(properties.begin(), properties.end());
  model.own_threads = request.options.contains(kPerformanceHint);
  constexpr int kIdle = 3;  // That hand work on; the others compute, or tell that it is done.
  model.most_threads = 2 * request.threads + kIdle;
  if (request.threads > 1 && !model.own_threads) model.pool = std::move(pool);
  PENSTOCK_TRY(model.source, read_model(*model.engine, request));
  PENSTOCK_TRY(model.first, compile_source(model));
  if (model.own_threads) {
    model.recommended_contexts = optimal_contexts(*model.engine, model.first->model.get());
  }
  PENSTOCK_CHECK_OK(complete_ports(model));
  const auto fixed = [](const backend::Port& port) {
    return port.type.ranked && std::ranges::all_of(port.type.dims, &Dim::fixed);
  };
  model.requests_share = model.own_threads && std::ranges::all_of(model.inputs, fixed);
  return {};
}

}  // namespace

std::vector<backend::Precision> lower_precisions(const Engine& engine) {
  char* text = nullptr;
  if (engine.api.ov_core_get_property(engine.core, kDevice, "OPTIMIZATION_CAPABILITIES", &text) !=
      OK) {
    return {};
  }
  const std::string capabilities = concat(" ", text, " ");
  engine.api.ov_free(text);
  std::vector<backend::Precision> precisions;
  for (const auto precision : {backend::Precision::kBF16, backend::Precision::kF16}) {
    const auto* const theirs = precision == backend::Precision::kBF16 ? " BF16 " : " FP16 ";
    if (capabilities.find(theirs) != capabilities.npos) precisions.push_back(precision);
  }
  return precisions;
}

Result<std::shared_ptr<const Model>> compile_model(std::shared_ptr<const Engine> engine,
                                                   const CompileRequest& request,
                                                   std::shared_ptr<WorkerPool> pool) {
  PENSTOCK_CHECK_OK(check_request(request));
  if (auto refused = refuse_nodes(request); !refused) {
    return backend::in_model(std::move(refused).error(), request);
  }
  auto model = std::make_shared<Model>();
  model->engine = std::move(engine);
  auto filled = fill(*model, request, std::move(pool));
  if (filled) return std::shared_ptr<const Model>(std::move(model));
  Error error = blame_option(std::move(filled).error(), request);
  // ONNX's own checks are passed where a model comes from a package: what is left is OpenVINO's.
  if (error.code == Code::kUnknown) error.code = Code::kUnimplemented;
  return backend::in_model(std::move(error), request);
}

Result<std::shared_ptr<const Compiled>> compile_source(const Model& model) {
  const backend::KeptFloatingPointMode kept;
  const Engine& engine = *model.engine;
  std::vector<ov_property_t> properties;
  properties.reserve(model.properties.size());
  for (const auto& [key, value] : model.properties) {
    properties.push_back({key.c_str(), value.c_str()});
  }
  PENSTOCK_CHECK_OK(check_threads_left(model.most_threads));
  auto compiled = std::make_shared<Compiled>();
  std::shared_ptr<WorkerPool::Claim> claim;
  if (model.pool != nullptr) {
    PENSTOCK_TRY(claim, WorkerPool::claim(model.pool));
  }
  if (!model.own_threads) compiled->threads = std::make_unique<Watch>(std::move(claim));
  ov_compiled_model_t* raw = nullptr;
  PENSTOCK_CHECK_OK(engine.check(engine.api.ov_core_compile_model_props(
      engine.core, model.source.get(), kDevice, properties.size(), properties.data(), &raw)));
  compiled->model = {raw, {engine.api.ov_compiled_model_free}};
  if (compiled->threads != nullptr) compiled->threads->confine();
  PENSTOCK_TRY(compiled->inputs, input_ports(engine, raw, model.inputs));
  PENSTOCK_TRY(compiled->outputs, output_ports(engine, raw, model.outputs.size()));
  return std::shared_ptr<const Compiled>(std::move(compiled));
}

}  // namespace penstock::openvino
