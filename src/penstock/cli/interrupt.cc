// Signal handlers only set flags; a closed terminal is told by whether /dev/tty opens.
#include "penstock/cli/interrupt.h"

#include <csignal>
#include <cstdint>
#include <ctime>

#include <fcntl.h>
#include <unistd.h>

namespace penstock::cli {
namespace {

// A signal handler can reach nothing else.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
volatile std::sig_atomic_t g_interrupted = 0;
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
volatile std::sig_atomic_t g_hung_up = 0;
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
bool g_had_terminal = false;
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
pid_t g_process = 0;
/// Of the first SIGINT or SIGTERM, by clock_ms(); 0: there was none.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
volatile std::sig_atomic_t g_first_ms = 0;

constexpr int kOneMs = 200;           ///< Signals that came so close together are one.
constexpr int kClockMs = 0x3fffffff;  ///< Where clock_ms() begins again.

/// 1 to kClockMs + 1, of a clock that a signal handler may ask.
int clock_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const auto ms = std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
  return static_cast<int>(ms & kClockMs) + 1;
}

/// A child that a module of functions forked: it ends.
bool end_if_child(int signal) {
  if (::getpid() == g_process) return false;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
  return true;
}

extern "C" void note_interrupt(int signal) {
  if (end_if_child(signal)) return;
  g_interrupted = signal;
  // A terminal that closes may send several SIGHUP by itself.
  if (signal == SIGHUP) return;
  // The second one ends the program; `timeout` sends the first twice, to it and to its group.
  const int now = clock_ms();
  if (g_first_ms == 0) g_first_ms = now;
  if (((now - g_first_ms) & kClockMs) < kOneMs) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

extern "C" void note_hangup(int signal) {
  if (!end_if_child(signal)) g_hung_up = 1;
}

bool has_terminal() {
  const int terminal = ::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
  if (terminal >= 0) ::close(terminal);
  return terminal >= 0;
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

InterruptGuard::InterruptGuard(Hangup hangup) {
  g_interrupted = 0;
  g_hung_up = 0;
  g_first_ms = 0;
  g_had_terminal = has_terminal();
  g_process = ::getpid();
  std::signal(SIGINT, note_interrupt);
  std::signal(SIGTERM, note_interrupt);
  on_hangup(hangup == Hangup::kReload ? note_hangup : note_interrupt);
}

InterruptGuard::~InterruptGuard() {
  if (g_interrupted != 0) return;  // What follows is the end; `timeout` may send another.
  end_on_interrupt();
  on_hangup(SIG_DFL);
}

bool interrupted() {
  // A terminal that closes sends the signal too, and is gone then.
  if (g_hung_up != 0 && g_had_terminal && !has_terminal()) g_interrupted = SIGHUP;
  return g_interrupted != 0;
}

bool take_reload() {
  if (g_hung_up == 0 || interrupted()) return false;
  g_hung_up = 0;
  return true;
}

int interrupt_code() {
  return 128 + g_interrupted;
}

}  // namespace penstock::cli
