#include "held.h"

#include <atomic>

namespace penstock::python {
namespace {

// Shared by all pipelines: objects belong to the interpreter.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<Held*> g_dropped{nullptr};

int release_by_interpreter(void* /*unused*/) {
  release_dropped();
  return 0;
}

void drop(Held* held) {
  Held* top = g_dropped.load(std::memory_order_relaxed);
  do {
    held->next = top;
  } while (!g_dropped.compare_exchange_weak(top, held, std::memory_order_release,
                                            std::memory_order_relaxed));
  // The first on the stack asks; where the queue of such calls is full, the next call of ours does
  // it.
  if (top == nullptr) Py_AddPendingCall(release_by_interpreter, nullptr);
}

}  // namespace

Held::~Held() {
  if (buffer.obj != nullptr) PyBuffer_Release(&buffer);
}

std::shared_ptr<const void> share(std::unique_ptr<Held> held) {
  return std::shared_ptr<Held>(held.release(), drop);
}

void release_dropped() {
  if (g_dropped.load(std::memory_order_relaxed) == nullptr) return;
  Held* held = g_dropped.exchange(nullptr, std::memory_order_acquire);
  while (held != nullptr) {
    const std::unique_ptr<Held> first(held);
    held = first->next;
  }
}

}  // namespace penstock::python
