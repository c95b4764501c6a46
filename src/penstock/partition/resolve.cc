// Tries names of nodes, then of tensors, then an index; if all fail, suggests similar names.
#include "penstock/partition/resolve.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "penstock/base/near_names.h"
#include "penstock/base/option_name.h"

namespace penstock::partition {
namespace {

using graph::Graph;
using graph::NodeId;

/// Names of nodes and of what they make.
std::vector<std::string> names_in(const Graph& graph) {
  std::vector<std::string> names;
  for (const auto& node : graph.nodes) names.push_back(node.name);
  for (const auto& value : graph.values) {
    if (value.producer) names.push_back(value.name);
  }
  return names;
}

Error no_such_name(const Graph& graph, const std::string& text, std::string_view role) {
  return not_found(role, " '", text, "': no node or tensor of that name",
                   did_you_mean(text, names_in(graph)), "; 'penstock show' lists them");
}

Result<NodeId> resolve_index(const Graph& graph, const std::string& text, std::string_view role) {
  if (graph.import.not_folded) {
    return make_error(Code::kFailedPrecondition, role, " '", text,
                      "': an index counts the nodes of a clean import, and no engine is here to "
                      "fold constants; name the node or a tensor that it makes, or see 'penstock "
                      "backends'");
  }
  std::size_t number = 0;
  const auto* first = text.data() + (text.starts_with('#') ? 1 : 0);
  const auto [end, error] = std::from_chars(first, text.data() + text.size(), number);
  if (error == std::errc() && number < graph.nodes.size()) return static_cast<NodeId>(number);
  if (graph.nodes.empty()) return not_found(role, " '", text, "': the graph has no nodes");
  return not_found(role, " '", text, "': expected a node index from 0 to ", graph.nodes.size() - 1,
                   "; 'penstock show' lists them");
}

}  // namespace

Result<NodeId> resolve_node(const Graph& graph, const std::string& text, std::string_view role) {
  if (const auto node = graph.find_node(text)) return *node;
  if (const auto id = graph.find_value(text)) {
    const auto& value = graph.value(*id);
    if (value.producer) return *value.producer;
    const bool constant = value.constant && !value.is_parameter;
    const auto removed = graph.removed.find(text);
    const auto history = removed == graph.removed.end() ? "" : " (" + removed->second + ")";
    return not_found(role, " '", text, "': names ",
                     constant ? "a constant" : "an input of the graph", history,
                     ", expected a node or the tensor that a node makes");
  }
  if (const auto removed = graph.removed.find(text); removed != graph.removed.end()) {
    return not_found(role, " '", text, "': gone since the import (", removed->second,
                     "); name what took its place, or import with ", OptionName::kAsIs);
  }
  const auto number = text.starts_with('#') ? text.substr(1) : text;
  const auto digits = std::string_view(number).substr(number.starts_with('-') ? 1 : 0);
  const bool is_number =
      !digits.empty() && std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
  return is_number ? resolve_index(graph, text, role) : no_such_name(graph, text, role);
}

}  // namespace penstock::partition
