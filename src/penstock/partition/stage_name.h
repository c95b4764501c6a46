// What the stages of a split network are called.
#pragma once

#include <cstddef>
#include <string>

#include "penstock/base/error.h"

namespace penstock::partition {

/// "stage0"
inline std::string stage_name(std::size_t number) {
  return concat("stage", number);
}

}  // namespace penstock::partition
