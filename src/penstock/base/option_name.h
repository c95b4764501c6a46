// What messages call the options that callers set, in the words of the language the caller speaks.
// An option that the program alone has stands in its message as it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

namespace penstock {

/// Whose words messages speak.
enum class Language : std::uint8_t {
  kProgram,  ///< "--constant": those of the command line.
  kPython,   ///< "constants": a keyword of a function, a switch with its value, or a method.
};

/// For the whole process, from now on; `kProgram` before. A message that is made already, in a
/// file or by another process, keeps the words it was made with.
void set_language(Language language);
Language language();

/// The one text or the other. For an example, which a name alone does not give.
std::string in_words_of_caller(std::string program, std::string python);

enum class OptionName : std::uint8_t {
  kAllowNativeCode,
  kAsIs,
  kBatch,
  kConstants,
  kCustomOps,
  kDevices,
  kEndStream,  ///< As the other calls of a stream, one that the program's user does not make.
  kFrameCount,
  kFrames,
  kHosts,
  kInsecure,
  kMaxRun,
  kModel,
  kNoNativeCode,
  kOptimised,
  kParameters,
  kResetStream,
  kRestoreStream,
  kSaveStream,
  kSegmentsPerDevice,
  kShapes,
  kStates,
  kStreams,
  kTlsCertificate,
  kTlsClientAuthority,
  kTlsKey,
  kTokens,
  kTrace,
};
inline constexpr std::size_t kOptionNames = static_cast<std::size_t>(OptionName::kTrace) + 1;

std::string_view name_of(OptionName option);
std::ostream& operator<<(std::ostream& out, OptionName option);

/// "--constant rate=VALUE" or "constants={'rate': VALUE}".
std::string example_of_constant(std::string_view input);
/// "--backend-option fake:KEY=..." or "backend_options={'fake': {'KEY': ...}}".
std::string example_of_backend_option(std::string_view backend, std::string_view key);

}  // namespace penstock
