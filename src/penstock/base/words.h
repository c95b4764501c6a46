// How messages put names and numbers into words.
#pragma once

#include <concepts>
#include <string>
#include <string_view>

#include "penstock/base/error.h"

namespace penstock {

/// "'x', 'y'": the names of what has one, inputs, ports or models. Empty: there is none.
template <typename Range>
std::string quoted_names(const Range& named) {
  return join(named, ", ", [](const auto& one) { return concat("'", one.name, "'"); });
}

/// "1 array", "3 arrays": `noun` is in the singular, and an s makes its plural.
template <std::integral Count>
std::string counted(Count count, std::string_view noun) {
  return concat(count, " ", noun, count == 1 ? "" : "s");
}

}  // namespace penstock
