// MatMul and Gemm: cuBLASLt, with the bias, residual and ReLU that follow.
#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "operators.h"
#include "product.h"

namespace penstock::cuda {
namespace {

/// The operands as batches of matrices.
struct Operands {
  Expression a, b;
  Dims batch;
};

/// What follows a product and is computed in it.
struct Following {
  ValueId result = ValueId::kNone;
  std::optional<Expression> bias, residual;
  bool relu = false;
};

std::size_t alignment_of(const Leaf& leaf) {
  constexpr std::int64_t kMost = 256;
  return static_cast<std::size_t>(
      std::gcd(kMost, leaf.offset * static_cast<std::int64_t>(sizeof(float))));
}

/// The last two dimensions as a matrix, those before as its batch; empty where cuBLASLt cannot read
/// them so.
std::optional<Matrix> matrix_of(const Expression& value) {
  if (!value.is_place()) return {};
  const Leaf& leaf = value.leaves.front();
  const std::size_t rank = value.dims.size();
  Matrix matrix{.rows = value.dims[rank - 2],
                .columns = value.dims[rank - 1],
                .row_stride = leaf.strides[rank - 2],
                .column_stride = leaf.strides[rank - 1],
                .batch_stride = 0,
                .alignment = alignment_of(leaf)};
  if (matrix.columns == 1) matrix.column_stride = 1;
  if (matrix.rows == 1 && matrix.column_stride == 1) matrix.row_stride = matrix.columns;
  if (matrix.rows == 1 && matrix.column_stride != 1) matrix.row_stride = 1;
  const bool by_rows = matrix.column_stride == 1 && matrix.row_stride >= matrix.columns;
  const bool by_columns = matrix.row_stride == 1 && matrix.column_stride >= matrix.rows;
  if (!by_rows && !by_columns) return {};
  const auto outer = static_cast<std::ptrdiff_t>(rank - 2);
  const Walk walk = walk_of({value.dims.begin(), value.dims.begin() + outer},
                            {{leaf.strides.begin(), leaf.strides.begin() + outer}});
  if (walk.dims.size() != 1 || walk.strides.front().front() < 0) return {};
  matrix.batch_stride = walk.strides.front().front();
  return matrix;
}

Result<std::pair<Expression, Matrix>> as_matrix(Builder& builder, const Expression& value) {
  if (const auto found = matrix_of(value)) return std::pair(value, *found);
  PENSTOCK_TRY(auto made, builder.densely(value));
  return std::pair(made, *matrix_of(made));
}

bool is_row(const Dims& dims, std::int64_t columns) {
  return !dims.empty() && dims.back() == columns && count_of(dims) == columns;
}

/// The other operand of an Add, where it is known by now.
Result<std::optional<Expression>> addend(Builder& builder, const Node& node, ValueId value) {
  const ValueId other = node.inputs[node.inputs[0] == value ? 1 : 0];
  if (!builder.available(other) || builder.dtype(other) != DType::kF32) {
    return std::optional<Expression>();
  }
  PENSTOCK_TRY(auto found, builder.value(other));
  return std::optional<Expression>(std::move(found));
}

/// Takes in an Add: a bias of the columns, or a residual of the result's shape. False: neither.
Result<bool> take_add(Builder& builder, const Node& node, Following& following) {
  const Dims dims = builder.dims(following.result);
  if (builder.dims(node.outputs.front()) != dims) return false;
  PENSTOCK_TRY(const auto other, addend(builder, node, following.result));
  if (!other) return false;
  if (!following.bias && !following.residual && is_row(other->dims, dims.back())) {
    PENSTOCK_TRY(following.bias, builder.densely(*other));
    return true;
  }
  if (!following.residual && other->dims == dims && other->is_dense()) {
    following.residual = *other;
    return true;
  }
  return false;
}

/// `columns`: of the product; a result of another width, which is of vectors, is followed by
/// nothing.
Result<Following> following(Builder& builder, ValueId result, std::int64_t columns,
                            std::optional<Expression> bias) {
  Following found{.result = result, .bias = std::move(bias), .residual = {}, .relu = false};
  const Dims dims = builder.dims(result);
  const bool whole_rows = dims.size() >= 2 && dims.back() == columns;
  while (builder.settings().optimize && whole_rows && !found.relu) {
    const auto reader = builder.only_reader(found.result);
    if (!reader) break;
    const Node& node = builder.graph().node(*reader);
    if (!node.domain.empty()) break;
    if (node.op == "Relu") {
      found.relu = true;
    } else if (node.op == "Add") {
      PENSTOCK_TRY(const bool taken, take_add(builder, node, found));
      if (!taken) break;
    } else {
      break;
    }
    builder.mark_done(*reader);
    found.result = node.outputs.front();
  }
  return found;
}

/// The product, and what follows it, in `target`.
Status multiply(Builder& builder, const Operands& operands, float alpha, const Following& after,
                const Expression& target) {
  if (target.dtype != DType::kF32) return unsupported("is computed of f32 only");
  PENSTOCK_TRY(const auto a, as_matrix(builder, operands.a));
  PENSTOCK_TRY(const auto b, as_matrix(builder, operands.b));
  const auto rows = a.second.rows;
  const auto columns = b.second.columns;
  const ProductForm form{.a = a.second,
                         .b = b.second,
                         .result = {.rows = rows,
                                    .columns = columns,
                                    .row_stride = columns,
                                    .column_stride = 1,
                                    .batch_stride = rows * columns,
                                    .alignment = 256},
                         .batch = count_of(operands.batch),
                         .alpha = alpha,
                         .bias = after.bias.has_value(),
                         .residual = after.residual.has_value(),
                         .relu = after.relu,
                         .tf32 = builder.settings().tf32};
  if (builder.gpu() == nullptr) return {};
  PENSTOCK_TRY(const auto product, Product::create(*builder.gpu(), form));
  std::vector<Leaf> leaves = {a.first.leaves.front(), b.first.leaves.front(),
                              target.leaves.front()};
  leaves.push_back(after.bias ? after.bias->leaves.front() : leaves.front());
  leaves.push_back(after.residual ? after.residual->leaves.front() : leaves.front());
  std::vector<std::size_t> buffers;
  for (const Leaf& leaf : leaves) buffers.push_back(leaf.buffer);
  builder.append(buffers, product->workspace_bytes(), [product, leaves](const Launch& launch) {
    std::vector<DevicePointer> at;
    for (const Leaf& leaf : leaves) {
      at.push_back(launch.at(leaf.buffer, static_cast<std::size_t>(leaf.offset) * sizeof(float)));
    }
    return product->enqueue({.a = at[0],
                             .b = at[1],
                             .bias = at[3],
                             .residual = at[4],
                             .result = at[2],
                             .workspace = launch.workspace},
                            launch.stream);
  });
  return {};
}

Status multiply_and_define(Builder& builder, const Operands& operands, float alpha, ValueId result,
                           std::optional<Expression> bias) {
  PENSTOCK_TRY(const auto after,
               following(builder, result, operands.b.dims.back(), std::move(bias)));
  const Expression target = builder.new_place(after.result);
  PENSTOCK_CHECK_OK(multiply(builder, operands, alpha, after, target));
  return builder.define(after.result, target);
}

/// A vector becomes a matrix of one row (the first operand) or one column.
Expression at_least_2d(const Expression& value, bool as_row) {
  if (value.dims.size() >= 2) return value;
  return *value.reshaped(as_row ? Dims{1, value.dims[0]} : Dims{value.dims[0], 1});
}

Dims with_matrix(Dims batch, const Expression& value) {
  batch.insert(batch.end(), value.dims.end() - 2, value.dims.end());
  return batch;
}

Dims batch_of(const Expression& value) {
  return {value.dims.begin(), value.dims.end() - 2};
}

}  // namespace

Status lower_matmul(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  PENSTOCK_TRY(const auto first, builder.value(node.inputs[0]));
  PENSTOCK_TRY(const auto second, builder.value(node.inputs[1]));
  Operands operands{at_least_2d(first, true), at_least_2d(second, false), {}};
  if (operands.b.dims.size() == 2 || count_of(batch_of(operands.b)) == 1) {
    // One matrix for all: the batch is rows.
    const auto inner = operands.a.dims.back();
    PENSTOCK_TRY(operands.a,
                 builder.reshaped(operands.a, {count_of(operands.a.dims) / inner, inner}));
    PENSTOCK_TRY(operands.b,
                 builder.reshaped(operands.b, {operands.b.dims.end()[-2], operands.b.dims.back()}));
    return multiply_and_define(builder, operands, 1, node.outputs.front(), {});
  }
  Expression a = operands.a;
  Expression b = operands.b;
  a.dims = batch_of(operands.a);
  b.dims = batch_of(operands.b);
  operands.batch = broadcast_dims({a, b});
  operands.a = operands.a.broadcast(with_matrix(operands.batch, operands.a));
  operands.b = operands.b.broadcast(with_matrix(operands.batch, operands.b));
  return multiply_and_define(builder, operands, 1, node.outputs.front(), {});
}

Status lower_gemm(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const ValueId result = node.outputs.front();
  PENSTOCK_TRY(auto a, builder.value(node.inputs[0]));
  PENSTOCK_TRY(auto b, builder.value(node.inputs[1]));
  if (node.int_or("transA", 0) != 0) a = a.permuted({1, 0});
  if (node.int_or("transB", 0) != 0) b = b.permuted({1, 0});
  const float alpha = float_or(node, "alpha", 1);
  const float beta = float_or(node, "beta", 1);
  if (!builder.given(node, 2) || beta == 0) {
    return multiply_and_define(builder, {a, b, {}}, alpha, result, {});
  }
  PENSTOCK_TRY(auto c, builder.value(node.inputs[2]));
  if (beta == 1 && is_row(c.dims, b.dims.back())) {
    PENSTOCK_TRY(auto bias, builder.densely(c));
    return multiply_and_define(builder, {a, b, {}}, alpha, result, std::move(bias));
  }
  const Expression product = builder.new_place(builder.dims(result), DType::kF32);
  PENSTOCK_CHECK_OK(multiply(builder, {a, b, {}}, alpha, {.result = result}, product));
  if (beta != 1) c = apply("mul", {c}, DType::kF32, {literal(beta)});
  return builder.define(result, apply("add", {product, c}, DType::kF32));
}

}  // namespace penstock::cuda
