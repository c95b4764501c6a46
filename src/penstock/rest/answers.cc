// Writes JSON with nlohmann::json, maps errors to HTTP statuses, reads bodies of loads and regions.
#include "penstock/rest/answers.h"

#include <cstdint>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "penstock/base/version.h"
#include "penstock/http/base64.h"
#include "penstock/rest/json.h"
#include "penstock/serve/extensions.h"
#include "penstock/serve/told_outside.h"
#include "penstock/tensor/datatype.h"

namespace penstock::rest {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json tensors_json(const std::vector<serve::TensorDescription>& tensors) {
  Json all = Json::array();
  for (const auto& tensor : tensors) {
    all.push_back(
        {{"name", tensor.name}, {"datatype", datatype_of(tensor.dtype)}, {"shape", tensor.dims}});
  }
  return all;
}

Json configured(const std::vector<serve::TensorDescription>& tensors) {
  Json all = Json::array();
  for (const auto& tensor : tensors) {
    const std::string_view name =
        tensor.dtype == DType::kString ? "STRING" : datatype_of(tensor.dtype);
    all.push_back(
        {{"name", tensor.name}, {"data_type", concat("TYPE_", name)}, {"dims", tensor.dims}});
  }
  return all;
}

Json to_json(const serve::Duration& duration) {
  return {{"count", duration.count}, {"ns", duration.ns}};
}

Json to_json(const serve::ModelStatistics& model) {
  const Json none = to_json(serve::Duration{});
  Json batches = Json::array();
  for (const auto& batch : model.batches) {
    batches.push_back({{"batch_size", batch.batch_size},
                       {"compute_input", to_json(batch.compute_input)},
                       {"compute_infer", to_json(batch.compute_infer)},
                       {"compute_output", to_json(batch.compute_output)}});
  }
  return {{"name", model.name},
          {"version", model.version},
          {"last_inference", model.last_inference_ms},
          {"inference_count", model.inferences},
          {"execution_count", model.executions},
          {"inference_stats",
           {{"success", to_json(model.success)},
            {"fail", to_json(model.fail)},
            {"queue", to_json(model.queue)},
            {"compute_input", to_json(model.compute_input)},
            {"compute_infer", to_json(model.compute_infer)},
            {"compute_output", to_json(model.compute_output)},
            {"cache_hit", none},
            {"cache_miss", none}}},
          {"response_stats", Json::object()},
          {"batch_stats", std::move(batches)},
          {"memory_usage",
           Json::array({{{"type", "CPU"}, {"id", 0}, {"byte_size", model.memory_bytes}}})}};
}

Status read_load_parameter(std::string_view name, const Element& element,
                           serve::LoadOptions& options) {
  constexpr std::string_view kFile = "file:", kConstant = "constant:", kState = "state:";
  std::string_view text;
  const bool is_file = name.starts_with(kFile), is_constant = name.starts_with(kConstant);
  const bool is_state = name.starts_with(kState);
  if (!is_file && !is_constant && !is_state && name != "config") {
    return invalid_argument("unrecognized load parameter '", name.substr(0, 128), "'.");
  }
  const bool is_text = element.get(text) == simdjson::SUCCESS;
  if (is_constant && !element.is_object() && !element.is_null()) {
    auto& constant = options.constants[std::string(name.substr(kConstant.size()))];
    constant = is_text ? std::string(text) : simdjson::minify(element);
    return {};
  }
  if (!is_text) {
    return invalid_argument("load parameter '", name.substr(0, 128), "': expected a string, found ",
                            kind_of(element));
  }
  if (is_state) options.states[std::string(name.substr(kState.size()))] = text;
  if (name == "config") options.config = text;
  if (!is_file) return {};
  auto bytes = http::decode_base64(text);
  if (!bytes) {
    return invalid_argument("load parameter '", name.substr(0, 128), "': it is not base64");
  }
  options.files[std::string(name.substr(kFile.size()))] = *std::move(bytes);
  return {};
}

}  // namespace

int status_of(Code code) {
  switch (code) {
    case Code::kUnauthenticated:
      return 401;
    case Code::kPermissionDenied:
      return 403;
    case Code::kNotFound:
      return 404;
    case Code::kResourceExhausted:
      return 429;
    case Code::kUnimplemented:
      return 501;
    case Code::kUnavailable:
      return 503;
    case Code::kDeadlineExceeded:
      return 504;
    case Code::kInternal:  // What a client uploads may be corrupt: that is its own error.
      return 500;
    default:
      return 400;
  }
}

http::Response response_of(const Error& error) {
  auto response = http::error_response(status_of(error.code), serve::told_outside(error));
  if (response.status == 429 || response.status == 503) {
    response.headers.push_back({"Retry-After", "1"});
  }
  if (response.status == 401) {
    response.headers.push_back({"WWW-Authenticate", "Bearer realm=\"penstock\""});
  }
  return response;
}

std::string server_metadata() {
  return text_of(
      {{"name", serve::kServerName}, {"version", version()}, {"extensions", serve::kExtensions}});
}

std::string model_ready(const std::string& model) {
  return text_of({{"name", model}, {"ready", true}});
}

std::string model_metadata(const serve::ModelDescription& model) {
  return text_of({{"name", model.name},
                  {"versions", model.versions},
                  {"platform", serve::kPlatform},
                  {"inputs", tensors_json(model.inputs)},
                  {"outputs", tensors_json(model.outputs)}});
}

std::string model_config(const serve::ModelDescription& model) {
  Json config = {{"name", model.name},
                 {"platform", serve::kPlatform},
                 {"backend", serve::kPlatform},
                 {"max_batch_size", 0},
                 {"input", configured(model.inputs)},
                 {"output", configured(model.outputs)}};
  if (model.has_states) config["sequence_batching"] = Json::object();
  return text_of(config);
}

std::string statistics_json(const std::vector<serve::ModelStatistics>& models) {
  Json all = Json::array();
  for (const auto& model : models) all.push_back(to_json(model));
  return text_of({{"model_stats", std::move(all)}});
}

std::string index_json(const std::vector<serve::IndexEntry>& entries) {
  Json all = Json::array();
  for (const auto& entry : entries) {
    Json one = {{"name", entry.name}};
    if (!entry.version.empty()) one["version"] = entry.version;
    if (!entry.state.empty()) one["state"] = entry.state;
    one["reason"] = entry.reason;  // Empty too: the types of MLServer demand it.
    all.push_back(std::move(one));
  }
  return text_of(all);
}

std::string regions_json(const std::vector<serve::RegionInfo>& regions) {
  Json all = Json::array();
  for (const auto& region : regions) {
    all.push_back({{"name", region.name},
                   {"key", region.key},
                   {"offset", region.offset},
                   {"byte_size", region.byte_size}});
  }
  return text_of(all);
}

std::string trace_settings() {
  Json settings = Json::object();
  for (const auto& [name, value] : serve::kTraceSettings) settings[name] = value;
  settings["trace_level"] = Json::array({settings["trace_level"]});
  return text_of(settings);
}

std::string log_settings() {
  return text_of({{"log_file", ""},
                  {"log_info", true},
                  {"log_warning", true},
                  {"log_error", true},
                  {"log_verbose_level", 0},
                  {"log_format", "default"}});
}

Result<serve::LoadOptions> read_load(const http::Body& body) {
  serve::LoadOptions options;
  if (body.size == 0) return options;
  simdjson::dom::parser parser;
  PENSTOCK_TRY(const Object root, parse_object(parser, body.text()));
  PENSTOCK_TRY(const auto parameters, object_field(root, "parameters"));
  if (!parameters) return options;
  for (const auto [name, element] : *parameters) {
    PENSTOCK_CHECK_OK(read_load_parameter(name, element, options));
  }
  return options;
}

Result<bool> read_index(const http::Body& body) {
  if (body.size == 0) return false;
  simdjson::dom::parser parser;
  PENSTOCK_TRY(const Object root, parse_object(parser, body.text()));
  PENSTOCK_TRY(const auto ready, bool_field(root, "ready"));
  return ready.value_or(false);
}

Result<serve::RegionInfo> read_region(const http::Body& body, std::string name) {
  simdjson::dom::parser parser;
  PENSTOCK_TRY(const Object root, parse_object(parser, body.text()));
  serve::RegionInfo region{.name = std::move(name)};
  PENSTOCK_TRY(region.key, needed_string(root, "key"));
  PENSTOCK_TRY(const auto offset, number_field(root, "offset"));
  region.offset = offset.value_or(0);
  PENSTOCK_TRY(const auto size, number_field(root, "byte_size"));
  if (!size) return invalid_argument("expected an integer 'byte_size', found none");
  region.byte_size = *size;
  return region;
}

}  // namespace penstock::rest
