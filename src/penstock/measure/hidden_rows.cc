// The largest value of each row, over all frames.
#include "penstock/measure/hidden_rows.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "penstock/tensor/number.h"

namespace penstock::measure {
namespace {

constexpr std::size_t kFewValues = 8;
constexpr double kSure = 1;  ///< Of classes: beside it all others may be as small as they like.

std::size_t product(std::span<const std::int64_t> dims) {
  std::size_t all = 1;
  for (const auto dim : dims) all *= static_cast<std::size_t>(dim);
  return all;
}

/// Empty where the frames' tensors have no such rows, all the same number.
std::vector<double> largest_of_rows(const std::vector<const Tensor*>& frames, std::size_t axis) {
  std::vector<double> largest;
  for (const Tensor* frame : frames) {
    const std::span<const std::int64_t> dims(frame->dims());
    if (frame->kind() != Tensor::Kind::kDense || !is_float(frame->dtype()) || dims.size() <= axis ||
        frame->count() == 0) {
      return {};
    }
    const auto rows = static_cast<std::size_t>(dims[axis]);
    const auto inner = product(dims.subspan(axis + 1));
    if (!largest.empty() && largest.size() != rows) return {};
    largest.resize(rows);
    for (std::size_t i = 0; i < frame->count(); ++i) {
      const auto bits = load_bits(frame->dtype(), frame->data(), i);
      const double value = std::abs(number_from_bits(frame->dtype(), bits));
      auto& row = largest[i / inner % rows];
      if (std::isfinite(value)) row = std::max(row, value);
    }
  }
  return largest;
}

/// Whether the rows along the axis are of so few values that they may be chances of classes.
bool may_be_chances(const Tensor& frame, std::size_t axis, double largest) {
  const auto rows = static_cast<std::size_t>(frame.dims()[axis]);
  return frame.count() / rows < kFewValues && largest <= kSure;
}

}  // namespace

HiddenRows find_hidden_rows(const std::vector<const Tensor*>& frames, const Tolerance& tolerance) {
  HiddenRows found;
  if (frames.empty() || frames.front()->dims().size() < 2) return found;
  for (const std::size_t axis : {std::size_t{1}, frames.front()->dims().size() - 1}) {
    const auto largest = largest_of_rows(frames, axis);
    if (largest.empty()) continue;
    const double most = *std::ranges::max_element(largest);
    if (may_be_chances(*frames.front(), axis, most)) continue;
    const double limit = tolerance.absolute * most + tolerance.floor;
    const auto hidden = static_cast<std::size_t>(
        std::ranges::count_if(largest, [&](double value) { return value > 0 && value <= limit; }));
    if (hidden > found.hidden) found = {axis, largest.size(), hidden};
  }
  return found;
}

}  // namespace penstock::measure
