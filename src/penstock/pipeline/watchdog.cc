// The thread sleeps while all is idle, else looks at the calls and chooses its next look.
#include "penstock/pipeline/watchdog.h"

#include <algorithm>

#include "penstock/base/thread.h"
#include "penstock/pipeline/worker.h"

namespace penstock::pipeline {

Watchdog::Watchdog(std::vector<Worker*> watched, Progress& source)
    : watched_(std::move(watched)),
      pushes_{&source, source.add_waiters({&parker_}).front(), nullptr, 0} {}

Result<std::unique_ptr<Watchdog>> Watchdog::start(std::vector<Worker*> watched, Progress& source) {
  std::unique_ptr<Watchdog> made(new Watchdog(std::move(watched), source));
  PENSTOCK_CHECK_OK(start_thread(made->thread_, [dog = made.get()] { dog->loop(); }));
  return made;
}

void Watchdog::stop() {
  stopping_.store(true, std::memory_order_seq_cst);
  parker_.wake();
  if (thread_.joinable()) thread_.join();
}

void Watchdog::loop() {
  const auto stopping = [&] { return stopping_.load(std::memory_order_seq_cst); };
  while (!stopping()) {
    const FrameNumber pushed = pushes_.progress->done();
    if (idle(pushed)) {
      sleep_until(pushes_, pushed + 1, {}, kNever, stopping);
      continue;
    }
    const std::int64_t next = look();
    parker_.prepare();
    if (stopping()) return;
    parker_.sleep(next);
  }
}

bool Watchdog::idle(FrameNumber pushed) const {
  return std::ranges::all_of(
      watched_, [&](const Worker* worker) { return worker->stage().progress.done() >= pushed; });
}

std::int64_t Watchdog::look() {
  constexpr std::int64_t kOften = 5'000'000, kSeldom = 250'000'000;
  const std::int64_t now = now_ns();
  std::int64_t next = kSeldom;
  for (Worker* worker : watched_) {
    next = std::min(next, worker->watched_ns() / 4);
    worker->give_up_if_hanging();
  }
  return now + std::max(next, kOften);
}

}  // namespace penstock::pipeline
