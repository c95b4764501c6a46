// Builder: makes a Program of a graph, node by node. operators.h says how each is lowered.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "expression.h"
#include "penstock/graph/graph.h"
#include "program.h"
#include "source.h"

namespace penstock::cuda {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

/// How the libraries may compute f32.
struct Settings {
  bool optimize = true;  ///< False: every operator by itself.
  bool tf32 = false;     ///< On tensor cores, with 10 bits of mantissa.
};

class Builder {
 public:
  /// Without a GPU nothing is compiled: the texts alone are made, for tests.
  Builder(std::shared_ptr<Gpu> gpu, const Graph& graph, Settings settings);

  /// \error kUnimplemented  names the node, its operator and why.
  Result<std::shared_ptr<Program>> build();

  [[nodiscard]] const Graph& graph() const { return *graph_; }
  [[nodiscard]] const Settings& settings() const { return settings_; }
  [[nodiscard]] std::int64_t opset() const { return opset_; }
  [[nodiscard]] Gpu* gpu() const { return program_->gpu.get(); }

  // What is known of a value.
  [[nodiscard]] Dims dims(ValueId id) const { return dims_of(graph_->value(id).type); }
  [[nodiscard]] DType dtype(ValueId id) const { return graph_->value(id).type.dtype; }
  [[nodiscard]] const Tensor* constant(ValueId id) const { return lower::constant(*graph_, id); }
  [[nodiscard]] auto integers(ValueId id) const { return lower::integers(*graph_, id); }
  [[nodiscard]] auto scalar(ValueId id) const { return lower::scalar(*graph_, id); }
  [[nodiscard]] auto only_reader(ValueId id) const { return lower::only_reader(*graph_, id); }
  [[nodiscard]] bool given(const Node& node, std::size_t input) const {
    return node.inputs.size() > input && node.inputs[input] != ValueId::kNone;
  }

  // Values.
  /// False while the node that makes it is not lowered.
  [[nodiscard]] bool available(ValueId id) const;
  /// \pre available(id)
  Result<Expression> value(ValueId id);
  /// Computed: a place, of whatever strides.
  Result<Expression> place(ValueId id);
  /// Computed, one element after the other.
  Result<Expression> dense(ValueId id);
  Result<Expression> computed(const Expression& value);
  Result<Expression> densely(const Expression& value);
  /// Seen as `dims`, computed first where its strides do not allow it.
  Result<Expression> reshaped(const Expression& value, const Dims& dims);
  /// Computed now where several will read it, each for itself.
  Status define(ValueId id, Expression value);

  /// Memory for a result that a step will write: the output's own where the value leaves the graph.
  Expression new_place(ValueId id);
  Expression new_place(const Dims& dims, DType dtype);
  Expression new_constant(Tensor tensor);

  // Steps.
  void mark_done(NodeId id) { done_[graph::index(id)] = true; }
  [[nodiscard]] bool is_done(NodeId id) const { return done_[graph::index(id)]; }
  Status append(Kernel kernel);
  void append(std::vector<std::size_t> buffers, std::size_t workspace_bytes,
              std::function<Status(const Launch&)> enqueue);
  Status compute(const Expression& value, const Expression& place);

  /// All kernels' texts so far.
  [[nodiscard]] const std::vector<std::string>& sources() const { return sources_; }

 private:
  Status check_types() const;
  void take_inputs();
  Status lower(NodeId id);
  Status deliver_outputs();
  [[nodiscard]] bool is_read_together(ValueId id) const;

  std::shared_ptr<Program> program_;
  const Graph* graph_;
  Settings settings_;
  std::int64_t opset_;
  std::string node_name_;                          // Of the one being lowered.
  std::vector<std::optional<Expression>> values_;  // By ValueId.
  std::vector<bool> done_;                         // By NodeId.
  std::vector<std::string> sources_;
};

}  // namespace penstock::cuda
