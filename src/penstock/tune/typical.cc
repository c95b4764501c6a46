// Finds the frame of the mean size.
#include "penstock/tune/typical.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace penstock::tune {
namespace {

double bytes_of_frame(const frames::Frame& frame) {
  double bytes = 0;
  for (const auto& tensor : frame) bytes += static_cast<double>(tensor.bytes());
  return bytes;
}

}  // namespace

measure::Ring typical_first(const measure::Ring& frames, std::size_t count) {
  std::vector<double> sizes;
  for (const auto& frame : frames) sizes.push_back(bytes_of_frame(frame));
  const double mean =
      std::accumulate(sizes.begin(), sizes.end(), 0.0) / static_cast<double>(frames.size());
  const auto typical =
      std::ranges::min_element(sizes, {}, [mean](double size) { return std::abs(size - mean); });
  std::vector<std::size_t> order(frames.size());
  std::iota(order.begin(), order.end(), 0);
  const auto first = order.begin() + (typical - sizes.begin());
  if (first != order.end()) std::rotate(order.begin(), first, first + 1);
  measure::Ring chosen;
  for (std::size_t i = 0; i < std::min(count, order.size()); ++i)
    chosen.push_back(frames[order[i]]);
  return chosen;
}

}  // namespace penstock::tune
