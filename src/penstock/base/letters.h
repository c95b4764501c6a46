// Large and small letters.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>

namespace penstock {

/// In small letters; only those of ASCII have other ones.
inline std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace penstock
