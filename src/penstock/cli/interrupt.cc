#include "penstock/cli/interrupt.h"

#include <csignal>

namespace penstock::cli {
namespace {

// A signal handler can reach nothing else.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
volatile std::sig_atomic_t g_interrupted = 0;

extern "C" void note_interrupt(int signal) {
  g_interrupted = signal;
  std::signal(signal, SIG_DFL);  // The second one ends the program.
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
}

InterruptGuard::~InterruptGuard() {
  end_on_interrupt();
}

bool interrupted() {
  return g_interrupted != 0;
}

int interrupt_code() {
  return 128 + g_interrupted;
}

}  // namespace penstock::cli
