// What a user calls a node -> the node.
#pragma once

#include <string>
#include <string_view>

#include "penstock/base/result.h"
#include "penstock/graph/graph.h"

namespace penstock::partition {

/// The node that `text` means: the node of that name, else the producer of the tensor of that
/// name, else (all digits, or `#` and digits, which few are named) the node of that index. `role`
/// ("cut", "pin") begins every message.
/// \error as assign_stages()
Result<graph::NodeId> resolve_node(const graph::Graph& graph, const std::string& text,
                                   std::string_view role);

}  // namespace penstock::partition
