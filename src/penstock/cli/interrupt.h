// Ctrl-C: the first asks a stream of frames to end in good order, the second ends the program.
#pragma once

namespace penstock::cli {

/// From now on SIGINT and SIGTERM end the program at once, as they do by default.
void end_on_interrupt();

/// While one lives, the first SIGINT or SIGTERM only makes interrupted() true.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};

bool interrupted();

}  // namespace penstock::cli
