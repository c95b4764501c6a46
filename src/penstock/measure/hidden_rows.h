// Rows of an output that are small beside the largest value of all.
#pragma once

#include <cstddef>
#include <vector>

#include "penstock/tensor/compare.h"
#include "penstock/tensor/tensor.h"

namespace penstock::measure {

/// Of an axis, as the classes of a detector beside the pixels of its boxes: `hidden` of its `rows`
/// hold values, but none larger than what may differ.
struct HiddenRows {
  std::size_t axis = 0;
  std::size_t rows = 0;
  std::size_t hidden = 0;  ///< 0: none, or the output is no tensor of floats with such an axis.
};

/// `frames`: one output of each frame. The second axis and the last one are looked at. Rows of
/// zeros alone do not count, nor those of fewer than 8 values where none is above 1, as chances of
/// classes.
HiddenRows find_hidden_rows(const std::vector<const Tensor*>& frames, const Tolerance& tolerance);

}  // namespace penstock::measure
