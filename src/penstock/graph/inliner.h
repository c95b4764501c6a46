// Nested graphs whose nodes come to stand in the graph around them. Internal to graph.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <onnx/onnx_pb.h>

#include "penstock/base/result.h"
#include "penstock/graph/draft.h"

namespace penstock::graph {

/// Which value a name in a nested graph stands for.
using Scope = std::unordered_map<std::string, ValueId>;

/// The graph in a node's attribute, where all that it reads from outside is among the node's
/// captures; else nothing.
std::optional<onnx::GraphProto> nested_graph(const Graph& graph, const Node& node,
                                             std::string_view attribute);

/// The values that a node captures, by their names.
Scope captures_of(const Graph& graph, const Node& node);

/// The constant of one element that a node reads there; nothing for another, or one that the user
/// may replace.
const Tensor* known_scalar(const Graph& graph, const Node& node, std::size_t input, DType dtype);

/// Gives what a graph reads from outside other names.
using NewNames = std::unordered_map<std::string, std::string>;
void rename_captures(onnx::GraphProto& graph, NewNames names);

/// Names that the graphs nested in a node define, at every depth.
void add_nested_names(const onnx::NodeProto& node, std::unordered_set<std::string>& names);

/// Nodes of a graph with those of its nested graphs, at every depth.
std::size_t count_nodes(const onnx::GraphProto& graph);

/// Writes the nodes of a draft anew, all of them: its list of nodes is empty at first.
class Inliner {
 public:
  explicit Inliner(Draft& draft);

  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }  ///< As they were.

  /// What is added from now on has the file's stage of node `position`.
  void begin(std::size_t position) { position_ = position; }
  /// New names begin so from now on.
  void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }

  void add(Node node);
  /// The only output of a new node of ONNX's own.
  ValueId add(const std::string& op, std::vector<ValueId> inputs, ValueId output,
              std::vector<Attribute> attributes = {});

  /// A new value; its name is the prefix and `name`, or like it where that is taken.
  ValueId fresh(const std::string& name);
  ValueId constant(const std::string& name, Tensor tensor);

  /// The names in a nested graph of what shall be the values `wanted` of its outputs: of what it
  /// makes itself, and once.
  [[nodiscard]] Scope claims(const onnx::GraphProto& nested,
                             const std::vector<ValueId>& wanted) const;
  /// Makes values of the constants that a nested graph holds: those claimed, else new ones.
  /// \error kDataLoss, kInvalidArgument  a tensor that cannot be read
  Result<Scope> copy_constants(const onnx::GraphProto& nested, const Scope& claimed);
  /// Adds the nodes of a nested graph, Constants left out. An output that is not what is wanted is
  /// copied.
  /// \param scope   what its nodes may read of captures, inputs and constants
  /// \param wanted  the values that its outputs shall be; kNone: a new one, or whatever it is
  /// \returns its outputs
  std::vector<ValueId> copy(const onnx::GraphProto& nested, Scope scope,
                            const std::vector<ValueId>& wanted);

  /// Leaves the graph linked and compact.
  void finish();

 private:
  class Copy;

  [[nodiscard]] std::string prefixed(const std::string& name) const;
  bool take_name(const std::string& name);

  Draft& draft_;
  Graph& graph_;
  std::vector<Node> nodes_;
  std::vector<int> stages_;
  std::size_t position_ = 0;
  std::string prefix_;
  std::unordered_set<std::string> taken_;  // Of values, here and in nested graphs; once needed.
};

}  // namespace penstock::graph
