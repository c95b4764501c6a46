// Arena: buffers of a program whose steps run one after the other, in one piece of memory.
#pragma once

#include <cstddef>
#include <limits>
#include <span>

namespace penstock::lower {

/// The steps that touch a buffer, by their places in the program: none where first > last.
struct Steps {
  std::size_t first = std::numeric_limits<std::size_t>::max();
  std::size_t last = 0;

  void add(std::size_t step);
  [[nodiscard]] bool any() const { return first <= last; }
  [[nodiscard]] bool overlap(const Steps& other) const {
    return first <= other.last && other.first <= last;
  }
};

/// A buffer in the arena.
struct Block {
  std::size_t bytes = 0;
  Steps steps;
  std::size_t offset = 0;  ///< place() says it.
};

/// Gives each block that some step touches an offset, a multiple of `alignment` bytes, so that none
/// overlaps another one in bytes and in steps; returns the bytes of the arena. The largest first,
/// each at the lowest offset that is free for as long as it lives ("greedy by size": Pisarchyk and
/// Lee, "Efficient memory management for deep neural net inference", 2020). \pre alignment > 0
std::size_t place(std::span<Block> blocks, std::size_t alignment);

}  // namespace penstock::lower
