// Multiply-accumulates of operators, by their types alone.
#include "penstock/graph/graph.h"

namespace penstock::graph {
namespace {

/// Product of the dimensions `first` to `last`, or empty if one is open.
std::optional<std::uint64_t> product(const Type& type, std::size_t first, std::size_t last) {
  std::uint64_t result = 1;
  for (std::size_t i = first; i < last; ++i) {
    const auto& dim = type.dims[i];
    if (!dim.fixed()) return std::nullopt;
    if (__builtin_mul_overflow(result, static_cast<std::uint64_t>(dim.size), &result)) {
      return std::nullopt;
    }
  }
  return result;
}

const Type* type_of(const Graph& graph, const std::vector<ValueId>& ids, std::size_t position) {
  if (position >= ids.size() || ids[position] == ValueId::kNone) return nullptr;
  const auto& type = graph.value(ids[position]).type;
  return type.kind == Type::Kind::kTensor && type.ranked ? &type : nullptr;
}

std::optional<std::uint64_t> times(std::optional<std::uint64_t> a, std::optional<std::uint64_t> b) {
  std::uint64_t result = 0;
  if (!a || !b || __builtin_mul_overflow(*a, *b, &result)) return std::nullopt;
  return result;
}

/// Each element of `over` meets the weights of one filter: all but the first dimension of `weight`.
std::optional<std::uint64_t> convolution(const Type* over, const Type* weight) {
  if (over == nullptr || weight == nullptr || weight->dims.empty()) return std::nullopt;
  return times(product(*over, 0, over->dims.size()), product(*weight, 1, weight->dims.size()));
}

/// `contracted`: the axis of `left` that is summed over, counted from the last.
std::optional<std::uint64_t> product_of_matrices(const Type* left, const Type* out,
                                                 bool transposed) {
  if (left == nullptr || out == nullptr || left->dims.empty()) return std::nullopt;
  const auto rank = left->dims.size();
  const auto axis = transposed && rank > 1 ? rank - 2 : rank - 1;
  return times(product(*out, 0, out->dims.size()), product(*left, axis, axis + 1));
}

/// Every step of every sequence meets both weight matrices, in every direction.
std::optional<std::uint64_t> recurrence(const Type* input, const Type* weight,
                                        const Type* recurrent) {
  if (input == nullptr || weight == nullptr || recurrent == nullptr || input->dims.size() != 3) {
    return std::nullopt;
  }
  const auto w = product(*weight, 0, weight->dims.size());
  const auto r = product(*recurrent, 0, recurrent->dims.size());
  if (!w || !r) return std::nullopt;
  return times(product(*input, 0, 2), *w + *r);
}

}  // namespace

std::optional<std::uint64_t> known_macs_of(const Graph& graph, NodeId id) {
  const auto& node = graph.node(id);
  const auto input = [&](std::size_t i) { return type_of(graph, node.inputs, i); };
  const auto* out = type_of(graph, node.outputs, 0);
  const auto& op = node.op;
  if (op == "Conv" || op == "ConvInteger" || op == "FusedConv" || op == "NhwcConv") {
    return convolution(out, input(1));
  }
  if (op == "QLinearConv") return convolution(out, input(3));
  if (op == "ConvTranspose") return convolution(input(0), input(1));
  if (op == "Gemm" || op == "FusedGemm" || op == "QGemm") {
    return product_of_matrices(input(0), out, node.int_or("transA", 0) != 0);
  }
  if (op == "MatMul" || op == "MatMulInteger" || op == "QLinearMatMul" || op == "MatMulNBits" ||
      op == "DynamicQuantizeMatMul" || op == "MatMulIntegerToFloat") {
    return product_of_matrices(input(0), out, false);
  }
  if (op == "FusedMatMul") {
    return product_of_matrices(input(0), out, node.int_or("transA", 0) != 0);
  }
  if (op == "LSTM" || op == "GRU" || op == "RNN" || op == "DynamicQuantizeLSTM") {
    return recurrence(input(0), input(1), input(2));
  }
  const bool opaque = op == "If" || op == "Loop" || op == "Scan" ||
                      !(node.domain.empty() || node.domain == "ai.onnx.ml");
  return opaque ? std::nullopt : std::optional<std::uint64_t>(0);
}

std::uint64_t macs_of(const Graph& graph, NodeId id) {
  return known_macs_of(graph, id).value_or(0);
}

}  // namespace penstock::graph
