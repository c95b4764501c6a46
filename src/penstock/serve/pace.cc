// Lets in what the pipeline did in the last window, for the time that frames may wait inside.
#include "penstock/serve/pace.h"

#include <algorithm>
#include <cmath>

namespace penstock::serve {

void Pace::let_in_at_least(std::size_t frames) {
  const std::scoped_lock lock(mutex_);
  least_ = frames;
  most_ = std::max(most_, least_);
  left_.notify_all();
}

bool Pace::enter(std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  const auto has_room = [this] { return inside_ < most_; };
  if (!has_room() && (timeout.count() <= 0 || !left_.wait_for(lock, timeout, has_room))) {
    return false;
  }
  ++inside_;
  return true;
}

void Pace::leave(Clock::time_point now, bool computed) {
  const std::scoped_lock lock(mutex_);
  --inside_;
  if (computed) ++done_;
  if (const auto window = now - since_; window >= kWindow) {
    const double held = std::chrono::duration<double>(kHeld) / window;
    most_ =
        std::max(least_, static_cast<std::size_t>(std::llround(held * static_cast<double>(done_))));
    since_ = now;
    done_ = 0;
  }
  left_.notify_one();
}

}  // namespace penstock::serve
