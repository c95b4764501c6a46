// Places an arena's blocks, the largest first.
#include "penstock/lower/arena.h"

#include <algorithm>
#include <vector>

namespace penstock::lower {

void Steps::add(std::size_t step) {
  first = std::min(first, step);
  last = std::max(last, step);
}

std::size_t place(std::span<Block> blocks, std::size_t alignment) {
  const auto aligned = [alignment](std::size_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
  };
  std::vector<Block*> order;
  for (auto& block : blocks) {
    if (block.steps.any()) order.push_back(&block);
  }
  std::ranges::stable_sort(order, std::ranges::greater(), &Block::bytes);
  std::size_t bytes = 0;
  std::vector<const Block*> placed;  // By offset.
  for (Block* block : order) {
    std::size_t offset = 0;
    for (const Block* taken : placed) {
      if (!block->steps.overlap(taken->steps)) continue;
      if (offset + block->bytes <= taken->offset) break;
      offset = std::max(offset, aligned(taken->offset + taken->bytes));
    }
    block->offset = offset;
    bytes = std::max(bytes, offset + block->bytes);
    placed.insert(std::ranges::upper_bound(placed, offset, {}, &Block::offset), block);
  }
  return bytes;
}

}  // namespace penstock::lower
