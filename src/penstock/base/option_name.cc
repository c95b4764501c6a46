// The names of options in each language, as a table, and the language that is set.
#include "penstock/base/option_name.h"

#include <array>
#include <atomic>
#include <utility>

#include "penstock/base/error.h"

namespace penstock {
namespace {

struct Names {
  OptionName option;
  std::string_view program;
  std::string_view python;
};

constexpr std::array kNames = {
    Names{OptionName::kAllowNativeCode, "--allow-native-code", "allow_native_code=True"},
    Names{OptionName::kAsIs, "--as-is", "as_is=True"},
    Names{OptionName::kBatch, "--batch", "batch"},
    Names{OptionName::kConstants, "--constant", "constants"},
    Names{OptionName::kCustomOps, "--custom-ops", "custom_ops"},
    Names{OptionName::kDevices, "--devices", "devices"},
    Names{OptionName::kEndStream, "end_stream", "stream_of(n).end()"},
    Names{OptionName::kFrameCount, "--frames", "frames"},
    Names{OptionName::kFrames, "--input", "frames"},
    Names{OptionName::kHosts, "--hosts", "hosts"},
    Names{OptionName::kInsecure, "--insecure", "insecure=True"},
    Names{OptionName::kMaxRun, "max_run", "max_run_ms"},
    Names{OptionName::kModel, "--model", "model"},
    Names{OptionName::kNoNativeCode, "--no-native-code", "native_code=False"},
    Names{OptionName::kOptimised, "--optimised", "optimised"},
    Names{OptionName::kParameters, "--parameter", "parameters"},
    Names{OptionName::kResetStream, "reset_stream", "stream_of(n).reset()"},
    Names{OptionName::kRestoreStream, "restore_stream", "stream_of(n).restore()"},
    Names{OptionName::kSaveStream, "save_stream", "stream_of(n).save()"},
    Names{OptionName::kSegmentsPerDevice, "--segments-per-device", "segments_per_device"},
    Names{OptionName::kShapes, "--shape", "shapes"},
    Names{OptionName::kStates, "--state", "states"},
    Names{OptionName::kStreams, "--streams", "streams"},
    Names{OptionName::kTlsCertificate, "--tls-certificate", "tls_certificate"},
    Names{OptionName::kTlsClientAuthority, "--tls-client-authority", "tls_client_authority"},
    Names{OptionName::kTlsKey, "--tls-key", "tls_key"},
    Names{OptionName::kTokens, "--tokens", "tokens"},
    Names{OptionName::kTrace, "Options::trace", "trace=True"},
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (static_cast<std::size_t>(kNames[i].option) != i) return false;
  }
  return kNames.size() == kOptionNames;
}
static_assert(in_order(), "one line for each option, in the order of the enumeration");

std::atomic<Language> spoken = Language::kProgram;  // NOLINT(*-non-const-global-variables)

}  // namespace

void set_language(Language language) {
  spoken.store(language, std::memory_order_relaxed);
}

Language language() {
  return spoken.load(std::memory_order_relaxed);
}

std::string in_words_of_caller(std::string program, std::string python) {
  return language() == Language::kPython ? std::move(python) : std::move(program);
}

std::string_view name_of(OptionName option) {
  const auto& names = kNames[static_cast<std::size_t>(option)];
  return language() == Language::kPython ? names.python : names.program;
}

std::ostream& operator<<(std::ostream& out, OptionName option) {
  return out << name_of(option);
}

std::string example_of_constant(std::string_view input) {
  return in_words_of_caller(concat("--constant ", input, "=VALUE"),
                            concat("constants={'", input, "': VALUE}"));
}

std::string example_of_backend_option(std::string_view backend, std::string_view key) {
  return in_words_of_caller(concat("--backend-option ", backend, ":", key, "=..."),
                            concat("backend_options={'", backend, "': {'", key, "': ...}}"));
}

}  // namespace penstock
