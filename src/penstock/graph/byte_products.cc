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
#include "penstock/graph/import.h"
#include "penstock/graph/proto.h"

namespace penstock::graph {
namespace {

constexpr int kItself = -1;  ///< The node makes unsigned bytes of floats by itself.

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

void set_input(onnx::NodeProto& node, int i, const std::string& name) {
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
  for (const auto* infos : {&graph.input(), &graph.output()}) {
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

bool has_products(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes) {
  return std::ranges::any_of(nodes, [](const onnx::NodeProto& node) {
    bool found = std::ranges::any_of(kByteProducts, [&](auto& one) { return is_of(one, node); });
    for_each_nested_graph(node, [&](const onnx::GraphProto& nested) {
      found = found || has_products(nested.node());
    });
    return found;
  });
}

class ByteProducts {
 public:
  ByteProducts(onnx::ModelProto& model, Weights& weights, const std::set<std::string>& replaceable)
      : main_(*model.mutable_graph()), weights_(weights), replaceable_(replaceable) {
    collect_names(main_, names_);
    for (const auto& input : main_.input()) listed_.insert(input.name());
  }

  bool make_whole(const onnx::GraphProto& inferred) {
    visit(main_, inferred, {});
    drop_unread();
    return changed_;
  }

 private:
  /// `inferred`: the graph with more types. `types`: of the names around it.
  void visit(onnx::GraphProto& graph, const onnx::GraphProto& inferred, Types types) {
    read_types(graph, types);
    read_types(inferred, types);
    std::map<std::string, std::string> computed;
    google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
    for (int i = 0; i < graph.node_size(); ++i) {
      auto& node = *graph.mutable_node(i);
      std::vector<const onnx::GraphProto*> known;
      for_each_nested_graph(inferred.node(i),
                            [&](const auto& nested) { known.push_back(&nested); });
      std::size_t next = 0;
      for_each_nested_graph(
          node, [&](onnx::GraphProto& nested) { visit(nested, *known[next++], types); });
      for (const auto& product : kByteProducts) {
        if (is_of(product, node) && is_mixed(product, node, types)) {
          move(product, node, types, computed, nodes);
        }
      }
      *nodes.Add() = std::move(node);
    }
    graph.mutable_node()->Swap(&nodes);
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

  void move(const ByteProduct& product, onnx::NodeProto& node, const Types& types,
            std::map<std::string, std::string>& computed,
            google::protobuf::RepeatedPtrField<onnx::NodeProto>& before) {
    changed_ = true;
    const auto moved = [&](int i) {
      const auto name = input_of(node, i);
      if (name.empty()) return zero_of(128);
      if (auto constant = moved_constant(name, types)) return *std::move(constant);
      const auto [at, fresh] = computed.try_emplace(name);
      if (fresh) at->second = add_computed(name, before);
      return at->second;
    };
    const auto weights = moved(product.weights), zero = moved(product.zero);
    set_input(node, product.weights, weights);
    set_input(node, product.zero, zero);
    // OpenVINO (2026.4) takes no name that is left out in front of another one.
    const bool left_out = product.data_zero != kItself && product.data_zero < product.zero &&
                          input_of(node, product.data_zero).empty();
    if (left_out && product.domain.empty()) set_input(node, product.data_zero, zero_of(0));
  }

  /// The copy of an initialiser of the main graph that always has its value.
  std::optional<std::string> moved_constant(const std::string& name, const Types& types) {
    if (const auto known = constants_.find(name); known != constants_.end()) return known->second;
    const auto weight = weights_.find(name);
    const auto type = types.find(name);
    if (weight == weights_.end() || weight->second.kind() != Tensor::Kind::kDense ||
        weight->second.dtype() != DType::kI8 || type == types.end() ||
        type->second != onnx::TensorProto::INT8 || replaceable_.contains(name) ||
        std::ranges::none_of(main_.initializer(),
                             [&](const auto& one) { return one.name() == name; })) {
      return std::nullopt;
    }
    return constants_[name] = add_constant(name + "/unsigned", larger_by_128(weight->second));
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
    auto name = free_name(wanted);
    fill_header(value, name, *main_.add_initializer());
    weights_.insert_or_assign(name, std::move(value));
    return name;
  }

  /// Adds 128 in whole numbers, as there is no sum of bytes.
  std::string add_computed(const std::string& name,
                           google::protobuf::RepeatedPtrField<onnx::NodeProto>& before) {
    if (offset_.empty()) {
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
      auto output = free_name(name + suffix);
      node->set_name(free_name(output + "/node"));
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

  std::string free_name(const std::string& wanted) {
    std::string name = wanted;
    for (int i = 2; !names_.insert(name).second; ++i) name = concat(wanted, "_", i);
    return name;
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

  onnx::GraphProto& main_;
  Weights& weights_;
  const std::set<std::string>& replaceable_;
  std::unordered_set<std::string> names_, listed_;
  std::map<std::string, std::string> constants_;  // Initialisers, and their copies.
  std::map<std::uint8_t, std::string> zeros_;
  std::string offset_;
  bool changed_ = false;
};

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

bool has_byte_products(const onnx::ModelProto& model) {
  return has_products(model.graph().node()) ||
         std::ranges::any_of(model.functions(),
                             [](const auto& function) { return has_products(function.node()); });
}

bool make_byte_products_whole(onnx::ModelProto& model, Weights& weights,
                              const std::set<std::string>& replaceable) {
  if (!has_byte_products(model)) return false;
  onnx::ModelProto inferred = model;
  // Where it gives up, types are those of the file.
  (void)guarded(Code::kInvalidArgument, "", [&]() -> Status {
    onnx::shape_inference::InferShapes(inferred, onnx::OpSchemaRegistry::Instance(),
                                       onnx::ShapeInferenceOptions(false, 0, false));
    return {};
  });
  return ByteProducts(model, weights, replaceable).make_whole(inferred.graph());
}

}  // namespace penstock::graph
