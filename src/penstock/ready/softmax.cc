// `softmax`: scores as probabilities, along any axis.
#include <algorithm>
#include <cmath>

#include "penstock/base/words.h"
#include "penstock/ready/families.h"
#include "penstock/ready/kernel.h"
#include "penstock/ready/settings.h"
#include "penstock/ready/values.h"

namespace penstock::ready {
namespace {

struct Softmax {
  std::size_t axis;
  std::vector<float> most, sum;  // Of each line that is worked on at a time.

  Status run(Inputs in, Outputs out) {
    PENSTOCK_CHECK_OK(same_shape(*in[0], *out[0]));
    const auto& dims = in[0]->dims();
    std::size_t outer = 1, inner = 1;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (i != axis) (i < axis ? outer : inner) *= static_cast<std::size_t>(dims[i]);
    }
    const auto size = static_cast<std::size_t>(dims[axis]);
    const float* from = in[0]->as<float>().data();
    float* to = out[0]->as<float>().data();
    for (std::size_t o = 0; o < outer && size > 0; ++o) {
      lines(from + o * size * inner, to + o * size * inner, size, inner);
    }
    return {};
  }

  static Status same_shape(const Tensor& in, Tensor& out) {
    if (out.set_dims(in.dims())) return {};
    return make_error(Code::kOutOfRange, "found ", in.type(), ", over the bounds of 'shape'");
  }

  /// `inner` lines of `size` numbers, which stand side by side. The largest is taken away first, so
  /// that no exponential overflows.
  void lines(const float* __restrict from, float* __restrict to, std::size_t size,
             std::size_t inner) {
    most.assign(from, from + inner);
    sum.assign(inner, 0);
    for (std::size_t k = 0; k < size; ++k) {
      for (std::size_t i = 0; i < inner; ++i) most[i] = std::max(most[i], from[k * inner + i]);
    }
    for (std::size_t k = 0; k < size; ++k) {
      for (std::size_t i = 0; i < inner; ++i) {
        const float value = std::exp(from[k * inner + i] - most[i]);
        to[k * inner + i] = value;
        sum[i] += value;
      }
    }
    for (std::size_t k = 0; k < size; ++k) {
      for (std::size_t i = 0; i < inner; ++i) to[k * inner + i] /= sum[i];
    }
  }
};

Result<function::Function> make_softmax(const Values& values) {
  const auto& dims = values.shape("shape");
  const auto rank = static_cast<std::int64_t>(dims.size());
  const auto axis = values.integer("axis");
  if (axis < -rank || axis >= rank) {
    return invalid_argument("setting 'axis': expected ", -rank, " to ", rank - 1,
                            " for a shape of ", counted(rank, "dimension"), ", found ", axis);
  }
  const auto counted = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
  return made_of("softmax", {f32("scores", dims)}, {f32("probabilities", dims)},
                 Softmax{counted, {}, {}});
}

}  // namespace

std::vector<Declaration> softmax_functions() {
  return {{.name = "softmax",
           .says = "Scores as probabilities of sum 1: behind classifiers and segmentation that end "
                   "in logits.",
           .settings = {shape_of("Of the scores."),
                        whole("axis", "-1", "Along which they sum to 1; -1 is the last.", 7, -8)},
           .make = &make_softmax}};
}

}  // namespace penstock::ready
