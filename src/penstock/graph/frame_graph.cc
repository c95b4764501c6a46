#include "penstock/graph/frame_graph.h"

#include <algorithm>
#include <numeric>

#include "penstock/graph/draft.h"

namespace penstock::graph {
namespace {

Tensor list_of_sizes(const Sizes& sizes) {
  Tensor tensor = Tensor::allocate(DType::kI64, {static_cast<std::int64_t>(sizes.size())});
  std::ranges::copy(sizes, tensor.as<std::int64_t>().begin());
  return tensor;
}

}  // namespace

FrameGraph::FrameGraph(Graph graph, int frames)
    : graph_(std::move(graph)), frames_(frames), axes_(graph_.values.size(), kSameForAll) {}

Sizes FrameGraph::sizes(ValueId id) const {
  Sizes sizes;
  for (const auto& dim : graph_.value(id).type.dims) sizes.push_back(dim.size);
  return sizes;
}

ValueId FrameGraph::add_value(const std::string& stem, Type type, int axis) {
  Value value;
  value.name = concat(stem, "_of_", frames_);
  for (int copy = 2; graph_.find_value(value.name); ++copy) {
    value.name = concat(stem, "_of_", frames_, "_", copy);
  }
  value.type = std::move(type);
  graph_.values.push_back(std::move(value));
  axes_.push_back(axis);
  return static_cast<ValueId>(graph_.values.size() - 1);
}

ValueId FrameGraph::add_constant(const std::string& stem, Tensor tensor) {
  const auto id = add_value(stem, tensor.type(), kSameForAll);
  graph_.values[index(id)].constant = std::move(tensor);
  return id;
}

ValueId FrameGraph::derived(ValueId id, const Sizes& sizes, int axis) {
  return add_value(graph_.value(id).name, Type::tensor(graph_.value(id).type.dtype, sizes), axis);
}

void FrameGraph::add_reshape(ValueId from, ValueId to, std::size_t place) {
  auto shape = sizes(to);
  shape[static_cast<std::size_t>(axis(to))] *= frames_;
  Node node;
  node.op = "Reshape";
  node.inputs = {from, add_constant(graph_.value(to).name + "_shape", list_of_sizes(shape))};
  node.outputs = {to};
  inserted_.emplace_back(place, std::move(node));
}

ValueId FrameGraph::spread(ValueId id, int to, std::size_t place) {
  auto apart = sizes(id);
  apart.insert(apart.begin() + axis(id), 1);
  const auto parted = derived(id, apart, axis(id));
  add_reshape(id, parted, place);
  return turned(parted, to, place);
}

ValueId FrameGraph::turned(ValueId id, int to, std::size_t place) {
  if (axis(id) == to) return id;
  auto moved = sizes(id);
  Sizes order(moved.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  for (auto* list : {&moved, &order}) {
    const auto frames = (*list)[static_cast<std::size_t>(axis(id))];
    list->erase(list->begin() + axis(id));
    list->insert(list->begin() + to, frames);
  }
  Node node;
  node.op = "Transpose";
  node.attributes = {{"perm", order}};
  node.inputs = {id};
  node.outputs = {derived(id, moved, to)};
  inserted_.emplace_back(place, node);
  return node.outputs[0];
}

ValueId FrameGraph::gather(ValueId id, std::size_t place) {
  auto joined = sizes(id);
  joined.erase(joined.begin() + axis(id));
  const auto to = derived(id, joined, axis(id));
  add_reshape(id, to, place);
  return to;
}

ValueId FrameGraph::moved(ValueId id, int to, std::size_t place) {
  const int first = std::min(axis(id), to), last = std::max(axis(id), to);
  const auto own = sizes(id);
  const bool apart = std::any_of(own.begin() + first, own.begin() + last,
                                 [](std::int64_t size) { return size != 1; });
  if (apart) return gather(spread(id, to, place), place);
  const auto same = derived(id, own, to);  // In memory the frames are there already.
  add_reshape(id, same, place);
  return same;
}

void FrameGraph::gather_into(ValueId id, ValueId to, std::size_t place) {
  set_axis(to, axis(id));
  add_reshape(id, to, place);
}

Graph FrameGraph::widen() && {
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i] == kSameForAll) continue;
    graph_.values[i].type.dims[static_cast<std::size_t>(axes_[i])].size *= frames_;
  }
  std::ranges::stable_sort(inserted_, {}, &std::pair<std::size_t, Node>::first);
  for (auto place = inserted_.rbegin(); place != inserted_.rend(); ++place) {
    const auto at = static_cast<std::ptrdiff_t>(place->first);
    graph_.nodes.insert(graph_.nodes.begin() + at, std::move(place->second));
    graph_.pipeline_stages.insert(graph_.pipeline_stages.begin() + at, -1);
  }
  name_nodes(graph_);
  link(graph_);
  return std::move(graph_);
}

}  // namespace penstock::graph
