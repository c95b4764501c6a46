// A plan for people and programs.
#pragma once

#include <string>

#include "penstock/cli/json.h"
#include "penstock/plan/plan.h"

namespace penstock::cli {

Json plan_json(const plan::Plan& plan);
std::string plan_text(const plan::Plan& plan);

}  // namespace penstock::cli
