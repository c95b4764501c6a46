// Refuses libraries where they are not allowed.
#include "penstock/app/bounds.h"

namespace penstock::app {

Status check_bounds(const App& app, const Bounds& bounds) {
  return bounds.native_code ? Status() : refuse_native_code(app);
}

Status check_bounds(const plan::Plan& plan, const Bounds& bounds) {
  return bounds.native_code ? Status() : plan::refuse_native_code(plan);
}

}  // namespace penstock::app
