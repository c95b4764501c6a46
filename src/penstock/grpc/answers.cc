// Fills the Open Inference Protocol's messages field by field; reads the parameters of a load.
#include "penstock/grpc/answers.h"

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "penstock/base/version.h"
#include "penstock/serve/extensions.h"
#include "penstock/tensor/datatype.h"

namespace penstock::grpc {
namespace {

void answer(const serve::Duration& duration, inference::StatisticDuration& response) {
  response.set_count(duration.count);
  response.set_ns(duration.ns);
}

inference::DataType data_type_of(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return inference::TYPE_BOOL;
    case DType::kU8:
      return inference::TYPE_UINT8;
    case DType::kU16:
      return inference::TYPE_UINT16;
    case DType::kU32:
      return inference::TYPE_UINT32;
    case DType::kU64:
      return inference::TYPE_UINT64;
    case DType::kI8:
      return inference::TYPE_INT8;
    case DType::kI16:
      return inference::TYPE_INT16;
    case DType::kI32:
      return inference::TYPE_INT32;
    case DType::kI64:
      return inference::TYPE_INT64;
    case DType::kF16:
      return inference::TYPE_FP16;
    case DType::kF32:
      return inference::TYPE_FP32;
    case DType::kF64:
      return inference::TYPE_FP64;
    case DType::kString:
      return inference::TYPE_STRING;
    case DType::kBF16:
      return inference::TYPE_BF16;
    default:
      return inference::TYPE_INVALID;
  }
}

template <typename Messages>
void describe_all(const std::vector<serve::TensorDescription>& tensors, Messages& messages) {
  for (const auto& tensor : tensors) {
    auto& message = *messages.Add();
    message.set_name(tensor.name);
    message.set_datatype(std::string(datatype_of(tensor.dtype)));
    for (const auto dim : tensor.dims) message.add_shape(dim);
  }
}

template <typename Messages>
void configure_all(const std::vector<serve::TensorDescription>& tensors, Messages& messages) {
  for (const auto& tensor : tensors) {
    auto& message = *messages.Add();
    message.set_name(tensor.name);
    message.set_data_type(data_type_of(tensor.dtype));
    for (const auto dim : tensor.dims) message.add_dims(dim);
  }
}

}  // namespace

void answer(inference::ServerMetadataResponse& response) {
  response.set_name(serve::kServerName);
  response.set_version(std::string(version()));
  for (const auto extension : serve::kExtensions) response.add_extensions(extension);
}

void answer(const serve::ModelDescription& model, inference::ModelMetadataResponse& response) {
  response.set_name(model.name);
  for (const auto& number : model.versions) response.add_versions(number);
  response.set_platform(serve::kPlatform);
  describe_all(model.inputs, *response.mutable_inputs());
  describe_all(model.outputs, *response.mutable_outputs());
}

void answer(const serve::ModelDescription& model, inference::ModelConfig& config) {
  config.set_name(model.name);
  config.set_platform(serve::kPlatform);
  config.set_backend(serve::kPlatform);
  config.set_max_batch_size(0);
  configure_all(model.inputs, *config.mutable_input());
  configure_all(model.outputs, *config.mutable_output());
  if (model.has_states) config.mutable_sequence_batching();
}

void answer(const serve::ModelStatistics& statistics, inference::ModelStatistics& response) {
  response.set_name(statistics.name);
  response.set_version(statistics.version);
  response.set_last_inference(statistics.last_inference_ms);
  response.set_inference_count(statistics.inferences);
  response.set_execution_count(statistics.executions);
  auto& requests = *response.mutable_inference_stats();
  answer(statistics.success, *requests.mutable_success());
  answer(statistics.fail, *requests.mutable_fail());
  answer(statistics.queue, *requests.mutable_queue());
  answer(statistics.compute_input, *requests.mutable_compute_input());
  answer(statistics.compute_infer, *requests.mutable_compute_infer());
  answer(statistics.compute_output, *requests.mutable_compute_output());
  requests.mutable_cache_hit();
  requests.mutable_cache_miss();
  for (const auto& batch : statistics.batches) {
    auto& message = *response.add_batch_stats();
    message.set_batch_size(batch.batch_size);
    answer(batch.compute_input, *message.mutable_compute_input());
    answer(batch.compute_infer, *message.mutable_compute_infer());
    answer(batch.compute_output, *message.mutable_compute_output());
  }
  auto& memory = *response.add_memory_usage();
  memory.set_type("CPU");
  memory.set_byte_size(statistics.memory_bytes);
}

void answer(const serve::IndexEntry& entry, inference::RepositoryIndexResponse::ModelIndex& index) {
  index.set_name(entry.name);
  index.set_version(entry.version);
  index.set_state(entry.state);
  index.set_reason(entry.reason);
}

void answer(inference::TraceSettingResponse& response) {
  for (const auto& [name, value] : serve::kTraceSettings) {
    (*response.mutable_settings())[std::string(name)].add_value(std::string(value));
  }
}

void answer(inference::LogSettingsResponse& response) {
  auto& settings = *response.mutable_settings();
  settings["log_info"].set_bool_param(true);
  settings["log_warning"].set_bool_param(true);
  settings["log_error"].set_bool_param(true);
  settings["log_verbose_level"].set_uint32_param(0);
  settings["log_file"].set_string_param("");
  settings["log_format"].set_string_param("default");
}

namespace {

/// Values that a constant may have beside a text.
std::optional<std::string> text_of(const inference::ModelRepositoryParameter& parameter) {
  if (parameter.has_string_param()) return parameter.string_param();
  if (parameter.has_int64_param()) return std::to_string(parameter.int64_param());
  if (parameter.has_bool_param()) return parameter.bool_param() ? "true" : "false";
  return std::nullopt;
}

}  // namespace

Result<serve::LoadOptions> read_load(inference::RepositoryModelLoadRequest request) {
  constexpr std::string_view kFile = "file:", kConstant = "constant:", kState = "state:";
  serve::LoadOptions options;
  const auto wrong_kind = [](const std::string& name, const char* expected) {
    return invalid_argument("invalid value type for load parameter '", name.substr(0, 128),
                            "', expected ", expected, ".");
  };
  for (auto& [name, parameter] : *request.mutable_parameters()) {
    if (name == "config") {
      if (!parameter.has_string_param()) return wrong_kind(name, "string_param");
      options.config = std::move(*parameter.mutable_string_param());
    } else if (name.starts_with(kFile)) {
      if (!parameter.has_bytes_param()) return wrong_kind(name, "bytes_param");
      options.files[name.substr(kFile.size())] = std::move(*parameter.mutable_bytes_param());
    } else if (name.starts_with(kConstant)) {
      auto text = text_of(parameter);
      if (!text) return wrong_kind(name, "string_param, int64_param or bool_param");
      options.constants[name.substr(kConstant.size())] = *std::move(text);
    } else if (name.starts_with(kState)) {
      if (!parameter.has_string_param()) return wrong_kind(name, "string_param");
      options.states[name.substr(kState.size())] = std::move(*parameter.mutable_string_param());
    } else {
      return invalid_argument("unrecognized load parameter '", name.substr(0, 128), "'.");
    }
  }
  return options;
}

}  // namespace penstock::grpc
