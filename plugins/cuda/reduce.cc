// Reductions, softmax and normalisations: what is computed over rows of elements.
#include <algorithm>
#include <numeric>
#include <utility>

#include "operators.h"
#include "penstock/lower/slices.h"
#include "rows.h"

namespace penstock::cuda {
namespace {

/// How a reduction puts elements together: `term` of each, `function` of two, `result` of the row.
struct Reduction {
  std::string_view op, function, none, term, result;
};

constexpr Reduction kReductions[] = {
    {"ReduceL1", "a + b", "0.0f", "fabsf(v)", "row"},
    {"ReduceL2", "a + b", "0.0f", "v * v", "sqrtf(row)"},
    {"ReduceMax", "max_of(a, b)", "-INFINITE", "v", "row"},
    {"ReduceMean", "a + b", "0.0f", "v", "row / count"},
    {"ReduceMin", "min_of(a, b)", "INFINITE", "v", "row"},
    {"ReduceProd", "a * b", "1.0f", "v", "row"},
    {"ReduceSum", "a + b", "0.0f", "v", "row"},
    {"ReduceSumSquare", "a + b", "0.0f", "v * v", "row"},
};

/// The dimensions that stay, then `axes`.
Dims order_with_last(std::size_t rank, const std::vector<std::size_t>& axes) {
  Dims order;
  for (std::size_t i = 0; i < rank; ++i) {
    if (std::ranges::find(axes, i) == axes.end()) order.push_back(static_cast<std::int64_t>(i));
  }
  for (const auto axis : axes) order.push_back(static_cast<std::int64_t>(axis));
  return order;
}

Expression with_last(const Expression& value, const std::vector<std::size_t>& axes) {
  return value.permuted(order_with_last(value.dims.size(), axes));
}

/// Of few elements each: a thread a row.
Kernel short_rows(const Expression& x, const Expression& target, const Reduction& how,
                  std::int64_t rows, std::int64_t columns) {
  KernelText text;
  text.read("x", x);
  text.write("result", target);
  text.each_element(rows);
  text.line(concat("float row = ", how.none, "; const float count = ", columns, ".0f;"));
  text.line(concat("for (unsigned k = 0; k < ", columns, "u; ++k) {"));
  text.line(concat("  const float v = x(i * ", columns, "u + k), a = row, b = ", how.term,
                   "; row = ", how.function, ";\n  }"));
  text.line(concat("result(i) = ", how.result, "; (void)count;"));
  return text.finish();
}

Kernel long_rows(const Expression& x, const Expression& target, const Reduction& how,
                 std::int64_t rows, std::int64_t columns) {
  RowKernel kernel(x, rows, columns);
  kernel.text().write("result", target);
  kernel.over_row("row", std::string(how.function), std::string(how.none), std::string(how.term));
  kernel.text().line(concat("const float count = ", columns, ".0f; (void)count;"));
  kernel.text().line(concat("if (threadIdx.x == 0) result(blockIdx.x) = ", how.result, ";"));
  return kernel.finish();
}

Status reduce(Builder& builder, ValueId input, ValueId result, const Reduction& how,
              const std::vector<std::size_t>& axes) {
  PENSTOCK_TRY(const auto from, builder.value(input));
  std::int64_t columns = 1;
  for (const auto axis : axes) columns *= from.dims[axis];
  const std::int64_t rows = count_of(from.dims) / columns;
  const Expression target = builder.new_place(result);
  const Expression x = with_last(from, axes);
  constexpr std::int64_t kShort = 16;
  // The rows of the target are in the order of those of `x`: both leave the others in place.
  PENSTOCK_CHECK_OK(builder.append(columns <= kShort ? short_rows(x, target, how, rows, columns)
                                                     : long_rows(x, target, how, rows, columns)));
  return builder.define(result, target);
}

/// The axes of a reduction, ascending; all of them where none are named.
Result<std::vector<std::size_t>> axes_of(const Builder& builder, const Node& node,
                                         std::size_t rank) {
  PENSTOCK_TRY(const auto given, lower::numbers(builder.graph(), node, 1, "axes", {}));
  std::vector<std::size_t> axes;
  for (const auto axis : given) axes.push_back(from_front(axis, rank));
  if (axes.empty() && node.int_or("noop_with_empty_axes", 0) == 0) {
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), std::size_t{0});
  }
  std::ranges::sort(axes);
  return axes;
}

/// (v - mean) / sqrt(variance + epsilon), scaled and shifted by the element `at` of each.
Status normalise(Builder& builder, const Expression& x, std::int64_t rows, std::int64_t columns,
                 const std::vector<std::pair<std::string, Expression>>& factors,
                 const std::string& at, float epsilon, const Expression& target) {
  RowKernel kernel(x, rows, columns);
  std::string scale = "1.0f";
  std::string shift = "0.0f";
  for (const auto& [name, value] : factors) {
    kernel.text().read(name, value);
    (name == "scale" ? scale : shift) = concat(name, "(", at, ")");
  }
  kernel.text().write("result", target);
  kernel.over_row("mean", "a + b", "0.0f", "v");
  kernel.text().line(concat("mean /= ", columns, ".0f;"));
  kernel.over_row("spread", "a + b", "0.0f", "(v - mean) * (v - mean)");
  kernel.text().line(concat("const float factor = 1.0f / sqrtf(spread / ", columns, ".0f + ",
                            literal(epsilon), ");"));
  kernel.each(concat("result(i) = normalised(v, mean, factor, ", scale, ", ", shift, ");"));
  return builder.append(kernel.finish());
}

}  // namespace

Status lower_reduction(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const ValueId input = node.inputs.front();
  if (builder.dtype(input) != DType::kF32) return unsupported("is computed of f32 only");
  PENSTOCK_TRY(const auto axes, axes_of(builder, node, builder.dims(input).size()));
  const auto* const how = std::ranges::find(kReductions, node.op, &Reduction::op);
  return reduce(builder, input, node.outputs.front(), *how, axes);
}

Status lower_global_pooling(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const auto op = node.op == "GlobalMaxPool" ? "ReduceMax" : "ReduceMean";
  const auto* const how = std::ranges::find(kReductions, op, &Reduction::op);
  std::vector<std::size_t> axes(builder.dims(node.inputs.front()).size() - 2);
  std::iota(axes.begin(), axes.end(), std::size_t{2});
  return reduce(builder, node.inputs.front(), node.outputs.front(), *how, axes);
}

Status lower_softmax(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const ValueId result = node.outputs.front();
  PENSTOCK_TRY(const auto from, builder.value(node.inputs.front()));
  const std::size_t rank = from.dims.size();
  constexpr std::int64_t kOneAxis = 13;  // Before, all from the axis on were one row.
  const bool one = builder.opset() >= kOneAxis;
  const std::size_t axis = from_front(node.int_or("axis", one ? -1 : 1), rank);
  std::vector<std::size_t> axes;
  for (std::size_t i = axis; i < rank && (!one || i == axis); ++i) axes.push_back(i);
  std::int64_t columns = 1;
  for (const auto i : axes) columns *= from.dims[i];
  const Expression target = builder.new_place(result);
  RowKernel kernel(with_last(from, axes), count_of(from.dims) / columns, columns);
  kernel.text().write("result", with_last(target, axes));
  kernel.over_row("most", "max_of(a, b)", "-INFINITE", "v");
  kernel.over_row("sum", "a + b", "0.0f", "expf(v - most)");
  kernel.each(node.op == "Softmax" ? "result(i) = expf(v - most) / sum;"
                                   : "result(i) = v - most - logf(sum);");
  PENSTOCK_CHECK_OK(builder.append(kernel.finish()));
  return builder.define(result, target);
}

Status lower_layer_normalization(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  for (std::size_t i = 1; i < node.outputs.size(); ++i) {
    if (node.outputs[i] != ValueId::kNone) return unsupported("gives its first output only");
  }
  const ValueId result = node.outputs.front();
  PENSTOCK_TRY(const auto x, builder.value(node.inputs.front()));
  const std::size_t axis = from_front(node.int_or("axis", -1), x.dims.size());
  const Dims inner(x.dims.begin() + static_cast<std::ptrdiff_t>(axis), x.dims.end());
  const std::int64_t columns = count_of(inner);
  std::vector<std::pair<std::string, Expression>> factors;
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    if (!builder.given(node, i)) continue;
    PENSTOCK_TRY(const auto factor, builder.value(node.inputs[i]));
    if (factor.dims.size() > inner.size()) return unsupported("takes scales of one row");
    factors.emplace_back(i == 1 ? "scale" : "shift", factor.broadcast(inner));
  }
  const Expression target = builder.new_place(result);
  PENSTOCK_CHECK_OK(normalise(builder, x, count_of(x.dims) / columns, columns, factors, "k",
                              float_or(node, "epsilon", 1e-5F), target));
  return builder.define(result, target);
}

Status lower_instance_normalization(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const ValueId result = node.outputs.front();
  PENSTOCK_TRY(const auto x, builder.value(node.inputs.front()));
  const std::int64_t rows = x.dims[0] * x.dims[1];
  std::vector<std::pair<std::string, Expression>> factors;
  for (std::size_t i = 1; i < 3; ++i) {
    PENSTOCK_TRY(const auto factor, builder.value(node.inputs[i]));
    factors.emplace_back(i == 1 ? "scale" : "shift", factor);
  }
  const Expression target = builder.new_place(result);
  PENSTOCK_CHECK_OK(normalise(builder, x, rows, count_of(x.dims) / rows, factors,
                              concat("blockIdx.x % ", x.dims[1], "u"),
                              float_or(node, "epsilon", 1e-5F), target));
  return builder.define(result, target);
}

}  // namespace penstock::cuda
