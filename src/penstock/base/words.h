// How messages put names and numbers into words.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdio>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "penstock/base/error.h"

namespace penstock {

/// "'x', 'y'": the names of what has one, inputs, ports or models. Empty: there is none.
template <typename Range>
std::string quoted_names(const Range& named) {
  return join(named, ", ", [](const auto& one) { return concat("'", one.name, "'"); });
}

/// "input 'x'", "inputs 'x', 'y'": `noun` is in the singular, as below.
template <typename Range>
std::string with_names(std::string_view noun, const Range& named) {
  return concat(noun, std::size(named) == 1 ? " " : "s ", quoted_names(named));
}

/// "1 array", "3 arrays": `noun` is in the singular, and an s makes its plural.
template <std::integral Count>
std::string counted(Count count, std::string_view noun) {
  return concat(count, " ", noun, count == 1 ? "" : "s");
}

/// A time in the largest unit up to seconds of which it is one or more: {277.64, "us"}.
inline std::pair<double, const char*> in_largest_unit(double nanoseconds) {
  constexpr std::array kUnits = {"ns", "us", "ms", "s"};
  std::size_t unit = 0;
  for (; nanoseconds >= 1000 && unit + 1 < kUnits.size(); ++unit) nanoseconds /= 1000;
  return {nanoseconds, kUnits[unit]};
}

/// "1.25 ms", "12.5 s": to three digits. \pre  not negative
inline std::string time_text(double nanoseconds) {
  const auto [count, unit] = in_largest_unit(nanoseconds);
  std::array<char, 32> digits{};
  // NOLINTNEXTLINE(*-vararg)
  std::snprintf(digits.data(), digits.size(), count < 99.95 ? "%.3g" : "%.0f", count);
  return concat(digits.data(), " ", unit);
}

}  // namespace penstock
