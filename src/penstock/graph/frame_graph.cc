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
  for (const auto& dim : graph_.value(id).type.dims) {
    const auto unnamed = [&] { return concat("#", index(id), ".", sizes.size()); };
    sizes.push_back(dim.fixed() ? dim.size
                                : number_of(dim.symbol.empty() ? unnamed() : dim.symbol));
  }
  return sizes;
}

std::int64_t FrameGraph::number_of(const std::string& symbol) const {
  const auto next = -2 - static_cast<std::int64_t>(symbols_.size());
  return symbols_.try_emplace(symbol, next).first->second;
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

ValueId FrameGraph::derived(ValueId id, std::vector<Dim> dims, int axis) {
  auto type = graph_.value(id).type;
  type.dims = std::move(dims);
  return add_value(graph_.value(id).name, std::move(type), axis);
}

ValueId FrameGraph::computed(const std::string& op, std::vector<ValueId> inputs,
                             std::size_t place) {
  const auto& first = graph_.value(inputs[0]);
  const auto made = add_value(first.name, first.type, kSameForAll);
  Node node;
  node.op = op;
  node.inputs = std::move(inputs);
  node.outputs = {made};
  insert(std::move(node), place);
  return made;
}

ValueId FrameGraph::repeated(ValueId id, int axis, std::size_t place) {
  Sizes repeats(graph_.value(id).type.dims.size(), 1);
  repeats[static_cast<std::size_t>(axis)] = frames_;
  const auto count = add_constant(graph_.value(id).name + "_repeats", list_of_sizes(repeats));
  const auto made = computed("Tile", {id, count}, place);
  set_axis(made, axis);
  return made;
}

void FrameGraph::add_reshape(ValueId from, ValueId to, std::size_t place) {
  auto shape = sizes(to);
  auto& along = shape[static_cast<std::size_t>(axis(to))];
  if (!is_open(along)) along *= frames_;
  stuck_ = stuck_ || std::ranges::count_if(shape, is_open) > 1;
  for (auto& size : shape) size = std::max<std::int64_t>(size, -1);  // The one that is left over.
  Node node;
  node.op = "Reshape";
  node.inputs = {from, add_constant(graph_.value(to).name + "_shape", list_of_sizes(shape))};
  node.outputs = {to};
  inserted_.emplace_back(place, std::move(node));
}

ValueId FrameGraph::spread(ValueId id, int to, std::size_t place) {
  auto apart = graph_.value(id).type.dims;
  apart.insert(apart.begin() + axis(id), Dim{1, {}, Dim::kOpen});
  const auto parted = derived(id, apart, axis(id));
  add_reshape(id, parted, place);
  return turned(parted, to, place);
}

ValueId FrameGraph::turned(ValueId id, int to, std::size_t place) {
  if (axis(id) == to) return id;
  auto moved = graph_.value(id).type.dims;
  Sizes order(moved.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const auto move = [&](auto& list) {
    const auto frames = list[static_cast<std::size_t>(axis(id))];
    list.erase(list.begin() + axis(id));
    list.insert(list.begin() + to, frames);
  };
  move(moved);
  move(order);
  Node node;
  node.op = "Transpose";
  node.attributes = {{"perm", order}};
  node.inputs = {id};
  node.outputs = {derived(id, moved, to)};
  inserted_.emplace_back(place, node);
  return node.outputs[0];
}

ValueId FrameGraph::gather(ValueId id, std::size_t place) {
  auto joined = graph_.value(id).type.dims;
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
  const auto same =
      derived(id, graph_.value(id).type.dims, to);  // In memory the frames are there already.
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
    auto& dim = graph_.values[i].type.dims[static_cast<std::size_t>(axes_[i])];
    for (auto* size : {&dim.size, &dim.bound, &dim.usual}) {
      if (*size != Dim::kOpen) *size *= frames_;
    }
    if (!dim.symbol.empty()) dim.symbol += concat("_of_", frames_);
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
