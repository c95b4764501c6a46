#include "gil.h"

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>

#include <pthread.h>

#include "penstock/base/memory_left.h"
#include "penstock/base/thread.h"
#include "penstock/pipeline/paused_clock.h"

namespace penstock::python {
namespace {

// Of the process, as the forks themselves are.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<std::uint64_t> g_forks{0};
// Python's main thread, by the system's number.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<pid_t> g_main_thread{0};

/// Work that goes on while its caller waits or has left.
struct Aside {
  std::mutex mutex;  // Guards the four below.
  std::condition_variable finished;
  bool done = false;
  bool forsaken = false;  // The process ends without it.
  std::exception_ptr failure;
  std::atomic<bool> abandoned{false};
  std::thread thread;
  std::uint64_t generation = fork_generation();  // Only there is the thread.
};

[[noreturn]] void sleep_for_ever() {
  for (;;) ::pause();
}

void run(const std::function<void(const Abandoned&)>& work, Aside& aside) {
  std::exception_ptr failure;
  try {
    work([&] { return aside.abandoned.load(std::memory_order_relaxed); });
  } catch (...) {  // No memory, perhaps. Nobody above this thread could say so.
    failure = std::current_exception();
  }
  const std::scoped_lock lock(aside.mutex);
  aside.failure = failure;
  // What `work` holds may not be let go of once the interpreter is gone.
  if (aside.forsaken) sleep_for_ever();
  aside.done = true;
  aside.finished.notify_all();
}

/// What a thread that goes on still uses must not be destroyed by exit().
void end_without_destructors() {
  static const int kRegistered = ::on_exit(
      [](int code, void*) {
        std::fflush(nullptr);
        ::_exit(code);
      },
      nullptr);
  static_cast<void>(kRegistered);
}

/// Python's state of a thread that is not Python's own.
class ThreadState {
 public:
  ThreadState() = default;
  ThreadState(const ThreadState&) = delete;
  ThreadState& operator=(const ThreadState&) = delete;
  ~ThreadState() {
    if (!kept_ || generation_ != fork_generation()) return;
    if (Py_IsInitialized() == 0) return;  // The program ended it before this thread.
    or_sleep([] {
      PyGILState_Ensure();
      PyGILState_Release(PyGILState_LOCKED);    // What Ensure() just counted,
      PyGILState_Release(PyGILState_UNLOCKED);  // and what keep() did: the state goes.
    });
  }

  /// \pre no Python state is current on this thread, or the thread is Python's own.
  void keep() {
    if (kept_ || PyGILState_GetThisThreadState() != nullptr) return;
    or_sleep([] {
      PyGILState_Ensure();
      PyEval_SaveThread();
    });
    generation_ = fork_generation();
    kept_ = true;
  }

 private:
  bool kept_ = false;
  std::uint64_t generation_ = 0;
};

// Each thread's own, like the state that it stands for.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
thread_local ThreadState t_state;
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
thread_local int t_inside = 0;

/// How long others hold it is not the time of a stage's call.
PyGILState_STATE take_gil() {
  const pipeline::PausedClock waiting;
  t_state.keep();
  return or_sleep([] { return PyGILState_Ensure(); });
}

/// Left behind by interrupted callers. Guarded by the GIL; never destroyed, as threads may remain.
std::list<std::shared_ptr<Aside>>& left_behind() {
  static auto* list = new std::list<std::shared_ptr<Aside>>;
  return *list;
}

/// Waits a little without the GIL. \returns whether the work is done
bool ends_soon(Aside& aside) {
  return without_gil([&] {
    std::unique_lock lock(aside.mutex);
    return aside.finished.wait_for(lock, kSlice, [&] { return aside.done; });
  });
}

/// False: it is done after all.
bool forsake(Aside& aside) {
  const std::scoped_lock lock(aside.mutex);
  if (aside.done) return false;
  aside.forsaken = true;
  end_without_destructors();
  return true;
}

}  // namespace

bool signals_raise() {
  if (::gettid() != g_main_thread.load(std::memory_order_relaxed)) return false;
  const pipeline::PausedClock waiting;
  return or_sleep([] {
    const PyGILState_STATE state = PyGILState_Ensure();
    const bool raised = PyErr_CheckSignals() != 0;
    PyGILState_Release(state);
    return raised;
  });
}

WithoutGil::~WithoutGil() {
  const pipeline::PausedClock waiting;
  or_sleep([&] { PyEval_RestoreThread(state_); });
}

WithGil::WithGil() : state_(take_gil()) {
  ++t_inside;
}

WithGil::~WithGil() {
  --t_inside;
  PyGILState_Release(state_);
}

bool on_library_thread() {
  return t_inside > 0;
}

Error with_timeout(Error error, std::chrono::nanoseconds whole) {
  if (Where* const timeout = error.find(Where::kTimeoutNs)) {
    timeout->number = static_cast<std::uint64_t>(whole.count());
  }
  return error;
}

void check_memory_for_thread() {
  constexpr std::size_t kOfAThread = std::size_t{32} << 20U;
  check(check_memory_left(kOfAThread));
}

void run_aside(std::function<void(const Abandoned&)> work) {
  check_memory_for_thread();
  auto aside = std::make_shared<Aside>();
  std::list<std::shared_ptr<Aside>> place{aside};  // For left_behind(), memory or none.
  check(start_thread(aside->thread, [aside, work = std::move(work)] { run(work, *aside); }));
  while (!ends_soon(*aside)) {
    if (PyErr_CheckSignals() != 0) {
      aside->abandoned.store(true, std::memory_order_relaxed);
      left_behind().splice(left_behind().end(), place);
      throw nb::python_error();
    }
  }
  without_gil([&] { aside->thread.join(); });
  if (aside->failure) std::rethrow_exception(aside->failure);
}

void Later::begin(std::function<void()> work) noexcept {
  auto& later = place_.front();
  later.work = std::move(work);
  later.generation = fork_generation();
  all().splice(all().end(), place_);
  static_cast<void>(start_thread(later.thread, [&later] { later.work(); }));
}

/// Guarded by the GIL; never destroyed, as threads may remain.
std::list<Later::Work>& Later::all() {
  static auto* list = new std::list<Work>;
  return *list;
}

void Later::finish() {
  for (auto& later : all()) {
    if (later.generation != fork_generation()) continue;
    without_gil([&] {
      if (later.thread.joinable()) {
        later.thread.join();
      } else {
        later.work();
      }
    });
  }
}

void join_aside(std::chrono::nanoseconds patience) {
  using Clock = std::chrono::steady_clock;
  Later::finish();
  auto deadline = Clock::now() + patience;  // Of all together.
  for (const auto& aside : left_behind()) {
    if (aside->generation != fork_generation()) continue;
    while (!ends_soon(*aside) && Clock::now() < deadline) {
      if (PyErr_CheckSignals() == 0) continue;
      nb::python_error().discard_as_unraisable("the end of an interrupted call of penstock");
      deadline = Clock::now();  // Ctrl-C: nothing is waited for any longer.
    }
    if (forsake(*aside)) {
      warn(
          "a call that Ctrl-C interrupted still runs; the process ends without it, and what it "
          "was writing may be incomplete");
    } else {
      without_gil([&] { aside->thread.join(); });
    }
  }
}

std::uint64_t fork_generation() {
  return g_forks.load(std::memory_order_relaxed);
}

void watch_forks() {
  const auto main_thread = nb::module_::import_("threading").attr("main_thread")();
  g_main_thread = nb::cast<pid_t>(main_thread.attr("native_id"));
  static const int kRegistered = pthread_atfork(nullptr, nullptr, [] {
    g_forks.fetch_add(1, std::memory_order_relaxed);
    g_main_thread = ::gettid();
  });
  static_cast<void>(kRegistered);
}

void make_lists() {
  left_behind();
  Later::all();
}

}  // namespace penstock::python
