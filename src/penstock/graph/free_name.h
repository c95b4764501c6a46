// A name that nothing else has.
#pragma once

#include <string>

#include "penstock/base/error.h"

namespace penstock::graph {

/// `wanted`, or that with a number behind it, from 2 on: the first for which `take(name)` is true.
template <typename Take>
std::string free_name(const std::string& wanted, const Take& take) {
  std::string name = wanted;
  for (int copy = 2; !take(name); ++copy) name = concat(wanted, "_", copy);
  return name;
}

}  // namespace penstock::graph
