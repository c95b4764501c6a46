// A plan for people and programs.
#pragma once

#include <string>

#include "penstock/backend/registry.h"
#include "penstock/cli/json.h"
#include "penstock/plan/plan.h"

namespace penstock::cli {

/// `backends`: they tell what lies in another memory than the host's, which is not counted.
Json plan_json(const plan::Plan& plan, const backend::Registry& backends);
std::string plan_text(const plan::Plan& plan, const backend::Registry& backends);

/// Tells the log each stage, and which engines run them.
void log_plan(const plan::Plan& plan, const backend::Registry& backends);

}  // namespace penstock::cli
