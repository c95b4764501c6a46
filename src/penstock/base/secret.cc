// The system's getentropy() draws the bytes.
#include "penstock/base/secret.h"

#include <unistd.h>

namespace penstock {

Result<std::string> make_secret() {
  std::string bytes(kSecretBytes, '\0');
  if (::getentropy(bytes.data(), bytes.size()) == 0) return bytes;
  return make_error(Code::kUnavailable, "the system gave no random numbers");
}

}  // namespace penstock
