// Checks the configuration and the paths, writes the files, and finds the model in each version.
#include "penstock/serve/upload.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "penstock/base/files.h"
#include "penstock/plan/paths.h"

namespace penstock::serve {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Fields of the configuration that change nothing here: a pipeline has its own answers to them.
constexpr std::array kFields = {"name",
                                "platform",
                                "backend",
                                "input",
                                "output",
                                "max_batch_size",
                                "version_policy",
                                "parameters",
                                "instance_group",
                                "runtime",
                                "default_model_filename"};

struct Config {
  std::string file;  // Empty: none is named.
};

Result<std::string> text_at(const json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end()) return std::string();
  if (found->is_string()) return found->get<std::string>();
  return invalid_argument("load parameter 'config': '", key, "': expected a string, found ",
                          found->type_name());
}

/// Others that a ModelConfig may have. Empty they ask for nothing.
constexpr std::array kUnsupported = {"backend_config",
                                     "batch_input",
                                     "batch_output",
                                     "cc_model_filenames",
                                     "dynamic_batching",
                                     "ensemble_scheduling",
                                     "metric_tags",
                                     "model_metrics",
                                     "model_operations",
                                     "model_repository_agents",
                                     "model_transaction_policy",
                                     "model_warmup",
                                     "optimization",
                                     "response_cache",
                                     "sequence_batching"};

/// JSON of protobuf may have names as "maxBatchSize".
json with_names_of_fields(const json& config) {
  json named = json::object();
  for (const auto& [key, value] : config.items()) {
    std::string name;
    for (const char letter : key) {
      const bool upper = letter >= 'A' && letter <= 'Z';
      if (upper) name += '_';
      name += upper ? static_cast<char>(letter - 'A' + 'a') : letter;
    }
    named[name] = value;
  }
  return named;
}

Status check_fields(const json& config) {
  for (const auto& [key, value] : config.items()) {
    if (std::ranges::find(kFields, key) != kFields.end()) continue;
    if (std::ranges::find(kUnsupported, key) != kUnsupported.end()) {
      if (value.empty()) continue;
      return make_error(Code::kUnimplemented, "load parameter 'config': '", key,
                        "' is not supported: leave it out");
    }
    return invalid_argument("load parameter 'config': unknown field '", key.substr(0, 64),
                            "'; known are ", join(kFields, ", "));
  }
  const auto batch = config.find("max_batch_size");
  if (batch == config.end() || (batch->is_number_integer() && *batch == 0)) return {};
  return invalid_argument("load parameter 'config': max_batch_size: expected 0, found ",
                          batch->dump(), ": frames share calls where a package's plan says so");
}

Result<Config> read_config(const std::string& model, const std::string& text) {
  const json parsed = json::parse(text, nullptr, false);
  if (!parsed.is_object()) {
    return invalid_argument("load parameter 'config': expected a JSON object");
  }
  const json config = with_names_of_fields(parsed);
  PENSTOCK_CHECK_OK(check_fields(config));
  PENSTOCK_TRY(const auto name, text_at(config, "name"));
  if (!name.empty() && name != model) {
    return invalid_argument("load parameter 'config': it is of model '", name.substr(0, 64),
                            "', expected '", model, "'");
  }
  PENSTOCK_TRY(auto file, text_at(config, "default_model_filename"));
  return Config{std::move(file)};
}

struct Place {
  std::uint64_t version = 0;
  fs::path path;  // In the version's folder.
};

/// "VERSION/PATH", which stays within the folder.
Result<Place> parse_place(const std::string& text) {
  const auto wrong = [&] {
    return invalid_argument("load parameter 'file:", text.substr(0, 128),
                            "': expected VERSION/PATH within the model's folder, such as "
                            "file:1/model.onnx");
  };
  const auto slash = text.find('/');
  Place place;
  const char* end = text.data() + std::min(slash, text.size());
  const auto [stop, error] = std::from_chars(text.data(), end, place.version);
  if (slash == std::string::npos || slash == 0 || error != std::errc() || stop != end)
    return wrong();
  place.path = fs::path(text.substr(slash + 1));
  if (place.path.empty() || place.path.is_absolute() || !place.path.has_filename()) return wrong();
  if (text.find('\0') != std::string::npos) return wrong();
  for (const auto& part : place.path) {
    if (part == ".." || part == "." || part.empty()) return wrong();
  }
  return place;
}

Status write_file(const fs::path& path, const std::string& bytes) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!error && file) return {};
  return make_error(Code::kResourceExhausted, "the model cannot be kept: '",
                    path.filename().string(),
                    "' cannot be written to the temporary folder; is the disk full?");
}

/// What a version's folder is to be served as.
Result<fs::path> find_model(const fs::path& folder, const Config& config) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) files.push_back(entry.path());
  const auto has = [&](const fs::path& name) {
    return std::ranges::find(files, folder / name) != files.end();
  };
  if (!config.file.empty() && has(config.file)) return folder / config.file;
  if (!config.file.empty()) {
    return invalid_argument("load parameter 'config': default_model_filename '",
                            config.file.substr(0, 64), "' is none of the files");
  }
  if (has("plan.json")) return folder;
  if (has("model.onnx")) return folder / "model.onnx";
  if (files.size() == 1) return files.front();
  return invalid_argument("version ", folder.filename().string(),
                          ": which file is the model? Expected model.onnx, a package's plan.json, "
                          "or default_model_filename in 'config'");
}

}  // namespace

Status check_options(const std::map<std::string, std::string>& options) {
  for (const auto& [key, value] : options) {
    if (!plan::names_a_place(key, value)) continue;
    return make_error(Code::kPermissionDenied, "option '", key.substr(0, 64),
                      "' names a file or folder of this machine; leave it out, or start the server "
                      "with --allow-native-code");
  }
  return {};
}

Status check_model_name(const std::string& name) {
  const bool blank = name.find_first_not_of(" \t\n") == std::string::npos;
  const bool wrong = blank || name == "." || name == ".." || name.size() > 255 ||
                     name.find('/') != std::string::npos || name.find('\0') != std::string::npos;
  if (!wrong) return {};
  return invalid_argument("expected a model's name without '/', found '", name.substr(0, 64), "'");
}

Status check_config(const std::string& model, const std::string& text) {
  PENSTOCK_TRY(const auto config, read_config(model, text));
  if (config.file.empty()) return {};
  return invalid_argument(
      "load parameter 'config': default_model_filename names one of the files that a request "
      "brings, and this one brings none");
}

Result<Upload> write_upload(const std::string& model, const LoadOptions& options,
                            std::uint64_t most_bytes) {
  if (options.config.empty()) {
    return invalid_argument(
        "Load parameter 'config' must be specified for model file override: give at least {}");
  }
  PENSTOCK_TRY(const auto config, read_config(model, options.config));
  Upload upload;
  for (const auto& [name, bytes] : options.files) upload.bytes += bytes.size();
  if (upload.bytes > most_bytes) {
    return make_error(Code::kResourceExhausted, "the model has ", upload.bytes,
                      " bytes, but uploaded models may take ", most_bytes, " more; unload one");
  }
  std::vector<std::pair<Place, const std::string*>> places;
  for (const auto& [name, bytes] : options.files) {
    PENSTOCK_TRY(auto place, parse_place(name));
    places.emplace_back(std::move(place), &bytes);
  }
  PENSTOCK_TRY(const auto folder, make_temporary_folder());
  upload.files = folder;
  for (const auto& [place, bytes] : places) {
    const fs::path version = *folder / std::to_string(place.version);
    PENSTOCK_CHECK_OK(write_file(version / place.path, *bytes));
    upload.versions[place.version] = version;
  }
  for (auto& [version, path] : upload.versions) {
    PENSTOCK_TRY(path, find_model(path, config));
  }
  return upload;
}

}  // namespace penstock::serve
