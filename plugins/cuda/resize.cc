// Resize: each element of the result is a sum over few of the input, by tables along each
// dimension.
#include "penstock/lower/resize.h"

#include <algorithm>
#include <string>
#include <utility>

#include "operators.h"

namespace penstock::cuda {
namespace {

/// A table on the device, and the name by which the kernel reads it.
template <typename T>
void add_table(Builder& builder, KernelText& text, const std::string& name, DType dtype,
               const auto& table) {
  Tensor tensor = Tensor::allocate(dtype, {static_cast<std::int64_t>(table.size())});
  std::ranges::transform(table, tensor.as<T>().begin(),
                         [](auto value) { return static_cast<T>(value); });
  text.read(name, builder.new_constant(std::move(tensor)));
}

}  // namespace

Status lower_resize(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const ValueId result = node.outputs.front();
  PENSTOCK_TRY(const auto grid, lower::grid_of(node));
  PENSTOCK_TRY(const auto from, builder.place(node.inputs.front()));
  if (from.dtype != DType::kF32) return unsupported("is computed of f32 only");
  const Expression target = builder.new_place(result);
  const Dims strides = contiguous_strides(from.dims);
  const auto axes = lower::axes_of(builder.graph(), node);
  KernelText text;
  text.read("x", from);
  std::string at = "0u";
  std::string weight = "1.0f";
  std::string loops;
  for (std::size_t d = 0; d < from.dims.size(); ++d) {
    if (axes[d].keeps()) {
      at += concat(" + i", d, " * ", strides[d], "u");
      continue;
    }
    const auto taps = lower::taps_of(axes[d], grid);
    add_table<std::int32_t>(builder, text, concat("index", d), DType::kI32, taps.index);
    add_table<float>(builder, text, concat("weight", d), DType::kF32, taps.weight);
    loops += concat("for (unsigned k", d, " = i", d, " * ", taps.each, "u; k", d, " < (i", d,
                    " + 1u) * ", taps.each, "u; ++k", d, ") ");
    at += concat(" + (unsigned)index", d, "(k", d, ") * ", strides[d], "u");
    weight += concat(" * weight", d, "(k", d, ")");
  }
  text.write("result", target);
  text.each_element(count_of(target.dims));
  text.line(index_lines(target.dims));
  text.line("float sum = 0.0f;");
  text.line(concat(loops, "sum += x(", at, ") * (", weight, ");"));
  text.line("result(i) = sum;");
  PENSTOCK_CHECK_OK(builder.append(text.finish()));
  return builder.define(result, target);
}

}  // namespace penstock::cuda
