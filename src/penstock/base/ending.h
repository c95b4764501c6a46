// How a file's name ends, which tells its kind.
#pragma once

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string>

namespace penstock {

/// ".png" of "a.PNG": in small letters, with its dot; empty: the name has none.
inline std::string ending_of(const std::filesystem::path& file) {
  std::string ending = file.extension().string();
  std::ranges::transform(ending, ending.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending;
}

}  // namespace penstock
