// Operators whose indices are values: Gather and its kin. One thread computes one element.
#include <algorithm>
#include <numeric>
#include <utility>

#include "operators.h"

namespace penstock::cuda {
namespace {

std::int64_t product_of(const Dims& dims, std::size_t first, std::size_t last) {
  return std::accumulate(dims.begin() + static_cast<std::ptrdiff_t>(first),
                         dims.begin() + static_cast<std::ptrdiff_t>(last), std::int64_t{1},
                         std::multiplies<>());
}

/// Sets `at` to an index inside `size`: from the end where it is negative, the nearest where it is
/// outside.
void take_index(KernelText& text, std::int64_t size) {
  text.line(concat("if (at < 0) at += ", size, ";"));
  text.line(concat("at = at < 0 ? 0 : at >= ", size, " ? ", size - 1, " : at;"));
}

/// Of one constant index: a view.
Expression slice_at(const Expression& from, std::size_t axis, std::int64_t index) {
  Dims first(from.dims.size(), 0);
  first[axis] =
      std::clamp<std::int64_t>(index < 0 ? index + from.dims[axis] : index, 0, from.dims[axis] - 1);
  Dims dims = from.dims;
  dims[axis] = 1;
  return from.window(first, Dims(dims.size(), 1), dims);
}

}  // namespace

Status lower_gather(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const ValueId result = node.outputs.front();
  PENSTOCK_TRY(const auto from, builder.place(node.inputs[0]));
  const std::size_t rank = from.dims.size();
  const std::size_t axis = from_front(node.int_or("axis", 0), rank);
  if (const auto one = builder.integers(node.inputs[1]); one && one->size() == 1) {
    PENSTOCK_TRY(auto view,
                 builder.reshaped(slice_at(from, axis, one->front()), builder.dims(result)));
    return builder.define(result, std::move(view));
  }
  PENSTOCK_TRY(const auto indices, builder.value(node.inputs[1]));
  const auto inner = product_of(from.dims, axis + 1, rank);
  const auto count = count_of(indices.dims);
  const auto size = from.dims[axis];
  const Expression target = builder.new_place(result);
  KernelText text;
  text.read("data", from);
  text.read("index", indices);
  text.write("result", target);
  text.each_element(count_of(target.dims));
  text.line(concat("const unsigned inner = i % ", inner, "u, rest = i / ", inner, "u;"));
  text.line(concat("long long at = index(rest % ", count, "u);"));
  take_index(text, size);
  text.line(concat("result(i) = data((rest / ", count, "u * ", size, "u + (unsigned)at) * ", inner,
                   "u + inner);"));
  PENSTOCK_CHECK_OK(builder.append(text.finish()));
  return builder.define(result, target);
}

Status lower_gather_elements(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const ValueId result = node.outputs.front();
  PENSTOCK_TRY(const auto from, builder.place(node.inputs[0]));
  PENSTOCK_TRY(const auto indices, builder.value(node.inputs[1]));
  const std::size_t axis = from_front(node.int_or("axis", 0), from.dims.size());
  const Expression target = builder.new_place(result);
  const Dims strides = contiguous_strides(from.dims);
  KernelText text;
  text.read("data", from);
  text.read("index", indices);
  text.write("result", target);
  text.each_element(count_of(target.dims));
  text.line(index_lines(target.dims));
  text.line("long long at = index(i);");
  take_index(text, from.dims[axis]);
  std::string sum;
  for (std::size_t d = 0; d < strides.size(); ++d) {
    sum += concat(d == 0 ? "" : " + ", d == axis ? std::string("(unsigned)at") : concat("i", d),
                  " * ", strides[d], "u");
  }
  text.line(concat("result(i) = data(", sum, ");"));
  PENSTOCK_CHECK_OK(builder.append(text.finish()));
  return builder.define(result, target);
}

}  // namespace penstock::cuda
