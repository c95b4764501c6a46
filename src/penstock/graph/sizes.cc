// Tries usual sizes one by one and takes the first in which shape inference finds no new fault.
#include "penstock/graph/sizes.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "penstock/graph/inference.h"

namespace penstock::graph {
namespace {

constexpr std::int64_t kSizesOfPictures[] = {64, 32,  28,  224, 128, 256, 96,  112, 160, 192,
                                             48, 299, 300, 320, 384, 416, 512, 640, 16,  8};
constexpr std::int64_t kSizes[] = {1,   8,   16,  32,   64,   128,  256,   512,   10,    20,   40,
                                   50,  80,  100, 160,  200,  320,  400,   480,   640,   1000, 1024,
                                   768, 576, 512, 2048, 4096, 8000, 16000, 32000, 44100, 48000};

bool is_free(const Dim& dim) {
  return !dim.fixed() && dim.bound == Dim::kOpen;
}

/// The first of several dimensions.
bool is_batch(const Type& type, std::size_t axis) {
  return axis == 0 && type.dims.size() > 1;
}

/// The elements of a shape; nothing where that is not known.
std::optional<std::int64_t> count_of(const Type& type) {
  std::int64_t count = 1;
  if (!type.ranked) return {};
  for (const auto& dim : type.dims) {
    if (!dim.fixed() || __builtin_mul_overflow(count, dim.size, &count)) return {};
  }
  return count;
}

/// What inference lets pass: a reshape to another count, a window larger than what it slides over.
bool does_not_fit(const Graph& graph, const Node& node) {
  if (node.inputs.empty() || node.inputs.front() == ValueId::kNone || node.outputs.empty() ||
      node.outputs.front() == ValueId::kNone) {
    return false;
  }
  const auto read = count_of(graph.value(node.inputs.front()).type);
  const auto& made = graph.value(node.outputs.front()).type;
  if (node.op == "Reshape") return read && count_of(made) && *read != *count_of(made);
  const bool slides = node.op.ends_with("Conv") || node.op.ends_with("Pool");
  return slides && read && made.ranked && !count_of(made);
}

/// Nodes whose inputs do not fit, and values that would be empty.
std::size_t count_wrong(Graph& graph) {
  std::size_t wrong = 0;
  infer_types(graph, Source::kFile, &wrong);
  for (const auto& node : graph.nodes) wrong += does_not_fit(graph, node) ? 1 : 0;
  for (const auto& value : graph.values) {
    const bool empty = std::ranges::any_of(
        value.type.dims, [](const Dim& dim) { return dim.fixed() && dim.size <= 0; });
    if (value.producer && empty) ++wrong;
  }
  return wrong;
}

/// Of every input that gets sizes; each symbol has one.
class Sizing {
 public:
  Sizing(const Graph& graph, std::int64_t size) : sized_(graph) {
    std::map<std::string, std::int64_t> by_symbol;
    for (const auto id : graph.inputs) {
      auto& type = sized_.values[index(id)].type;
      for (std::size_t axis = 0; axis < type.dims.size(); ++axis) {
        auto& dim = type.dims[axis];
        if (dim.fixed()) continue;
        const auto taken = !is_free(dim) ? dim.bound : is_batch(type, axis) ? 1 : size;
        if (!dim.symbol.empty()) by_symbol.emplace(dim.symbol, taken);
        if (dim.symbol.empty()) dim = {taken, {}, Dim::kOpen};
      }
    }
    for (auto& value : sized_.values) {
      for (auto& dim : value.type.dims) {
        const auto taken = dim.fixed() ? by_symbol.end() : by_symbol.find(dim.symbol);
        if (taken != by_symbol.end()) dim = {taken->second, {}, Dim::kOpen};
      }
    }
    wrong_ = count_wrong(sized_);
  }

  [[nodiscard]] std::size_t wrong() const { return wrong_; }

  void note_in(Graph& graph) const {
    for (std::size_t i = 0; i < graph.values.size(); ++i) {
      auto& dims = graph.values[i].type.dims;
      const auto& sizes = sized_.values[i].type.dims;
      if (dims.size() != sizes.size()) continue;
      for (std::size_t axis = 0; axis < dims.size(); ++axis) {
        if (is_free(dims[axis]) && sizes[axis].fixed()) dims[axis].usual = sizes[axis].size;
      }
    }
  }

 private:
  Graph sized_;
  std::size_t wrong_ = 0;
};

}  // namespace

void find_sizes(Graph& graph) {
  bool any = false, pictures = false;
  for (const auto id : graph.inputs) {
    const auto& type = graph.value(id).type;
    for (std::size_t axis = 0; axis < type.dims.size(); ++axis) {
      if (!is_free(type.dims[axis])) continue;
      any = any || !is_batch(type, axis);
      pictures = pictures || (type.dims.size() >= 4 && axis > 0);
    }
  }
  if (!any) return;
  const auto& sizes = pictures ? std::span<const std::int64_t>(kSizesOfPictures) : kSizes;
  Graph open = graph;
  const auto already = count_wrong(open);  // Whatever the sizes.
  for (const auto size : sizes) {
    const Sizing sizing(graph, size);
    if (sizing.wrong() > already) continue;
    if (size != 1) sizing.note_in(graph);
    return;
  }
}

}  // namespace penstock::graph
