// Where a picture stands in a network's frame: scales across and down, left, top, and its own size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "penstock/ready/kernel.h"

namespace penstock::ready {

inline constexpr std::int64_t kPlacement = 6;

/// A place in the frame, along x (axis 0) or y (1), as one of the picture.
inline float placed(float at, std::span<const float> placement, std::size_t axis) {
  return (at - placement[2 + axis]) / placement[axis];
}

/// \error kInvalidArgument  scales are not over 0.
inline Status check_placement(std::span<const float> placement) {
  if (placement[0] > 0 && placement[1] > 0) return {};
  return invalid_argument(
      "expected a placement as 'letterbox' gives it, with scales over 0, found "
      "scales ",
      placement[0], " and ", placement[1]);
}

}  // namespace penstock::ready
