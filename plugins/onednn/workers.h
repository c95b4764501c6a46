// The OpenMP runtime that a oneDNN library computes with: how many threads, on which CPUs.
#pragma once

#include "penstock/backend/engine_places.h"
#include "penstock/base/result.h"

namespace penstock::onednn {

/// Three functions of the runtime, found through the library that loaded it: linking one here
/// would start it before its settings are made.
struct ThreadRuntime {
  void (*set_threads)(int) = nullptr;  ///< omp_set_num_threads: of the calling thread's regions.
  int (*threads)() = nullptr;          ///< omp_get_max_threads: reads that number.
  /// GOMP_parallel: calls the function on each thread of a region.
  void (*parallel)(void (*)(void*), void*, unsigned, unsigned) = nullptr;

  /// \error kUnavailable  the runtime is not GNU's.
  static Result<ThreadRuntime> of(const backend::LoadedLibrary& library);
};

/// Bounds how long idle workers spin. Call before the library is loaded: the runtime reads its
/// environment once. What the user has set stays.
void prepare_environment();

/// While it lives, regions that this thread starts have `count` threads.
class ThreadCount {
 public:
  ThreadCount(const ThreadRuntime& runtime, int count);
  ~ThreadCount();
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  const ThreadRuntime* runtime_;
  int before_;
};

/// Starts this thread's workers and gives them its CPUs and its floating-point mode, both of which
/// they have of themselves only where this thread had them when they were first needed.
/// \error kInternal  a worker's CPUs, read back, are others, or there are not `count` threads.
Status settle_workers(const ThreadRuntime& runtime, int count);

}  // namespace penstock::onednn
