// Numbers of one type as numbers of another one.
#pragma once

#include <cstddef>
#include <string_view>

#include "penstock/ready/ready.h"
#include "penstock/tensor/dtype.h"

namespace penstock::ready {

/// The types that convert() knows, as the words of a setting.
inline constexpr std::string_view kNumberTypes = "f32|f16|f64|u8|i8|u16|i16|i32|i64";

/// The setting `name` that takes one of them.
Setting type_setting(std::string_view name, std::string_view usual, std::string_view says);

template <typename Bytes>
struct Numbers {
  Bytes* data;
  DType type;
};

struct Scaling {
  double scale = 1, offset = 0;
};

/// to = from * scale + offset for `count` numbers, to the nearest one, half to even. Whole numbers
/// stop at their limits and take what is no number as 0; f16 becomes infinite. An i64 beyond 2^53
/// becomes the nearest double first, unless nothing is to be done.
/// \pre  both types are of kNumberTypes; they do not overlap.
void convert(Numbers<const void> from, Numbers<void> to, std::size_t count, const Scaling& scaling);

}  // namespace penstock::ready
