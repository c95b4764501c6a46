// What C++ needs to know of the interpreter: its lock, its signals, its forks and its end.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include <cxxabi.h>
#include <nanobind/nanobind.h>
#include <unistd.h>

#include "errors.h"
#include "penstock/base/result.h"

namespace penstock::python {

/// Calls into Python. A thread that comes too late, after the interpreter has begun to end, sleeps
/// until the process is gone: Python would otherwise end it with an exception that no C++ may pass.
template <typename Work>
auto or_sleep(Work&& work) {
  try {
    return work();
  } catch (abi::__forced_unwind&) {
    for (;;) ::pause();
  }
}

/// Takes the GIL back.
void restore_thread(PyThreadState* state);

/// Holds the GIL on a thread of the library's own. Python's state of the thread is made once and
/// kept until the thread ends.
class WithGil {
 public:
  WithGil();
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;
  ~WithGil();

 private:
  PyGILState_STATE state_;
};

/// Whether this thread is one of the library's, inside a WithGil.
bool on_library_thread();

/// Runs `work` without the GIL. `work` must not throw nor touch Python.
template <typename Work>
auto without_gil(Work&& work) {
  PyThreadState* const state = PyEval_SaveThread();
  if constexpr (std::is_void_v<decltype(work())>) {
    work();
    restore_thread(state);
  } else {
    auto result = work();
    restore_thread(state);
    return result;
  }
}

/// Raises what a signal handler raised since the last call: KeyboardInterrupt after Ctrl-C.
inline void check_signals() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

/// Whether a signal handler raises, KeyboardInterrupt after Ctrl-C: then its exception stands in
/// Python when the thread has the GIL again. \pre  inside without_gil().
bool signals_raise();

/// How long a wait may last before signals are looked at again.
inline constexpr std::chrono::nanoseconds kSlice = std::chrono::milliseconds(50);

/// The error of a wait that was cut in slices, told as if it had been whole.
Error with_timeout(Error error, std::chrono::nanoseconds whole);

/// Calls `attempt(slice)` without the GIL until it ends other than by its timeout, `timeout` is
/// over or a signal handler raises.
template <typename Attempt>
auto wait_in_slices(std::chrono::nanoseconds timeout, Attempt&& attempt) {
  using Clock = std::chrono::steady_clock;
  const bool for_ever = timeout == std::chrono::nanoseconds::max();
  const auto start = Clock::now();
  for (;;) {
    const auto left = for_ever ? kSlice : timeout - (Clock::now() - start);
    const auto slice = std::clamp(left, std::chrono::nanoseconds::zero(), kSlice);
    auto result = without_gil([&] { return attempt(slice); });
    if (result || result.error().code != Code::kDeadlineExceeded) return result;
    check_signals();
    if (!for_ever && left <= kSlice) {
      return decltype(result)(with_timeout(std::move(result).error(), timeout));
    }
  }
}

/// Whether nobody waits for the work any more; any thread may ask.
using Abandoned = std::function<bool()>;

/// Runs long work that cannot be interrupted on a thread of its own, so that Ctrl-C ends the wait.
/// The work then goes on by itself; its result is thrown away.
/// \raises ResourceExhausted  the system has no thread for it; else what the work throws.
void run_aside(std::function<void(const Abandoned&)> work);

/// The same for work that nobody waits for before the end of the process. Where the system has no
/// thread for it, it is done then.
void leave_aside(std::function<void()> work);

/// For the end of the process: waits for what leave_aside() was given, and up to `patience`, or
/// until Ctrl-C, for what run_aside() left behind. What runs longer sleeps at its end: the process
/// then ends without destructors, with a warning. A forked child has none of these threads.
void join_aside(std::chrono::nanoseconds patience);

/// Counts the forks above this process: what was made under another number has lost its threads.
std::uint64_t fork_generation();
void watch_forks();

}  // namespace penstock::python
