// A plan for people and programs.
#pragma once

#include <string>

#include "penstock/backend/registry.h"
#include "penstock/cli/json.h"
#include "penstock/plan/plan.h"

namespace penstock::cli {

Json plan_json(const plan::Plan& plan);
std::string plan_text(const plan::Plan& plan);

/// Tells the log each stage, and which engines run them.
void log_plan(const plan::Plan& plan, const backend::Registry& backends);

}  // namespace penstock::cli
