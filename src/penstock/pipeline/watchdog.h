// Watchdog: a thread that looks for calls that hang.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/pipeline/wait.h"

namespace penstock::pipeline {

class Worker;

/// While frames are in flight it wakes a few times in the shortest `max_run`, and looks at the
/// workers that have one; else it sleeps until the next push. A call past it ends its thread's
/// part: its frames fail, a new thread goes on with those behind, and the old one is detached. It
/// keeps the State, which it may touch, until its call comes back. Where the plan allows no call to
/// be left behind, the frames behind fail too, and the pipeline ends.
class Watchdog {
 public:
  /// `source`: frames pushed. \pre  none is yet. \error kResourceExhausted  no thread is left.
  static Result<std::unique_ptr<Watchdog>> start(std::vector<Worker*> watched, Progress& source);
  ~Watchdog() { stop(); }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Joins; others may go on to wake it, in vain, for as long as it is there. Idempotent.
  void stop();

 private:
  Watchdog(std::vector<Worker*> watched, Progress& source);
  void loop();
  /// Whether the watched stages are done with every frame before `pushed`.
  [[nodiscard]] bool idle(FrameNumber pushed) const;
  std::int64_t look();  ///< When to look again, as deadline of the steady clock.

  const std::vector<Worker*> watched_;
  Parker parker_;
  Wait pushes_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;  // Last: it uses the rest.
};

}  // namespace penstock::pipeline
