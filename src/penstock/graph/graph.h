// Graph: an imported model. Immutable, typed, in a fixed topological order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "penstock/tensor/tensor.h"

namespace penstock::graph {

/// 0-based position in topological order: the index that `penstock show` prints and --cut takes.
enum class NodeId : std::uint32_t {};
enum class ValueId : std::uint32_t { kNone = UINT32_MAX };  ///< kNone: an optional input left out.

constexpr std::size_t index(NodeId id) {
  return static_cast<std::size_t>(id);
}
constexpr std::size_t index(ValueId id) {
  return static_cast<std::size_t>(id);
}

/// An attribute as ONNX has it. Tensors, graphs and rarer kinds stay serialised.
struct Attribute {
  struct Opaque {
    std::string onnx;  ///< The serialised onnx.AttributeProto.
    bool operator==(const Opaque&) const = default;
  };
  std::string name;
  std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>, std::vector<float>,
               std::vector<std::string>, Opaque>
      value;
  bool operator==(const Attribute&) const = default;
};

struct Node {
  std::string name;    ///< Unique in the graph; made up from the operator and index where empty.
  std::string op;      ///< "Conv"
  std::string domain;  ///< "" is ONNX's own.
  std::string overload;
  std::vector<ValueId> inputs;        ///< In the operator's order; kNone where left out.
  std::vector<ValueId> outputs;       ///< kNone where left out.
  std::vector<ValueId> captures;      ///< Outer values that nested graphs (If, Loop, Scan) read.
  std::vector<Attribute> attributes;  ///< Sorted by name.
  std::map<std::string, std::string> metadata;  ///< ONNX metadata_props, such as layer_ann.

  /// Integer attribute `name`, or `otherwise` where absent or of another kind.
  [[nodiscard]] std::int64_t int_or(std::string_view name, std::int64_t otherwise) const;
  [[nodiscard]] std::vector<std::int64_t> ints_or(std::string_view name,
                                                  std::vector<std::int64_t> otherwise) const;
  [[nodiscard]] const Attribute* find(std::string_view name) const;
};

struct Value {
  std::string name;
  Type type;
  std::optional<NodeId> producer;  ///< Empty: a graph input or a constant.
  std::vector<NodeId> consumers;   ///< Ascending, unique; captures count.
  std::optional<Tensor> constant;  ///< An initialiser. Its storage may be mapped from a file.
  bool is_input = false;
  bool is_output = false;
  bool is_parameter = false;        ///< Named by --parameter: `constant` is only its default.
  std::optional<WholeRange> range;  ///< Of an input: what all its readers take, where they tell.
  std::vector<std::string> words;   ///< Of an input of texts: those that its readers know.
};

/// The model's own words, carried through to the models written from it.
struct ModelInfo {
  std::string name;  ///< The graph's name.
  std::int64_t ir_version = 10;
  std::map<std::string, std::int64_t> opsets;  ///< Domain -> version.
  std::map<std::string, std::string> metadata;
};

/// How the import went.
struct ImportNotes {
  std::filesystem::path file;    ///< As it was given; empty for a model in memory.
  std::size_t file_nodes = 0;    ///< Before cleaning, functions inlined.
  std::size_t folded_nodes = 0;  ///< Evaluated to constants.
  /// Constants were to be folded and no engine could: names and indices may differ from those of
  /// an import elsewhere.
  bool not_folded = false;
};

/// An input of the file that has one value for good.
struct BoundInput {
  std::string name;
  Tensor value;
  /// Among the file's inputs, those with a default left out; behind them: it has one.
  std::size_t position = 0;
};

/// A network: nodes, the values between them, and what the import did to the file's.
struct Graph {
  ModelInfo info;
  ImportNotes import;
  std::vector<Node> nodes;       ///< Topological order; NodeId is the position.
  std::vector<Value> values;     ///< ValueId is the position.
  std::vector<ValueId> inputs;   ///< In the model's order, parameters and constants left out.
  std::vector<ValueId> outputs;  ///< In the model's order. One value may stand twice.
  std::vector<ValueId> parameters;
  std::vector<BoundInput> bound_inputs;  ///< Constants, no longer among `inputs`.
  /// What became of names that the import folded or removed: old name (of node or tensor) -> a
  /// sentence such as "folded into constant 'w'" or "removed, an Identity of 'x'".
  std::map<std::string, std::string> removed;
  /// `pipeline_stage` of each node in the file's device configurations (ONNX, IR 11 on): for which
  /// stage it is meant, or -1. Size = nodes.
  std::vector<int> pipeline_stages;

  [[nodiscard]] const Node& node(NodeId id) const { return nodes[index(id)]; }
  [[nodiscard]] const Value& value(ValueId id) const { return values[index(id)]; }
  /// For errors; see place_of_node().
  [[nodiscard]] std::vector<Where> place_of(const Node& node) const;
  [[nodiscard]] std::optional<NodeId> find_node(std::string_view name) const;
  [[nodiscard]] std::optional<ValueId> find_value(std::string_view name) const;
};

/// Multiply-accumulates of a node (of products of matrices, Einsum, convolutions, Attention, LSTM,
/// GRU, RNN and their quantised kin; 0 for others of ONNX's own), or empty where shapes are open,
/// or what it computes is not known here: control flow, operators of other domains.
std::optional<std::uint64_t> known_macs_of(const Graph& graph, NodeId node);

/// known_macs_of(), 0 where they cannot be known.
std::uint64_t macs_of(const Graph& graph, NodeId node);

/// Bytes of the constants a node reads.
std::uint64_t weight_bytes_of(const Graph& graph, NodeId node);

/// The readable listing of `penstock show`: one line a node.
std::string to_text(const Graph& graph);

}  // namespace penstock::graph
