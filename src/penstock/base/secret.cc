// The system's getentropy() draws the bytes; they can be printed as hexadecimal digits.
#include "penstock/base/secret.h"

#include <unistd.h>

namespace penstock {

Result<std::string> make_secret() {
  std::string bytes(kSecretBytes, '\0');
  if (::getentropy(bytes.data(), bytes.size()) == 0) return bytes;
  return make_error(Code::kUnavailable, "the system gave no random numbers");
}

std::string to_hexadecimal(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

}  // namespace penstock
