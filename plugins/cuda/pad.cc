// Pad: a thread computes one element, the one of the input that stands there or the filling.
#include "pad.h"

#include "operators.h"
#include "penstock/lower/slices.h"

namespace penstock::cuda {
namespace {

/// The line that makes `j`, counted from the input's begin, an index of it.
std::string index_in(const std::string& mode, std::int64_t size) {
  if (mode == "edge" || size == 1) {
    return concat("j = j < 0 ? 0 : j >= ", size, " ? ", size - 1, " : j;");
  }
  if (mode == "wrap") return concat("j %= ", size, "; if (j < 0) j += ", size, ";");
  const auto period = 2 * (size - 1);
  return concat("j %= ", period, "; if (j < 0) j += ", period, "; if (j >= ", size,
                ") j = ", period, " - j;");
}

}  // namespace

Result<Expression> padded(Builder& builder, const Expression& value, const Dims& before,
                          const Expression& target, const std::string& mode,
                          const std::optional<Expression>& filling) {
  const Dims strides = contiguous_strides(value.dims);
  KernelText text;
  text.read("data", value);
  text.read("filling", filling.value_or(Expression{{}, value.dtype, {}, "0"}));
  text.write("result", target);
  text.each_element(count_of(target.dims));
  text.line(index_lines(target.dims));
  text.line("unsigned at = 0; bool inside = true;");
  for (std::size_t d = 0; d < value.dims.size(); ++d) {
    const auto step = mode == "constant"
                          ? concat("if (j < 0 || j >= ", value.dims[d], ") inside = false;")
                          : index_in(mode, value.dims[d]);
    text.line(concat("{ int j = (int)i", d, " - (", before[d], "); ", step, " at += (unsigned)j * ",
                     strides[d], "u; }"));
  }
  text.line("result(i) = inside ? data(at) : filling(0);");
  PENSTOCK_CHECK_OK(builder.append(text.finish()));
  return target;
}

Status lower_pad(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const ValueId result = node.outputs.front();
  PENSTOCK_TRY(const auto from, builder.value(node.inputs.front()));
  Expression filling{{}, from.dtype, {}, literal(float_or(node, "value", 0))};
  if (builder.given(node, 2)) {
    PENSTOCK_TRY(filling, builder.value(node.inputs[2]));
  }
  PENSTOCK_TRY(const auto pads, lower::pads_of(builder.graph(), node, from.dims.size()));
  PENSTOCK_TRY(auto target, padded(builder, from, pads.before, builder.new_place(result),
                                   string_or(node, "mode", "constant"), filling));
  return builder.define(result, std::move(target));
}

}  // namespace penstock::cuda
