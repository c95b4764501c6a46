#include "penstock/partition/resolve.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <vector>

namespace penstock::partition {
namespace {

using graph::Graph;
using graph::NodeId;

/// Levenshtein's distance, or more than `limit` as soon as it is known to be.
std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit) {
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) > limit) return limit + 1;
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    std::size_t least = row[0];
    for (std::size_t j = 0; j < b.size(); ++j) {
      const auto replace = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replace, row[j] + 1, row[j + 1] + 1});
      least = std::min(least, row[j + 1]);
    }
    if (least > limit) return limit + 1;
  }
  return row.back();
}

/// Names of nodes and of what they make that could have been meant, the nearest first.
std::vector<std::string> near_names(const Graph& graph, std::string_view text) {
  constexpr std::size_t kMost = 3;
  const auto limit = std::max<std::size_t>(2, text.size() / 3);
  std::vector<std::pair<std::size_t, std::string>> found;
  const auto consider = [&](const std::string& name) {
    const bool inside = text.size() >= 3 && name.find(text) != name.npos;
    const auto distance = edit_distance(text, name, limit);
    if (distance <= limit || inside) found.emplace_back(distance, name);
  };
  for (const auto& node : graph.nodes) consider(node.name);
  for (const auto& value : graph.values) {
    if (value.producer) consider(value.name);
  }
  std::ranges::stable_sort(found, {}, &std::pair<std::size_t, std::string>::first);
  std::vector<std::string> names;
  for (const auto& [distance, name] : found) {
    const auto quoted = concat("'", name, "'");
    if (names.size() < kMost && std::ranges::find(names, quoted) == names.end()) {
      names.push_back(quoted);
    }
  }
  return names;
}

Error no_such_name(const Graph& graph, const std::string& text, std::string_view role) {
  const auto near = near_names(graph, text);
  const auto offer = near.empty() ? "" : "; did you mean " + join(near, " or ") + "?";
  return not_found(role, " '", text, "': no node or tensor of that name", offer,
                   "; 'penstock show' lists them");
}

Result<NodeId> resolve_index(const Graph& graph, const std::string& text, std::string_view role) {
  if (graph.import.not_folded) {
    return make_error(Code::kFailedPrecondition, role, " '", text,
                      "': an index counts the nodes of a clean import, and no engine is here to "
                      "fold constants; name the node or a tensor that it makes, or see 'penstock "
                      "backends'");
  }
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
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
                     "); name what took its place, or import with --as-is");
  }
  const auto digits = std::string_view(text).substr(text.starts_with('-') ? 1 : 0);
  const bool is_number =
      !digits.empty() && std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
  return is_number ? resolve_index(graph, text, role) : no_such_name(graph, text, role);
}

}  // namespace penstock::partition
