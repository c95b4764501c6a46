// Random: the same numbers from the same seed on every machine.
#pragma once

#include <cstdint>

namespace penstock::planner {

/// Source: SplitMix64 of Steele, Lea and Flood, OOPSLA 2014.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15U);
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }
  /// 0 .. end-1; `end` is at least 1.
  int below(int end) {
    return static_cast<int>(((next() >> 32U) * static_cast<std::uint64_t>(end)) >> 32U);
  }
  /// Inside (0, 1).
  double unit() { return (static_cast<double>(next() >> 11U) + 0.5) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

}  // namespace penstock::planner
