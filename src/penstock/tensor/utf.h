// UTF-8 and UTF-32, strictly.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace penstock {

/// Empty where the text is not valid Unicode.
std::optional<std::string> to_utf8(std::u32string_view text);
std::optional<std::u32string> to_utf32(std::string_view text);
bool is_utf8(std::string_view text);

}  // namespace penstock
