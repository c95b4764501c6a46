// Ctrl-C: the first asks a command to end in good order, a second one later ends the program.
#pragma once

namespace penstock::cli {

/// From now on SIGINT and SIGTERM end the program at once, as they do by default.
void end_on_interrupt();

/// What SIGHUP asks for.
enum class Hangup {
  kEnd,     ///< The end, as SIGINT does.
  kReload,  ///< What runs is to be read again; but the end, where the terminal was closed.
};

/// While one lives, the first SIGINT, SIGTERM or SIGHUP only makes interrupted() true; so do
/// further SIGHUP, and what comes within 200 ms of the first. Behind one that was interrupted it
/// stays so, for the program is about to end. SIGHUP stays ignored where it was.
class InterruptGuard {
 public:
  explicit InterruptGuard(Hangup hangup = Hangup::kEnd);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};

bool interrupted();

/// Whether SIGHUP asked for a reload since the last call.
bool take_reload();

/// What a shell expects of a program that a signal ended: 130 after SIGINT, 143 after
/// SIGTERM, 129 after SIGHUP.
/// \pre interrupted()
int interrupt_code();

}  // namespace penstock::cli
