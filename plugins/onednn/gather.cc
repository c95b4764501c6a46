// Gather, GatherElements, GatherND and ScatterND: copies to and from where indices say.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels.h"
#include "operators.h"
#include "penstock/base/words.h"
#include "pointwise.h"

namespace penstock::onednn {
namespace {

/// Indices of i64 or i32, wherever they lie.
class Indices {
 public:
  explicit Indices(DType dtype) : wide_(dtype == DType::kI64) {}

  /// The one at `place`, counted from the front; -1 where it is out of range.
  [[nodiscard]] std::int64_t at(const std::byte* data, std::int64_t place,
                                std::int64_t size) const {
    const auto value = wide_ ? reinterpret_cast<const std::int64_t*>(data)[place]
                             : std::int64_t{reinterpret_cast<const std::int32_t*>(data)[place]};
    if (value < -size || value >= size) return -1;
    return value < 0 ? value + size : value;
  }

 private:
  bool wide_;
};

Status check_indices(const Builder& builder, ValueId id) {
  const DType dtype = builder.dtype(id);
  if (dtype == DType::kI64 || dtype == DType::kI32) return {};
  return unsupported("takes indices of i64 or i32, found ", to_string(dtype));
}

Error out_of_range(std::int64_t size) {
  return invalid_argument("an index is out of range: the dimension has ", counted(size, "element"));
}

/// Constant indices begin, begin + step, ...: then the result is a window of the data.
struct Progression {
  std::int64_t begin, step;
};

std::optional<Progression> progression_of(const Builder& builder, ValueId id, std::int64_t size) {
  auto indices = builder.integers(id);
  if (!indices || indices->empty()) return {};
  for (auto& value : *indices) {
    if (value < -size || value >= size) return {};
    if (value < 0) value += size;
  }
  const std::int64_t step = indices->size() > 1 ? (*indices)[1] - (*indices)[0] : 1;
  if (step < 1) return {};
  for (std::size_t i = 1; i < indices->size(); ++i) {
    if ((*indices)[i] - (*indices)[i - 1] != step) return {};
  }
  return Progression{indices->front(), step};
}

Status gather_window(Builder& builder, const Node& node, std::size_t axis,
                     const Progression& progression) {
  PENSTOCK_TRY(const Place from, builder.strided_place(node.inputs[0]));
  const ValueId result = node.outputs.front();
  Dims dims = from.layout.dims();
  dims[axis] = count_of(builder.dims(node.inputs[1]));
  Dims begin(dims.size(), 0);
  Dims steps(dims.size(), 1);
  begin[axis] = progression.begin;
  steps[axis] = progression.step;
  PENSTOCK_TRY(const Place rows, part(builder, from, begin, steps, dims));
  PENSTOCK_TRY(Place place, builder.reshaped(rows, at_least_1d(builder.dims(result))));
  builder.define(result, std::move(place));
  return {};
}

/// Rows of `bytes` bytes: of each of `outer` blocks of `size` rows, those that the indices name.
Kernel row_kernel(Indices indices, std::int64_t outer, std::int64_t size, std::int64_t count,
                  std::size_t bytes) {
  return [=](std::span<std::byte* const> data) -> Status {
    std::byte* to = data[2];
    for (std::int64_t o = 0; o < outer; ++o) {
      const std::byte* const block = data[0] + static_cast<std::size_t>(o * size) * bytes;
      for (std::int64_t i = 0; i < count; ++i, to += bytes) {
        const auto row = indices.at(data[1], i, size);
        if (row < 0) return out_of_range(size);
        std::memcpy(to, block + static_cast<std::size_t>(row) * bytes, bytes);
      }
    }
    return {};
  };
}

template <typename T>
Kernel element_kernel(Indices indices, Walk walk, std::int64_t size, std::int64_t stride) {
  return [=](std::span<std::byte* const> data) -> Status {
    bool fits = true;
    for_each_row<3>(walk, [&](const auto& at) {
      for (std::int64_t i = 0; i < walk.dims.back(); ++i) {
        const auto place = at[1] + i * walk.strides[1].back();
        const auto chosen = indices.at(data[1], place, size);
        fits = fits && chosen >= 0;
        if (!fits) return;
        as<T>(data[2])[at[2] + i * walk.strides[2].back()] =
            as<const T>(data[0])[at[0] + i * walk.strides[0].back() + chosen * stride];
      }
    });
    if (!fits) return out_of_range(size);
    return {};
  };
}

Result<Place> plain_target(Builder& builder, ValueId result) {
  PENSTOCK_TRY(auto layout,
               builder.plain(at_least_1d(builder.dims(result)), builder.dtype(result)));
  return builder.new_place(std::move(layout));
}

/// Where tuples of `depth` numbers point to in the first dimensions of the data.
struct Tuples {
  Indices indices;
  std::int64_t count;
  Dims sizes, strides;  ///< Of those dimensions; strides in rows.

  /// The row of tuple `i`; -1 where a number of it is out of range.
  [[nodiscard]] std::int64_t row(const std::byte* data, std::int64_t i) const {
    std::int64_t found = 0;
    const auto depth = std::ssize(sizes);
    for (std::int64_t k = 0; k < depth; ++k) {
      const auto axis = static_cast<std::size_t>(k);
      const auto chosen = indices.at(data, i * depth + k, sizes[axis]);
      if (chosen < 0) return -1;
      found += chosen * strides[axis];
    }
    return found;
  }
};

/// Into the dimensions of the data from the `first` on. \pre the indices have a dimension.
Tuples tuples_of(const Builder& builder, ValueId indices, const Dims& data, std::size_t first) {
  const Dims dims = builder.dims(indices);
  const auto depth = static_cast<std::size_t>(dims.back());
  const auto inside = std::span(data).subspan(first, depth);
  Tuples tuples{.indices = Indices(builder.dtype(indices)),
                .count = count_of(dims) / dims.back(),
                .sizes = {inside.begin(), inside.end()},
                .strides = Dims(depth, 1)};
  for (std::size_t i = depth; i-- > 1;) {
    tuples.strides[i - 1] = tuples.strides[i] * tuples.sizes[i];
  }
  return tuples;
}

/// Of each of `blocks` blocks of the data, the rows that its share of the tuples points to.
Kernel gather_nd_kernel(Tuples tuples, std::int64_t blocks, std::size_t bytes) {
  return [=](std::span<std::byte* const> data) -> Status {
    std::byte* to = data[2];
    for (std::int64_t i = 0; i < tuples.count; ++i, to += bytes) {
      const auto row = tuples.row(data[1], i);
      if (row < 0) return invalid_argument("an index is out of range");
      const auto block = i / (tuples.count / blocks);
      const auto place = block * count_of(tuples.sizes) + row;
      std::memcpy(to, data[0] + static_cast<std::size_t>(place) * bytes, bytes);
    }
    return {};
  };
}

Kernel scatter_kernel(Tuples tuples, std::size_t all_bytes, std::size_t bytes) {
  return [=](std::span<std::byte* const> data) -> Status {
    std::memcpy(data[3], data[0], all_bytes);
    for (std::int64_t i = 0; i < tuples.count; ++i) {
      const auto row = tuples.row(data[1], i);
      if (row < 0) return invalid_argument("an index is out of range");
      std::memcpy(data[3] + static_cast<std::size_t>(row) * bytes,
                  data[2] + static_cast<std::size_t>(i) * bytes, bytes);
    }
    return {};
  };
}

}  // namespace

Status lower_gather(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  PENSTOCK_CHECK_OK(check_indices(builder, node.inputs[1]));
  const Dims dims = builder.dims(node.inputs[0]);
  const std::size_t axis = from_front(node.int_or("axis", 0), dims.size());
  if (const auto progression = progression_of(builder, node.inputs[1], dims[axis])) {
    return gather_window(builder, node, axis, *progression);
  }
  PENSTOCK_TRY(Place from, builder.plain_place(node.inputs[0]));
  PENSTOCK_TRY(Place indices, builder.plain_place(node.inputs[1]));
  PENSTOCK_TRY(Place target, plain_target(builder, node.outputs.front()));
  const auto inner = count_of(std::span(dims).subspan(axis + 1));
  auto kernel =
      row_kernel(Indices(builder.dtype(node.inputs[1])), count_of(std::span(dims).first(axis)),
                 dims[axis], count_of(indices.layout.dims()),
                 static_cast<std::size_t>(inner) * from.layout.element_bytes());
  builder.append_kernel(std::move(kernel), {std::move(from), std::move(indices), target});
  builder.define(node.outputs.front(), std::move(target));
  return {};
}

Status lower_gather_elements(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  PENSTOCK_CHECK_OK(check_indices(builder, node.inputs[1]));
  PENSTOCK_TRY(Place from, builder.strided_place(node.inputs[0]));
  PENSTOCK_TRY(Place indices, builder.strided_place(node.inputs[1]));
  PENSTOCK_TRY(Place target, plain_target(builder, node.outputs.front()));
  const std::size_t axis = from_front(node.int_or("axis", 0), from.layout.rank());
  Dims strides = from.layout.strides();
  const auto stride = std::exchange(strides[axis], 0);
  const auto size = from.layout.dims()[axis];
  const Indices numbers(builder.dtype(node.inputs[1]));
  Walk walk = walk_of(target.layout.dims(),
                      {std::move(strides), indices.layout.strides(), target.layout.strides()});
  const auto bytes = from.layout.element_bytes();
  Kernel kernel = bytes == 1 ? element_kernel<std::uint8_t>(numbers, std::move(walk), size, stride)
                  : bytes == 4
                      ? element_kernel<std::uint32_t>(numbers, std::move(walk), size, stride)
                      : element_kernel<std::uint64_t>(numbers, std::move(walk), size, stride);
  builder.append_kernel(std::move(kernel), {std::move(from), std::move(indices), target});
  builder.define(node.outputs.front(), std::move(target));
  return {};
}

Status lower_gather_nd(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  PENSTOCK_CHECK_OK(check_indices(builder, node.inputs[1]));
  PENSTOCK_TRY(Place from, builder.plain_place(node.inputs[0]));
  PENSTOCK_TRY(Place indices, builder.plain_place(node.inputs[1]));
  PENSTOCK_TRY(Place target, plain_target(builder, node.outputs.front()));
  const Dims dims = builder.dims(node.inputs[0]);
  const auto first = static_cast<std::size_t>(node.int_or("batch_dims", 0));
  Tuples tuples = tuples_of(builder, node.inputs[1], dims, first);
  const auto inside = std::span(dims).subspan(first + tuples.sizes.size());
  const auto inner = static_cast<std::size_t>(count_of(inside));
  auto kernel = gather_nd_kernel(std::move(tuples), count_of(std::span(dims).first(first)),
                                 inner * from.layout.element_bytes());
  builder.append_kernel(std::move(kernel), {std::move(from), std::move(indices), target});
  builder.define(node.outputs.front(), std::move(target));
  return {};
}

Status lower_scatter_nd(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  if (node.find("reduction") != nullptr && string_or(node, "reduction", "none") != "none") {
    return unsupported("takes reduction=none, found ", string_or(node, "reduction", "none"));
  }
  PENSTOCK_CHECK_OK(check_indices(builder, node.inputs[1]));
  PENSTOCK_TRY(Place from, builder.plain_place(node.inputs[0]));
  PENSTOCK_TRY(Place indices, builder.plain_place(node.inputs[1]));
  PENSTOCK_TRY(Place updates, builder.plain_place(node.inputs[2]));
  PENSTOCK_TRY(Place target, plain_target(builder, node.outputs.front()));
  const Dims dims = builder.dims(node.inputs[0]);
  Tuples tuples = tuples_of(builder, node.inputs[1], dims, 0);
  const auto inside = std::span(dims).subspan(tuples.sizes.size());
  const auto inner = static_cast<std::size_t>(count_of(inside));
  auto kernel =
      scatter_kernel(std::move(tuples), from.layout.bytes(), inner * from.layout.element_bytes());
  builder.append_kernel(std::move(kernel),
                        {std::move(from), std::move(indices), std::move(updates), target});
  builder.define(node.outputs.front(), std::move(target));
  return {};
}

}  // namespace penstock::onednn
