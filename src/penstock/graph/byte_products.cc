// Signed bytes and their zero point both move by 128.
#include "penstock/graph/byte_products.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <onnx/defs/schema.h>
#include <onnx/shape_inference/implementation.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "penstock/base/error.h"
#include "penstock/graph/free_name.h"
#include "penstock/graph/import.h"
#include "penstock/graph/proto.h"

namespace penstock::graph {
namespace {

constexpr int kSumsOpset = 14;  ///< As good as any from 7 on.
constexpr int kItself = -1;     ///< The node makes unsigned bytes of floats by itself.

/// Where an operator has its inputs.
struct ByteProduct {
  std::string_view domain, op;
  int data, data_zero, weights, zero;
};

constexpr std::string_view kMicrosoft = "com.microsoft";
constexpr auto kByteProducts = std::to_array<ByteProduct>({
    {"", "MatMulInteger", 0, 2, 1, 3},
    {"", "ConvInteger", 0, 2, 1, 3},
    {"", "QLinearMatMul", 0, 2, 3, 5},
    {"", "QLinearConv", 0, 2, 3, 5},
    {kMicrosoft, "QLinearConv", 0, 2, 3, 5},
    {kMicrosoft, "QGemm", 0, 2, 3, 5},
    {kMicrosoft, "QAttention", 0, 6, 1, 7},
    {kMicrosoft, "MatMulIntegerToFloat", 0, 4, 1, 5},
    {kMicrosoft, "DynamicQuantizeMatMul", kItself, kItself, 1, 3},
    {kMicrosoft, "DynamicQuantizeLSTM", kItself, kItself, 1, 9},
    {kMicrosoft, "DynamicQuantizeLSTM", kItself, kItself, 2, 11},
});

bool is_of(const ByteProduct& product, const onnx::NodeProto& node) {
  return product.op == node.op_type() && product.domain == node.domain();
}

std::string input_of(const onnx::NodeProto& node, int i) {
  return i >= 0 && i < node.input_size() ? node.input(i) : std::string();
}

void put_input(onnx::NodeProto& node, int i, const std::string& name) {
  while (node.input_size() <= i) node.add_input();
  node.set_input(i, name);
}

Tensor larger_by_128(const Tensor& value) {
  constexpr std::uint8_t kSign = 0x80;
  auto moved = Tensor::allocate(DType::kU8, value.dims());
  const auto* const from = static_cast<const std::uint8_t*>(value.data());
  std::transform(from, from + value.count(), moved.as<std::uint8_t>().begin(),
                 [](std::uint8_t bits) { return static_cast<std::uint8_t>(bits ^ kSign); });
  return moved;
}

using Types = std::unordered_map<std::string, int>;  ///< TensorProto::DataType by name.

/// What the graph says of its own names.
void read_types(const onnx::GraphProto& graph, Types& types) {
  for (const auto* infos : {&graph.input(), &graph.value_info(), &graph.output()}) {
    for (const auto& info : *infos) {
      if (info.type().has_tensor_type()) {
        types.insert_or_assign(info.name(), info.type().tensor_type().elem_type());
      }
    }
  }
  for (const auto& one : graph.initializer()) types.insert_or_assign(one.name(), one.data_type());
  for (const auto& one : graph.sparse_initializer()) {
    types.insert_or_assign(one.values().name(), one.values().data_type());
  }
}

void collect_names(const onnx::GraphProto& graph, std::unordered_set<std::string>& names) {
  for (const auto* infos : {&graph.input(), &graph.value_info(), &graph.output()}) {
    for (const auto& info : *infos) names.insert(info.name());
  }
  for (const auto& one : graph.initializer()) names.insert(one.name());
  for (const auto& one : graph.sparse_initializer()) names.insert(one.values().name());
  for (const auto& node : graph.node()) {
    names.insert(node.name());
    names.insert(node.output().begin(), node.output().end());
    for_each_nested_graph(node, [&](const auto& nested) { collect_names(nested, names); });
  }
}

void collect_read(const onnx::GraphProto& graph, std::unordered_set<std::string>& read) {
  for (const auto& output : graph.output()) read.insert(output.name());
  for (const auto& node : graph.node()) {
    read.insert(node.input().begin(), node.input().end());
    for_each_nested_graph(node, [&](const auto& nested) { collect_read(nested, read); });
  }
}

bool has_products(const Nodes& nodes) {
  return find_node(nodes, [](const onnx::NodeProto& node) {
           return std::ranges::any_of(kByteProducts, [&](auto& one) { return is_of(one, node); });
         }) != nullptr;
}

/// Calls `visit(graph, twin)` for every graph that stands directly in the node's attributes, beside
/// that of the same node with more types.
template <typename Node, typename Visit>
void for_each_nested_pair(Node& node, const onnx::NodeProto& inferred, Visit visit) {
  std::vector<const onnx::GraphProto*> twins;
  for_each_nested_graph(inferred, [&](const auto& nested) { twins.push_back(&nested); });
  auto twin = twins.begin();
  for_each_nested_graph(node, [&](auto& nested) { visit(nested, **twin++); });
}

/// What a graph's nodes see.
struct Visible {
  Types types;
  std::unordered_set<std::string> inner;  ///< Names of nested graphs' own, which hide outer ones.
};

/// Operators that only move bytes about, those of their first input.
constexpr std::string_view kByteMovers[] = {"Identity",  "Transpose", "Reshape", "Squeeze",
                                            "Unsqueeze", "Flatten",   "Gather",  "Slice"};

/// Floats that a DequantizeLinear made of bytes.
struct Dequantised {
  bool is_signed;
  bool always;  ///< They always have one value, which this graph knows.
};

/// Walks a graph; `made` and `types` are those of the graphs around it, `always` the names of
/// constants of its own that always have their value.
bool multiplies_mixed_floats(const onnx::GraphProto& graph, const onnx::GraphProto& inferred,
                             Types types, std::unordered_map<std::string, Dequantised> made,
                             const std::unordered_set<std::string>& always) {
  for (const auto& name : names_in(graph)) {
    types.erase(name);
    made.erase(name);
  }
  read_types(graph, types);
  read_types(inferred, types);
  for (int i = 0; i < graph.node_size(); ++i) {
    const auto& node = graph.node(i);
    const auto& op = node.op_type();
    if (op == "DequantizeLinear" && node.output_size() == 1) {
      const auto type = types.find(input_of(node, 0));
      if (type == types.end()) continue;
      const bool is_signed = type->second == onnx::TensorProto::INT8;
      if (!is_signed && type->second != onnx::TensorProto::UINT8) continue;
      made.insert_or_assign(node.output(0),
                            Dequantised{is_signed, always.contains(input_of(node, 0))});
    } else if (op == "MatMul" || op == "Gemm" || op == "Conv") {
      const auto a = made.find(input_of(node, 0)), b = made.find(input_of(node, 1));
      if (a == made.end() || b == made.end() || a->second.is_signed == b->second.is_signed)
        continue;
      if (!(a->second.is_signed ? a : b)->second.always) return true;
    }
    bool found = false;
    for_each_nested_pair(node, inferred.node(i), [&](const auto& nested, const auto& known) {
      found = found || multiplies_mixed_floats(nested, known, types, made, {});
    });
    if (found) return true;
  }
  return false;
}

class ByteProducts {
 public:
  ByteProducts(onnx::ModelProto& model, Weights& weights, const std::set<std::string>& replaceable)
      : model_(model), main_(*model.mutable_graph()), weights_(weights), replaceable_(replaceable) {
    collect_names(main_, names_);
    for (const auto& input : main_.input()) listed_.insert(input.name());
    for (const auto& constant : main_.initializer()) always_.insert(constant.name());
    for (const auto& node : main_.node()) take_constant(node);
  }

  bool make_whole(const onnx::GraphProto& inferred) {
    visit(main_, inferred, {});
    drop_unread();
    return changed_;
  }

 private:
  /// A Constant node's bytes are either among the weights or, where there are few, its own.
  void take_constant(const onnx::NodeProto& node) {
    if (!is_constant(node)) return;
    for (const auto& attribute : node.attribute()) {
      const bool bytes =
          attribute.name() == "value" && attribute.t().data_type() == onnx::TensorProto::INT8;
      if (!bytes) continue;
      always_.insert(node.output(0));
      if (weights_.contains(node.output(0))) continue;
      if (auto tensor = tensor_of(attribute.t())) {
        constant_nodes_.insert_or_assign(node.output(0), *std::move(tensor));
      }
    }
  }

  /// `inferred`: the graph with more types. `visible`: of the graphs around it.
  void visit(onnx::GraphProto& graph, const onnx::GraphProto& inferred, Visible visible) {
    if (&graph != &main_) {
      for (const auto& name : names_in(graph)) {
        visible.types.erase(name);
        visible.inner.insert(name);
      }
    }
    read_types(graph, visible.types);
    read_types(inferred, visible.types);
    std::map<std::string, std::string> computed;
    Nodes nodes;
    for (int i = 0; i < graph.node_size(); ++i) {
      auto& node = *graph.mutable_node(i);
      for_each_nested_pair(node, inferred.node(i),
                           [&](onnx::GraphProto& nested, const onnx::GraphProto& known) {
                             visit(nested, known, visible);
                           });
      note_types(node, visible.types);
      for (const auto& product : kByteProducts) {
        if (is_of(product, node) && is_mixed(product, node, visible.types)) {
          move(product, node, visible, computed, nodes);
        }
      }
      *nodes.Add() = std::move(node);
    }
    graph.mutable_node()->Swap(&nodes);
  }

  /// Where inference has given up on the model, or does not know the operator.
  static void note_types(const onnx::NodeProto& node, Types& types) {
    const auto note = [&](int output, int type) {
      if (output < node.output_size()) types.try_emplace(node.output(output), type);
    };
    if (node.op_type() == "DynamicQuantizeLinear") {
      note(0, onnx::TensorProto::UINT8);
      note(2, onnx::TensorProto::UINT8);
    } else if (node.op_type() == "QuantizeLinear") {
      const auto zero = types.find(input_of(node, 2));
      note(0, zero == types.end() ? onnx::TensorProto::UINT8 : zero->second);
    }
  }

  /// Of unsigned bytes and signed ones. A zero point is of the bytes' type.
  static bool is_mixed(const ByteProduct& product, const onnx::NodeProto& node,
                       const Types& types) {
    const auto either = [&](int bytes, int zero) {
      for (const auto i : {bytes, zero}) {
        if (const auto at = types.find(input_of(node, i)); at != types.end()) return at->second;
      }
      return static_cast<int>(onnx::TensorProto::UNDEFINED);
    };
    return (product.data == kItself ||
            either(product.data, product.data_zero) == onnx::TensorProto::UINT8) &&
           either(product.weights, product.zero) == onnx::TensorProto::INT8;
  }

  void move(const ByteProduct& product, onnx::NodeProto& node, const Visible& visible,
            std::map<std::string, std::string>& computed, Nodes& before) {
    changed_ = true;
    const auto moved = [&](int i) {
      const auto name = input_of(node, i);
      if (name.empty()) return zero_of(128);
      if (auto constant = moved_constant(name, visible)) return *std::move(constant);
      const auto [at, fresh] = computed.try_emplace(name);
      if (fresh) {
        auto again = moved_again(name, visible, before);
        at->second = again ? *std::move(again) : add_computed(name, before);
      }
      return at->second;
    };
    const auto weights = moved(product.weights), zero = moved(product.zero);
    put_input(node, product.weights, weights);
    put_input(node, product.zero, zero);
    // OpenVINO (2026.4) takes no name that is left out in front of another one.
    const bool left_out = product.data_zero != kItself && product.data_zero < product.zero &&
                          input_of(node, product.data_zero).empty();
    if (left_out && product.domain.empty()) put_input(node, product.data_zero, zero_of(0));
  }

  /// The copy of a constant of the main graph that always has its value.
  std::optional<std::string> moved_constant(const std::string& name, const Visible& visible) {
    if (visible.inner.contains(name)) return std::nullopt;
    if (const auto known = constants_.find(name); known != constants_.end()) return known->second;
    if (!always_.contains(name) || replaceable_.contains(name)) return std::nullopt;
    const Tensor* value = nullptr;
    for (const auto* all : {&weights_, &constant_nodes_}) {
      if (const auto at = all->find(name); at != all->end()) value = &at->second;
    }
    if (value == nullptr || value->kind() != Tensor::Kind::kDense || value->dtype() != DType::kI8) {
      return std::nullopt;
    }
    auto larger = larger_by_128(*value);
    return constants_[name] = add_constant(name + "/unsigned", std::move(larger));
  }

  /// What a node of `before` makes of a constant by moving its bytes, made of the constant's copy:
  /// no sum, which would take four times the memory where it is folded.
  std::optional<std::string> moved_again(const std::string& name, const Visible& visible,
                                         Nodes& before) {
    const auto maker = std::ranges::find_if(before, [&](const onnx::NodeProto& node) {
      return node.domain().empty() && node.output_size() == 1 && node.output(0) == name &&
             std::ranges::find(kByteMovers, node.op_type()) != std::end(kByteMovers);
    });
    if (maker == before.end()) return std::nullopt;
    auto constant = moved_constant(maker->input(0), visible);
    if (!constant) return std::nullopt;
    onnx::NodeProto copy = *maker;
    copy.set_input(0, *constant);
    copy.set_output(0, take_name(name + "/unsigned"));
    copy.set_name(take_name(copy.output(0) + "/node"));
    *before.Add() = copy;
    return copy.output(0);
  }

  std::string zero_of(std::uint8_t value) {
    const auto [at, fresh] = zeros_.try_emplace(value);
    if (fresh) {
      auto tensor = Tensor::allocate(DType::kU8, {});
      tensor.as<std::uint8_t>()[0] = value;
      at->second = add_constant(concat("zero_point_", int{value}), std::move(tensor));
    }
    return at->second;
  }

  std::string add_constant(const std::string& wanted, Tensor value) {
    auto name = take_name(wanted);
    fill_header(value, name, *main_.add_initializer());
    weights_.insert_or_assign(name, std::move(value));
    return name;
  }

  /// Adds 128 in whole numbers, as there is no sum of bytes.
  std::string add_computed(const std::string& name, Nodes& before) {
    if (offset_.empty()) {
      name_opset();
      auto tensor = Tensor::allocate(DType::kI32, {});
      tensor.as<std::int32_t>()[0] = 128;
      offset_ = add_constant("sign_of_bytes", std::move(tensor));
    }
    const auto cast = [&](const std::string& from, onnx::TensorProto::DataType type) {
      auto& node = *before.Add();
      node.set_op_type("Cast");
      node.add_input(from);
      auto& to = *node.add_attribute();
      to.set_name("to");
      to.set_type(onnx::AttributeProto::INT);
      to.set_i(type);
      return &node;
    };
    const auto named = [&](onnx::NodeProto* node, const char* suffix) {
      auto output = take_name(name + suffix);
      node->set_name(take_name(output + "/node"));
      node->add_output(output);
      return output;
    };
    const auto whole = named(cast(name, onnx::TensorProto::INT32), "/whole");
    auto& add = *before.Add();
    add.set_op_type("Add");
    add.add_input(whole);
    add.add_input(offset_);
    const auto larger = named(&add, "/larger");
    return named(cast(larger, onnx::TensorProto::UINT8), "/unsigned");
  }

  /// A model of other domains alone may name none for Cast and Add.
  void name_opset() {
    if (std::ranges::any_of(model_.opset_import(),
                            [](auto& one) { return one.domain().empty(); })) {
      return;
    }
    model_.add_opset_import()->set_version(kSumsOpset);
  }

  std::string take_name(const std::string& wanted) {
    return free_name(wanted, [this](const auto& name) { return names_.insert(name).second; });
  }

  void drop_unread() {
    std::unordered_set<std::string> read;
    collect_read(main_, read);
    auto& all = *main_.mutable_initializer();
    const auto stays = [&](const onnx::TensorProto& one) {
      return !constants_.contains(one.name()) || read.contains(one.name()) ||
             listed_.contains(one.name());
    };
    const auto gone = std::stable_partition(all.begin(), all.end(), stays);
    for (auto one = gone; one != all.end(); ++one) weights_.erase(one->name());
    all.erase(gone, all.end());
  }

  onnx::ModelProto& model_;
  onnx::GraphProto& main_;
  Weights& weights_;
  const std::set<std::string>& replaceable_;
  std::unordered_set<std::string> names_, listed_, always_;
  Weights constant_nodes_;                        // Those that have their bytes themselves.
  std::map<std::string, std::string> constants_;  // Their names, and their copies'.
  std::map<std::uint8_t, std::string> zeros_;
  std::string offset_;
  bool changed_ = false;
};

/// With the types that inference finds; where it gives up, with those of the file.
onnx::ModelProto with_inferred_types(onnx::ModelProto model) {
  (void)guarded(Code::kInvalidArgument, "", [&]() -> Status {
    onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance(),
                                       onnx::ShapeInferenceOptions(false, 0, false));
    return {};
  });
  return model;
}

#if defined(__x86_64__)
/// Whether the processor has VNNI without AVX-512: it adds four products of bytes in 32 bits.
bool has_avx_vnni() {
  constexpr unsigned kFeatures = 7, kVnni = 1U << 4U;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(kFeatures, 1, &a, &b, &c, &d) != 0 && (a & kVnni) != 0;
}
#endif

}  // namespace

bool may_cut_byte_products() {
#if defined(__x86_64__)
  static const bool may = __builtin_cpu_supports("avx512vnni") == 0 && !has_avx_vnni();
  return may;
#else
  return false;
#endif
}

bool multiplies_mixed_bytes(const onnx::ModelProto& model) {
  if (std::ranges::any_of(model.functions(),
                          [](const auto& function) { return has_products(function.node()); })) {
    return true;
  }
  if (!has_products(model.graph().node())) return false;
  onnx::ModelProto copy = model;
  Weights none;
  return ByteProducts(copy, none, {}).make_whole(with_inferred_types(model).graph());
}

bool multiplies_mixed_floats(const onnx::ModelProto& model) {
  const auto& graph = model.graph();
  const auto dequantises = [](const onnx::NodeProto& node) {
    return node.op_type() == "DequantizeLinear";
  };
  if (find_node(graph.node(), dequantises) == nullptr) return false;
  std::unordered_set<std::string> always;
  for (const auto& one : graph.initializer()) always.insert(one.name());
  for (const auto& node : graph.node()) {
    if (is_constant(node)) always.insert(node.output(0));
  }
  if (model.ir_version() >= kFreeInitialisersIr) {
    for (const auto& input : graph.input()) always.erase(input.name());
  }
  return multiplies_mixed_floats(graph, with_inferred_types(model).graph(), {}, {}, always);
}

void make_byte_products_whole(onnx::ModelProto& model, Weights& weights,
                              const std::set<std::string>& replaceable) {
  if (!has_products(model.graph().node())) return;
  ByteProducts(model, weights, replaceable).make_whole(with_inferred_types(model).graph());
}

}  // namespace penstock::graph
