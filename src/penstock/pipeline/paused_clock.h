// PausedClock: for the part of a stage's call that is not its own.
#pragma once

#include <cstdint>

namespace penstock::pipeline {

/// While it lives, the clock by which `max_run` judges the call in progress on this thread stands
/// still: for waits that others cause, such as for an interpreter's lock. Does nothing elsewhere.
/// \threads  on the stage's own thread; not nested.
class PausedClock {
 public:
  PausedClock();
  ~PausedClock();
  PausedClock(const PausedClock&) = delete;
  PausedClock& operator=(const PausedClock&) = delete;

 private:
  std::int64_t ran_ns_;
};

}  // namespace penstock::pipeline
