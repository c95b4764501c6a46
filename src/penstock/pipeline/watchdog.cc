#include "penstock/pipeline/watchdog.h"

#include <algorithm>
#include <utility>

#include "penstock/pipeline/worker.h"

namespace penstock::pipeline {

Watchdog::Watchdog(std::vector<Worker*> watched)
    : watched_(std::move(watched)), thread_([this] { loop(); }) {}

Watchdog::~Watchdog() {
  stopping_.store(true, std::memory_order_seq_cst);
  parker_.wake();
  thread_.join();
}

void Watchdog::loop() {
  for (;;) {
    const std::int64_t next = look();
    parker_.prepare();
    if (stopping_.load(std::memory_order_seq_cst)) return;
    parker_.sleep(next);
  }
}

std::int64_t Watchdog::look() {
  constexpr std::int64_t kOften = 5'000'000, kSeldom = 250'000'000;
  const std::int64_t now = now_ns();
  std::int64_t next = kSeldom;
  for (Worker* worker : watched_) {
    next = std::min(next, worker->max_run_ns() / 4);
    const auto since = worker->running_since();
    const auto ran = worker->ran_ns(since);
    if (ran <= worker->max_run_ns()) continue;
    if (!worker->abandon(since)) continue;  // It came back this moment.
    worker->replace(ran);
  }
  return now + std::max(next, kOften);
}

}  // namespace penstock::pipeline
