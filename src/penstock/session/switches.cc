// From what the graph tells: their names, and the option that binds them.
#include "penstock/session/switches.h"

#include <algorithm>

#include "penstock/base/option_name.h"
#include "penstock/graph/switches.h"

namespace penstock {

std::vector<std::string> warnings_of_switches(const graph::Graph& graph,
                                              const std::vector<plan::StateEdge>& states) {
  std::vector<std::string> warnings;
  for (const auto id : graph::switches_of(graph)) {
    const auto& name = graph.value(id).name;
    if (std::ranges::find(states, name, &plan::StateEdge::to) != states.end()) continue;
    warnings.push_back(concat("input '", name,
                              "' decides which part of the network runs, and random frames give it "
                              "any value: bind it (",
                              example_of_constant(name), ") or give your own frames (",
                              OptionName::kFrames, ")"));
  }
  return warnings;
}

}  // namespace penstock
