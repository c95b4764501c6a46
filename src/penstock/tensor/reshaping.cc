// Looks whether the sizes are the wanted ones in another order; else they are read on as they lie.
#include "penstock/tensor/reshaping.h"

#include <algorithm>

#include "penstock/base/words.h"
#include "penstock/tensor/number.h"

namespace penstock {
namespace {

/// The axes of `found` in an order in which its sizes are the wanted ones, axes of size 1 first and
/// left out of what is compared; empty: it has others.
std::vector<std::int64_t> order_for(const std::vector<std::int64_t>& wanted,
                                    std::span<const std::int64_t> found) {
  std::vector<std::int64_t> axes;
  const auto is_taken = [&](std::int64_t axis) { return std::ranges::count(axes, axis) != 0; };
  const auto take = [&](std::int64_t size, std::size_t most) {
    for (std::size_t i = 0; i < found.size() && most > 0; ++i) {
      const auto axis = static_cast<std::int64_t>(i);
      if (found[i] != size || is_taken(axis)) continue;
      axes.push_back(axis);
      --most;
    }
  };
  take(1, found.size());
  for (const auto size : wanted) {
    if (size != 1) take(size, 1);
  }
  return axes.size() == found.size() ? axes : std::vector<std::int64_t>();
}

}  // namespace

std::string in_brackets(std::span<const std::int64_t> numbers) {
  return concat("(", join(numbers, ", ", [](auto n) { return std::to_string(n); }), ")");
}

std::string reshaping(const std::vector<std::int64_t>& wanted,
                      std::span<const std::int64_t> found) {
  const auto axes = order_for(wanted, found);
  const auto reshape = concat(".reshape", wanted.empty() ? "(())" : in_brackets(wanted));
  if (axes.empty()) return concat(reshape, " gives it that shape");
  std::vector<std::int64_t> sizes;
  for (const auto axis : axes) sizes.push_back(found[static_cast<std::size_t>(axis)]);
  const bool in_order =
      std::ranges::is_sorted(axes.begin() + std::ranges::count(found, 1), axes.end());
  if (in_order) return concat(reshape, " gives it that shape");
  return concat("its dimensions are in another order, numpy.ascontiguousarray(x.transpose",
                in_brackets(axes), ")", sizes == wanted ? "" : reshape, " puts them in this one");
}

std::string converting(DType dtype) {
  const std::string_view own = to_string(dtype), bits = own.substr(1);
  if (bits != "8" && bits != "16" && bits != "32" && bits != "64") return "";
  const auto* kind = own[0] == 'f'   ? "float"
                     : own[0] == 'i' ? "int"
                     : own[0] == 'u' ? "uint"
                                     : "complex";
  return concat("convert it with .astype('", kind, bits, "')");
}

bool is_unprepared_picture(const Type& type, const Tensor& found) {
  constexpr std::size_t kDims = 3;
  constexpr std::int64_t kChannels = 3;
  const bool takes = type.kind == Type::Kind::kTensor && type.ranked && is_float(type.dtype) &&
                     type.dims.size() >= kDims;
  if (!takes || found.kind() != Tensor::Kind::kDense || found.dtype() != DType::kU8) return false;
  return found.dims().size() == kDims && found.dims().back() == kChannels;
}

}  // namespace penstock
