// Checks the paths, writes the files, and finds the model in each version.
#include "penstock/serve/upload.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "penstock/base/files.h"
#include "penstock/base/folder.h"
#include "penstock/base/option_name.h"
#include "penstock/base/printable.h"
#include "penstock/plan/paths.h"

namespace penstock::serve {
namespace {

namespace fs = std::filesystem;
struct Place {
  std::uint64_t version = 0;
  fs::path path;  // In the version's folder.
  bool operator<(const Place& other) const {
    return std::tie(version, path) < std::tie(other.version, other.path);
  }
};

constexpr std::size_t kMostName = 255, kMostPath = 1024;  // Bytes that every file system takes.

/// "VERSION/PATH", which stays within the folder. A version has one spelling, so that what lies in
/// its folder is told back as it was sent.
Result<Place> parse_place(const std::string& text) {
  const auto wrong = [&] {
    return invalid_argument("load parameter 'file:", text.substr(0, 128),
                            "': expected VERSION/PATH within the model's folder, such as "
                            "file:1/model.onnx, the version without zeros before it");
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
  if (std::to_string(place.version).size() != slash) return wrong();
  std::size_t longest = 0;
  for (const auto& part : place.path) {
    if (part == ".." || part == "." || part.empty()) return wrong();
    longest = std::max(longest, part.native().size());
  }
  if (longest <= kMostName && text.size() <= kMostPath) return place;
  return invalid_argument("load parameter 'file:", text.substr(0, 128), "...': expected at most ",
                          kMostPath, " bytes, and ", kMostName, " between two '/', found ",
                          text.size(), " and ", longest);
}

bool lies_within(const Place& inner, const Place& outer) {
  const auto [end, at] = std::ranges::mismatch(outer.path, inner.path);
  return inner.version == outer.version && end == outer.path.end() && at != inner.path.end();
}

using NamedFile = std::pair<const std::string, std::string>;

/// Where each file goes. "1/a/x" and "1/a//x" are one place, which two files cannot have.
Result<std::map<Place, const NamedFile*>> parse_places(const LoadOptions& options) {
  std::map<Place, const NamedFile*> places;
  for (const auto& file : options.files) {
    PENSTOCK_TRY(auto place, parse_place(file.first));
    const auto [first, is_new] = places.emplace(std::move(place), &file);
    if (is_new) continue;
    return invalid_argument("load parameters 'file:", first->second->first.substr(0, 128),
                            "' and 'file:", file.first.substr(0, 128),
                            "' are one file: give it once");
  }
  // What lies in a folder comes right behind it.
  const auto inner = std::ranges::adjacent_find(places, [](const auto& outer, const auto& next) {
    return lies_within(next.first, outer.first);
  });
  if (inner != places.end()) {
    return invalid_argument("load parameter 'file:", std::next(inner)->second->first.substr(0, 128),
                            "': lies in 'file:", inner->second->first.substr(0, 128),
                            "', which is a file, too: give one of them another name");
  }
  return places;
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
Result<fs::path> find_model(const fs::path& folder, const LoadConfig& config) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& name : names_in(folder, error)) files.push_back(folder / name);
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

Error in_senders_words(Error error, const fs::path& folder, std::string_view as) {
  const std::string hidden = folder.string() + "/";
  const auto reword = [&](std::string& text) {
    for (auto at = text.find(hidden); at != text.npos; at = text.find(hidden, at + as.size())) {
      text.replace(at, hidden.size(), as);
    }
  };
  reword(error.reason);
  for (auto& place : error.places) reword(place.name);
  const bool of_files = error.code == Code::kDataLoss || error.code == Code::kNotFound;
  const auto is_elsewhere = [](const Where& place) {
    return place.kind == Where::kDevice || place.kind == Where::kBackend ||
           place.kind == Where::kPeer;
  };
  if (of_files && std::ranges::none_of(error.places, is_elsewhere)) {
    error.code = Code::kInvalidArgument;
  }
  return error;
}

Status check_options(const std::map<std::string, std::string>& options) {
  for (const auto& [key, value] : options) {
    if (!plan::names_a_place(key, value)) continue;
    return make_error(Code::kPermissionDenied, "option '", key.substr(0, 64),
                      "' names a file or folder of this machine; leave it out, or start the server "
                      "with ",
                      OptionName::kAllowNativeCode);
  }
  return {};
}

Status check_model_name(const std::string& name) {
  const bool blank = name.find_first_not_of(' ') == std::string::npos;
  constexpr std::size_t kMost = 255;
  if (name.size() > kMost) {
    return invalid_argument("expected a model's name of at most ", kMost, " bytes, found ",
                            name.size(), ": '", printable(name.substr(0, 64)), "...'");
  }
  const auto shown = printable(name);
  if (shown != name) {
    return invalid_argument("expected a model's name without control characters, found '",
                            shown.substr(0, 64), "'");
  }
  const bool wrong = blank || name == "." || name == ".." || name.find('/') != std::string::npos;
  if (!wrong) return {};
  return invalid_argument("expected a model's name without '/', found '", name.substr(0, 64), "'");
}

Result<Upload> write_upload(const LoadConfig& config, const LoadOptions& options,
                            std::uint64_t most_bytes) {
  Upload upload;
  for (const auto& [name, bytes] : options.files) upload.bytes += bytes.size();
  if (upload.bytes > most_bytes) {
    return make_error(Code::kResourceExhausted, "the model has ", upload.bytes,
                      " bytes, but uploaded models may take ", most_bytes, " more; unload one");
  }
  PENSTOCK_TRY(const auto places, parse_places(options));
  PENSTOCK_TRY(const auto folder, make_temporary_folder());
  upload.files = folder;
  for (const auto& [place, file] : places) {
    const fs::path version = *folder / std::to_string(place.version);
    PENSTOCK_CHECK_OK(write_file(version / place.path, file->second));
    upload.versions[place.version] = version;
  }
  for (auto& [version, path] : upload.versions) {
    PENSTOCK_TRY(path, find_model(path, config));
  }
  return upload;
}

}  // namespace penstock::serve
