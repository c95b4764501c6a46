// How much of a long test to run under the sanitizers.
#pragma once

#include <cstdint>

namespace penstock {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// How many of `all` random cases to try: a tenth where a sanitizer slows them tenfold.
constexpr std::uint64_t tries(std::uint64_t all) {
  return kSanitized ? (all + 9) / 10 : all;
}

}  // namespace penstock
