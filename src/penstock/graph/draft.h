// A graph while the import works on it. Internal to graph.
#pragma once

#include <map>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "penstock/graph/graph.h"

namespace penstock::graph {

/// Why a name is gone: `how`, followed by the quoted name `by` unless that is empty.
struct Removal {
  std::string how;
  std::string by;
};

struct Draft {
  Graph graph;
  std::map<std::string, Removal> removals;  ///< Old name of a node or tensor.
  std::size_t file_constant_bytes = 0;      ///< Of all constants before folding.
  std::set<std::string> defaults;    ///< Constants that the file lists as inputs, from IR 4 on.
  std::set<std::string> unfoldable;  ///< First output of nodes that an evaluation has refused.

  /// Where the graph is nested: names of the graphs around it, which its own must not be.
  std::unordered_set<std::string> taken_outside;
  std::size_t unrolled_nodes = 0;  ///< That loops have become.

  void remove(const std::string& name, std::string how, std::string by = {}) {
    if (!name.empty()) removals.try_emplace(name, Removal{std::move(how), std::move(by)});
  }
};

/// Recomputes producers and consumers from the nodes.
void link(Graph& graph);

/// Drops the nodes with `keep[i] == false` and the values that nothing mentions any more, gives
/// new ids, and links. Notes the constants that go.
void compact(Draft& draft, const std::vector<bool>& keep);

/// Fills Graph::removed: a name replaced by one that is itself gone leads to the last of the chain.
void explain_removals(Draft& draft);

/// Every node gets a name of its own.
void name_nodes(Graph& graph);

}  // namespace penstock::graph
