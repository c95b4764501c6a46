// The loops that load a CPU's arithmetic, and its ways to caches and memory, as far as they go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock::probe {

/// Multiplies and adds fp32 numbers in vectors of one width.
struct Arithmetic {
  const char* name;       ///< As in cost::Peaks::Width.
  double flops_per_step;  ///< A multiplication and an addition are two.
  /// Does so many steps. \returns a number that depends on all of them
  float (*run)(std::int64_t steps);
};

/// Of each width that this CPU has, narrowest first.
std::span<const Arithmetic> arithmetic_of_this_cpu();

/// Reads all, in the widest vectors that this CPU has. \returns a number that depends on all of it
/// \pre  `bytes` is aligned to 64 bytes, its size a multiple of 1024
std::uint64_t read_all(std::span<const std::byte> bytes);

}  // namespace penstock::probe
