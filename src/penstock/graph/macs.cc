// Multiply-accumulates of operators, by their types alone.
#include <cctype>
#include <map>
#include <string>
#include <vector>

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

/// The labels of an Einsum's axes, one text for each input: "bhqd,bhkd->bhqk" without spaces.
std::vector<std::string> labels_of(const Node& node) {
  const auto* attribute = node.find("equation");
  const auto* equation =
      attribute == nullptr ? nullptr : std::get_if<std::string>(&attribute->value);
  if (equation == nullptr) return {};
  std::vector<std::string> inputs(1);
  for (const char letter : equation->substr(0, equation->find("->"))) {
    if (letter == ',') {
      inputs.emplace_back();
    } else if (std::isspace(static_cast<unsigned char>(letter)) == 0) {
      inputs.back() += letter;
    }
  }
  return inputs;
}

/// Each combination of all axes' places is one multiplication for each input but the first; none
/// where an axis has no letter ("...").
std::optional<std::uint64_t> sum_of_products(const Graph& graph, const Node& node) {
  const auto labels = labels_of(node);
  if (labels.size() != node.inputs.size()) return std::nullopt;
  std::map<char, std::uint64_t> sizes;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto* type = type_of(graph, node.inputs, i);
    if (type == nullptr || type->dims.size() != labels[i].size()) return std::nullopt;
    for (std::size_t axis = 0; axis < labels[i].size(); ++axis) {
      const auto size = product(*type, axis, axis + 1);
      if (labels[i][axis] == '.' || !size) return std::nullopt;
      sizes[labels[i][axis]] = std::max(sizes[labels[i][axis]], *size);  // 1: broadcast.
    }
  }
  std::optional<std::uint64_t> all = labels.size() - 1;
  for (const auto& [label, size] : sizes) all = times(all, size);
  return all;
}

/// Query, key, value: of 4 dimensions (batch, heads, length, width), or of 3 with the heads in the
/// width. Each query meets each key, and each weight each value; what a mask leaves out counts.
std::optional<std::uint64_t> attention(const Graph& graph, const Node& node) {
  const auto* query = type_of(graph, node.inputs, 0);
  const auto* key = type_of(graph, node.inputs, 1);
  const auto* value = type_of(graph, node.inputs, 2);
  if (query == nullptr || key == nullptr || value == nullptr) return std::nullopt;
  const auto rank = query->dims.size();
  if (rank < 3 || rank > 4 || key->dims.size() != rank || value->dims.size() != rank) {
    return std::nullopt;
  }
  const std::size_t length = rank - 2;
  std::optional<std::uint64_t> keys = product(*key, length, length + 1);
  if (const auto* past = type_of(graph, node.inputs, 4);
      past != nullptr && past->dims.size() == 4) {
    const auto before = product(*past, 2, 3);
    keys = keys && before ? std::optional(*keys + *before) : std::nullopt;
  }
  // Where heads of queries share one of keys, as many widths of values come out as of queries.
  const auto* out = type_of(graph, node.outputs, 0);
  if (out == nullptr || out->dims.size() != rank) return std::nullopt;
  const auto read = times(product(*query, 0, rank), keys);
  const auto written = times(product(*out, 0, rank), keys);
  return read && written ? std::optional(*read + *written) : std::nullopt;
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
  if (op == "Einsum") return sum_of_products(graph, node);
  if (op == "Attention" && node.domain.empty()) return attention(graph, node);
  const bool opaque = op == "If" || op == "Loop" || op == "Scan" ||
                      !(node.domain.empty() || node.domain == "ai.onnx.ml");
  return opaque ? std::nullopt : std::optional<std::uint64_t>(0);
}

std::uint64_t macs_of(const Graph& graph, NodeId id) {
  return known_macs_of(graph, id).value_or(0);
}

}  // namespace penstock::graph
