// Block partition: a sequence of numbers cut into blocks of nearly equal sums.
#pragma once

#include <vector>

namespace penstock::planner {

/// Ends of `count` blocks of `sizes` (each >= 0) whose sums differ by no more than the largest
/// size. Source: Barany and Grinberg, Block partitions of sequences: while the largest block
/// exceeds the smallest by more, the smallest one nearest to it takes an element of its neighbour
/// on that side.
std::vector<int> block_partition(const std::vector<double>& sizes, int count);

/// Ends of `shares.size()` blocks with sums near their share of the whole.
std::vector<int> share_partition(const std::vector<double>& sizes,
                                 const std::vector<double>& shares);

}  // namespace penstock::planner
