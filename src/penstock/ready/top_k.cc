// `top_k`: the largest scores, and where they were.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "penstock/ready/families.h"
#include "penstock/ready/kernel.h"
#include "penstock/ready/settings.h"
#include "penstock/ready/values.h"

namespace penstock::ready {
namespace {

struct TopK {
  std::int64_t k;
  std::vector<std::int64_t> order, dims;

  Status run(Inputs in, Outputs out) {
    dims = in[0]->dims();
    const auto size = static_cast<std::size_t>(dims.back());
    dims.back() = k;
    for (auto* output : out) {
      if (!output->set_dims(dims)) {
        return make_error(Code::kOutOfRange, "found ", in[0]->type(),
                          ", over the bounds of "
                          "'shape'");
      }
    }
    const auto scores = in[0]->as<float>();
    auto values = out[0]->as<float>();
    auto indices = out[1]->as<std::int64_t>();
    const auto count = static_cast<std::size_t>(k);
    for (std::size_t row = 0; row * size < scores.size(); ++row) {
      best(scores.subspan(row * size, size), values.subspan(row * count, count),
           indices.subspan(row * count, count));
    }
    return {};
  }

  /// The first of equal ones first; what is no number last.
  void best(std::span<const float> scores, std::span<float> values,
            std::span<std::int64_t> indices) {
    order.resize(scores.size());
    std::iota(order.begin(), order.end(), 0);
    const auto value = [&](std::int64_t i) {
      const float score = scores[static_cast<std::size_t>(i)];
      return std::isnan(score) ? -std::numeric_limits<float>::infinity() : score;
    };
    const auto before = [&](std::int64_t a, std::int64_t b) {
      return value(a) > value(b) || (value(a) == value(b) && a < b);
    };
    std::ranges::partial_sort(order, order.begin() + k, before);
    for (std::size_t i = 0; i < values.size(); ++i) {
      indices[i] = order[i];
      values[i] = scores[static_cast<std::size_t>(order[i])];
    }
  }
};

Result<function::Function> make_top_k(const Values& values) {
  auto dims = values.shape("shape");
  const auto k = values.integer("k");
  if (!dims.back().fixed() || dims.back().size < k) {
    return invalid_argument("setting 'shape': expected a last dimension of a fixed size, of ", k,
                            " ('k') or more, found ", Type::tensor(DType::kF32, dims));
  }
  const auto scores = f32("scores", dims);
  dims.back() = sized(k);
  return made_of("top_k", {scores}, {f32("values", dims), i64("indices", dims)}, TopK{k, {}, {}});
}

}  // namespace

std::vector<Declaration> top_k_functions() {
  return {{.name = "top_k",
           .says = "The largest scores along the last axis, the largest first, and their indices: "
                   "the classes that a classifier names. Of equal ones the first comes first.",
           .settings = {shape_of("Of the scores."), whole("k", "5", "How many.", 1e6)},
           .make = &make_top_k}};
}

}  // namespace penstock::ready
