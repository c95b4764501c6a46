// What CPUs can do at most, as measured: the roof that measured times are compared with.
#pragma once

#include <string>
#include <vector>

namespace penstock::cost {

/// All CPUs of a device together.
struct Peaks {
  /// Multiplying and adding fp32 numbers, by the width of the vectors.
  struct Width {
    std::string name;             ///< "sse", "avx2", "avx512"; "plain": the compiler's own.
    double flops_per_second = 0;  ///< A multiplication and an addition are two.
    bool operator==(const Width&) const = default;
  };
  /// Reading from a level of the caches, or from memory.
  struct Level {
    std::string name;             ///< "L1", "L2", "L3", "memory"
    double bytes = 0;             ///< That the caches of this level hold; of memory 0.
    double bytes_per_second = 0;  ///< Of bytes that are in it.
    bool operator==(const Level&) const = default;
  };
  std::vector<Width> widths;  ///< Narrowest first.
  std::vector<Level> levels;  ///< Nearest first, memory the last.

  bool operator==(const Peaks&) const = default;

  /// The most of any width; 0: nothing was measured.
  [[nodiscard]] double flops_per_second() const;
  /// The level that can hold so many bytes and gives them fastest; null: nothing was measured.
  [[nodiscard]] const Level* level_of(double bytes) const;
};

}  // namespace penstock::cost
