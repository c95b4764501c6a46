// A rest is an exact quotient where all is fixed, and a bound where something is open.
#include "penstock/ready/reshaped.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace penstock::ready {
namespace {

constexpr auto kCountless =
    std::numeric_limits<std::int64_t>::max();  // More is no size of a tensor.

std::int64_t product(std::int64_t a, std::int64_t b) {
  return a > kCountless / b ? kCountless : a * b;
}

std::int64_t fixed_elements(const std::vector<Dim>& dims) {
  std::int64_t count = 1;
  for (const auto& dim : dims) count = product(count, dim.fixed() ? dim.size : 1);
  return count;
}

std::string text_of(const std::vector<Dim>& dims) {
  return join(dims, ",", [](const Dim& dim) { return std::to_string(dim.size); });
}

/// What is left of `from` beside `fixed` elements. Its name stays where it is the one open
/// dimension.
Dim rest_of(const Type& from, std::int64_t fixed) {
  const auto bound = elements_of(from.dims) / fixed;
  if (from.fixed()) return sized(bound);
  const auto is_open = [](const Dim& dim) { return !dim.fixed(); };
  const bool is_one = std::ranges::count_if(from.dims, is_open) == 1;
  if (!is_one || fixed_elements(from.dims) != fixed) return open(unused(from.dims, "rest"), bound);
  return *std::ranges::find_if(from.dims, is_open);
}

}  // namespace

std::string unused(const std::vector<Dim>& dims, std::string symbol) {
  while (std::ranges::find(dims, symbol, &Dim::symbol) != dims.end()) symbol += "_";
  return symbol;
}

std::int64_t elements_of(const std::vector<Dim>& dims) {
  std::int64_t count = 1;
  for (const auto& dim : dims) count = product(count, most_of(dim));
  return count;
}

Result<std::vector<Dim>> reshaped(std::string_view setting, const Type& from, std::vector<Dim> to) {
  const auto fixed = fixed_elements(to), all = elements_of(from.dims);
  const auto rest = std::ranges::find_if(to, [](const Dim& dim) { return !dim.fixed(); });
  if (!from.fixed() && rest == to.end()) {
    return invalid_argument("setting '", setting, "': expected -1 where ", from,
                            " leaves the size open, found ", text_of(to));
  }
  const bool fits =
      rest == to.end() ? fixed == all : all >= fixed && (!from.fixed() || all % fixed == 0);
  if (!fits) {
    return invalid_argument("setting '", setting, "': expected a shape of as many elements as ",
                            from, ", found ", text_of(to));
  }
  if (rest != to.end()) *rest = rest_of(from, fixed);
  return to;
}

Setting reshape_setting(std::string_view name, std::string_view says, std::string_view usual) {
  return {
      .name = name, .kind = Setting::Kind::kReshape, .usual = usual, .says = says, .shown = "-1,2"};
}

}  // namespace penstock::ready
