// Reloaded: what reading a server's models again has done.
#pragma once

#include <cstddef>
#include <vector>

#include "penstock/base/error.h"

namespace penstock::serve {

struct Reloaded {
  std::size_t models = 0;     ///< That were read again.
  std::vector<Error> errors;  ///< What went wrong.
};

}  // namespace penstock::serve
