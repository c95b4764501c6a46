// Returns the version that the build defines as PENSTOCK_VERSION.
#include "penstock/base/version.h"

namespace penstock {

std::string_view version() {
  return PENSTOCK_VERSION;
}

}  // namespace penstock
