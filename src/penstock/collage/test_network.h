// Small networks for tests, and sets of their nodes as text.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "penstock/collage/candidates.h"
#include "penstock/graph/graph.h"

namespace penstock::collage {

/// Each node makes one f32[4] of its own name. What nobody makes is an input, what nobody reads an
/// output.
class TestNetwork {
 public:
  TestNetwork() { graph_.info.opsets = {{"", 17}}; }

  TestNetwork& node(const std::string& name, const std::string& op,
                    const std::vector<std::string>& inputs,
                    const std::vector<std::string>& further_outputs = {}) {
    const auto id = static_cast<graph::NodeId>(graph_.nodes.size());
    graph::Node made;
    made.name = name;
    made.op = op;
    for (const auto& input : inputs) {
      made.inputs.push_back(value(input));
      auto& read = graph_.values[index(made.inputs.back())];
      if (!read.producer) read.is_input = true;
      if (read.consumers.empty() || read.consumers.back() != id) read.consumers.push_back(id);
    }
    made.outputs.push_back(value(name));
    for (const auto& output : further_outputs) made.outputs.push_back(value(output));
    for (const auto output : made.outputs) graph_.values[index(output)].producer = id;
    graph_.nodes.push_back(std::move(made));
    return *this;
  }
  TestNetwork& output(const std::string& name) {
    graph_.values[index(value(name))].is_output = true;
    return *this;
  }
  TestNetwork& size(const std::string& name, std::int64_t floats) {
    graph_.values[index(value(name))].type = vector(floats);
    return *this;
  }
  [[nodiscard]] graph::Graph get() const {
    auto graph = graph_;
    for (std::size_t i = 0; i < graph.values.size(); ++i) {
      auto& value = graph.values[i];
      if (value.consumers.empty()) value.is_output = true;
      if (value.is_input) graph.inputs.push_back(static_cast<graph::ValueId>(i));
      if (value.is_output) graph.outputs.push_back(static_cast<graph::ValueId>(i));
    }
    return graph;
  }

 private:
  static Type vector(std::int64_t floats) {
    return Type::tensor(DType::kF32, std::vector<Dim>{{floats, {}, Dim::kOpen}});
  }
  graph::ValueId value(const std::string& name) {
    if (const auto found = graph_.find_value(name)) return *found;
    graph::Value made;
    made.name = name;
    made.type = vector(4);
    graph_.values.push_back(std::move(made));
    return static_cast<graph::ValueId>(graph_.values.size() - 1);
  }

  graph::Graph graph_;
};

/// The sets of names, in order, such as "a; a b; b".
inline std::string shown(const graph::Graph& graph, const std::vector<Candidate>& candidates) {
  std::vector<std::string> sets;
  for (const auto& candidate : candidates) {
    sets.push_back(
        join(candidate.nodes, " ", [&](graph::NodeId id) { return graph.node(id).name; }));
  }
  return join(sets, "; ");
}

/// The rule without its frame.
inline Rule rule_of(const std::string& json) {
  auto rule = parse_rule(R"({"version": 1, "rule": )" + json + "}", "a test");
  return rule ? *std::move(rule) : throw std::runtime_error(rule.error().message());
}

}  // namespace penstock::collage
