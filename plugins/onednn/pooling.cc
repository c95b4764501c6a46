#include "pooling.h"

#include <algorithm>
#include <utility>

#include "fusion.h"
#include "operators.h"
#include "pointwise.h"

namespace penstock::onednn {
namespace {

Status check_rank(const Dims& dims) {
  if (dims.size() >= 3 && dims.size() <= 5) return {};
  return unsupported("takes 1 to 3 spatial dimensions, found ", dims.size(), " dimensions in all");
}

}  // namespace

Status append_pooling(Builder& builder, NodeId id, dnnl_alg_kind_t algorithm, const Place& from,
                      const Window& window, const Dims& dims) {
  const ValueId result = builder.graph().node(id).outputs.front();
  PENSTOCK_TRY(const auto target, builder.any(dims));
  Fusion fusion{.node = id, .result = result, .chain = chain_after(builder, result), .dims = dims};
  fusion.binaries = false;  // oneDNN 3.2 reads the operand of one at wrong places in plain layout.
  const Dims dilations = dilations_from_0(window);
  fusion.make = [&](const_dnnl_primitive_attr_t attributes) {
    return builder.describe([&](dnnl_primitive_desc_t* raw) {
      return builder.api().pooling_forward_primitive_desc_create(
          raw, builder.engine().cpu, dnnl_forward_inference, algorithm, from.layout.get(),
          target.get(), window.strides.data(), window.kernel.data(), dilations.data(),
          window.pads_begin.data(), window.pads_end.data(), attributes);
    });
  };
  PENSTOCK_TRY(auto fused, fuse(builder, fusion));
  return finish(builder, fusion, std::move(fused), {{DNNL_ARG_SRC, from}});
}

Status lower_pooling(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  if (node.outputs.size() > 1 && node.outputs[1] != ValueId::kNone) {
    return unsupported("gives no indices");
  }
  const Dims in_dims = builder.dims(node.inputs[0]);
  const Dims out_dims = builder.dims(node.outputs.front());
  PENSTOCK_CHECK_OK(check_rank(in_dims));
  const Dims in = spatial_of(in_dims);
  const Dims out = spatial_of(out_dims);
  Window window = window_of(node, in, out, {});
  if (lower::leaves_out_edges(window)) {
    return unsupported("SAME_* where strides are longer than windows");
  }
  const bool average = node.op == "AveragePool";
  const bool padding_counts = average && node.int_or("count_include_pad", 0) != 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const auto needed =
        (out[i] - 1) * window.strides[i] + window.reach(i) - in[i] - window.pads_begin[i];
    if (needed > window.pads_end[i] && padding_counts) {
      return unsupported("count_include_pad where ceil_mode reaches past the padding");
    }
    window.pads_end[i] = std::max(window.pads_end[i], needed);
  }
  const auto algorithm = !average         ? dnnl_pooling_max
                         : padding_counts ? dnnl_pooling_avg_include_padding
                                          : dnnl_pooling_avg_exclude_padding;
  PENSTOCK_TRY(const Place from, builder.dense_place(node.inputs[0]));
  return append_pooling(builder, id, algorithm, from, window, out_dims);
}

Status lower_global_pooling(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const Dims in_dims = builder.dims(node.inputs[0]);
  PENSTOCK_CHECK_OK(check_rank(in_dims));
  const Window window = lower::whole_window(spatial_of(in_dims));
  const auto algorithm =
      node.op == "GlobalMaxPool" ? dnnl_pooling_max : dnnl_pooling_avg_exclude_padding;
  PENSTOCK_TRY(const Place from, builder.dense_place(node.inputs[0]));
  return append_pooling(builder, id, algorithm, from, window, builder.dims(node.outputs.front()));
}

}  // namespace penstock::onednn
