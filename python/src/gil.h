// What C++ needs to know of the interpreter: its lock, its signals, its forks and its end.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <thread>
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

/// Lets go of the GIL while it lives: it is taken back whether what is done meanwhile returns or
/// throws, as C++ does where memory is refused.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;
  ~WithoutGil();

 private:
  PyThreadState* state_;
};

/// Runs `work` without the GIL. `work` must not touch Python; what it throws the caller gets.
template <typename Work>
auto without_gil(Work&& work) {
  const WithoutGil released;
  return work();
}

/// Destroys without the GIL, which threads that end with the object may want. \pre the caller holds
/// the GIL.
struct DeletedWithoutGil {
  template <typename T>
  void operator()(T* object) const {
    without_gil([=] { delete object; });
  }
};

/// Raises what a signal handler raised since the last call: KeyboardInterrupt after Ctrl-C.
inline void check_signals() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

/// Whether a signal handler raises, KeyboardInterrupt after Ctrl-C: then its exception stands in
/// Python when the thread has the GIL again. Only the main thread, which alone runs handlers, takes
/// the GIL to know. \pre  inside without_gil().
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

/// Where a new thread finds no memory for its own variables, the C library ends the process; where
/// it finds none for Python's state of it, Python does.
/// \raises ResourceExhausted  less memory is left than a thread may need.
void check_memory_for_thread();

/// Runs long work that cannot be interrupted on a thread of its own, so that Ctrl-C ends the wait.
/// The work then goes on by itself; its result is thrown away.
/// \raises ResourceExhausted  the system has no thread or memory for it; else what the work throws.
void run_aside(std::function<void(const Abandoned&)> work);

/// Work that nobody waits for before the end of the process. Made beforehand: once the work is to
/// be done, there may be no memory to keep it in.
class Later {
 public:
  /// Begins it on a thread of its own; where the system has none, it is done at the end of the
  /// process. Once, under the GIL. `work` must not throw.
  void begin(std::function<void()> work) noexcept;

 private:
  struct Work {
    std::function<void()> work;
    std::thread thread;
    std::uint64_t generation = 0;  // Only there is the thread.
  };
  static std::list<Work>& all();
  static void finish();
  friend void join_aside(std::chrono::nanoseconds patience);
  friend void make_lists();

  std::list<Work> place_{1};
};

/// For the end of the process: waits for what Later began, and up to `patience`, or until Ctrl-C,
/// for what run_aside() left behind. What runs longer sleeps at its end: the process then ends
/// without destructors, with a warning. A forked child has none of these threads.
void join_aside(std::chrono::nanoseconds patience);

/// Counts the forks above this process: what was made under another number has lost its threads.
std::uint64_t fork_generation();
/// \pre the caller holds the GIL.
void watch_forks();

/// Makes, while an error can still be told, what run_aside() and Later keep their threads in.
void make_lists();

}  // namespace penstock::python
