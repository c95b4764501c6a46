#include "penstock/base/version.h"

namespace penstock {

std::string_view version() {
  return PENSTOCK_VERSION;
}

}  // namespace penstock
