// Conv: by cuDNN, by cuBLASLt where the kernels are of one element, by a kernel of ours where each
// group has one channel.
#include <algorithm>
#include <optional>
#include <utility>

#include "dnn_convolution.h"
#include "operators.h"
#include "pad.h"
#include "window.h"

namespace penstock::cuda {
namespace {

/// A convolution and what follows it.
struct Found {
  Window window;
  Dims in, out;  ///< Of the input once it is padded, and of the result.
  std::int64_t groups = 1;
  Expression x, weights;
  std::optional<Expression> bias;  ///< One for each channel.
  std::optional<Expression> residual;
  bool relu = false;
  ValueId result = ValueId::kNone;
};

/// With a dimension of 1 in front of a single spatial one, as cuDNN wants two.
Dims at_least_4d(Dims dims, std::int64_t filling) {
  const std::size_t spatial_begin = 2;
  if (dims.size() == 3) dims.insert(dims.begin() + spatial_begin, filling);
  return dims;
}

Dims at_least_2(Dims spatial, std::int64_t filling) {
  if (spatial.size() == 1) spatial.insert(spatial.begin(), filling);
  return spatial;
}

/// Takes in a sum with what has the result's shape, and a ReLU.
Status take_followers(Builder& builder, Found& found) {
  while (builder.settings().optimize && !found.relu) {
    const auto reader = builder.only_reader(found.result);
    if (!reader) return {};
    const Node& node = builder.graph().node(*reader);
    if (!node.domain.empty() || (node.op != "Relu" && node.op != "Add")) return {};
    if (node.op == "Relu") {
      found.relu = true;
    } else {
      const ValueId other = node.inputs[node.inputs[0] == found.result ? 1 : 0];
      if (found.residual || !builder.available(other) || builder.dims(other) != found.out) {
        return {};
      }
      PENSTOCK_TRY(found.residual, builder.dense(other));
    }
    builder.mark_done(*reader);
    found.result = node.outputs.front();
  }
  return {};
}

/// `value` as a function of the plain convolution, where nothing is fused into that.
Expression with_followers(const Found& found, Expression value) {
  if (found.bias) {
    Dims dims(found.out.size() - 1, 1);
    dims[0] = found.out[1];
    value = apply("add", {value, *found.bias->reshaped(dims)}, DType::kF32);
  }
  if (found.residual) value = apply("add", {value, *found.residual}, DType::kF32);
  if (found.relu) value = apply("relu", {value}, DType::kF32);
  return value;
}

/// What a kernel that reads and writes all of the result adds, roughly.
float pass_ms(const Found& found) {
  constexpr float kBytesPerMs = 2e9F;
  constexpr float kLaunchMs = 0.002F;
  const auto tensors = found.residual ? 3 : 2;
  return kLaunchMs + static_cast<float>(count_of(found.out) * tensors * 4) / kBytesPerMs;
}

ConvolutionForm form_of(const Builder& builder, const Found& found) {
  return {.in = at_least_4d(found.in, 1),
          .weights = at_least_4d(found.weights.dims, 1),
          .out = at_least_4d(found.out, 1),
          .pads = at_least_2(found.window.pads_begin, 0),
          .strides = at_least_2(found.window.strides, 1),
          .dilations = at_least_2(found.window.dilations, 1),
          .groups = found.groups,
          .bias = found.bias.has_value(),
          .residual = found.residual.has_value(),
          .relu = found.relu,
          .tf32 = builder.settings().tf32};
}

void append_dnn(Builder& builder, const Found& found, const Expression& target,
                const std::shared_ptr<DnnConvolution>& convolution) {
  std::vector<std::size_t> buffers;
  std::vector<Leaf> leaves;
  const Expression& any = target;
  for (const Expression* part : {&found.x, &found.weights, found.bias ? &*found.bias : &any,
                                 found.residual ? &*found.residual : &any, &target}) {
    leaves.push_back(part->leaves.front());
    buffers.push_back(part->leaves.front().buffer);
  }
  builder.append(buffers, convolution->workspace_bytes(),
                 [convolution, leaves](const Launch& launch) {
                   const auto at = [&](std::size_t i) {
                     return launch.at(leaves[i].buffer,
                                      static_cast<std::size_t>(leaves[i].offset) * sizeof(float));
                   };
                   return convolution->enqueue({.in = at(0),
                                                .weights = at(1),
                                                .bias = at(2),
                                                .residual = at(3),
                                                .out = at(4),
                                                .workspace = launch.workspace},
                                               launch.stream);
                 });
}

/// The fused call needs a bias, be it of zeros.
Expression zeros(Builder& builder, std::int64_t count) {
  return builder.new_constant(Tensor::allocate(DType::kF32, {count}));
}

/// Fused or with a kernel behind it, whichever took less time.
Status by_dnn(Builder& builder, Found& found) {
  const bool follows = found.bias || found.residual || found.relu;
  if (builder.gpu() == nullptr) {
    return builder.define(found.result,
                          with_followers(found, builder.new_place(found.out, DType::kF32)));
  }
  const auto form = form_of(builder, found);
  const auto plain = DnnConvolution::create(*builder.gpu(), form, false);
  if (follows) {
    const auto fused = DnnConvolution::create(*builder.gpu(), form, true);
    if (fused && (!plain || (*fused)->ms() < (*plain)->ms() + pass_ms(found))) {
      if (!found.bias) found.bias = zeros(builder, found.out[1]);
      const Expression target = builder.new_place(found.result);
      append_dnn(builder, found, target, *fused);
      return builder.define(found.result, target);
    }
  }
  if (!plain) return plain.error();
  const Expression target =
      follows ? builder.new_place(found.out, DType::kF32) : builder.new_place(found.result);
  append_dnn(builder, found, target, *plain);
  return builder.define(found.result, with_followers(found, target));
}

/// Each group has one channel of the input: a thread computes one element.
Status by_channel(Builder& builder, Found& found) {
  const Expression target = builder.new_place(found.result);
  const auto taps = count_of(found.window.kernel);
  const auto each = found.out[1] / found.groups;
  KernelText text;
  text.read("x", found.x);
  text.read("weight", found.weights);
  const Expression start = with_followers(found, Expression::pending(found.out));
  text.read("after", start);
  text.write("result", target);
  text.each_element(count_of(found.out));
  text.line(index_lines(found.out));
  text.line(concat("const unsigned image = (i0 * ", found.in[1], "u + i1 / ", each, "u) * ",
                   count_of(spatial_of(found.in)), "u;"));
  text.line("float value = 0.0f;");
  text.line(window_loops(found.window, spatial_of(found.in),
                         concat("value += x(image + at) * weight(i1 * ", taps, "u + tap);")));
  text.line("result(i) = after(i, value);");
  PENSTOCK_CHECK_OK(builder.append(text.finish()));
  return builder.define(found.result, target);
}

/// cuDNN pads both ends alike: where they differ, the input is padded before.
Status settle_pads(Builder& builder, Found& found) {
  Window& window = found.window;
  if (window.pads_begin == window.pads_end) {
    PENSTOCK_TRY(found.x, builder.densely(found.x));
    return {};
  }
  Dims before(found.in.size(), 0);
  for (std::size_t i = 0; i < window.pads_begin.size(); ++i) {
    before[i + 2] = std::exchange(window.pads_begin[i], 0);
    found.in[i + 2] += before[i + 2] + std::exchange(window.pads_end[i], 0);
  }
  PENSTOCK_TRY(found.x, padded(builder, found.x, before, builder.new_place(found.in, DType::kF32)));
  return {};
}

}  // namespace

Status lower_convolution(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  Found found{.groups = node.int_or("group", 1), .result = node.outputs.front()};
  PENSTOCK_TRY(found.x, builder.value(node.inputs[0]));
  found.in = found.x.dims;
  found.out = builder.dims(found.result);
  if (found.in.size() < 3 || found.in.size() > 5) {
    return unsupported("takes 1 to 3 spatial dimensions, found ", found.in.size(),
                       " dimensions in all");
  }
  PENSTOCK_TRY(found.weights, builder.dense(node.inputs[1]));
  if (builder.given(node, 2)) {
    PENSTOCK_TRY(const auto bias, builder.value(node.inputs[2]));
    PENSTOCK_TRY(found.bias, builder.densely(bias));
  }
  found.window =
      window_of(node, spatial_of(found.in), spatial_of(found.out), spatial_of(found.weights.dims));
  PENSTOCK_CHECK_OK(take_followers(builder, found));
  if (found.weights.dims[1] == 1 && found.groups > 1) {
    PENSTOCK_TRY(found.x, builder.densely(found.x));
    return by_channel(builder, found);
  }
  PENSTOCK_CHECK_OK(settle_pads(builder, found));
  return by_dnn(builder, found);
}

}  // namespace penstock::cuda
