#include "penstock/cli/interrupt.h"

#include <csignal>

namespace penstock::cli {
namespace {

// A signal handler can reach nothing else.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
volatile std::sig_atomic_t g_interrupted = 0;

extern "C" void note_interrupt(int signal) {
  g_interrupted = signal;
  // The second one ends the program. A terminal that closes may send several SIGHUP by itself.
  if (signal != SIGHUP) std::signal(signal, SIG_DFL);
}

/// SIGHUP stays ignored where it is, as under nohup.
void on_hangup(void (*handler)(int)) {
  if (std::signal(SIGHUP, SIG_IGN) != SIG_IGN) std::signal(SIGHUP, handler);
}

}  // namespace

void end_on_interrupt() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

InterruptGuard::InterruptGuard() {
  g_interrupted = 0;
  std::signal(SIGINT, note_interrupt);
  std::signal(SIGTERM, note_interrupt);
  on_hangup(note_interrupt);
}

InterruptGuard::~InterruptGuard() {
  end_on_interrupt();
  on_hangup(SIG_DFL);
}

bool interrupted() {
  return g_interrupted != 0;
}

int interrupt_code() {
  return 128 + g_interrupted;
}

}  // namespace penstock::cli
