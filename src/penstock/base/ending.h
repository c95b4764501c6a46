// How a file's name ends, which tells its kind.
#pragma once

#include <filesystem>
#include <string>

#include "penstock/base/letters.h"

namespace penstock {

/// ".png" of "a.PNG": in small letters, with its dot; empty: the name has none.
inline std::string ending_of(const std::filesystem::path& file) {
  return lower_case(file.extension().string());
}

}  // namespace penstock
