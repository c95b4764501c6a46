// Budget: the bytes that all requests in progress may have together.
#pragma once

#include <atomic>
#include <cstdint>

namespace penstock::serve {

/// Of all models of a server. \threads  all functions may be called from any thread.
class Budget {
 public:
  explicit Budget(std::uint64_t most) : most_(most) {}
  bool take(std::uint64_t bytes) {
    if (used_.fetch_add(bytes) + bytes <= most_) return true;
    used_ -= bytes;
    return false;
  }
  void give(std::uint64_t bytes) { used_ -= bytes; }
  [[nodiscard]] std::uint64_t most() const { return most_; }
  [[nodiscard]] std::uint64_t used() const { return used_.load(); }

 private:
  const std::uint64_t most_;
  std::atomic<std::uint64_t> used_{0};
};

}  // namespace penstock::serve
