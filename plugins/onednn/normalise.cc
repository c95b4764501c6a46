// Softmax, LogSoftmax, LayerNormalization, InstanceNormalization and LRN.
#include <utility>

#include "fusion.h"
#include "operators.h"
#include "pointwise.h"
#include "written_norm.h"

namespace penstock::onednn {
namespace {

/// An axis counted from the front.
std::int64_t axis_of(const Node& node, std::int64_t otherwise, std::size_t rank) {
  const auto axis = node.int_or("axis", otherwise);
  return axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis;
}

/// Two dimensions: those before the axis, and those from it on.
Dims split_at(const Dims& dims, std::int64_t axis) {
  const auto before = static_cast<std::size_t>(axis);
  return {count_of({dims.data(), before}), count_of({dims.data() + before, dims.size() - before})};
}

Status append_normalization(Builder& builder, NodeId id, const Descriptor& descriptor,
                            std::vector<Argument> arguments) {
  const ValueId result = builder.graph().node(id).outputs.front();
  const Fusion fusion{.node = id, .result = result, .dims = {}};
  return finish(builder, fusion, {.descriptor = descriptor}, std::move(arguments));
}

struct Normalization {
  Descriptor descriptor;
  std::vector<Argument> arguments;
};

/// Of the rows of a matrix.
Result<Normalization> layer_normalization(Builder& builder, const Place& from, const Place& scale,
                                          const std::optional<Place>& shift, float epsilon) {
  PENSTOCK_TRY(const auto attributes, builder.attributes(nullptr));
  const unsigned flags =
      static_cast<unsigned>(dnnl_use_scale) | (shift ? static_cast<unsigned>(dnnl_use_shift) : 0U);
  Normalization made;
  PENSTOCK_TRY(made.descriptor, builder.describe([&](dnnl_primitive_desc_t* raw) {
    return builder.api().layer_normalization_forward_primitive_desc_create(
        raw, builder.engine().cpu, dnnl_forward_inference, from.layout.get(), from.layout.get(),
        nullptr, epsilon, flags, attributes.get());
  }));
  made.arguments = {{DNNL_ARG_SRC, from}, {DNNL_ARG_SCALE, scale}};
  if (shift) made.arguments.push_back({DNNL_ARG_SHIFT, *shift});
  return made;
}

}  // namespace

/// Before opset 13 it takes all dimensions from the axis on together.
Status lower_softmax(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const Dims dims = at_least_1d(builder.dims(node.inputs[0]));
  const bool together = builder.opset() < 13;
  std::int64_t axis = axis_of(node, together ? 1 : -1, dims.size());
  PENSTOCK_TRY(Place from, builder.dense_place(node.inputs[0]));
  if (together && axis + 1 < static_cast<std::int64_t>(dims.size())) {
    PENSTOCK_TRY(from, builder.reshaped(from, split_at(dims, axis)));
    axis = 1;
  }
  PENSTOCK_TRY(const auto attributes, builder.attributes(nullptr));
  PENSTOCK_TRY(const auto target, builder.any(from.layout.dims()));
  const auto describe = [&] {
    return builder.describe([&](dnnl_primitive_desc_t* raw) {
      return builder.api().softmax_forward_primitive_desc_create(
          raw, builder.engine().cpu, dnnl_forward_inference,
          node.op == "LogSoftmax" ? dnnl_softmax_log : dnnl_softmax_accurate, from.layout.get(),
          target.get(), static_cast<int>(axis), attributes.get());
    });
  };
  PENSTOCK_TRY(auto descriptor, describe());
  if (is_reference(builder, descriptor)) {
    PENSTOCK_TRY(const auto plain, builder.plain(from.layout.dims()));
    PENSTOCK_TRY(from, builder.reordered(from, plain));
    PENSTOCK_TRY(descriptor, describe());
  }
  return append_normalization(builder, id, descriptor, {{DNNL_ARG_SRC, from}});
}

Status lower_layer_normalization(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  for (std::size_t i = 1; i < node.outputs.size(); ++i) {
    if (node.outputs[i] != ValueId::kNone) return unsupported("gives no mean or deviation");
  }
  const Dims dims = builder.dims(node.inputs[0]);
  const std::int64_t axis = axis_of(node, -1, dims.size());
  const Dims matrix = split_at(dims, axis);
  const bool has_shift = node.inputs.size() > 2 && node.inputs[2] != ValueId::kNone;
  PENSTOCK_TRY(const Place given, builder.plain_place(node.inputs[0]));
  PENSTOCK_TRY(const Place from, builder.reshaped(given, matrix));
  const auto parameter = [&](std::size_t i) -> Result<Place> {
    if (count_of(builder.dims(node.inputs[i])) != matrix[1]) {
      return unsupported("takes a scale and a shift for each normalised element");
    }
    PENSTOCK_TRY(const Place place, builder.plain_place(node.inputs[i]));
    return builder.reshaped(place, {matrix[1]});
  };
  PENSTOCK_TRY(const Place scale, parameter(1));
  std::optional<Place> shift;
  if (has_shift) {
    PENSTOCK_TRY(shift, parameter(2));
  }
  PENSTOCK_TRY(auto step,
               layer_normalization(builder, from, scale, shift, float_or(node, "epsilon", 1e-5F)));
  return append_normalization(builder, id, step.descriptor, std::move(step.arguments));
}

Status lower_written_norm(Builder& builder, const WrittenNorm& norm) {
  const Dims dims = builder.dims(norm.x);
  const auto columns = dims.back();
  PENSTOCK_TRY(const Place given, builder.plain_place(norm.x));
  PENSTOCK_TRY(const Place from, builder.reshaped(given, {count_of(dims) / columns, columns}));
  PENSTOCK_TRY(const Place scale, builder.new_constant(norm.scale, {columns}));
  PENSTOCK_TRY(const Place shift, builder.new_constant(norm.shift, {columns}));
  PENSTOCK_TRY(auto step, layer_normalization(builder, from, scale, shift, norm.epsilon));
  const Fusion fusion{.node = norm.nodes.front(), .result = norm.result, .dims = {}};
  PENSTOCK_CHECK_OK(
      finish(builder, fusion, {.descriptor = step.descriptor}, std::move(step.arguments)));
  for (const NodeId node : norm.nodes) builder.mark_done(node);
  return {};
}

/// Each channel of each image for itself: the library's batch normalisation of one image, which
/// takes mean and variance from what it normalises.
Status lower_instance_normalization(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  PENSTOCK_TRY(Place from, builder.dense_place(node.inputs[0]));
  Dims dims = from.layout.dims();
  if (dims.size() < 3 || dims.size() > 5) return unsupported("takes 3 to 5 dimensions");
  const std::int64_t images = std::exchange(dims[0], 1);
  dims[1] *= images;
  if (images > 1) {
    PENSTOCK_TRY(from, builder.plain_place(node.inputs[0]));
    PENSTOCK_TRY(from, builder.reshaped(from, dims));
  }
  const auto parameter = [&](std::size_t i) -> Result<Place> {
    if (builder.constant(node.inputs[i]) == nullptr) {
      return unsupported("takes a constant scale and shift");
    }
    const auto of_one = builder.floats(node.inputs[i]);
    std::vector<float> of_all;
    for (std::int64_t n = 0; n < images; ++n)
      of_all.insert(of_all.end(), of_one.begin(), of_one.end());
    return builder.new_constant(of_all, {dims[1]});
  };
  PENSTOCK_TRY(const Place scale, parameter(1));
  PENSTOCK_TRY(const Place shift, parameter(2));
  PENSTOCK_TRY(const auto target, builder.any(dims));
  const ValueId result = node.outputs.front();
  Fusion fusion{.node = id, .result = result, .chain = chain_after(builder, result), .dims = dims};
  fusion.binaries = false;  // Of functions behind it the library takes in a ReLU alone.
  fusion.make = [&](const_dnnl_primitive_attr_t attributes) {
    return builder.describe([&](dnnl_primitive_desc_t* raw) {
      constexpr unsigned kFlags =
          static_cast<unsigned>(dnnl_use_scale) | static_cast<unsigned>(dnnl_use_shift);
      return builder.api().batch_normalization_forward_primitive_desc_create(
          raw, builder.engine().cpu, dnnl_forward_inference, from.layout.get(), target.get(),
          float_or(node, "epsilon", 1e-5F), kFlags, attributes);
    });
  };
  PENSTOCK_TRY(auto fused, fuse(builder, fusion));
  return finish(builder, fusion, std::move(fused),
                {{DNNL_ARG_SRC, from}, {DNNL_ARG_SCALE, scale}, {DNNL_ARG_SHIFT, shift}});
}

Status lower_lrn(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const std::int64_t size = node.int_or("size", 1);
  if (size % 2 == 0) return unsupported("takes an odd size, found ", size);
  PENSTOCK_TRY(const Place from, builder.dense_place(node.inputs[0]));
  PENSTOCK_TRY(const auto attributes, builder.attributes(nullptr));
  PENSTOCK_TRY(const auto target, builder.any(from.layout.dims()));
  PENSTOCK_TRY(const auto descriptor, builder.describe([&](dnnl_primitive_desc_t* raw) {
    return builder.api().lrn_forward_primitive_desc_create(
        raw, builder.engine().cpu, dnnl_forward_inference, dnnl_lrn_across_channels,
        from.layout.get(), target.get(), size, float_or(node, "alpha", 1e-4F),
        float_or(node, "beta", 0.75F), float_or(node, "bias", 1), attributes.get());
  }));
  return append_normalization(builder, id, descriptor, {{DNNL_ARG_SRC, from}});
}

}  // namespace penstock::onednn
