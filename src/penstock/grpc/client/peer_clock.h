// PeerClock: how far another machine's steady clock is ahead of ours, as far as can be told.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>

namespace penstock::grpc {

/// Of what went there and back, half of the time on the way is taken for either direction: that is
/// off by at most half of it. The shortest of the last few tells best; older ones would be wrong by
/// what the clocks have drifted since.
/// \threads  all functions may be called from any thread.
class PeerClock {
 public:
  struct Offset {
    std::int64_t ahead_ns = 0, error_ns = 0;
  };

  /// Sent at `left_ns`, answered at `back_ns` of our clock; there from `came_ns` to `went_ns` of
  /// the other one.
  void note(std::int64_t left_ns, std::int64_t came_ns, std::int64_t went_ns,
            std::int64_t back_ns) {
    const std::int64_t way = std::max<std::int64_t>((back_ns - left_ns) - (went_ns - came_ns), 0);
    const std::scoped_lock lock(mutex_);
    last_[count_++ % kKept] = {((came_ns - left_ns) + (went_ns - back_ns)) / 2, way / 2};
  }

  /// Nothing where nothing went there and back yet.
  [[nodiscard]] std::optional<Offset> offset() const {
    const std::scoped_lock lock(mutex_);
    if (count_ == 0) return std::nullopt;
    return *std::min_element(last_.begin(), last_.begin() + std::min(count_, kKept),
                             [](const auto& a, const auto& b) { return a.error_ns < b.error_ns; });
  }

 private:
  static constexpr std::size_t kKept = 32;
  mutable std::mutex mutex_;  // Guards all below.
  std::array<Offset, kKept> last_{};
  std::size_t count_ = 0;
};

}  // namespace penstock::grpc
