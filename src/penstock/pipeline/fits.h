// Whether a plan may take the place of another one that runs.
#pragma once

#include "penstock/base/result.h"
#include "penstock/plan/plan.h"

namespace penstock::pipeline {

/// What Pipeline::replace() asks of plans before it starts one: the same inputs, outputs and bound
/// inputs, and what is carried over (states, parameters) in both.
/// \error kInvalidArgument  names what differs; and those of plan::validate(), of `fresh`
Status check_fits(const plan::Plan& old, const plan::Plan& fresh);

}  // namespace penstock::pipeline
