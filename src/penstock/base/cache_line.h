// kCacheLine: how far apart values lie that several threads write.
// That far apart, no thread takes another's line.
#pragma once

#include <cstddef>

namespace penstock {

/// Bytes: 64 on x86; elsewhere 128, which is the longest line of common processors for Arm. Not
/// std::hardware_destructive_interference_size: GCC lets it follow -mtune, and it stands in
/// layouts.
#if defined(__x86_64__) || defined(__i386__)
inline constexpr std::size_t kCacheLine = 64;
#else
inline constexpr std::size_t kCacheLine = 128;
#endif

}  // namespace penstock
