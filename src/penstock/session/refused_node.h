// What an engine refuses, in the words of the network.
#pragma once

#include "penstock/base/error.h"
#include "penstock/plan/package.h"

namespace penstock {

/// An engine that refuses a stage's model names a node or an operator at most. \returns the error
/// with that node and the types of what it reads, where the model has it; else as it is.
Error name_refused_node(Error error, const plan::Package& package);

}  // namespace penstock
