// Adds the nodes that move frames to another axis, and those that compute shapes when a call runs.
#include "penstock/graph/frame_graph.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <span>

#include "penstock/graph/draft.h"
#include "penstock/graph/free_name.h"

namespace penstock::graph {
namespace {

Tensor list_of_sizes(const Sizes& sizes) {
  Tensor tensor = Tensor::allocate(DType::kI64, {static_cast<std::int64_t>(sizes.size())});
  std::ranges::copy(sizes, tensor.as<std::int64_t>().begin());
  return tensor;
}

/// The product of what is not open; 0 where it is no number of 64 bits.
std::int64_t count_of_known(std::span<const std::int64_t> sizes) {
  std::int64_t count = 1;
  for (const auto size : sizes) {
    if (!is_open(size) && __builtin_mul_overflow(count, size, &count)) return 0;
  }
  return count;
}

}  // namespace

FrameGraph::FrameGraph(Graph graph, int frames)
    : graph_(std::move(graph)), frames_(frames), axes_(graph_.values.size(), kSameForAll) {
  settle_sizes();
}

std::string FrameGraph::symbol_of(ValueId id, std::size_t axis) const {
  const auto& symbol = graph_.value(id).type.dims[axis].symbol;
  return symbol.empty() ? concat("#", index(id), ".", axis) : symbol;
}

Sizes FrameGraph::sizes(ValueId id) const {
  Sizes sizes;
  for (const auto& dim : graph_.value(id).type.dims) {
    if (dim.fixed()) {
      sizes.push_back(dim.size);
      continue;
    }
    const auto next = -2 - static_cast<std::int64_t>(symbols_.size());
    sizes.push_back(symbols_.try_emplace(symbol_of(id, sizes.size()), next).first->second);
  }
  return sizes;
}

/// A Reshape to a constant shape of known sizes leaves its input's one open size no choice.
void FrameGraph::settle_sizes() {
  for (const auto& node : graph_.nodes) {
    if (node.op != "Reshape" || node.inputs.size() != 2 || !node.domain.empty()) continue;
    const auto& to = graph_.value(node.inputs[1]);
    if (!to.constant || to.is_parameter || to.constant->dtype() != DType::kI64) continue;
    const auto list = to.constant->as<std::int64_t>();
    if (std::ranges::any_of(list, [](std::int64_t size) { return size <= 0; })) continue;
    const auto from = sizes(node.inputs[0]);
    if (std::ranges::count_if(from, is_open) != 1) continue;
    const auto made = count_of_known(list), known = count_of_known(from);
    if (made == 0 || known == 0 || made % known != 0) continue;
    const auto axis = std::ranges::find_if(from, is_open) - from.begin();
    symbols_[symbol_of(node.inputs[0], static_cast<std::size_t>(axis))] = made / known;
  }
}

ValueId FrameGraph::add_value(const std::string& stem, Type type, int axis) {
  Value value;
  value.name = free_name(concat(stem, "_of_", frames_),
                         [this](const auto& name) { return !graph_.find_value(name); });
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
  insert(op, std::move(inputs), made, place);
  return made;
}

void FrameGraph::insert(const std::string& op, std::vector<ValueId> inputs, ValueId output,
                        std::size_t place, std::vector<Attribute> attributes) {
  Node node;
  node.op = op;
  node.inputs = std::move(inputs);
  node.outputs = {output};
  node.attributes = std::move(attributes);
  insert(std::move(node), place);
}

ValueId FrameGraph::repeated(ValueId id, int axis, std::size_t place) {
  Sizes repeats(graph_.value(id).type.dims.size(), 1);
  repeats[static_cast<std::size_t>(axis)] = frames_;
  const auto count = add_constant(graph_.value(id).name + "_repeats", list_of_sizes(repeats));
  const auto made = computed("Tile", {id, count}, place);
  set_axis(made, axis);
  return made;
}

ValueId FrameGraph::add_integers(const std::string& stem, const std::string& op,
                                 std::vector<ValueId> inputs, std::size_t count, std::size_t place,
                                 std::vector<Attribute> attributes) {
  const std::vector<std::int64_t> dims{static_cast<std::int64_t>(count)};
  const auto made = add_value(stem, Type::tensor(DType::kI64, dims), kSameForAll);
  insert(op, std::move(inputs), made, place, std::move(attributes));
  return made;
}

ValueId FrameGraph::sizes_at_run(ValueId of, const Sizes& known, const Sizes& order,
                                 std::size_t place) {
  const auto stem = graph_.value(of).name + "_shape";
  const auto rank = graph_.value(of).type.dims.size();
  auto made = add_integers(stem, "Shape", {of}, rank, place);
  if (!known.empty()) {
    const auto numbers = add_constant(stem, list_of_sizes(known));
    made = add_integers(stem, "Concat", {made, numbers}, rank + known.size(), place,
                        {{"axis", std::int64_t{0}}});
  }
  const auto places = add_constant(stem, list_of_sizes(order));
  return add_integers(stem, "Gather", {made, places}, order.size(), place);
}

void FrameGraph::shape(Node& reshape, const Sizes& sizes, const Asked& asked, std::size_t place) {
  const auto of = reshape.inputs[0];
  const auto stem = graph_.value(of).name + "_shape";
  const bool left_over = std::ranges::count_if(sizes, is_open) <= 1;
  // Before, a size of 0 is that of the value's dimension, and one that is left over may be beside.
  constexpr std::int64_t kAllowsZero = 14;
  const auto onnx = graph_.info.opsets.find("");
  const bool exact = !left_over && onnx != graph_.info.opsets.end() && onnx->second >= kAllowsZero;
  const auto rank = static_cast<std::int64_t>(graph_.value(of).type.dims.size());
  Sizes known, order, factors;  // The numbers, behind the value's own sizes; which of both.
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    const bool left = std::cmp_equal(k, asked.left);
    const bool ask = !left_over && is_open(sizes[k]) && (exact || !left);
    order.push_back(ask ? asked.same[k] : rank + static_cast<std::int64_t>(known.size()));
    if (!ask) known.push_back(std::max<std::int64_t>(sizes[k], -1));
    factors.push_back(ask && left ? asked.times * asked.parts : 1);
  }
  auto made =
      left_over ? add_constant(stem, list_of_sizes(known)) : sizes_at_run(of, known, order, place);
  if (std::ranges::count(factors, 1) != std::ssize(factors)) {
    const auto by = add_constant(stem, list_of_sizes(factors));
    made = add_integers(stem, asked.times > 1 ? "Mul" : "Div", {made, by}, order.size(), place);
  }
  reshape.inputs = {of, made};
  if (exact) reshape.attributes = {{"allowzero", std::int64_t{1}}};
}

void FrameGraph::add_reshape(ValueId from, ValueId to, const Asked& asked, std::size_t place) {
  auto sizes = this->sizes(to);
  auto& along = sizes[static_cast<std::size_t>(axis(to))];
  if (!is_open(along)) along *= frames_;
  Node node;
  node.op = "Reshape";
  node.inputs = {from};
  node.outputs = {to};
  shape(node, sizes, asked, place);
  insert(std::move(node), place);
}

ValueId FrameGraph::spread(ValueId id, int to, std::size_t place) {
  auto apart = graph_.value(id).type.dims;
  apart.insert(apart.begin() + axis(id), Dim{1, {}, Dim::kOpen});
  const auto parted = derived(id, apart, axis(id));
  const int rank = static_cast<int>(apart.size());
  Asked asked{.same = {}, .left = axis(id) + 1, .parts = frames_};  // What is behind the frames'.
  for (int k = 0; k < rank; ++k) asked.same.push_back(k > axis(id) ? k - 1 : k);
  add_reshape(id, parted, asked, place);
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
  const auto made = derived(id, moved, to);
  insert("Transpose", {id}, made, place, {{"perm", order}});
  return made;
}

ValueId FrameGraph::gather(ValueId id, std::size_t place) {
  auto joined = graph_.value(id).type.dims;
  joined.erase(joined.begin() + axis(id));
  const auto to = derived(id, joined, axis(id));
  gather_into(id, to, place);
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
  const int rank = static_cast<int>(own.size());
  Asked asked{.same = {}, .left = last};
  (to == last ? asked.times : asked.parts) = frames_;
  for (int k = 0; k < rank; ++k) asked.same.push_back(k);
  add_reshape(id, same, asked, place);
  return same;
}

void FrameGraph::gather_into(ValueId id, ValueId to, std::size_t place) {
  set_axis(to, axis(id));
  const int rank = static_cast<int>(graph_.value(to).type.dims.size());
  Asked asked{.same = {}, .left = axis(id), .times = frames_};
  for (int k = 0; k < rank; ++k) asked.same.push_back(k < axis(id) ? k : k + 1);
  add_reshape(id, to, asked, place);
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
