// Violation: one thing that makes a plan impossible to run. Internal to plan.
#pragma once

#include <string>
#include <vector>

#include "penstock/plan/plan.h"

namespace penstock::plan {

struct Violation {
  std::string sentence;          ///< Begins with "stage 'NAME'" where `stage` is not null.
  const Stage* stage = nullptr;  ///< The plan's, whose own settings are wrong; null: other things.
};

/// As violations().
std::vector<Violation> find_violations(const Plan& plan);

}  // namespace penstock::plan
