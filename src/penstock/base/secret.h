// Random bytes that nobody can guess.
#pragma once

#include <cstddef>
#include <string>

#include "penstock/base/result.h"

namespace penstock {

inline constexpr std::size_t kSecretBytes = 32;

/// kSecretBytes random bytes of the system's. \error kUnavailable  it gave none.
Result<std::string> make_secret();

}  // namespace penstock
