// Threads that may be refused.
#pragma once

#include <system_error>
#include <thread>
#include <utility>

#include "penstock/pipeline/guarded.h"

namespace penstock::pipeline {

/// Runs `body` in a new thread, which becomes `thread`. \pre  `thread` is of none.
/// \error kResourceExhausted  the system has no more, or memory for one is refused; `thread` stays
///        of none.
template <typename Body>
Status start_thread(std::thread& thread, Body&& body) noexcept {
  return guarded([&]() -> Status {
    try {
      thread = std::thread(std::forward<Body>(body));
      return {};
    } catch (const std::system_error& error) {
      return make_error(Code::kResourceExhausted, "no thread could be started: ", error.what(),
                        "; raise the limit of threads (ulimit -u), or run less at once");
    }
  });
}

}  // namespace penstock::pipeline
