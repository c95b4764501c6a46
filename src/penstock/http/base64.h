// Bytes as text of 64 letters: RFC 4648, section 4.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace penstock::http {

/// The bytes; nothing where the text is not base64, or lacks its padding.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace penstock::http
