#include <algorithm>
#include <array>

#include "penstock/graph/graph.h"
#include "penstock/tensor/literal.h"

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

struct Column {
  std::string title;
  bool right = false;
  std::vector<std::string> cells;
};

std::string outputs_of(const Graph& graph, const Node& node) {
  std::string text;
  for (const auto id : node.outputs) {
    if (id == ValueId::kNone) continue;
    if (!text.empty()) text += ' ';
    text += to_string(graph.value(id).type);
  }
  return text;
}

std::string cut_short(std::string text) {
  constexpr std::size_t kWidest = 56;
  if (text.size() <= kWidest) return text;
  return text.substr(0, kWidest / 2 - 2) + "..." + text.substr(text.size() - kWidest / 2 + 1);
}

std::string layout(const std::vector<Column>& columns, std::size_t rows) {
  std::string text;
  const auto put_row = [&](auto cell_of) {
    std::string line;
    for (const auto& column : columns) {
      std::size_t width = column.title.size();
      for (const auto& cell : column.cells) width = std::max(width, cell.size());
      const std::string& cell = cell_of(column);
      const std::string padding(width - cell.size(), ' ');
      line += (line.empty() ? "" : "  ") + (column.right ? padding + cell : cell + padding);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  };
  put_row([](const Column& column) -> const std::string& { return column.title; });
  for (std::size_t i = 0; i < rows; ++i) {
    put_row([i](const Column& column) -> const std::string& { return column.cells[i]; });
  }
  return text;
}

std::string boundary(const Graph& graph, const char* title, const std::vector<ValueId>& ids) {
  std::string text;
  for (const auto id : ids) {
    text += concat(title, "  ", graph.value(id).name, "  ", graph.value(id).type, "\n");
  }
  return text;
}

std::string summary(const Graph& graph) {
  std::uint64_t weights = 0;
  std::uint64_t macs = 0;
  bool all_known = true;
  for (const auto& value : graph.values) weights += value.constant ? value.constant->bytes() : 0;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto known = known_macs_of(graph, static_cast<NodeId>(i));
    macs += known.value_or(0);
    all_known = all_known && known;
  }
  std::string opsets;
  for (const auto& [domain, version] : graph.info.opsets) {
    opsets += concat(opsets.empty() ? "" : ", ", domain.empty() ? "onnx" : domain, " ", version);
  }
  return concat("graph '", graph.info.name, "': ", graph.nodes.size(), " nodes, ", weights,
                " bytes of constants, ", all_known ? "" : "at least ", macs,
                " MACs; operator sets ", opsets, "\n");
}

std::string bound_inputs(const Graph& graph) {
  std::string text;
  for (const auto& [name, value, position] : graph.bound_inputs) {
    text +=
        concat("bound  ", name, "  ", value.type(), "  ", literal_of(value).value_or("..."), "\n");
  }
  return text;
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

std::uint64_t weight_bytes_of(const Graph& graph, NodeId id) {
  std::vector<ValueId> read = graph.node(id).inputs;
  read.insert(read.end(), graph.node(id).captures.begin(), graph.node(id).captures.end());
  std::ranges::sort(read);
  read.erase(std::unique(read.begin(), read.end()), read.end());
  std::uint64_t bytes = 0;
  for (const auto value : read) {
    if (value == ValueId::kNone) continue;
    const auto& constant = graph.value(value).constant;
    if (constant) bytes += constant->bytes();
  }
  return bytes;
}

std::string to_text(const Graph& graph) {
  std::vector<Column> columns = {{"index", true, {}},    {"name", false, {}}, {"op", false, {}},
                                 {"outputs", false, {}}, {"bytes", true, {}}, {"MACs", true, {}}};
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto id = static_cast<NodeId>(i);
    const auto& node = graph.nodes[i];
    const auto macs = known_macs_of(graph, id);
    const std::array<std::string, 6> cells = {
        std::to_string(i),
        cut_short(node.name),
        node.domain.empty() ? node.op : concat(node.domain, ".", node.op),
        outputs_of(graph, node),
        std::to_string(weight_bytes_of(graph, id)),
        macs ? std::to_string(*macs) : "?"};
    for (std::size_t c = 0; c < cells.size(); ++c) columns[c].cells.push_back(cells[c]);
  }
  return summary(graph) + boundary(graph, "input", graph.inputs) + bound_inputs(graph) +
         boundary(graph, "parameter", graph.parameters) + boundary(graph, "output", graph.outputs) +
         layout(columns, graph.nodes.size());
}

}  // namespace penstock::graph
