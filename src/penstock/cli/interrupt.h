// Ctrl-C: the first asks a command to end in good order, the second ends the program.
#pragma once

namespace penstock::cli {

/// From now on SIGINT and SIGTERM end the program at once, as they do by default.
void end_on_interrupt();

/// While one lives, the first SIGINT, SIGTERM or SIGHUP only makes interrupted() true; so do
/// further SIGHUP. SIGHUP stays ignored where it was.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};

bool interrupted();

/// What a shell expects of a program that a signal ended: 130 after SIGINT, 143 after
/// SIGTERM, 129 after SIGHUP.
/// \pre interrupted()
int interrupt_code();

}  // namespace penstock::cli
