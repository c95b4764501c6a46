// Reads the operands of Slice and Pad.
#include "penstock/lower/slices.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace penstock::lower {
namespace {

std::vector<std::int64_t> all_of(std::size_t count) {
  std::vector<std::int64_t> all(count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

Result<std::vector<std::int64_t>> numbers(const graph::Graph& graph, const graph::Node& node,
                                          std::size_t input, const char* attribute,
                                          std::vector<std::int64_t> otherwise) {
  if (node.inputs.size() <= input || node.inputs[input] == graph::ValueId::kNone) {
    return node.ints_or(attribute, std::move(otherwise));
  }
  auto found = integers(graph, node.inputs[input]);
  if (!found) return unsupported("takes constant ", attribute);
  return *std::move(found);
}

Result<Slices> slices_of(const graph::Graph& graph, const graph::Node& node, const Dims& dims) {
  PENSTOCK_TRY(const auto starts, numbers(graph, node, 1, "starts", {}));
  const auto count = starts.size();
  PENSTOCK_TRY(const auto axes, numbers(graph, node, 3, "axes", all_of(count)));
  PENSTOCK_TRY(const auto steps,
               numbers(graph, node, 4, "steps", std::vector<std::int64_t>(count, 1)));
  Slices slices{.begin = Dims(dims.size(), 0), .steps = Dims(dims.size(), 1)};
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t axis = from_front(axes[i], dims.size());
    const auto size = dims[axis];
    const auto start = starts[i] < 0 ? starts[i] + size : starts[i];
    slices.begin[axis] = std::clamp<std::int64_t>(start, 0, steps[i] < 0 ? size - 1 : size);
    slices.steps[axis] = steps[i];
  }
  return slices;
}

Result<Pads> pads_of(const graph::Graph& graph, const graph::Node& node, std::size_t rank) {
  PENSTOCK_TRY(const auto pads, numbers(graph, node, 1, "pads", {}));
  PENSTOCK_TRY(const auto axes, numbers(graph, node, 3, "axes", all_of(rank)));
  Pads found{.before = Dims(rank, 0), .after = Dims(rank, 0)};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t axis = from_front(axes[i], rank);
    found.before[axis] = pads[i];
    found.after[axis] = pads[i + axes.size()];
  }
  return found;
}

}  // namespace penstock::lower
