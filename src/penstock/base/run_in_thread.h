// run_in_thread: a function that returns a Result, by a thread that ends with it.
#pragma once

#include <future>
#include <type_traits>
#include <utility>

#include "penstock/base/result.h"
#include "penstock/base/thread.h"

namespace penstock {

/// What `body` returns, a Status or a Result: what it leaves behind on its thread ends with that.
/// Waits for it, and throws what it throws. \error as start_thread(), and as `body`
template <typename Body>
std::invoke_result_t<Body> run_in_thread(Body body) {
  std::packaged_task<std::invoke_result_t<Body>()> task(std::move(body));
  auto returned = task.get_future();
  std::thread thread;
  PENSTOCK_CHECK_OK(start_thread(thread, std::move(task)));
  thread.join();
  return returned.get();
}

}  // namespace penstock
