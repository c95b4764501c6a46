// Bytes as hexadecimal digits, as secrets, hashes and types of ONNX are written.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace penstock {

inline constexpr std::size_t kSha256Digits = 64;

/// Two lower-case digits for each byte.
std::string to_hexadecimal(std::string_view bytes);

/// The bytes that to_hexadecimal() wrote; empty: it writes none so.
std::optional<std::string> from_hexadecimal(std::string_view digits);

/// Whether it can be a digest as Sha256::finish() gives it.
bool is_sha256(std::string_view text);

}  // namespace penstock
