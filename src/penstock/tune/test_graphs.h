// Made-up graphs that tests plan for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/graph/graph.h"

namespace penstock::tune {

/// A chain of nodes, each with so many kilobytes of weights.
inline graph::Graph weighed(const std::vector<std::int64_t>& kilobytes) {
  graph::Graph graph;
  const auto value = [&](const std::string& name, std::int64_t elements) {
    graph.values.emplace_back().name = name;
    graph.values.back().type = Type::tensor(DType::kF32, std::vector<std::int64_t>{elements});
    return static_cast<graph::ValueId>(graph.values.size() - 1);
  };
  auto last = value("x", 4);
  graph.inputs = {last};
  for (std::size_t i = 0; i < kilobytes.size(); ++i) {
    const auto id = static_cast<graph::NodeId>(i);
    const auto weight = value(concat("w", i), kilobytes[i] * 256);
    graph.values.back().constant = Tensor::allocate(DType::kF32, {kilobytes[i] * 256});
    const auto next = value(concat("v", i), 4);
    auto& node = graph.nodes.emplace_back();
    node.name = concat("n", i);
    node.op = "Mul";
    node.inputs = {last, weight};
    node.outputs = {next};
    graph.values[graph::index(last)].consumers.push_back(id);
    graph.values[graph::index(weight)].consumers.push_back(id);
    graph.values[graph::index(next)].producer = id;
    last = next;
  }
  graph.outputs = {last};
  return graph;
}

}  // namespace penstock::tune
