// Threads that may be refused.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <new>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#include "penstock/base/result.h"

namespace penstock {

/// What `start`, which starts a thread, returns, or why the system refuses one.
/// \error kResourceExhausted  the system has no more, or memory for one is refused.
template <typename Start>
std::invoke_result_t<Start> started(Start&& start) noexcept {
  try {
    try {
      return start();
    } catch (const std::system_error& error) {
      // The system does not say whether threads are at their limit or a stack finds no memory.
      return make_error(Code::kResourceExhausted, "no thread could be started: ", error.what(),
                        "; raise the limit of threads (ulimit -u) or of memory (ulimit -v), or run "
                        "less at once");
    }
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
}

/// Runs `body` in a new thread, which becomes `thread`. \pre  `thread` is of none.
/// \error kResourceExhausted  as started() has it; `thread` stays of none.
template <typename Body>
Status start_thread(std::thread& thread, Body&& body) noexcept {
  return started([&]() -> Status {
    thread = std::thread(std::forward<Body>(body));
    return {};
  });
}

/// Runs `body` in a new thread. The future's destructor waits for it; the future has what `body`
/// throws.
/// \error kResourceExhausted  as started() has it.
template <typename Body>
Result<std::future<std::invoke_result_t<Body>>> start_async(Body&& body) noexcept {
  return started([&]() -> Result<std::future<std::invoke_result_t<Body>>> {
    return std::async(std::launch::async, std::forward<Body>(body));
  });
}

/// What `run` returns. Where it takes longer than `limit`, `stop` is called once, on a thread of
/// its own, to end it; without one, as the system has none left, nothing is.
template <typename Run>
auto run_within(std::chrono::nanoseconds limit, const std::function<void()>& stop, const Run& run) {
  std::promise<void> ended;
  const auto watch = start_async([&stop, limit, over = ended.get_future()] {
    if (over.wait_for(limit) == std::future_status::timeout) stop();
  });
  auto outcome = run();
  ended.set_value();
  if (watch) watch->wait();
  return outcome;
}

}  // namespace penstock
