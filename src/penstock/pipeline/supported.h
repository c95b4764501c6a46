// What a plan may ask for that this runtime does not do yet.
#pragma once

#include "penstock/backend/backend.h"
#include "penstock/base/result.h"
#include "penstock/pipeline/stage.h"
#include "penstock/plan/plan.h"

namespace penstock::pipeline {

/// Nothing of a plan is ignored: what is not run is refused before anything starts.
/// \error kUnimplemented  stand-by devices of a function, or where each stream has one replica for
///                        its home: names the first.
Status check_supported(const plan::Plan& plan);

/// Refuses what a stage with an instance in another memory than the host's cannot do.
/// \error kUnimplemented  `each`, a state that others read or write in another memory, a
///                        partition that computes in another memory or a tensor without bound:
///                        names the first.
Status check_supported(const Stage& stage, const backend::Memory& memory);

}  // namespace penstock::pipeline
