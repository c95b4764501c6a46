// Moves elements between neighbouring blocks until sums are even; fills shares in one greedy pass.
#include "penstock/planner/baselines/block_partition.h"

#include <algorithm>
#include <numeric>

#include "penstock/planner/problem/index.h"

namespace penstock::planner {

std::vector<int> block_partition(const std::vector<double>& sizes, int count) {
  const int length = static_cast<int>(sizes.size());
  std::vector<int> ends;
  for (int b = 1; b <= count; ++b) {
    ends.push_back(static_cast<int>(static_cast<long long>(length) * b / count));
  }
  std::vector<double> before(1, 0);  // Sum before each element.
  for (const double size : sizes) before.push_back(before.back() + size);
  const double step = *std::ranges::max_element(sizes) * (1 + 1e-12);
  const auto sum = [&](int b) {
    return before[at(ends[at(b)])] - (b > 0 ? before[at(ends[at(b - 1)])] : 0);
  };
  const long long most_moves = 4LL * length * count;  // A bound against rounding, not reached else.
  for (long long move = 0; move < most_moves; ++move) {
    int largest = 0, smallest = 0;
    for (int b = 1; b < count; ++b) {
      if (sum(b) > sum(largest)) largest = b;
    }
    for (int b = 1; b < count; ++b) {
      const bool nearer = std::abs(b - largest) < std::abs(smallest - largest);
      if (sum(b) < sum(smallest) || (sum(b) == sum(smallest) && nearer)) smallest = b;
    }
    if (sum(largest) <= sum(smallest) + step) break;
    largest < smallest ? --ends[at(smallest - 1)] : ++ends[at(smallest)];
  }
  return ends;
}

std::vector<int> share_partition(const std::vector<double>& sizes,
                                 const std::vector<double>& shares) {
  const double whole = std::accumulate(sizes.begin(), sizes.end(), 0.0);
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::vector<int> ends;
  double sum = 0, target = 0;
  std::size_t next = 0;
  for (const double share : shares) {
    target += whole * share / all;
    while (next < sizes.size() && sum + sizes[next] / 2 <= target) sum += sizes[next++];
    ends.push_back(static_cast<int>(next));
  }
  ends.back() = static_cast<int>(sizes.size());
  return ends;
}

}  // namespace penstock::planner
