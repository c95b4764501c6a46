// Hashes subgraphs without their names: each value by its origin, then a walk from the outputs.
#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <unordered_map>

#include "penstock/base/hash.h"
#include "penstock/graph/proto.h"
#include "penstock/graph/subgraph.h"
#include "penstock/tensor/memo.h"
#include "penstock/tensor/number.h"

namespace penstock::graph {
namespace {

/// A hash of tagged, length-prefixed pieces: no two sequences of pieces are the same bytes.
class Digest {
 public:
  Digest& put(std::uint64_t number) {
    char bytes[sizeof number];
    for (std::size_t i = 0; i < sizeof number; ++i) {
      bytes[i] = static_cast<char>((number >> (8 * i)) & 0xFFU);
    }
    hash_.update(std::string_view(bytes, sizeof bytes));
    return *this;
  }
  Digest& put(std::string_view text) {
    put(std::uint64_t{text.size()});
    hash_.update(text);
    return *this;
  }
  Digest& put(const char* text) { return put(std::string_view(text)); }
  std::string finish() { return hash_.finish(); }

 private:
  Sha256 hash_;
};

void put(Digest& digest, const Tensor& tensor) {
  digest.put(static_cast<std::uint64_t>(tensor.dtype())).put(tensor.dims().size());
  for (const auto dim : tensor.dims()) digest.put(static_cast<std::uint64_t>(dim));
  if (tensor.kind() == Tensor::Kind::kStrings) {
    for (const auto& text : tensor.strings()) digest.put(text);
  } else {
    digest.put(std::string_view(static_cast<const char*>(tensor.data()), tensor.bytes()));
  }
}

/// Symbols count by where they recur, not by their names.
class Symbols {
 public:
  void put(Digest& digest, const Type& type) {
    digest.put(static_cast<std::uint64_t>(type.kind)).put(static_cast<std::uint64_t>(type.dtype));
    digest.put(type.onnx).put(type.ranked ? type.dims.size() : UINT64_MAX);
    for (const auto& dim : type.dims) {
      digest.put(static_cast<std::uint64_t>(dim.size)).put(static_cast<std::uint64_t>(dim.bound));
      if (dim.fixed() || dim.symbol.empty()) continue;
      digest.put(numbers_.emplace(dim.symbol, numbers_.size()).first->second);
    }
  }

 private:
  std::map<std::string, std::uint64_t> numbers_;
};

/// A nested graph under names that its structure alone gives.
class BodyNames {
 public:
  /// `outer`: what the node's bodies capture, in order; all bodies of a node share these numbers.
  explicit BodyNames(const std::vector<std::string>& outer) {
    for (const auto& name : outer) numbers_.emplace(name, numbers_.size());
  }

  onnx::GraphProto rename(const onnx::GraphProto& graph) {
    onnx::GraphProto plain;
    for (const auto& input : graph.input()) {
      auto* to = plain.add_input();
      *to->mutable_type() = input.type();
      to->set_name(number(input.name()));
    }
    for (const auto& node : graph.node()) add_node(node, plain);
    for (const auto& output : graph.output()) plain.add_output()->set_name(number(output.name()));
    // Constants come in the order of their first use, so after the nodes.
    std::map<std::string, onnx::TensorProto> constants;
    for (const auto& constant : graph.initializer()) {
      const auto known = numbers_.find(constant.name());
      if (known == numbers_.end()) continue;
      auto& to = constants[concat(known->second)];
      const auto tensor = tensor_of(constant);
      if (tensor) fill(*tensor, number(constant.name()), to);
    }
    for (auto& [name, constant] : constants) *plain.add_initializer() = std::move(constant);
    for (const auto& constant : graph.sparse_initializer()) {
      auto* to = plain.add_sparse_initializer();
      *to = constant;
      to->mutable_values()->set_name(number(constant.values().name()));
    }
    return plain;
  }

 private:
  void add_node(const onnx::NodeProto& node, onnx::GraphProto& graph) {
    auto* to = graph.add_node();
    to->set_op_type(node.op_type());
    to->set_domain(node.domain());
    to->set_overload(node.overload());
    for (const auto& name : node.input()) to->add_input(number(name));
    for (const auto& name : node.output()) to->add_output(number(name));
    std::vector<const onnx::AttributeProto*> attributes;
    for (const auto& attribute : node.attribute()) attributes.push_back(&attribute);
    std::ranges::sort(attributes, {}, [](const auto* attribute) { return attribute->name(); });
    for (const auto* attribute : attributes) *to->add_attribute() = plain(*attribute);
  }

  onnx::AttributeProto plain(const onnx::AttributeProto& attribute) {
    auto copy = attribute;
    copy.clear_doc_string();
    if (copy.has_g()) *copy.mutable_g() = rename(attribute.g());
    for (int i = 0; i < copy.graphs_size(); ++i) {
      *copy.mutable_graphs(i) = rename(attribute.graphs(i));
    }
    return copy;
  }

  std::string number(const std::string& name) {
    if (name.empty()) return name;
    return std::to_string(numbers_.emplace(name, numbers_.size()).first->second);
  }

  std::map<std::string, std::size_t> numbers_;
};

void put_opaque(Digest& digest, const Attribute::Opaque& opaque,
                const std::vector<std::string>& outer) {
  onnx::AttributeProto proto;
  if (!proto.ParseFromString(opaque.onnx)) {
    digest.put(opaque.onnx);
    return;
  }
  if (proto.type() == onnx::AttributeProto::TENSOR) {
    if (const auto tensor = tensor_of(proto.t())) return put(digest.put("tensor"), *tensor);
  }
  proto.clear_doc_string();
  BodyNames names(outer);
  if (proto.has_g()) *proto.mutable_g() = names.rename(onnx::GraphProto(proto.g()));
  for (auto& graph : *proto.mutable_graphs()) graph = names.rename(onnx::GraphProto(graph));
  digest.put("message").put(proto.SerializeAsString());
}

void put(Digest& digest, const Attribute& attribute, const std::vector<std::string>& outer) {
  digest.put(attribute.name).put(attribute.value.index());
  if (const auto* i = std::get_if<std::int64_t>(&attribute.value)) {
    digest.put(static_cast<std::uint64_t>(*i));
  } else if (const auto* f = std::get_if<float>(&attribute.value)) {
    digest.put(std::uint64_t{std::bit_cast<std::uint32_t>(*f)});
  } else if (const auto* s = std::get_if<std::string>(&attribute.value)) {
    digest.put(*s);
  } else if (const auto* ints = std::get_if<std::vector<std::int64_t>>(&attribute.value)) {
    digest.put(ints->size());
    for (const auto item : *ints) digest.put(static_cast<std::uint64_t>(item));
  } else if (const auto* floats = std::get_if<std::vector<float>>(&attribute.value)) {
    digest.put(floats->size());
    for (const auto item : *floats) digest.put(std::uint64_t{std::bit_cast<std::uint32_t>(item)});
  } else if (const auto* texts = std::get_if<std::vector<std::string>>(&attribute.value)) {
    digest.put(texts->size());
    for (const auto& item : *texts) digest.put(item);
  } else if (const auto* opaque = std::get_if<Attribute::Opaque>(&attribute.value)) {
    put_opaque(digest, *opaque, outer);
  }
}

/// Whether an engine takes the same time whatever the numbers are: weights, but for denormals,
/// which are slow. Small tensors may be shapes, axes, bounds or scales.
bool is_weight(const Tensor& tensor) {
  constexpr std::size_t kFewest = 64;
  if (tensor.kind() != Tensor::Kind::kDense || tensor.count() < kFewest) return false;
  switch (tensor.dtype()) {
    case DType::kF32:
      return !has_denormals(tensor);
    case DType::kF16:
    case DType::kBF16:
    case DType::kI8:
    case DType::kU8:
      return true;
    default:
      return false;
  }
}

}  // namespace

/// Hashes of what does not hang on the subgraph. Attributes and constants can be large.
struct Hasher::Known {
  explicit Known(Constants constants_as) : how(constants_as) {}

  const std::string& constant(const Graph& graph, ValueId id) {
    auto& hash = constants[id];
    if (!hash.empty()) return hash;
    const Tensor& tensor = *graph.value(id).constant;
    if (how != Constants::kTypes || !is_weight(tensor)) return hash = content_hash(tensor);
    Digest digest;
    digest.put("weight").put(static_cast<std::uint64_t>(tensor.dtype()));
    for (const auto dim : tensor.dims()) digest.put(static_cast<std::uint64_t>(dim));
    return hash = digest.finish();
  }

  /// What a node is, its wiring left out.
  const std::string& own(const Graph& graph, NodeId id) {
    auto& hash = nodes[id];
    if (hash.empty()) hash = own_hash(graph, graph.node(id));
    return hash;
  }

  static std::string own_hash(const Graph& graph, const Node& node) {
    Digest digest;
    const auto opset = graph.info.opsets.find(node.domain);
    const auto version = opset == graph.info.opsets.end() ? 0 : opset->second;
    digest.put(node.op)
        .put(node.domain)
        .put(node.overload)
        .put(static_cast<std::uint64_t>(version));
    digest.put(node.inputs.size()).put(node.captures.size()).put(node.attributes.size());
    std::vector<std::string> outer;
    for (const auto id : node.captures) outer.push_back(graph.value(id).name);
    for (const auto& attribute : node.attributes) put(digest, attribute, outer);
    for (const auto id : node.outputs) digest.put(id == ValueId::kNone ? 0U : 1U);
    return digest.finish();
  }

  Constants how;
  std::map<ValueId, std::string> constants;
  std::map<NodeId, std::string> nodes;
};

namespace {

/// Hashes in two passes. First every value gets a hash of all that it is computed from, in which
/// inputs of one type look alike; it puts outputs in an order that does not hang on the file's.
/// Then a walk from the outputs numbers everything on the way, which tells the inputs apart.
class Canon {
 public:
  Canon(const Subgraph& subgraph, Hasher::Known& known)
      : subgraph_(subgraph), graph_(subgraph.graph()), known_(known) {}

  std::string hash() {
    for (const auto id : subgraph_.inputs()) {
      Digest digest;
      put_input(digest, id);
      local_[id] = digest.finish();
    }
    for (const auto id : subgraph_.constants()) local_[id] = known_.constant(graph_, id);
    for (const auto id : subgraph_.nodes()) hash_node(id);

    auto outputs = subgraph_.outputs();
    std::ranges::stable_sort(outputs, {}, [&](ValueId id) { return local_[id]; });
    for (const auto id : outputs) walk(id);
    // What no output depends on, and inputs that nothing reads.
    std::vector<std::string> rest;
    for (const auto id : subgraph_.nodes()) {
      if (!numbers_.contains(key(id))) rest.push_back(node_hash_[id]);
    }
    for (const auto id : subgraph_.inputs()) {
      if (!numbers_.contains(key(id))) rest.push_back(local_[id]);
    }
    std::ranges::sort(rest);
    for (const auto& hash : rest) final_.put("unused").put(hash);
    final_.put("outputs").put(outputs.size());
    for (const auto id : outputs) final_.put(reference(id));
    return final_.finish();
  }

 private:
  static std::uint64_t key(NodeId id) { return index(id); }
  static std::uint64_t key(ValueId id) { return (std::uint64_t{1} << 32U) + index(id); }

  void put_input(Digest& digest, ValueId id) const {
    const auto& value = graph_.value(id);
    Symbols().put(digest.put(value.is_parameter ? "parameter" : "input"), value.type);
  }

  [[nodiscard]] std::vector<ValueId> reads_of(const Node& node) const {
    auto reads = node.inputs;
    reads.insert(reads.end(), node.captures.begin(), node.captures.end());
    return reads;
  }

  void hash_node(NodeId id) {
    const auto& node = graph_.node(id);
    own_[id] = known_.own(graph_, id);
    Digest digest;
    digest.put(own_[id]);
    for (const auto read : reads_of(node)) {
      digest.put(read == ValueId::kNone ? std::string_view("none") : local_[read]);
    }
    node_hash_[id] = digest.finish();
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == ValueId::kNone) continue;
      local_[node.outputs[i]] = Digest().put(node_hash_[id]).put(i).finish();
    }
  }

  /// The node of this subgraph that makes the value.
  [[nodiscard]] std::optional<NodeId> maker(ValueId id) const {
    const auto producer = graph_.value(id).producer;
    return producer && own_.contains(*producer) ? producer : std::nullopt;
  }

  /// A depth-first walk without recursion: graphs are deep.
  void walk(ValueId output) {
    std::vector<std::pair<ValueId, bool>> pending{{output, false}};
    while (!pending.empty()) {
      const auto [id, ready] = pending.back();
      pending.pop_back();
      const auto node = maker(id);
      if (numbers_.contains(node ? key(*node) : key(id))) continue;
      if (!node) {
        number_leaf(id);
      } else if (ready) {
        number_node(*node);
      } else {
        pending.emplace_back(id, true);
        const auto reads = reads_of(graph_.node(*node));
        for (auto read = reads.rbegin(); read != reads.rend(); ++read) {
          if (*read != ValueId::kNone) pending.emplace_back(*read, false);
        }
      }
    }
  }

  void number_leaf(ValueId id) {
    numbers_.emplace(key(id), numbers_.size());
    const auto& value = graph_.value(id);
    final_.put("leaf").put(local_[id]);
    if (!value.constant || value.is_parameter) symbols_.put(final_, value.type);
  }

  void number_node(NodeId id) {
    final_.put("node").put(own_[id]);
    for (const auto read : reads_of(graph_.node(id))) final_.put(reference(read));
    numbers_.emplace(key(id), numbers_.size());
  }

  std::string reference(ValueId id) {
    if (id == ValueId::kNone) return "none";
    const auto node = maker(id);
    if (!node) return concat("leaf ", numbers_[key(id)]);
    const auto& outputs = graph_.node(*node).outputs;
    const auto position = std::ranges::find(outputs, id) - outputs.begin();
    return concat("node ", numbers_[key(*node)], " ", position);
  }

  const Subgraph& subgraph_;
  const Graph& graph_;
  Hasher::Known& known_;
  Digest final_;
  Symbols symbols_;
  std::map<ValueId, std::string> local_;
  std::map<NodeId, std::string> own_;
  std::map<NodeId, std::string> node_hash_;
  std::unordered_map<std::uint64_t, std::uint64_t> numbers_;
};

}  // namespace

Hasher::Hasher(const Graph& graph, Constants constants)
    : graph_(&graph), known_(std::make_unique<Known>(constants)) {}
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;
Hasher::~Hasher() = default;

std::string Hasher::hash(const Subgraph& subgraph) {
  return Canon(subgraph, *known_).hash();
}

std::string content_hash(const Tensor& constant) {
  static TensorMemo<std::string> memo;
  return memo.get(constant, [&] {
    Digest digest;
    put(digest.put("constant"), constant);
    return digest.finish();
  });
}

std::string canonical_hash(const Subgraph& subgraph) {
  return Hasher(subgraph.graph(), Hasher::Constants::kContents).hash(subgraph);
}

}  // namespace penstock::graph
