#include "engine.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "penstock/backend/engine_places.h"
#include "penstock/backend/environment.h"
#include "penstock/base/option_name.h"

namespace penstock::ort {
namespace {

constexpr int kOldestMinor =
    15;  // GetResizedStringTensorElementBuffer, CastTypeInfoToOptionalTypeInfo

bool debug_log() {
  const char* level = std::getenv("PENSTOCK_LOG");
  return level != nullptr && std::string_view(level) == "debug";
}

/// What ONNX Runtime logs repeats what its status says; nothing goes to stderr unasked.
// NOLINTNEXTLINE(readability-function-size): the signature is ONNX Runtime's
void ORT_API_CALL on_log(void*, OrtLoggingLevel, const char*, const char*, const char* location,
                         const char* message) {
  if (debug_log()) std::fprintf(stderr, "onnxruntime: %s (%s)\n", message, location);
}

/// The 31 of "1.31.1"; -1 if it is no version of that form.
int minor_of(std::string_view version) {
  if (!version.starts_with("1.")) return -1;
  int minor = -1;
  std::from_chars(version.data() + 2, version.data() + version.size(), minor);
  return minor;
}

Result<std::shared_ptr<const Engine>> start(Engine engine) {
  const OrtApi& api = *engine.api;
  const auto level = debug_log() ? ORT_LOGGING_LEVEL_WARNING : ORT_LOGGING_LEVEL_ERROR;
  PENSTOCK_CHECK_OK(
      engine.check(api.CreateEnvWithCustomLogger(on_log, nullptr, level, "penstock", &engine.env)));
  OrtMemoryInfo* host = nullptr;
  PENSTOCK_CHECK_OK(
      engine.check(api.CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &host)));
  engine.host = {host, {api.ReleaseMemoryInfo}};
  PENSTOCK_CHECK_OK(engine.check(api.GetAllocatorWithDefaultOptions(&engine.allocator)));
  return std::make_shared<const Engine>(std::move(engine));
}

Result<std::shared_ptr<const Engine>> open(const std::filesystem::path& file) {
  PENSTOCK_TRY(const auto library, backend::LoadedLibrary::open(file));
  PENSTOCK_TRY(const auto api_base, library.function<const OrtApiBase*()>("OrtGetApiBase"));
  const OrtApiBase* base = api_base();
  const auto unusable = [&](const auto&... text) {
    return make_error(Code::kUnavailable, file.string(), ": ", text...);
  };
  Engine engine;
  engine.version = base->GetVersionString();
  engine.minor = minor_of(engine.version);
  if (engine.minor < kOldestMinor) {
    return unusable("version ", engine.version, ", needs 1.", kOldestMinor, " or newer");
  }
  // Asking for more than it has would print to stderr; the table only ever grows at its end.
  engine.api = base->GetApi(static_cast<std::uint32_t>(std::min(engine.minor, ORT_API_VERSION)));
  if (engine.api == nullptr) return unusable("no C API of its own version");
  engine.file = library.file_of("OrtGetApiBase");
  return start(std::move(engine));
}

/// What stands behind the parameter list of "void f(int) const Text" or "f(int)::<lambda()> Text".
std::string_view after_signature(std::string_view text) {
  int depth = 0;
  std::size_t end = text.find('(');
  for (; end < text.size(); ++end) {
    if (text[end] == '(') ++depth;
    if (text[end] == ')' && --depth == 0) break;
  }
  if (end >= text.size()) return text;
  std::string_view rest = text.substr(end + 1);
  if (rest.starts_with("::<lambda")) rest.remove_prefix(std::min(rest.find("> ") + 1, rest.size()));
  for (const std::string_view word : {" const", " "}) {
    if (rest.starts_with(word)) rest.remove_prefix(word.size());
  }
  return rest;
}

/// Cuts "Load model from a.onnx failed:/src/x.cc:83 void f(int) a == b was false. Text" down to
/// "Text".
std::string_view without_location(std::string_view text) {
  constexpr std::string_view kLoading = "Load model from ";
  constexpr std::string_view kFailed = " failed:";
  if (const auto at = text.find(kFailed); text.starts_with(kLoading) && at != text.npos) {
    text.remove_prefix(at + kFailed.size());
  }
  for (const std::string_view prefix : {"Exception during initialization: ", "Fatal error: "}) {
    if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  }
  const std::string_view location = text.substr(0, text.find(' '));
  const bool has_location = location.size() < text.size() && (location.find(".cc:") != text.npos ||
                                                              location.find(".h:") != text.npos);
  if (!has_location) return text;
  constexpr std::string_view kWasFalse = " was false. ";
  const auto was_false = text.find(kWasFalse);
  if (was_false != text.npos) return text.substr(was_false + kWasFalse.size());
  return after_signature(text.substr(location.size() + 1));
}

std::string_view without_trail(std::string_view text) {
  while (text.ends_with('.') || text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

/// "Non-zero status code returned while running Add node. Name:'a' Status Message: Text" becomes
/// "Text" at node 'a', operator Add.
Error unwrapped(Code code, std::string_view text) {
  constexpr std::string_view kRunning = "Non-zero status code returned while running ";
  constexpr std::string_view kName = " node. Name:'";
  constexpr std::string_view kMessage = "Status Message: ";
  const auto name = text.find(kName);
  const auto message = text.find(kMessage);
  if (!text.starts_with(kRunning) || name == text.npos || message == text.npos) {
    return make_error(code, without_trail(without_location(text)));
  }
  const auto op = text.substr(kRunning.size(), name - kRunning.size());
  const auto name_begin = name + kName.size();
  const auto node = text.substr(name_begin, text.find('\'', name_begin) - name_begin);
  Error inner = unwrapped(code, text.substr(message + kMessage.size()));
  if (node.empty()) return std::move(inner).within(concat("a node of ", op));
  return std::move(inner)
      .within({Where::kOperator, std::string(op)})
      .within({Where::kNode, std::string(node)});
}

bool is_of_unknown_operator(std::string_view text) {
  return text.find("is not a registered function/op") != text.npos ||
         text.find("is not currently registered") != text.npos;
}

Code code_of(OrtErrorCode code, std::string_view text) {
  if (text.find("bad_alloc") != text.npos || text.find("Failed to allocate memory") != text.npos) {
    return Code::kResourceExhausted;
  }
  if (is_of_unknown_operator(text)) return Code::kUnimplemented;
  // It says FAIL, as of its own faults, where nodes and what they read do not fit together.
  for (const auto* word : {"[ShapeInferenceError]", "[TypeInferenceError]", "Type Error: "}) {
    if (text.find(word) != text.npos) return Code::kInvalidArgument;
  }
  switch (code) {
    case ORT_INVALID_ARGUMENT:
    case ORT_INVALID_GRAPH:
      return Code::kInvalidArgument;
    case ORT_INVALID_PROTOBUF:
      return Code::kDataLoss;
    case ORT_NO_SUCHFILE:
    case ORT_NO_MODEL:
      return Code::kNotFound;
    case ORT_NOT_IMPLEMENTED:
      return Code::kUnimplemented;
    default:
      return Code::kUnknown;
  }
}

/// The number that stands behind `before`; empty: there is none.
std::string_view number_after(std::string_view text, std::string_view before) {
  const auto at = text.find(before);
  if (at == text.npos) return {};
  text.remove_prefix(at + before.size());
  return text.substr(0, text.find_first_not_of("0123456789"));
}

/// "ONNX Runtime only *guarantees* support for [...] Opset 99 is under development [...] official
/// support for domain ai.onnx is till opset 26."
std::optional<Error> refusal_of_opset(std::string_view text) {
  const auto named = number_after(text, " Opset ");
  const auto known = number_after(text, " is till opset ");
  if (text.find("*guarantees*") == text.npos || named.empty() || known.empty()) return {};
  return make_error(Code::kUnimplemented, "the model names operator set ", named,
                    ", and this version of ONNX Runtime knows none above ", known,
                    ": export the model for that one, or convert it (onnx.version_converter)");
}

// ONNX Runtime's numbers of the types that its oldest supported header does not name.
constexpr std::array<std::pair<int, DType>, 3> kRenumbered = {
    {{24, DType::kU2}, {25, DType::kI2}, {26, DType::kF8E8M0}}};

}  // namespace

DType from_engine(ONNXTensorElementDataType type) {
  for (const auto& [number, dtype] : kRenumbered) {
    if (number == static_cast<int>(type)) return dtype;
  }
  return static_cast<DType>(type);
}

ONNXTensorElementDataType to_engine(DType dtype) {
  for (const auto& [number, renumbered] : kRenumbered) {
    if (renumbered == dtype) return static_cast<ONNXTensorElementDataType>(number);
  }
  return static_cast<ONNXTensorElementDataType>(dtype);
}

Error translate(OrtErrorCode code, std::string_view text) {
  if (auto refusal = refusal_of_opset(text)) return *std::move(refusal);
  Error error = unwrapped(code_of(code, text), text.substr(0, text.find('\n')));
  if (error.reason.empty()) error.reason = "ONNX Runtime gives no reason";
  if (error.reason.find("bad_alloc") != std::string::npos) error.reason = "out of memory";
  if (error.code == Code::kResourceExhausted) {
    return std::move(error).adding("; raise the limit of memory (ulimit -v), or run less at once");
  }
  if (!is_of_unknown_operator(text)) return error;
  return std::move(error).adding(
      concat("; for operators of your own give their library (", OptionName::kCustomOps, ")"));
}

Status Engine::check(OrtStatus* status) const {
  if (status == nullptr) return {};
  Error error = translate(api->GetErrorCode(status), api->GetErrorMessage(status));
  api->ReleaseStatus(status);
  return error;
}

Result<std::shared_ptr<const Engine>> load_engine() {
  // Official builds report usage over the network from the first environment on. The C API can end
  // that later only.
  backend::add_to_environment("ORT_DISABLE_TELEMETRY", "1");
  const backend::EngineLibrary library = {
      .title = "ONNX Runtime",
      .package = "onnxruntime",
      .variable = "PENSTOCK_ONNXRUNTIME",
      .file = "libonnxruntime.so",
      .package_folder = "onnxruntime/capi",
      .system = {"libonnxruntime.so.1", "libonnxruntime.so"},
      .plugin = reinterpret_cast<const void*>(&load_engine),
  };
  return backend::find_engine(library, open);
}

}  // namespace penstock::ort
