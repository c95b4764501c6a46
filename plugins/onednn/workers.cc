#include "workers.h"

#include <atomic>
#include <cfenv>
#include <cstdlib>

#include <sched.h>

#include "penstock/backend/environment.h"

namespace penstock::onednn {
namespace {

/// What the region's threads take over from the one that starts it.
struct Settlement {
  cpu_set_t cpus;
  std::fenv_t mode;
  std::atomic<int> settled{0};
};

void settle(void* data) {
  auto& wanted = *static_cast<Settlement*>(data);
  std::fesetenv(&wanted.mode);
  cpu_set_t found;
  CPU_ZERO(&found);
  sched_getaffinity(0, sizeof found, &found);
  if (!CPU_EQUAL(&found, &wanted.cpus)) {
    sched_setaffinity(0, sizeof wanted.cpus, &wanted.cpus);
    sched_getaffinity(0, sizeof found, &found);
  }
  if (CPU_EQUAL(&found, &wanted.cpus)) ++wanted.settled;
}

}  // namespace

Result<ThreadRuntime> ThreadRuntime::of(const backend::LoadedLibrary& library) {
  ThreadRuntime runtime;
  PENSTOCK_TRY(runtime.set_threads, library.function<void(int)>("omp_set_num_threads"));
  PENSTOCK_TRY(runtime.threads, library.function<int()>("omp_get_max_threads"));
  PENSTOCK_TRY(runtime.parallel,
               library.function<void(void (*)(void*), void*, unsigned, unsigned)>("GOMP_parallel"));
  return runtime;
}

void prepare_environment() {
  // About 100 us. The runtime's default spins for as long as a network runs.
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  backend::add_to_environment("GOMP_SPINCOUNT", "20000");
}

ThreadCount::ThreadCount(const ThreadRuntime& runtime, int count)
    : runtime_(&runtime), before_(runtime.threads()) {
  if (before_ != count) runtime.set_threads(count);
}

ThreadCount::~ThreadCount() {
  if (runtime_->threads() != before_) runtime_->set_threads(before_);
}

Status settle_workers(const ThreadRuntime& runtime, int count) {
  if (count == 1) return {};
  Settlement wanted;
  CPU_ZERO(&wanted.cpus);
  sched_getaffinity(0, sizeof wanted.cpus, &wanted.cpus);
  std::fegetenv(&wanted.mode);
  runtime.parallel(&settle, &wanted, static_cast<unsigned>(count), 0);
  if (wanted.settled == count) return {};
  return internal_error("oneDNN: expected ", count, " threads on this thread's CPUs, found ",
                        wanted.settled.load());
}

}  // namespace penstock::onednn
