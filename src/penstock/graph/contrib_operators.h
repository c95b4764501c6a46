// The operators of the domain com.microsoft. Internal to graph.
#pragma once

#include <string_view>

namespace penstock::graph {

/// Whether ONNX Runtime has an operator of this name, in any version and for any device, in the
/// domain com.microsoft.
bool is_contrib_operator(std::string_view name);

}  // namespace penstock::graph
