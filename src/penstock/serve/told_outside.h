// What of an error goes to a client.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "penstock/base/error.h"

namespace penstock::serve {

/// Bytes of an error, at most: gRPC takes no more than a few thousand as a header.
inline constexpr std::size_t kLongestError = 2000;

/// The beginning of UTF-8, whole characters of at most `most` bytes.
inline std::string_view beginning(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  const auto is_inside = [](char byte) { return (static_cast<unsigned char>(byte) >> 6U) == 2; };
  while (most > 0 && is_inside(text[most])) --most;
  return text.substr(0, most);
}

/// The error in one line, which may be cut. What a function of Python's raises has its traceback
/// behind the first one, which tells of files and code of this machine: they are their owner's.
inline std::string told_outside(const Error& error) {
  const auto message = error.message();
  return std::string(beginning(message.substr(0, message.find('\n')), kLongestError));
}

}  // namespace penstock::serve
