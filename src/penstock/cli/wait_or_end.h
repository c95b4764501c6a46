// What runs beside the main thread, and may never return once it is interrupted.
#pragma once

#include <chrono>
#include <cstdlib>
#include <future>
#include <optional>

#include <spdlog/spdlog.h>

#include "penstock/base/result.h"
#include "penstock/cli/interrupt.h"

namespace penstock::cli {

/// Waits for the result; after an interrupt only 5 s, then ends the program: an engine may never
/// return. \pre  an InterruptGuard lives
template <typename T>
Result<T> wait_or_end(std::future<Result<T>> running) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kOften(100);
  constexpr std::chrono::seconds kPatience(5);
  std::optional<Clock::time_point> end;
  while (running.wait_for(kOften) != std::future_status::ready) {
    if (!interrupted()) continue;
    if (!end) end = Clock::now() + kPatience;
    if (Clock::now() < *end) continue;
    spdlog::warn(
        "interrupted while a call still ran, of an engine or a function; ended without it");
    std::_Exit(interrupt_code());
  }
  return running.get();
}

}  // namespace penstock::cli
