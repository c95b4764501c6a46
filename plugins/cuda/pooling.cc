// MaxPool and AveragePool: a thread computes one element of the result.
#include "operators.h"
#include "window.h"

namespace penstock::cuda {
namespace {

/// By how many an average is divided.
std::string divisor(const Node& node, const Window& window) {
  if (node.int_or("count_include_pad", 0) == 0) return "count";
  return concat(count_of(window.kernel), ".0f");
}

}  // namespace

Status lower_pooling(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  if (node.outputs.size() > 1 && node.outputs[1] != ValueId::kNone) {
    return unsupported("gives no indices");
  }
  const ValueId result = node.outputs.front();
  PENSTOCK_TRY(const auto from, builder.dense(node.inputs.front()));
  if (from.dims.size() < 3 || from.dims.size() > 5) {
    return unsupported("takes 1 to 3 spatial dimensions, found ", from.dims.size(),
                       " dimensions in all");
  }
  if (from.dtype != DType::kF32) return unsupported("is computed of f32 only");
  const Expression target = builder.new_place(result);
  const Dims in = spatial_of(from.dims);
  const Window window = window_of(node, in, spatial_of(target.dims), {});
  const bool average = node.op == "AveragePool";
  KernelText text;
  text.read("x", from);
  text.write("result", target);
  text.each_element(count_of(target.dims));
  text.line(index_lines(target.dims));
  text.line(
      concat("const unsigned image = (i0 * ", from.dims[1], "u + i1) * ", count_of(in), "u;"));
  text.line(concat("float value = ", average ? "0.0f" : "-INFINITE", ", count = 0.0f;"));
  text.line(window_loops(window, in,
                         average ? "value += x(image + at); count += 1.0f;"
                                 : "value = max_of(value, x(image + at));"));
  text.line(average ? concat("result(i) = value / ", divisor(node, window), ";")
                    : std::string("result(i) = value;"));
  PENSTOCK_CHECK_OK(builder.append(text.finish()));
  return builder.define(result, target);
}

}  // namespace penstock::cuda
