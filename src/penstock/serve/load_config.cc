// Reads a configuration field by field; what a pipeline has its own answer to is refused by name.
#include "penstock/serve/load_config.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "penstock/base/nesting.h"
#include "penstock/base/words.h"
#include "penstock/tensor/datatype.h"

namespace penstock::serve {
namespace {

using nlohmann::json;

constexpr const char* kConfig = "load parameter 'config': ";

constexpr std::array kObeyed = {"name",
                                "platform",
                                "backend",
                                "input",
                                "output",
                                "max_batch_size",
                                "version_policy",
                                "default_model_filename",
                                "sequence_batching"};

struct Refused {
  const char* field;
  const char* instead;
};

/// Others that a ModelConfig may have. Empty they ask for nothing, but for `kAsking`.
constexpr std::array kRefused = {
    Refused{"backend_config", "leave it out"},
    Refused{"batch_input", "leave it out"},
    Refused{"batch_output", "leave it out"},
    Refused{"cc_model_filenames", "leave it out"},
    Refused{"dynamic_batching", "frames share calls where a package has batches (split --batch)"},
    Refused{"ensemble_scheduling", "serve an application (.yaml) instead"},
    Refused{"instance_group",
            "how many replicas a stage has, and where, is the plan's: send a package"},
    Refused{"metric_tags", "leave it out"},
    Refused{"model_metrics", "leave it out"},
    Refused{"model_operations", "leave it out"},
    Refused{"model_repository_agents", "leave it out"},
    Refused{"model_transaction_policy", "leave it out"},
    Refused{"model_warmup", "leave it out: each stage computes once before it is served"},
    Refused{"optimization", "leave it out"},
    Refused{"parameters", "an engine's options are the plan's: send a package"},
    Refused{"response_cache", "leave it out"},
    Refused{"runtime", "leave it out"},
};

/// Messages that choose something by being there, empty too.
constexpr std::array kAsking = {"dynamic_batching", "ensemble_scheduling", "reshape"};

/// Of an input or output, beside those that are read.
constexpr std::array kOfTensors = {
    "format",   "reshape",        "is_shape_tensor",        "allow_ragged_batch",
    "optional", "label_filename", "is_non_linear_format_io"};

/// JSON of protobuf may have names as "maxBatchSize".
std::string name_of_field(std::string_view key) {
  std::string name;
  for (const char letter : key) {
    const bool upper = letter >= 'A' && letter <= 'Z';
    if (upper) name += '_';
    name += upper ? static_cast<char>(letter - 'A' + 'a') : letter;
  }
  return name;
}

json with_names_of_fields(const json& config) {
  json named = json::object();
  for (const auto& [key, value] : config.items()) named[name_of_field(key)] = value;
  return named;
}

/// Null where it is no JSON. \error  an object has a field twice, of which another reader may take
/// the other one.
Result<json> parse(const std::string& text) {
  std::vector<std::set<std::string>> open;  // The fields of each object that is read.
  std::string twice;
  const auto look = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) open.emplace_back();
    if (event == json::parse_event_t::object_end) open.pop_back();
    if (event != json::parse_event_t::key) return true;
    const auto& key = parsed.get_ref<const std::string&>();
    if (!open.back().insert(name_of_field(key)).second && twice.empty()) twice = key;
    return true;
  };
  json parsed = json::parse(text, look, false);
  if (parsed.is_discarded()) return json();
  if (twice.empty()) return parsed;
  return invalid_argument(kConfig, "'", twice.substr(0, 64), "': expected it once, found it twice");
}

/// Values of an enum, as protobuf's JSON is read here, go by their letters, small or large.
std::string in_capitals(std::string text) {
  for (char& letter : text) {
    if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  }
  return text;
}

bool asks_nothing(const std::string& field, const json& value) {
  if (std::ranges::find(kAsking, field) != kAsking.end()) return value.is_null();
  if (value.is_string() && in_capitals(value.get<std::string>()) == "FORMAT_NONE") return true;
  return value.empty() || value == "" || value == false;
}

Status check_fields(const json& config) {
  for (const auto& [key, value] : config.items()) {
    if (std::ranges::find(kObeyed, key) != kObeyed.end()) continue;
    const auto refused =
        std::ranges::find_if(kRefused, [&](const auto& one) { return key == one.field; });
    if (refused == kRefused.end()) {
      return invalid_argument(kConfig, "unknown field '", key.substr(0, 64), "'; known are ",
                              join(kObeyed, ", "));
    }
    if (asks_nothing(key, value)) continue;
    return make_error(Code::kUnimplemented, kConfig, "'", key,
                      "' is not supported: ", refused->instead);
  }
  const auto batch = config.find("max_batch_size");
  if (batch == config.end() || (batch->is_number_integer() && *batch == 0)) return {};
  return invalid_argument(kConfig, "max_batch_size: expected 0, found ", batch->dump(),
                          ": frames share calls where a package's plan says so");
}

Error wrong_kind(const std::string& field, const char* expected, const json& found) {
  return invalid_argument(kConfig, "'", field, "': expected ", expected, ", found ",
                          found.type_name());
}

/// Empty where it is not there.
Result<std::string> text_at(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return std::string();
  if (found->is_string()) return found->get<std::string>();
  return wrong_kind(key, "a string", *found);
}

/// What a client names describes the files that it sends; it chooses no engine.
template <typename Known>
Status check_kind(const json& config, const char* field, const Known& known) {
  PENSTOCK_TRY(const auto found, text_at(config, field));
  if (found.empty() || std::ranges::find(known, found) != known.end()) return {};
  return invalid_argument(kConfig, field, ": expected ", join(known, " or "), ", found '",
                          found.substr(0, 64), "'");
}

/// JSON of protobuf writes 64 bits as text too.
Result<std::uint64_t> count_of(const json& value, const char* field) {
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  const auto digits = value.is_string() ? value.get<std::string>() : std::string();
  const bool is_count = !digits.empty() && digits.size() < 19 &&
                        digits.find_first_not_of("0123456789") == std::string::npos;
  if (is_count) return std::uint64_t{std::stoull(digits)};
  return invalid_argument(kConfig, "'", field, "': expected a number such as 1, found ",
                          value.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 64));
}

Status read_specific(const json& policy, LoadConfig& to) {
  const auto versions = policy.find("versions");
  if (versions == policy.end() || !versions->is_array() || versions->empty()) {
    return invalid_argument(kConfig,
                            "'version_policy': specific: expected {\"versions\": [1, ...]}");
  }
  to.only.emplace();
  for (const auto& version : *versions) {
    PENSTOCK_TRY(const auto number, count_of(version, "version_policy"));
    to.only->insert(number);
  }
  return {};
}

Status read_latest(const json& policy, LoadConfig& to) {
  to.latest = 1;
  if (const auto found = policy.find("num_versions"); found != policy.end()) {
    PENSTOCK_TRY(to.latest, count_of(*found, "version_policy"));
  }
  if (*to.latest > 0) return {};
  return invalid_argument(kConfig, "'version_policy': latest: expected num_versions from 1 on");
}

Status read_version_policy(const json& config, LoadConfig& to) {
  const auto found = config.find("version_policy");
  if (found == config.end() || found->is_null()) return {};
  if (!found->is_object()) return wrong_kind("version_policy", "an object", *found);
  if (found->empty()) return {};
  const auto& kind = found->begin().key();
  if (found->size() == 1 && found->begin().value().is_object()) {
    const json policy = with_names_of_fields(found->begin().value());
    const auto has_only = [&](const char* field) {
      return policy.empty() || (policy.size() == 1 && policy.contains(field));
    };
    if (kind == "all" && policy.empty()) return {};
    if (kind == "latest" && has_only("num_versions")) return read_latest(policy, to);
    if (kind == "specific" && has_only("versions")) return read_specific(policy, to);
  }
  return invalid_argument(kConfig,
                          "'version_policy': expected {\"all\": {}}, {\"latest\": "
                          "{\"num_versions\": 1}} or {\"specific\": {\"versions\": [1]}}");
}

Result<std::optional<DType>> read_data_type(const json& tensor) {
  constexpr std::string_view kType = "TYPE_";
  PENSTOCK_TRY(const auto given, text_at(tensor, "data_type"));
  const auto text = in_capitals(given);
  if (text.empty()) return std::optional<DType>();
  if (text == "TYPE_STRING") return std::optional(DType::kString);
  auto dtype = text.starts_with(kType)
                   ? parse_datatype(std::string_view(text).substr(kType.size()))
                   : Result<DType>(invalid_argument("expected one such as TYPE_FP32"));
  if (dtype) return std::optional(*dtype);
  return invalid_argument(kConfig, "'data_type': expected one such as TYPE_FP32, found '",
                          given.substr(0, 64), "'");
}

Result<ConfiguredTensor> read_tensor(const json& given, const char* field) {
  if (!given.is_object()) return wrong_kind(field, "objects", given);
  const json tensor = with_names_of_fields(given);
  ConfiguredTensor made;
  PENSTOCK_TRY(made.name, text_at(tensor, "name"));
  PENSTOCK_TRY(made.dtype, read_data_type(tensor));
  for (const auto& [key, value] : tensor.items()) {
    if (key == "name" || key == "data_type" || key == "dims") continue;
    if (std::ranges::find(kOfTensors, key) == kOfTensors.end()) {
      return invalid_argument(kConfig, "'", field, "' '", made.name.substr(0, 64),
                              "': unknown field '", key.substr(0, 64),
                              "'; known are name, data_type, dims");
    }
    if (asks_nothing(key, value)) continue;
    return make_error(Code::kUnimplemented, kConfig, "'", field, "' '", made.name.substr(0, 64),
                      "': '", key, "' is not supported: leave it out");
  }
  const auto dims = tensor.find("dims");
  if (dims == tensor.end()) return made;
  if (!dims->is_array()) return wrong_kind("dims", "an array", *dims);
  made.dims.emplace();
  for (const auto& dim : *dims) {
    if (dim.is_number_integer() && dim == -1) {
      made.dims->push_back(-1);
      continue;
    }
    PENSTOCK_TRY(const auto size, count_of(dim, "dims"));
    made.dims->push_back(static_cast<std::int64_t>(size));
  }
  return made;
}

Status read_tensors(const json& config, const char* field, std::vector<ConfiguredTensor>& to) {
  const auto found = config.find(field);
  if (found == config.end() || found->is_null()) return {};
  if (!found->is_array()) return wrong_kind(field, "an array", *found);
  for (const auto& tensor : *found) {
    PENSTOCK_TRY(auto read, read_tensor(tensor, field));
    to.push_back(std::move(read));
  }
  return {};
}

/// It is there for a model whose requests of one sequence share states; such a model has no more
/// to say.
Status read_sequences(const json& config, LoadConfig& to) {
  const auto found = config.find("sequence_batching");
  if (found == config.end() || found->is_null()) return {};
  to.sequences = found->is_object() && found->empty();
  if (to.sequences) return {};
  return make_error(Code::kUnimplemented, kConfig,
                    "'sequence_batching' is not supported: expected {}, of a model with states, "
                    "which are bound by the load parameter 'state:OUT', or by a package");
}

bool fits(const Type& type, const ConfiguredTensor& wanted) {
  if (wanted.dtype && *wanted.dtype != type.dtype) return false;
  if (!wanted.dims || !type.ranked) return true;
  return std::ranges::equal(*wanted.dims, type.dims, [](std::int64_t size, const Dim& dim) {
    return dim.fixed() ? size == dim.size : size == -1;
  });
}

std::string shown(const ConfiguredTensor& tensor) {
  std::string text = tensor.dtype ? concat("TYPE_", datatype_of(*tensor.dtype)) : "any type";
  if (!tensor.dims) return text;
  std::vector<std::string> sizes;
  for (const auto size : *tensor.dims) sizes.push_back(std::to_string(size));
  return concat(text, "[", join(sizes, ","), "]");
}

Status check_side(const std::vector<ConfiguredTensor>& wanted, const char* field,
                  const std::vector<plan::TensorInfo>& there) {
  for (const auto& tensor : wanted) {
    const auto found = std::ranges::find(there, tensor.name, &plan::TensorInfo::name);
    if (found == there.end()) {
      return invalid_argument(kConfig, field, " '", tensor.name.substr(0, 64),
                              "' is none of the model's: ", quoted_names(there));
    }
    if (fits(found->type, tensor)) continue;
    return invalid_argument(kConfig, field, " '", tensor.name, "': the model has ", found->type,
                            ", the configuration ", shown(tensor),
                            "; write what it has (-1: any size), or leave it out");
  }
  return {};
}

}  // namespace

Result<LoadConfig> read_config(const std::string& model, const std::string& text) {
  if (Status fits = check_nesting(text); !fits) {
    return invalid_argument(kConfig, fits.error().reason);
  }
  PENSTOCK_TRY(const json parsed, parse(text));
  if (!parsed.is_object()) return invalid_argument(kConfig, "expected a JSON object");
  const json config = with_names_of_fields(parsed);
  PENSTOCK_CHECK_OK(check_fields(config));
  PENSTOCK_TRY(const auto name, text_at(config, "name"));
  if (!name.empty() && name != model) {
    return invalid_argument(kConfig, "it is of model '", name.substr(0, 64), "', expected '", model,
                            "'");
  }
  PENSTOCK_CHECK_OK(check_kind(config, "platform", std::array{"penstock", "onnxruntime_onnx"}));
  PENSTOCK_CHECK_OK(check_kind(config, "backend", std::array{"penstock", "onnxruntime"}));
  LoadConfig read;
  PENSTOCK_TRY(read.file, text_at(config, "default_model_filename"));
  PENSTOCK_CHECK_OK(read_version_policy(config, read));
  PENSTOCK_CHECK_OK(read_tensors(config, "input", read.inputs));
  PENSTOCK_CHECK_OK(read_tensors(config, "output", read.outputs));
  PENSTOCK_CHECK_OK(read_sequences(config, read));
  return read;
}

Result<std::set<std::uint64_t>> choose_versions(const LoadConfig& config,
                                                const std::set<std::uint64_t>& there) {
  if (config.only) {
    for (const auto version : *config.only) {
      if (there.contains(version)) continue;
      return invalid_argument(kConfig, "'version_policy': version ", version,
                              " is none of the model's: ",
                              join(there, ", ", [](auto number) { return concat(number); }));
    }
    return *config.only;
  }
  auto chosen = there;
  while (config.latest && chosen.size() > *config.latest) chosen.erase(chosen.begin());
  return chosen;
}

Status check_plan(const LoadConfig& config, const plan::Plan& plan) {
  if (config.sequences && plan.states.empty()) {
    return invalid_argument(kConfig,
                            "'sequence_batching': the model has no states, which requests of one "
                            "sequence would share: bind them by the load parameter 'state:OUT', or "
                            "leave it out");
  }
  PENSTOCK_CHECK_OK(check_side(config.inputs, "input", plan.inputs));
  return check_side(config.outputs, "output", plan.outputs);
}

}  // namespace penstock::serve
