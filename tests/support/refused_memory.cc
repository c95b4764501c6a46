// Takes malloc's place in a test's program: counts what is asked for, and refuses what is to fail.
#include "tests/support/refused_memory.h"

#include <cerrno>
#include <cstdlib>

#if PENSTOCK_COUNTS_ALLOCATIONS
namespace {

/// Whether there is memory.
bool note(std::size_t size) {
  using namespace penstock::testing;  // NOLINT(google-build-using-namespace): test support
  if (g_counting.load(std::memory_order_relaxed) &&
      size >= g_least.load(std::memory_order_relaxed)) {
    g_count.fetch_add(1, std::memory_order_relaxed);
  }
  const bool spared = g_until_failure.load(std::memory_order_relaxed) < 0 || t_spared ||
                      (g_others_spared && !t_tester);
  const bool refused = size >= g_refused.load(std::memory_order_relaxed) ||
                       (!spared && g_until_failure.fetch_sub(1) == 0);
  if (refused) errno = ENOMEM;  // Who asks for a thread's stack looks at it.
  return !refused;
}

}  // namespace

extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* old, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);

void* malloc(std::size_t size) {
  return note(size) ? __libc_malloc(size) : nullptr;
}
void* calloc(std::size_t count, std::size_t size) {
  return note(count * size) ? __libc_calloc(count, size) : nullptr;
}
void* realloc(void* old, std::size_t size) {
  return note(size) ? __libc_realloc(old, size) : nullptr;
}
void* memalign(std::size_t alignment, std::size_t size) {
  return note(size) ? __libc_memalign(alignment, size) : nullptr;
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  return note(size) ? __libc_memalign(alignment, size) : nullptr;
}
int posix_memalign(void** out, std::size_t alignment, std::size_t size) {
  *out = note(size) ? __libc_memalign(alignment, size) : nullptr;
  return *out == nullptr ? ENOMEM : 0;
}
}
#endif
