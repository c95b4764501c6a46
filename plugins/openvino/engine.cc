#include "engine.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "penstock/backend/engine_places.h"

namespace penstock::openvino {
namespace {

// The first whose C API numbers the element types as our header does.
constexpr int kOldestYear = 2026;

/// "2026.4.1-22982-e213a147257-releases/2026/4" -> "2026.4.1"
std::string short_version(std::string_view build) {
  return std::string(build.substr(0, build.find('-')));
}

int year_of(std::string_view version) {
  int year = -1;
  std::from_chars(version.data(), version.data() + version.size(), year);
  return year;
}

Result<Api> bind(const backend::LoadedLibrary& library) {
  Api api;
#define PENSTOCK_BIND(name)                                                           \
  {                                                                                   \
    PENSTOCK_TRY(auto* const found,                                                   \
                 library.function<std::remove_pointer_t<decltype(api.name)>>(#name)); \
    api.name = found;                                                                 \
  }                                                                                   \
  static_assert(true)
  PENSTOCK_OPENVINO_FUNCTIONS(PENSTOCK_BIND);
#undef PENSTOCK_BIND
  return api;
}

/// Reachable to the end of the process, so that leak checkers see what is kept on purpose: taken
/// down among the program's last statics, OpenVINO may find its own gone.
void keep(ov_core_t* core) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<ov_core_t*>;
  const std::scoped_lock lock(mutex);
  kept->push_back(core);
}

Result<std::shared_ptr<const Engine>> open(const std::filesystem::path& file) {
  PENSTOCK_TRY(const auto library, backend::LoadedLibrary::open(file));
  Engine engine;
  PENSTOCK_TRY(engine.api, bind(library));
  ov_version_t version{};
  PENSTOCK_CHECK_OK(engine.check(engine.api.ov_get_openvino_version(&version)));
  engine.version = short_version(version.buildNumber);
  engine.api.ov_version_free(&version);
  if (year_of(engine.version) < kOldestYear) {
    return make_error(Code::kUnavailable, file.string(), ": version ", engine.version, ", needs ",
                      kOldestYear, " or newer");
  }
  engine.file = library.file_of("ov_core_create");
  PENSTOCK_CHECK_OK(engine.check(engine.api.ov_core_create(&engine.core)));
  keep(engine.core);
  return std::make_shared<const Engine>(std::move(engine));
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    lines.push_back(line);
  }
  return lines;
}

/// What stands behind "Check '...' failed at FILE:LINE:", "Exception from FILE:LINE:" and the like.
std::string_view without_location(std::string_view line) {
  constexpr std::array<std::string_view, 4> kNoise = {
      "Exception from ", "FrontEnd API failed with ", "While validating ONNX node ",
      "Loading input model"};
  const auto is_noise = [&](std::string_view start) { return line.starts_with(start); };
  if (std::ranges::any_of(kNoise, is_noise)) return {};
  if (line.starts_with("Check '") && line.find("' failed at ") != line.npos) return {};
  return line;
}

/// The last line of them that says something.
std::string reason_in(std::span<const std::string_view> lines) {
  std::string_view reason;
  for (const std::string_view line : lines) {
    const auto said = without_location(line);
    if (!said.empty()) reason = said;
  }
  for (const std::string_view prefix :
       {"NotFound: ", "Unexpected: ", "ParameterMismatch: ", "NotImplemented: ",
        "[NOT_IMPLEMENTED] ", "[GENERAL_ERROR] "}) {
    if (reason.starts_with(prefix)) reason.remove_prefix(prefix.size());
  }
  while (reason.ends_with('.') || reason.ends_with(' ')) reason.remove_suffix(1);
  return std::string(reason);
}

/// "-- Resize-19 with a message:" and what follows up to an empty line.
std::string failed_conversion(const std::vector<std::string_view>& lines) {
  constexpr std::string_view kEnd = " with a message:";
  const auto first = std::ranges::find_if(
      lines, [&](auto line) { return line.starts_with("-- ") && line.ends_with(kEnd); });
  if (first == lines.end()) return {};
  const auto end = std::find(first, lines.end(), std::string_view());
  const auto op = first->substr(3, first->size() - 3 - kEnd.size());
  const std::string reason = reason_in({first + 1, end});
  return concat("OpenVINO cannot convert ", op, reason.empty() ? "" : ": ", reason);
}

bool says(std::string_view text, std::string_view words) {
  return text.find(words) != text.npos;
}

Code code_of(ov_status_e status, std::string_view text) {
  if (status == INFER_CANCELLED) return Code::kCancelled;
  if (says(text, "bad_alloc") || says(text, "Failed to allocate ")) {
    return Code::kResourceExhausted;
  }
  if (status == NOT_IMPLEMENTED || says(text, "nsupported") || says(text, "not supported") ||
      says(text, "n't support") || says(text, "ot implemented")) {
    return Code::kUnimplemented;
  }
  return Code::kUnknown;
}

struct Pair {
  ov_element_type_e theirs;
  DType ours;
};
// Packed kinds are left out: OpenVINO orders the halves of a byte otherwise.
constexpr std::array<Pair, 15> kTypes = {{{BOOLEAN, DType::kBool},
                                          {BF16, DType::kBF16},
                                          {F16, DType::kF16},
                                          {F32, DType::kF32},
                                          {F64, DType::kF64},
                                          {I8, DType::kI8},
                                          {I16, DType::kI16},
                                          {I32, DType::kI32},
                                          {I64, DType::kI64},
                                          {U8, DType::kU8},
                                          {U16, DType::kU16},
                                          {U32, DType::kU32},
                                          {U64, DType::kU64},
                                          {F8E4M3, DType::kF8E4M3FN},
                                          {F8E5M3, DType::kF8E5M2}}};

}  // namespace

DType from_engine(ov_element_type_e type) {
  const auto found = std::ranges::find(kTypes, type, &Pair::theirs);
  return found == kTypes.end() ? DType::kUndefined : found->ours;
}

ov_element_type_e to_engine(DType dtype) {
  const auto found = std::ranges::find(kTypes, dtype, &Pair::ours);
  return found == kTypes.end() ? DYNAMIC : found->theirs;
}

Error translate(ov_status_e status, std::string_view text) {
  constexpr std::string_view kNoRule = "No conversion rule found for operations: ";
  const auto lines = lines_of(text);
  if (const auto at = text.find(kNoRule); at != text.npos) {
    const auto names = text.substr(at + kNoRule.size());
    return make_error(Code::kUnimplemented, "OpenVINO has no conversion for ",
                      names.substr(0, names.find('\n')));
  }
  if (std::string failed = failed_conversion(lines); !failed.empty()) {
    return {Code::kUnimplemented, std::move(failed)};
  }
  std::string reason = reason_in(lines);
  if (reason.empty()) reason = "OpenVINO gives no reason";
  if (says(reason, "bad_alloc")) reason = "out of memory";
  Error error{code_of(status, text), std::move(reason)};
  if (error.code != Code::kResourceExhausted) return error;
  return std::move(error).adding("; raise the limit of memory (ulimit -v), or run less at once");
}

Status Engine::check(ov_status_e status) const {
  if (status == OK) return {};
  const char* text = api.ov_get_last_err_msg();
  Error error = translate(status, text == nullptr ? "" : text);
  api.ov_free(text);
  return error;
}

Result<std::shared_ptr<const Engine>> load_engine() {
  const backend::EngineLibrary library = {
      .title = "OpenVINO",
      .package = "openvino",
      .variable = "PENSTOCK_OPENVINO",
      .file = "libopenvino_c.so",
      .package_folder = "openvino/libs",
      .system = {"libopenvino_c.so"},
      .plugin = reinterpret_cast<const void*>(&load_engine),
  };
  return backend::find_engine(library, open);
}

}  // namespace penstock::openvino
