// Conv and ConvTranspose, with what follows them.
#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "fusion.h"
#include "operators.h"
#include "pointwise.h"
#include "window.h"

namespace penstock::onednn {
namespace {

/// What slides over the input, and over what of it.
struct Sliding {
  std::vector<float> values;
  Dims shape;  ///< Of the values: [M, C/g, k...]; [C, M/g, k...] where it is transposed.
  bool transposed = false;
  Window window;
  std::optional<Place> part;  ///< Where not all of the input is read.
};

/// Weights and bias of a node with what is folded into them, and the value that they then make.
struct Weights {
  std::vector<float> values;  ///< In the order that they had.
  std::vector<float> bias;    ///< [M], or empty.
  ValueId result = ValueId::kNone;
  std::vector<NodeId> folded;
};

/// Multiplies output channel m of the weights by scale[m].
void scale_weights(std::vector<float>& values, const Dims& shape, std::int64_t groups,
                   bool transposed, const std::vector<float>& scale) {
  const auto kernel = static_cast<std::size_t>(count_of(spatial_of(shape)));
  const auto inner = static_cast<std::size_t>(shape[1]);
  const auto outer = static_cast<std::size_t>(shape[0]);
  const std::size_t outer_of_group = outer / static_cast<std::size_t>(groups);
  for (std::size_t o = 0; o < outer; ++o) {
    for (std::size_t i = 0; i < inner; ++i) {
      const std::size_t channel = transposed ? o / outer_of_group * inner + i : o;
      float* const begin = &values[(o * inner + i) * kernel];
      std::for_each(begin, begin + kernel, [&](float& value) { value *= scale[channel]; });
    }
  }
}

/// Batch normalisations, and sums and products with constants per channel, go into the weights.
/// These are taken out of `sliding`.
Weights fold(const Builder& builder, const Node& node, std::int64_t groups, Sliding& sliding) {
  Weights weights{.values = std::move(sliding.values), .result = node.outputs.front()};
  const Dims& shape = sliding.shape;
  const bool transposed = sliding.transposed;
  if (node.inputs.size() > 2 && node.inputs[2] != ValueId::kNone) {
    const auto bias = builder.floats(node.inputs[2]);
    weights.bias = {bias.begin(), bias.end()};
  }
  const auto channels = static_cast<std::size_t>(transposed ? shape[1] * groups : shape[0]);
  while (builder.optimize()) {
    const auto reader = builder.only_reader(weights.result);
    const auto affine = reader ? affine_of(builder, *reader, weights.result) : std::nullopt;
    if (!affine) break;
    scale_weights(weights.values, shape, groups, transposed, affine->scale);
    weights.bias.resize(channels, 0);
    for (std::size_t c = 0; c < channels; ++c) {
      weights.bias[c] = weights.bias[c] * affine->scale[c] + affine->shift[c];
    }
    weights.folded.push_back(*reader);
    weights.result = affine->result;
  }
  return weights;
}

/// [M, C/g, k...] as oneDNN has it: with the group in front where there is more than one.
Result<Layout> weights_layout(const Builder& builder, const Dims& shape, std::int64_t groups,
                              bool transposed) {
  Dims dims = shape;
  if (groups > 1) {
    dims[0] /= groups;
    dims.insert(dims.begin(), groups);
  }
  PENSTOCK_TRY(auto layout, builder.plain(dims));
  if (!transposed) return layout;
  std::vector<int> order;
  for (std::size_t i = 0; i < dims.size(); ++i) order.push_back(static_cast<int>(i));
  const std::size_t first = groups > 1 ? 1 : 0;
  std::swap(order[first], order[first + 1]);
  return *layout.permuted(order);
}

Status check_operands(const Builder& builder, const Node& node) {
  const Dims in = builder.dims(node.inputs[0]);
  if (in.size() < 3 || in.size() > 5) {
    return unsupported("takes 1 to 3 spatial dimensions, found ",
                       builder.graph().value(node.inputs[0]).type);
  }
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == ValueId::kNone || builder.constant(node.inputs[i]) != nullptr) continue;
    return unsupported("takes constant weights and bias; '",
                       builder.graph().value(node.inputs[i]).name, "' is none");
  }
  return {};
}

/// A convolution of few channels likes a blocked result, and every one behind it a reorder of that
/// to channels last, where the CPU's convolutions take these.
Status keep_channels_last(
    Builder& builder, const std::function<Result<Descriptor>(const_dnnl_primitive_attr_t)>& make,
    Layout& target) {
  PENSTOCK_TRY(const bool usual, builder.takes_channels_last());
  if (!usual) return {};
  PENSTOCK_TRY(const auto attributes, builder.attributes(nullptr));
  PENSTOCK_TRY(const auto own, make(attributes.get()));
  PENSTOCK_TRY(const auto result, builder.layout_of(own, dnnl_query_dst_md));
  if (result.is_strided()) return {};
  const Layout before = target;
  PENSTOCK_TRY(target, result.dense_like(result.dims()));
  const auto other = make(attributes.get());
  if (!other || is_reference(builder, *other)) target = before;
  return {};
}

Status lower(Builder& builder, NodeId id, Sliding sliding) {
  const Node& node = builder.graph().node(id);
  const auto& window = sliding.window;
  const bool transposed = sliding.transposed;
  const std::int64_t groups = node.int_or("group", 1);
  const Weights weights = fold(builder, node, groups, sliding);
  const Dims out = builder.dims(node.outputs.front());
  PENSTOCK_TRY(const auto file_layout, weights_layout(builder, sliding.shape, groups, transposed));
  PENSTOCK_TRY(const Place x, sliding.part ? *sliding.part : builder.place(node.inputs[0]));
  PENSTOCK_TRY(const auto source, builder.any(x.layout.dims()));
  PENSTOCK_TRY(const auto kernels, builder.any(file_layout.dims()));
  PENSTOCK_TRY(Layout target, builder.any(out));
  Layout bias;
  if (!weights.bias.empty()) {
    PENSTOCK_TRY(bias, builder.plain({static_cast<std::int64_t>(weights.bias.size())}));
  }
  Fusion fusion{.node = id,
                .result = weights.result,
                .chain = chain_after(builder, weights.result),
                .dims = out,
                .sums = true,
                .buffers = {x.buffer}};
  const Dims dilations = dilations_from_0(window);
  fusion.make = [&](const_dnnl_primitive_attr_t attributes) {
    return builder.describe([&](dnnl_primitive_desc_t* raw) {
      const auto create = transposed ? builder.api().deconvolution_forward_primitive_desc_create
                                     : builder.api().convolution_forward_primitive_desc_create;
      return create(raw, builder.engine().cpu, dnnl_forward_inference,
                    transposed ? dnnl_deconvolution_direct : dnnl_convolution_direct, source.get(),
                    kernels.get(), bias.get(), target.get(), window.strides.data(),
                    dilations.data(), window.pads_begin.data(), window.pads_end.data(), attributes);
    });
  };
  PENSTOCK_CHECK_OK(keep_channels_last(builder, fusion.make, target));
  PENSTOCK_TRY(auto fused, fuse(builder, fusion));
  for (const NodeId node_id : weights.folded) builder.mark_done(node_id);
  PENSTOCK_TRY(const auto source_layout, builder.layout_of(fused.descriptor, dnnl_query_src_md));
  PENSTOCK_TRY(const auto kernel_layout,
               builder.layout_of(fused.descriptor, dnnl_query_weights_md));
  PENSTOCK_TRY(const Place from, sliding.part ? builder.reordered(x, source_layout)
                                              : builder.place_as(node.inputs[0], source_layout));
  PENSTOCK_TRY(Place plain_kernels, builder.new_constant(weights.values, file_layout.dims()));
  plain_kernels.layout = file_layout;
  PENSTOCK_TRY(const Place ordered, builder.reordered(plain_kernels, kernel_layout));
  std::vector<Argument> arguments = {{DNNL_ARG_SRC, from}, {DNNL_ARG_WEIGHTS, ordered}};
  if (!weights.bias.empty()) {
    PENSTOCK_TRY(Place place, builder.new_constant(weights.bias, bias.dims()));
    arguments.push_back({DNNL_ARG_BIAS, std::move(place)});
  }
  return finish(builder, fusion, std::move(fused), std::move(arguments));
}

/// Of each group [C/g, M/g, k...] as [M/g, C/g, k...], the kernels from their ends to their begins.
std::vector<float> turned(const std::vector<float>& values, const Dims& shape,
                          std::int64_t groups) {
  const auto kernel = static_cast<std::size_t>(count_of(spatial_of(shape)));
  const auto ins = static_cast<std::size_t>(shape[0] / groups);
  const auto outs = static_cast<std::size_t>(shape[1]);
  std::vector<float> result(values.size());
  for (std::size_t g = 0; g < static_cast<std::size_t>(groups); ++g) {
    for (std::size_t i = 0; i < ins; ++i) {
      for (std::size_t o = 0; o < outs; ++o) {
        const float* const from = &values[((g * ins + i) * outs + o) * kernel];
        std::reverse_copy(from, from + kernel, &result[((g * outs + o) * ins + i) * kernel]);
      }
    }
  }
  return result;
}

/// A transposed convolution that takes no steps is a usual one with its kernels turned, and the
/// library has the better code for those. What its pads cut off the result is not read of the
/// input.
Status make_usual(Builder& builder, const Node& node, Sliding& sliding) {
  Window window = sliding.window;
  if (std::ranges::any_of(window.strides, [](auto stride) { return stride != 1; })) return {};
  const Dims all = builder.dims(node.inputs[0]);
  Dims begin(all.size(), 0);
  Dims dims = all;
  for (std::size_t i = 0; i < window.strides.size(); ++i) {
    if (window.pads_begin[i] < 0 || window.pads_end[i] < 0) return {};
    for (auto* pads : {&window.pads_begin, &window.pads_end}) {
      const auto pad = window.reach(i) - 1 - (*pads)[i];
      (*pads)[i] = std::max<std::int64_t>(pad, 0);
      dims[i + 2] += std::min<std::int64_t>(pad, 0);
      if (pads == &window.pads_begin) begin[i + 2] = std::max<std::int64_t>(-pad, 0);
    }
    if (dims[i + 2] < 1) return {};
  }
  if (dims != all) {
    PENSTOCK_TRY(const Place x, builder.strided_place(node.inputs[0]));
    PENSTOCK_TRY(sliding.part, part(builder, x, begin, Dims(dims.size(), 1), dims));
  }
  const std::int64_t groups = node.int_or("group", 1);
  sliding.values = turned(sliding.values, sliding.shape, groups);
  sliding.shape[0] /= groups;
  std::swap(sliding.shape[0], sliding.shape[1]);
  sliding.shape[0] *= groups;
  sliding.transposed = false;
  sliding.window = std::move(window);
  return {};
}

Sliding sliding_of(const Builder& builder, const Node& node, bool transposed, Window window) {
  const auto values = builder.floats(node.inputs[1]);
  return {.values = {values.begin(), values.end()},
          .shape = builder.dims(node.inputs[1]),
          .transposed = transposed,
          .window = std::move(window),
          .part = {}};
}

}  // namespace

Status lower_convolution(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  PENSTOCK_CHECK_OK(check_operands(builder, node));
  Window window = window_of(node, spatial_of(builder.dims(node.inputs[0])),
                            spatial_of(builder.dims(node.outputs.front())),
                            spatial_of(builder.dims(node.inputs[1])));
  return lower(builder, id, sliding_of(builder, node, false, std::move(window)));
}

/// The inferred output size says what auto_pad, output_padding and output_shape come to.
Status lower_deconvolution(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  PENSTOCK_CHECK_OK(check_operands(builder, node));
  const Dims in = spatial_of(builder.dims(node.inputs[0]));
  const Dims out = spatial_of(builder.dims(node.outputs.front()));
  const std::string auto_pad = string_or(node, "auto_pad", "NOTSET");
  Window window = window_of(node, in, out, spatial_of(builder.dims(node.inputs[1])), "VALID");
  const Dims pads = node.ints_or("pads", Dims(2 * in.size(), 0));
  const Dims more = node.ints_or("output_padding", Dims(in.size(), 0));
  const bool sized = node.find("output_shape") != nullptr;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const auto unpadded = (in[i] - 1) * window.strides[i] + window.reach(i);
    if (auto_pad == "NOTSET" && !sized) {
      window.pads_begin[i] = pads[i];
    } else if (auto_pad != "VALID" || sized) {
      const auto total = unpadded + more[i] - out[i];
      const auto begin = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      window.pads_begin[i] = std::max<std::int64_t>(begin, 0);
    }
    window.pads_end[i] = unpadded - out[i] - window.pads_begin[i];
  }
  Sliding sliding = sliding_of(builder, node, true, std::move(window));
  PENSTOCK_CHECK_OK(make_usual(builder, node, sliding));
  return lower(builder, id, sliding);
}

}  // namespace penstock::onednn
