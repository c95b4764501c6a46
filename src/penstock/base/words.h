// How messages put names and numbers into words.
#pragma once

#include <string>

#include "penstock/base/error.h"

namespace penstock {

/// "'x', 'y'": the names of what has one, inputs, ports or models. Empty: there is none.
template <typename Range>
std::string quoted_names(const Range& named) {
  return join(named, ", ", [](const auto& one) { return concat("'", one.name, "'"); });
}

}  // namespace penstock
