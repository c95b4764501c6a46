// What a plan may ask for that this runtime does not do yet.
#pragma once

#include "penstock/base/result.h"
#include "penstock/plan/plan.h"

namespace penstock::pipeline {

/// Nothing of a plan is ignored: what is not run is refused before anything starts.
/// \error kUnimplemented  several frames in a call, several streams, stand-by devices, or a model
///                        behind an address: names the first.
Status check_supported(const plan::Plan& plan);

}  // namespace penstock::pipeline
