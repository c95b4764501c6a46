// Subgraph: a convex set of nodes with its boundary.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/graph/graph.h"

namespace penstock::graph {

/// A set of nodes such that no path between two of them leaves it. Borrows the graph.
class Subgraph {
 public:
  /// \param nodes  any order; duplicates are ignored.
  /// \error kInvalidArgument  the set is empty, an id is out of range, or the set is not convex:
  ///                          the message names a path that leaves it and comes back.
  static Result<Subgraph> create(const Graph& graph, std::span<const NodeId> nodes);
  /// All nodes of the graph (which may have none).
  static Subgraph whole(const Graph& graph);

  [[nodiscard]] const Graph& graph() const { return *graph_; }
  [[nodiscard]] const std::vector<NodeId>& nodes() const { return nodes_; }  ///< Ascending.
  /// Values read from outside that are not constants (parameters count), in order of first use.
  /// whole(): all graph inputs in the model's order, used or not, then parameters.
  [[nodiscard]] const std::vector<ValueId>& inputs() const { return inputs_; }
  /// Values made here that are graph outputs or read outside, in order of production.
  /// whole(): the model's outputs in the model's order.
  [[nodiscard]] const std::vector<ValueId>& outputs() const { return outputs_; }
  /// Constants read here, ascending.
  [[nodiscard]] const std::vector<ValueId>& constants() const { return constants_; }

 private:
  const Graph* graph_ = nullptr;
  std::vector<NodeId> nodes_;
  std::vector<ValueId> inputs_, outputs_, constants_;
};

/// A digest of a constant's type and contents; of a large one it is computed once, as long as its
/// storage lives.
std::string content_hash(const Tensor& constant);

/// A digest that does not depend on names or on the order of the file: operators, attributes,
/// wiring, types of the inputs, and the constants' types and contents. Stable across runs,
/// machines and versions of ONNX's library.
std::string canonical_hash(const Subgraph& subgraph);

/// The same for many subgraphs of one graph: constants and attributes are read once. Borrows it.
class Hasher {
 public:
  enum class Constants {
    kContents,  ///< canonical_hash()
    /// Of weights (64 numbers or more, none denormal) the type only: layers that differ in their
    /// weights alone have one hash, since they take the same time.
    kTypes,
  };

  Hasher(const Graph& graph, Constants constants);
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  ~Hasher();

  [[nodiscard]] const Graph& graph() const { return *graph_; }
  /// \pre  a subgraph of graph()
  std::string hash(const Subgraph& subgraph);

  struct Known;

 private:
  const Graph* graph_;
  std::unique_ptr<Known> known_;
};

}  // namespace penstock::graph
