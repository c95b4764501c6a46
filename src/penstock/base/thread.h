// Threads that may be refused.
#pragma once

#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "penstock/base/result.h"

namespace penstock {

/// Runs `body` in a new thread, which becomes `thread`. \pre  `thread` is of none.
/// \error kResourceExhausted  the system has no more, or memory for one is refused; `thread` stays
///        of none.
template <typename Body>
Status start_thread(std::thread& thread, Body&& body) noexcept {
  try {
    try {
      thread = std::thread(std::forward<Body>(body));
      return {};
    } catch (const std::system_error& error) {
      return make_error(Code::kResourceExhausted, "no thread could be started: ", error.what(),
                        "; raise the limit of threads (ulimit -u), or run less at once");
    }
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
}

}  // namespace penstock
