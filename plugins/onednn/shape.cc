// Operators that move elements and compute nothing: views where the layout allows it.
#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "kernels.h"
#include "operators.h"
#include "penstock/lower/slices.h"
#include "pointwise.h"

namespace penstock::onednn {
namespace {

Result<Place> view_as(Builder& builder, ValueId id, const Dims& dims) {
  PENSTOCK_TRY(const Place own, builder.place(id));
  return builder.reshaped(own, dims);
}

/// How many elements of a source lie together in the result, as far as the order says.
std::int64_t run_length(const Layout& result, const Dims& source, std::size_t axis) {
  std::int64_t length = 1;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (result.strides()[i] <= result.strides()[axis]) length *= source[i];
  }
  return length;
}

/// Bytes from the first element to the one at `index`.
std::size_t offset_of(const Layout& layout, const Dims& index) {
  std::int64_t first = 0;
  for (std::size_t i = 0; i < index.size(); ++i) first += index[i] * layout.strides()[i];
  return static_cast<std::size_t>(first) * layout.element_bytes();
}

/// Each source into its part of the target.
Status copy_parts(Builder& builder, std::span<const Argument> sources, const Place& target,
                  std::size_t axis) {
  Dims begin(target.layout.rank(), 0);
  for (const auto& source : sources) {
    const Dims& dims = source.place.layout.dims();
    PENSTOCK_TRY(const Place inside, window(builder, target, begin, Dims(dims.size(), 1), dims));
    PENSTOCK_CHECK_OK(builder.copy(source.place, inside));
    begin[axis] += dims[axis];
  }
  return {};
}

Status only_first_output(const Node& node) {
  for (std::size_t i = 1; i < node.outputs.size(); ++i) {
    if (node.outputs[i] != ValueId::kNone) return unsupported("gives its first output only");
  }
  return {};
}

/// Elements in front of each dimension, and whether they are filled with `value` or come of the
/// input.
struct Pads {
  Dims begin;
  std::string mode;
  float value = 0;
};

Result<Pads> pads_of(const Builder& builder, const Node& node, std::size_t rank) {
  Pads found{.begin = Dims(rank, 0),
             .mode = string_or(node, "mode", "constant"),
             .value = float_or(node, "value", 0)};
  if (node.inputs.size() > 2 && node.inputs[2] != ValueId::kNone) {
    const auto given = builder.scalar(node.inputs[2]);
    if (!given) return unsupported("takes a constant value");
    found.value = *given;
  }
  PENSTOCK_TRY(auto pads, lower::pads_of(builder.graph(), node, rank));
  const auto is_negative = [](std::int64_t pad) { return pad < 0; };
  if (std::ranges::any_of(pads.before, is_negative) ||
      std::ranges::any_of(pads.after, is_negative)) {
    return unsupported("takes no negative pads");
  }
  found.begin = std::move(pads.before);
  return found;
}

/// The element of `size` that stands at `index`, before 0 and after the last too.
std::int64_t padded_index(std::string_view mode, std::int64_t index, std::int64_t size) {
  if (mode == "edge" || size == 1) return std::clamp<std::int64_t>(index, 0, size - 1);
  const std::int64_t period = mode == "wrap" ? size : 2 * (size - 1);
  const std::int64_t rest = (index % period + period) % period;
  return rest < size ? rest : period - rest;
}

/// Elements of the input all over: along each dimension, those that the mode says.
Status pad_by_copies(Builder& builder, const Pads& pads, const Place& from, Place target) {
  const Dims& dims = target.layout.dims();
  std::vector<std::size_t> order(dims.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t axis) { return target.layout.strides()[axis]; });
  std::vector<Dims> offsets;  // Of each dimension's indices in the input, outermost first.
  for (const std::size_t axis : order) {
    Dims& all = offsets.emplace_back();
    for (std::int64_t i = 0; i < dims[axis]; ++i) {
      all.push_back(from.layout.strides()[axis] *
                    padded_index(pads.mode, i - pads.begin[axis], from.layout.dims()[axis]));
    }
  }
  builder.append_kernel(table_kernel(std::move(offsets)), {from, std::move(target)});
  return {};
}

/// A filled buffer with the input in its middle.
Status pad_by_fill(Builder& builder, const Pads& pads, const Place& from, const Place& target) {
  builder.append_fill(target, pads.value);
  PENSTOCK_TRY(const Place inside,
               window(builder, target, pads.begin, Dims(pads.begin.size(), 1), from.layout.dims()));
  return builder.copy(from, inside);
}

}  // namespace

Result<Place> window(const Builder& builder, const Place& from, const Dims& begin,
                     const Dims& steps, const Dims& dims) {
  Dims strides = from.layout.strides();
  for (std::size_t i = 0; i < dims.size(); ++i) strides[i] *= steps[i];
  PENSTOCK_TRY(auto layout, Layout::strided(builder.engine(), dims, strides, from.layout.dtype()));
  return Place{from.buffer, from.offset + offset_of(from.layout, begin), std::move(layout)};
}

Result<Place> part(Builder& builder, const Place& from, const Dims& begin, const Dims& steps,
                   const Dims& dims) {
  const bool forwards = std::ranges::all_of(steps, [](auto step) { return step > 0; });
  if (auto view = window(builder, from, begin, steps, dims); view && forwards) return view;
  Dims strides = from.layout.strides();
  for (std::size_t i = 0; i < dims.size(); ++i) strides[i] *= steps[i];
  PENSTOCK_TRY(auto layout, builder.plain(dims, from.layout.dtype()));
  Place source = from;
  source.offset += offset_of(from.layout, begin);
  const Place target = builder.new_place(std::move(layout));
  builder.append_kernel(copy_kernel(walk_of(dims, {std::move(strides), target.layout.strides()}),
                                    from.layout.element_bytes()),
                        {std::move(source), target});
  return target;
}

/// Everything that gives the same elements in the same order: the inferred shape says the rest.
Status lower_reshape(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  PENSTOCK_CHECK_OK(only_first_output(node));
  if (node.op == "Dropout" && node.inputs.size() > 2 && node.inputs[2] != ValueId::kNone) {
    return unsupported("takes no training_mode");
  }
  const ValueId result = node.outputs.front();
  PENSTOCK_TRY(Place place,
               view_as(builder, node.inputs.front(), at_least_1d(builder.dims(result))));
  builder.define(result, std::move(place));
  return {};
}

Status lower_transpose(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  PENSTOCK_TRY(Place from, builder.place(node.inputs.front()));
  const std::size_t rank = builder.dims(node.inputs.front()).size();
  std::vector<int> order;
  for (const auto axis : node.ints_or("perm", {})) order.push_back(static_cast<int>(axis));
  for (std::size_t i = rank; order.size() < rank; --i) order.push_back(static_cast<int>(i) - 1);
  if (rank == 0) order = {0};
  auto view = from.layout.permuted(order);
  if (!view) {
    PENSTOCK_TRY(from, builder.plain_place(node.inputs.front()));
    view = from.layout.permuted(order);
  }
  builder.define(node.outputs.front(), {from.buffer, from.offset, *std::move(view)});
  return {};
}

Status lower_tile(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const auto repeats = builder.integers(node.inputs[1]);
  if (!repeats) return unsupported("takes constant repeats");
  if (repeats->empty()) return lower_reshape(builder, id);
  PENSTOCK_TRY(Place from, builder.strided_place(node.inputs[0]));
  const ValueId result = node.outputs.front();
  PENSTOCK_TRY(auto layout, builder.plain(builder.dims(result), builder.dtype(result)));
  Dims dims;
  std::vector<Dims> strides(2);
  for (std::size_t i = 0; i < repeats->size(); ++i) {
    const auto size = from.layout.dims()[i];
    dims.insert(dims.end(), {(*repeats)[i], size});
    strides[0].insert(strides[0].end(), {0, from.layout.strides()[i]});
    strides[1].insert(strides[1].end(), {layout.strides()[i] * size, layout.strides()[i]});
  }
  Walk walk = walk_of(dims, std::move(strides));
  if (walk.dims.size() > DNNL_MAX_NDIMS) return unsupported("takes fewer dimensions");
  Place target = builder.new_place(std::move(layout));
  auto kernel = copy_kernel(std::move(walk), from.layout.element_bytes());
  builder.append_kernel(std::move(kernel), {std::move(from), target});
  builder.define(result, std::move(target));
  return {};
}

Status lower_slice(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  PENSTOCK_TRY(const Place from, builder.strided_place(node.inputs.front()));
  const Dims& in = from.layout.dims();
  PENSTOCK_TRY(const auto slices, lower::slices_of(builder.graph(), node, in));
  const ValueId result = node.outputs.front();
  PENSTOCK_TRY(Place place,
               part(builder, from, slices.begin, slices.steps, at_least_1d(builder.dims(result))));
  builder.define(result, std::move(place));
  return {};
}

Status lower_split(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  PENSTOCK_TRY(const Place from, builder.strided_place(node.inputs.front()));
  const std::size_t rank = from.layout.rank();
  const std::size_t axis = from_front(node.int_or("axis", 0), rank);
  Dims begin(rank, 0);
  for (const ValueId result : node.outputs) {
    if (result == ValueId::kNone) return unsupported("gives all of its outputs");
    const Dims dims = builder.dims(result);
    PENSTOCK_TRY(Place place, window(builder, from, begin, Dims(rank, 1), dims));
    begin[axis] += dims[axis];
    builder.define(result, std::move(place));
  }
  return {};
}

Status lower_concat(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  if (node.inputs.size() == 1) return lower_reshape(builder, id);
  std::vector<Argument> arguments;
  std::vector<const_dnnl_memory_desc_t> sources;
  for (const ValueId input : node.inputs) {
    PENSTOCK_TRY(Place from, builder.place(input));
    arguments.push_back(
        {DNNL_ARG_MULTIPLE_SRC + static_cast<int>(arguments.size()), std::move(from)});
  }
  const ValueId result = node.outputs.front();
  const std::size_t axis = from_front(node.int_or("axis", 1), builder.dims(result).size());
  if (builder.dtype(result) != DType::kF32) {
    PENSTOCK_TRY(auto plain, builder.plain(builder.dims(result), builder.dtype(result)));
    Place target = builder.new_place(std::move(plain));
    PENSTOCK_CHECK_OK(copy_parts(builder, arguments, target, axis));
    builder.define(result, std::move(target));
    return {};
  }
  for (const auto& argument : arguments) sources.push_back(argument.place.layout.get());
  PENSTOCK_TRY(const auto attributes, builder.attributes(nullptr));
  PENSTOCK_TRY(const auto descriptor, builder.describe([&](dnnl_primitive_desc_t* raw) {
    return builder.api().concat_primitive_desc_create(
        raw, builder.engine().cpu, nullptr, static_cast<int>(sources.size()),
        static_cast<int>(axis), sources.data(), attributes.get());
  }));
  PENSTOCK_TRY(auto layout, builder.layout_of(descriptor, dnnl_query_dst_md));
  Place target = builder.new_place(std::move(layout));
  // The library's concat copies run by run; for short ones its reorders are faster.
  constexpr std::int64_t kShort = 64;
  const bool is_short =
      target.layout.is_strided() && std::ranges::any_of(arguments, [&](const Argument& source) {
        return run_length(target.layout, source.place.layout.dims(), axis) < kShort;
      });
  if (is_short) {
    PENSTOCK_CHECK_OK(copy_parts(builder, arguments, target, axis));
  } else {
    arguments.push_back({DNNL_ARG_DST, target});
    PENSTOCK_CHECK_OK(builder.append(descriptor, std::move(arguments)));
  }
  builder.define(result, std::move(target));
  return {};
}

Status lower_pad(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  PENSTOCK_TRY(const Place from, builder.strided_place(node.inputs.front()));
  PENSTOCK_TRY(const Pads pads, pads_of(builder, node, from.layout.rank()));
  const ValueId result = node.outputs.front();
  PENSTOCK_TRY(auto layout, from.layout.dense_like(builder.dims(result)));
  Place target = builder.new_place(std::move(layout));
  if (pads.mode == "constant") {
    PENSTOCK_CHECK_OK(pad_by_fill(builder, pads, from, target));
  } else {
    PENSTOCK_CHECK_OK(pad_by_copies(builder, pads, from, target));
  }
  builder.define(result, std::move(target));
  return {};
}

/// Split into blocks, transposed, joined.
Status lower_depth_to_space(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const ValueId result = node.outputs.front();
  const Dims in = builder.dims(node.inputs.front());
  const std::int64_t block = node.int_or("blocksize", 1);
  const std::int64_t depth = in[1] / (block * block);
  const bool blocks_first = string_or(node, "mode", "DCR") == "DCR";
  const Dims apart = blocks_first ? Dims{in[0], block, block, depth, in[2], in[3]}
                                  : Dims{in[0], depth, block, block, in[2], in[3]};
  const std::vector<int> order =
      blocks_first ? std::vector<int>{0, 3, 4, 1, 5, 2} : std::vector<int>{0, 1, 4, 2, 5, 3};
  PENSTOCK_TRY(const Place from, view_as(builder, node.inputs.front(), apart));
  auto view = from.layout.permuted(order);
  if (!view) return unsupported("this layout is not transposed");
  PENSTOCK_TRY(Place place,
               builder.reshaped({from.buffer, from.offset, *view}, builder.dims(result)));
  builder.define(result, std::move(place));
  return {};
}

/// A view: of each block of pixels, its first channels, then the next pixel's.
Status lower_space_to_depth(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const ValueId result = node.outputs.front();
  const Dims in = builder.dims(node.inputs.front());
  const std::int64_t block = node.int_or("blocksize", 1);
  const Dims apart = {in[0], in[1], in[2] / block, block, in[3] / block, block};
  PENSTOCK_TRY(const Place from, view_as(builder, node.inputs.front(), apart));
  auto view = from.layout.permuted({0, 3, 5, 1, 2, 4});
  if (!view) return unsupported("this layout is not transposed");
  PENSTOCK_TRY(Place place,
               builder.reshaped({from.buffer, from.offset, *view}, builder.dims(result)));
  builder.define(result, std::move(place));
  return {};
}

}  // namespace penstock::onednn
