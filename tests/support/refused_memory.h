// Memory that is counted, and refused where a test says so. Whoever includes it compiles
// refused_memory.cc too, which takes malloc's place in the program.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <gtest/gtest.h>

// The sanitizers take malloc's place themselves.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define PENSTOCK_COUNTS_ALLOCATIONS 1
#else
#define PENSTOCK_COUNTS_ALLOCATIONS 0
#endif

namespace penstock::testing {

inline std::atomic<bool> g_counting{false};
inline std::atomic<std::uint64_t> g_count{0};
inline std::atomic<std::size_t> g_least{0};
inline std::atomic<std::size_t> g_refused{SIZE_MAX};  // What has this size or more finds no memory.

// Of the threads that the test does not spare, the allocation that fails, counted down; below 0:
// none does.
inline std::atomic<std::int64_t> g_until_failure{-1};
inline thread_local bool t_spared = false;
inline std::atomic<bool> g_others_spared{false};  // Allocations of the test's thread fail alone.
inline thread_local bool t_tester = false;

/// Refuses each k-th allocation in a run of its own. How many there are may depend on how far other
/// threads are in that run: it ends where ten in a row did not come about.
/// `run`: says of a k whether it came about. \returns how many did
template <typename Run>
std::int64_t refused_one_by_one(Run run) {
  constexpr int kInARow = 10;
  std::int64_t refused = 0;
  int missed = 0;
  for (std::int64_t k = 0; missed < kInARow && !::testing::Test::HasFailure(); ++k) {
    SCOPED_TRACE(k);
    const bool came_about = run(k);
    missed = came_about ? 0 : missed + 1;
    refused += came_about ? 1 : 0;
  }
  return refused;
}

}  // namespace penstock::testing
