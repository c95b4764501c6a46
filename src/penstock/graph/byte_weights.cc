// Signed bytes and their zero point both move by 128.
#include "penstock/graph/byte_weights.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "penstock/base/error.h"
#include "penstock/graph/draft.h"
#include "penstock/graph/proto.h"

namespace penstock::graph {
namespace {

/// Where an operator has its inputs.
struct ByteProduct {
  std::string_view op;
  std::size_t data, weights, zero;
};

constexpr std::array<ByteProduct, 4> kByteProducts = {{{"MatMulInteger", 0, 1, 3},
                                                       {"ConvInteger", 0, 1, 3},
                                                       {"QLinearMatMul", 0, 3, 5},
                                                       {"QLinearConv", 0, 3, 5}}};

const ByteProduct* byte_product_of(std::string_view domain, std::string_view op) {
  const auto found = std::ranges::find(kByteProducts, op, &ByteProduct::op);
  return domain.empty() && found != kByteProducts.end() ? &*found : nullptr;
}

ValueId byte_input_of(const Node& node, std::size_t i) {
  return i < node.inputs.size() ? node.inputs[i] : ValueId::kNone;
}

bool is_signed_byte_constant(const Value& value) {
  return value.constant && value.constant->dtype() == DType::kI8 && !value.is_input &&
         !value.is_output && !value.is_parameter;
}

Tensor larger_by_128(const Tensor& value) {
  constexpr std::uint8_t kSign = 0x80;
  auto moved = Tensor::allocate(DType::kU8, value.dims());
  const auto* const from = static_cast<const std::uint8_t*>(value.data());
  std::transform(from, from + value.count(), moved.as<std::uint8_t>().begin(),
                 [](std::uint8_t bits) { return static_cast<std::uint8_t>(bits ^ kSign); });
  return moved;
}

class ByteWeights {
 public:
  explicit ByteWeights(Graph& graph) : graph_(graph) {}

  std::size_t move() {
    std::set<ValueId> weights;
    for (const auto& node : graph_.nodes) {
      if (multiplies(node))
        weights.insert(byte_input_of(node, byte_product_of(node.domain, node.op)->weights));
    }
    std::erase_if(weights, [this](ValueId id) { return !all_multiply_by(id); });
    for (auto& node : graph_.nodes) {
      const auto* const product = byte_product_of(node.domain, node.op);
      if (product == nullptr || !weights.contains(byte_input_of(node, product->weights))) continue;
      node.inputs.resize(std::max(node.inputs.size(), product->zero + 1), ValueId::kNone);
      node.inputs[product->zero] = moved_zero(node.name, node.inputs[product->zero]);
    }
    for (const auto id : weights) {
      auto& value = graph_.values[index(id)];
      value.constant = larger_by_128(*value.constant);
      value.type = value.constant->type();
    }
    if (!weights.empty()) link(graph_);
    return weights.size();
  }

 private:
  /// Unsigned bytes by constant signed ones, from which a constant zero point, or none, is taken.
  [[nodiscard]] bool multiplies(const Node& node) const {
    const auto* const product = byte_product_of(node.domain, node.op);
    if (product == nullptr) return false;
    const auto data = byte_input_of(node, product->data),
               weights = byte_input_of(node, product->weights),
               zero = byte_input_of(node, product->zero);
    return data != ValueId::kNone && graph_.value(data).type.dtype == DType::kU8 &&
           weights != ValueId::kNone && is_signed_byte_constant(graph_.value(weights)) &&
           (zero == ValueId::kNone || is_signed_byte_constant(graph_.value(zero)));
  }

  [[nodiscard]] bool all_multiply_by(ValueId weights) const {
    return std::ranges::all_of(graph_.value(weights).consumers, [&](NodeId id) {
      const auto& node = graph_.node(id);
      const auto* const product = byte_product_of(node.domain, node.op);
      return multiplies(node) && byte_input_of(node, product->weights) == weights &&
             std::ranges::count(node.inputs, weights) == 1;
    });
  }

  ValueId moved_zero(const std::string& node, ValueId zero) {
    Tensor none = Tensor::allocate(DType::kI8, {});
    none.as<std::int8_t>()[0] = 0;
    auto moved = larger_by_128(zero == ValueId::kNone ? none : *graph_.value(zero).constant);
    Value value{.name = concat(node, "/unsigned_zero"), .type = moved.type()};
    value.constant = std::move(moved);
    graph_.values.push_back(std::move(value));
    return static_cast<ValueId>(graph_.values.size() - 1);
  }

  Graph& graph_;
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

bool has_signed_byte_weights(const onnx::GraphProto& graph) {
  std::set<std::string> names;
  for (const auto& one : graph.initializer()) {
    if (one.data_type() == onnx::TensorProto::INT8) names.insert(one.name());
  }
  return std::ranges::any_of(graph.node(), [&](const onnx::NodeProto& node) {
    const auto* const product = byte_product_of(node.domain(), node.op_type());
    const auto weights = product == nullptr ? 0 : static_cast<int>(product->weights);
    return product != nullptr && weights < node.input_size() && names.contains(node.input(weights));
  });
}

std::size_t make_byte_weights_unsigned(Graph& graph) {
  return ByteWeights(graph).move();
}

}  // namespace penstock::graph
