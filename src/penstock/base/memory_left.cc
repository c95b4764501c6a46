// Asks the kernel for a mapping of that size, which reserves no memory, and unmaps it at once.
#include "penstock/base/memory_left.h"

#include <cstdlib>

#include <sys/mman.h>

namespace penstock {
namespace {

/// In the environment, as each library of the process may have a copy of this code.
constexpr const char* kMayRunOut = "PENSTOCK_MEMORY_MAY_RUN_OUT";

}  // namespace

void let_memory_run_out() {
  ::setenv(kMayRunOut, "1", 1);
}

Status check_memory_left(std::size_t bytes) {
  if (std::getenv(kMayRunOut) != nullptr) return {};
  void* const room = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) {
    return make_error(Code::kResourceExhausted, "out of memory: expected ", bytes >> 20U,
                      " MiB more; raise the limit of memory (ulimit -v), or run less at once");
  }
  ::munmap(room, bytes);
  return {};
}

}  // namespace penstock
