// What runs beside the main thread, and may never return once it is interrupted.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <optional>

#include <spdlog/spdlog.h>

#include "penstock/base/result.h"
#include "penstock/cli/interrupt.h"

namespace penstock::cli {

/// How long what was interrupted may go on.
struct Patience {
  using Clock = std::chrono::steady_clock;
  std::chrono::seconds longest{5};
  /// The last moment at which it was seen to go on; empty: none after the interrupt.
  std::function<Clock::time_point()> last_sign = nullptr;
};

/// Waits for the result; after an interrupt only as long as there is patience, then ends the
/// program: an engine may never return. \pre  an InterruptGuard lives
template <typename T>
Result<T> wait_or_end(std::future<Result<T>> running, const Patience& patience = {}) {
  using Clock = Patience::Clock;
  constexpr std::chrono::milliseconds kOften(100);
  constexpr std::chrono::seconds kSilent(5);  // Then a person should know what is waited for.
  std::optional<Clock::time_point> since;
  bool told = patience.longest <= kSilent;
  while (running.wait_for(kOften) != std::future_status::ready) {
    if (!interrupted()) continue;
    if (!since) since = Clock::now();
    if (patience.last_sign) since = std::max(*since, patience.last_sign());
    const auto silent = Clock::now() - *since;
    if (!told && silent >= kSilent) {
      told = true;
      spdlog::warn(
          "interrupted: waits {} s more for a call of an engine or a function that still runs; "
          "another interrupt ends at once",
          (patience.longest - kSilent).count());
    }
    if (silent < patience.longest) continue;
    spdlog::warn(
        "interrupted while a call still ran, of an engine or a function; ended without it");
    std::_Exit(interrupt_code());
  }
  return running.get();
}

}  // namespace penstock::cli
