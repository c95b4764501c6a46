// Small graphs for tests, written as text would be.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "penstock/graph/graph.h"

namespace penstock::partition {

inline Type vector_type() {
  return Type::tensor(DType::kF32, std::vector<Dim>{{4, {}, Dim::kOpen}});
}

class TestGraph {
 public:
  TestGraph() {
    graph_.info.name = "test";
    graph_.info.opsets = {{"", 17}};
  }

  TestGraph& input(const std::string& name) {
    const auto id = value(name);
    graph_.values[index(id)].is_input = true;
    graph_.inputs.push_back(id);
    return *this;
  }
  TestGraph& constant(const std::string& name, float number = 1) {
    auto tensor = Tensor::allocate(DType::kF32, {4});
    std::ranges::fill(tensor.as<float>(), number);
    graph_.values[index(value(name))].constant = tensor;
    return *this;
  }
  TestGraph& parameter(const std::string& name) {
    constant(name);
    const auto id = value(name);
    graph_.values[index(id)].is_parameter = true;
    graph_.parameters.push_back(id);
    return *this;
  }
  TestGraph& node(const std::string& name, const std::string& op,
                  const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                  int pipeline_stage = -1) {
    const auto id = static_cast<graph::NodeId>(graph_.nodes.size());
    graph::Node made;
    made.name = name;
    made.op = op;
    for (const auto& text : inputs) {
      made.inputs.push_back(value(text));
      auto& consumers = graph_.values[index(made.inputs.back())].consumers;
      if (consumers.empty() || consumers.back() != id) consumers.push_back(id);
    }
    for (const auto& text : outputs) {
      made.outputs.push_back(value(text));
      graph_.values[index(made.outputs.back())].producer = id;
    }
    graph_.nodes.push_back(std::move(made));
    graph_.pipeline_stages.push_back(pipeline_stage);
    return *this;
  }
  TestGraph& output(const std::string& name) {
    const auto id = value(name);
    graph_.values[index(id)].is_output = true;
    graph_.outputs.push_back(id);
    return *this;
  }
  TestGraph& removed(const std::string& name, const std::string& sentence) {
    graph_.removed[name] = sentence;
    return *this;
  }

  [[nodiscard]] const graph::Graph& get() const { return graph_; }
  operator const graph::Graph&() const { return graph_; }  // NOLINT(*-explicit-*): reads as one

 private:
  graph::ValueId value(const std::string& name) {
    if (const auto found = graph_.find_value(name)) return *found;
    graph::Value made;
    made.name = name;
    made.type = vector_type();
    graph_.values.push_back(std::move(made));
    return static_cast<graph::ValueId>(graph_.values.size() - 1);
  }

  graph::Graph graph_;
};

/// x -> a -> b -> c -> d -> y, tensors ta, tb, tc.
inline TestGraph chain_graph() {
  TestGraph graph;
  graph.input("x").node("a", "Relu", {"x"}, {"ta"}).node("b", "Sin", {"ta"}, {"tb"});
  graph.node("c", "Cos", {"tb"}, {"tc"}).node("d", "Abs", {"tc"}, {"y"}).output("y");
  return graph;
}

/// a, then left (l) and right (r1, r2), joined by j.
inline TestGraph diamond_graph() {
  TestGraph graph;
  graph.input("x").node("a", "Relu", {"x"}, {"ta"}).node("l", "Sin", {"ta"}, {"tl"});
  graph.node("r1", "Cos", {"ta"}, {"tr1"}).node("r2", "Abs", {"tr1"}, {"tr2"});
  graph.node("j", "Add", {"tl", "tr2"}, {"y"}).output("y");
  return graph;
}

}  // namespace penstock::partition
