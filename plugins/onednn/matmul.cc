// MatMul and Gemm.
#include <algorithm>
#include <array>
#include <utility>

#include "fusion.h"
#include "operators.h"
#include "pointwise.h"

namespace penstock::onednn {
namespace {

/// y = a b + bias, then the chain of the node's readers.
struct Product {
  Place a, b;
  bool b_is_constant = false;
  Dims dims;                  ///< Of y as the primitive sees it.
  std::optional<Place> bias;  ///< [1, ..., N]
  ValueId result = ValueId::kNone;
  std::vector<Link> before;  ///< Links ahead of the readers'.
};

/// Matrices whose rows or columns lie one after the other; else a plain copy.
Result<Place> as_matrix(Builder& builder, const Place& from) {
  const auto& strides = from.layout.strides();
  const std::size_t rank = from.layout.rank();
  const bool fits =
      from.layout.is_strided() && from.layout.is_dense() && rank >= 2 &&
      (strides[rank - 1] == 1 || strides[rank - 2] == 1 || from.layout.dims()[rank - 1] == 1);
  if (fits) return from;
  PENSTOCK_TRY(const auto layout, builder.plain(from.layout.dims()));
  return builder.reordered(from, layout);
}

Status append_product(Builder& builder, NodeId id, Product product) {
  PENSTOCK_TRY(const Place a, as_matrix(builder, product.a));
  Place b = product.b;
  if (!product.b_is_constant) {
    PENSTOCK_TRY(b, as_matrix(builder, product.b));
  }
  PENSTOCK_TRY(const auto any_b, builder.any(b.layout.dims()));
  PENSTOCK_TRY(const auto target, builder.plain(product.dims));
  const Layout bias = product.bias ? product.bias->layout : Layout{};
  Fusion fusion{.node = id, .result = product.result, .dims = product.dims, .sums = true};
  fusion.required = product.before.size();
  fusion.chain = std::move(product.before);
  std::ranges::move(chain_after(builder, product.result), std::back_inserter(fusion.chain));
  fusion.buffers = {product.a.buffer, product.b.buffer, a.buffer, b.buffer};
  fusion.make = [&](const_dnnl_primitive_attr_t attributes) {
    return builder.describe([&](dnnl_primitive_desc_t* raw) {
      return builder.api().matmul_primitive_desc_create(
          raw, builder.engine().cpu, a.layout.get(),
          product.b_is_constant ? any_b.get() : b.layout.get(), bias.get(), target.get(),
          attributes);
    });
  };
  PENSTOCK_TRY(auto fused, fuse(builder, fusion));
  PENSTOCK_TRY(const auto weights, builder.layout_of(fused.descriptor, dnnl_query_weights_md));
  PENSTOCK_TRY(b, builder.reordered(b, weights));
  std::vector<Argument> arguments = {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}};
  if (product.bias) arguments.push_back({DNNL_ARG_BIAS, *product.bias});
  return finish(builder, fusion, std::move(fused), std::move(arguments));
}

/// A sum of the product with a constant row right behind it is a bias.
Status take_bias(Builder& builder, Product& product) {
  const auto reader = builder.optimize() ? builder.only_reader(product.result) : std::nullopt;
  if (!reader) return {};
  const Node& node = builder.graph().node(*reader);
  if (node.op != "Add" || !node.domain.empty()) return {};
  const ValueId row = node.inputs[0] == product.result ? node.inputs[1] : node.inputs[0];
  const Tensor* tensor = builder.constant(row);
  const auto columns = product.dims.back();
  const bool fits = tensor != nullptr && !tensor->dims().empty() &&
                    tensor->dtype() == DType::kF32 && tensor->dims().back() == columns &&
                    static_cast<std::int64_t>(tensor->count()) == columns &&
                    builder.dims(node.outputs.front()) == builder.dims(product.result);
  if (!fits) return {};
  Dims dims(product.dims.size(), 1);
  dims.back() = columns;
  PENSTOCK_TRY(product.bias, builder.new_constant(builder.floats(row), dims));
  product.result = node.outputs.front();
  builder.mark_done(*reader);
  return {};
}

Result<Place> matrix_of(Builder& builder, ValueId id, std::size_t rank, bool is_first) {
  PENSTOCK_TRY(const Place from, builder.place(id));
  Dims dims = builder.dims(id);
  if (dims.size() == 1) dims.insert(is_first ? dims.begin() : dims.end(), 1);
  if (dims.size() < rank) dims.insert(dims.begin(), rank - dims.size(), 1);
  return builder.reshaped(from, dims);
}

Result<Place> transposed(const Place& from, bool yes) {
  if (!yes) return from;
  auto view = from.layout.permuted({1, 0});
  if (!view) return unsupported("this layout is not transposed");
  return Place{from.buffer, from.offset, *std::move(view)};
}

/// Gemm's C, times beta: a row is the bias, anything else a sum behind.
Status take_addend(Builder& builder, const Node& node, float beta, Product& product) {
  if (node.inputs.size() < 3 || node.inputs[2] == ValueId::kNone || beta == 0) return {};
  const ValueId c = node.inputs[2];
  const auto columns = static_cast<std::size_t>(product.dims[1]);
  const bool is_row = builder.constant(c) != nullptr &&
                      count_of(builder.dims(c)) == (at_least_1d(builder.dims(c)).back());
  if (!is_row) {
    if (beta != 1) return unsupported("beta with a C that is no constant row");
    product.before.push_back(
        {.ops = {{.kind = PostOp::Kind::kBinary, .algorithm = dnnl_binary_add, .operand = c}},
         .nodes = {},
         .result = node.outputs.front()});
    return {};
  }
  const auto given = builder.floats(c);
  std::vector<float> values(given.begin(), given.end());
  if (values.size() == 1) values.resize(columns, values.front());
  for (float& value : values) value *= beta;
  PENSTOCK_TRY(product.bias, builder.new_constant(values, {1, product.dims[1]}));
  return {};
}

}  // namespace

Status lower_matmul(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const std::size_t rank = std::max<std::size_t>(
      {2, builder.dims(node.inputs[0]).size(), builder.dims(node.inputs[1]).size()});
  Product product{.b_is_constant = builder.constant(node.inputs[1]) != nullptr,
                  .result = node.outputs.front()};
  PENSTOCK_TRY(product.a, matrix_of(builder, node.inputs[0], rank, true));
  PENSTOCK_TRY(product.b, matrix_of(builder, node.inputs[1], rank, false));
  const Dims a = product.a.layout.dims();
  const Dims b = product.b.layout.dims();
  const bool one_matrix = count_of({b.data(), rank - 2}) == 1;
  if (rank > 2 && one_matrix) {
    // All rows at once.
    PENSTOCK_TRY(product.a,
                 builder.reshaped(product.a, {count_of({a.data(), rank - 1}), a.back()}));
    PENSTOCK_TRY(product.b, builder.reshaped(product.b, {b[rank - 2], b[rank - 1]}));
    product.dims = {product.a.layout.dims()[0], b.back()};
  } else {
    for (std::size_t i = 0; i + 2 < rank; ++i) product.dims.push_back(std::max(a[i], b[i]));
    product.dims.push_back(a[rank - 2]);
    product.dims.push_back(b[rank - 1]);
  }
  PENSTOCK_CHECK_OK(take_bias(builder, product));
  return append_product(builder, id, std::move(product));
}

Status lower_gemm(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  if (builder.opset() < 7) return unsupported("from opset 7 on, found ", builder.opset());
  Product product{.b_is_constant = builder.constant(node.inputs[1]) != nullptr,
                  .result = node.outputs.front()};
  PENSTOCK_TRY(const Place a, builder.place(node.inputs[0]));
  PENSTOCK_TRY(const Place b, builder.place(node.inputs[1]));
  PENSTOCK_TRY(product.a, transposed(a, node.int_or("transA", 0) != 0));
  PENSTOCK_TRY(product.b, transposed(b, node.int_or("transB", 0) != 0));
  product.dims = builder.dims(node.outputs.front());
  if (const float alpha = float_or(node, "alpha", 1); alpha != 1) {
    if (!product.b_is_constant) {
      product.before.push_back({.ops = {eltwise(dnnl_eltwise_linear, alpha, 0)},
                                .nodes = {},
                                .result = node.outputs.front()});
    } else {
      const auto given = builder.floats(node.inputs[1]);
      std::vector<float> scaled(given.begin(), given.end());
      for (float& value : scaled) value *= alpha;
      PENSTOCK_TRY(const Place all, builder.new_constant(scaled, b.layout.dims()));
      product.b.buffer = all.buffer;
    }
  }
  const bool alpha_is_behind = !product.before.empty();
  PENSTOCK_CHECK_OK(take_addend(builder, node, float_or(node, "beta", 1), product));
  if (alpha_is_behind && product.bias) {
    // The bias comes before what scales the product.
    return unsupported("alpha with a constant C and a B that is not constant");
  }
  if (product.before.empty() && !product.bias) PENSTOCK_CHECK_OK(take_bias(builder, product));
  return append_product(builder, id, std::move(product));
}

}  // namespace penstock::onednn
