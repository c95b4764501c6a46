// Bounds: what an application or a package may ask of this machine.
#pragma once

#include <filesystem>

#include "penstock/app/app.h"
#include "penstock/base/result.h"
#include "penstock/plan/plan.h"

namespace penstock::app {

/// By default all that its user may.
struct Bounds {
  bool native_code = true;  ///< Libraries of functions and custom operators are loaded.
  bool other_machines =
      true;  ///< It may name devices and models of others, which are connected to.
  std::filesystem::path folder = {};  ///< Where not empty: as read_yaml() has it.
};

/// Looks at an application before any of its libraries is opened, any of its networks compiled and
/// any server asked. What lies in its packages is for the other one, of the plan that is made.
/// \error kPermissionDenied  names the node and what it asks for. And what load_package() says.
Status check_bounds(const App& app, const Bounds& bounds);

/// \error kPermissionDenied  names the stage and what it asks for.
Status check_bounds(const plan::Plan& plan, const Bounds& bounds);

}  // namespace penstock::app
