// Parses the figures of a CPU, sums a node's bytes, and applies the roofline model.
#include "penstock/cost/analytic.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace penstock::cost {

Result<Figures> parse_figures(std::string_view text) {
  Figures figures;
  while (!text.empty()) {
    const auto item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const auto equal = std::min(item.find('='), item.size());
    const auto name = item.substr(0, equal);
    double* field = name == "macs"       ? &figures.macs_per_second
                    : name == "bytes"    ? &figures.bytes_per_second
                    : name == "node"     ? &figures.seconds_per_node
                    : name == "transfer" ? &figures.seconds_per_transfer
                                         : nullptr;
    if (field == nullptr) {
      return invalid_argument("figures: expected macs=, bytes=, node= or transfer=, found '", item,
                              "'");
    }
    const auto* begin = item.data() + std::min(equal + 1, item.size());
    const auto* end = item.data() + item.size();
    const auto [stop, problem] = std::from_chars(begin, end, *field);
    if (problem != std::errc() || stop != end || !std::isfinite(*field) || *field <= 0) {
      return invalid_argument("figures: ", name, ": expected a positive number, found '",
                              std::string_view(begin, static_cast<std::size_t>(end - begin)), "'");
    }
  }
  return figures;
}

double bytes_moved(const graph::Graph& graph, graph::NodeId id) {
  const auto& node = graph.node(id);
  double bytes = 0;
  for (const auto* values : {&node.inputs, &node.captures, &node.outputs}) {
    for (const auto value : *values) {
      if (value == graph::ValueId::kNone) continue;
      bytes += static_cast<double>(graph.value(value).type.max_bytes().value_or(0));
    }
  }
  return bytes;
}

double node_seconds(const graph::Graph& graph, graph::NodeId node, const Figures& figures,
                    int cpus) {
  const double computing = static_cast<double>(graph::macs_of(graph, node)) /
                           figures.macs_per_second / static_cast<double>(std::max(cpus, 1));
  const double moving = bytes_moved(graph, node) / figures.bytes_per_second;
  return std::max(computing, moving) + figures.seconds_per_node;
}

}  // namespace penstock::cost
