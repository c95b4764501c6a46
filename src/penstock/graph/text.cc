// The listing of a graph: a summary, its inputs and outputs, and a table of its nodes.
#include <algorithm>
#include <array>

#include "penstock/base/printable.h"
#include "penstock/base/words.h"
#include "penstock/graph/containers.h"
#include "penstock/graph/graph.h"
#include "penstock/tensor/literal.h"

namespace penstock::graph {
namespace {

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
    text += type_text(graph.value(id).type);
  }
  return text;
}

std::string cut_short(std::string text) {
  constexpr std::size_t kWidest = 56;
  if (text.size() <= kWidest) return text;
  return text.substr(0, kWidest / 2 - 2) + "..." + text.substr(text.size() - kWidest / 2 + 1);
}

std::string layout(const std::vector<Column>& columns, std::size_t rows) {
  std::vector<std::size_t> widths;
  for (const auto& column : columns) {
    std::size_t width = column.title.size();
    for (const auto& cell : column.cells) width = std::max(width, cell.size());
    widths.push_back(width);
  }
  std::string text;
  const auto put_row = [&](auto cell_of) {
    std::string line;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const Column& column = columns[c];
      const std::string& cell = cell_of(column);
      const std::string padding(widths[c] - cell.size(), ' ');
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
    text += printable(
                concat(title, "  ", graph.value(id).name, "  ", type_text(graph.value(id).type))) +
            "\n";
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
  return concat("graph '", printable(graph.info.name), "': ", counted(graph.nodes.size(), "node"),
                ", ", weights, " bytes of constants, ", all_known ? "" : "at least ", macs,
                " MACs; operator sets ", printable(opsets), "\n");
}

std::string bound_inputs(const Graph& graph) {
  std::string text;
  for (const auto& [name, value, position] : graph.bound_inputs) {
    text += printable(concat("bound  ", name, "  ", value.type(), "  ",
                             literal_of(value).value_or("..."))) +
            "\n";
  }
  return text;
}

}  // namespace

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
        cut_short(printable(node.name)),
        node.domain.empty() ? node.op : concat(node.domain, ".", node.op),
        outputs_of(graph, node),
        std::to_string(weight_bytes_of(graph, id)),
        macs ? std::to_string(*macs) : "?"};
    for (std::size_t c = 0; c < cells.size(); ++c) columns[c].cells.push_back(printable(cells[c]));
  }
  return summary(graph) + boundary(graph, "input", graph.inputs) + bound_inputs(graph) +
         boundary(graph, "parameter", graph.parameters) + boundary(graph, "output", graph.outputs) +
         layout(columns, graph.nodes.size());
}

}  // namespace penstock::graph
