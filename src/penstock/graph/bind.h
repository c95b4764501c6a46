// Inputs that are bound to a value for good. Internal to graph.
#pragma once

#include <map>
#include <string>

#include "penstock/base/result.h"
#include "penstock/graph/draft.h"
#include "penstock/graph/import.h"

namespace penstock::graph {

/// Makes constants of inputs, those with a default among them, and notes them in
/// Graph::bound_inputs. Where a value tells an open
/// size, other inputs of that symbol have it, too.
/// \error kNotFound         no such input, or no such file.
/// \error kInvalidArgument  a value does not fit its input, or two disagree on a size.
Status bind_inputs(Draft& draft, const std::map<std::string, InputValue>& constants);

}  // namespace penstock::graph
