// ByteBudget: a bound on the bytes that many hold together.
#pragma once

#include <atomic>
#include <cstdint>

namespace penstock {

/// \threads  all functions may be called from any thread.
class ByteBudget {
 public:
  explicit ByteBudget(std::uint64_t most_bytes) : most_(most_bytes) {}

  /// False, and nothing is taken, where there is not so much left.
  bool take(std::uint64_t bytes) {
    std::uint64_t used = used_;
    do {
      if (bytes > most_ - used) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes));
    return true;
  }
  void give_back(std::uint64_t bytes) { used_ -= bytes; }

  [[nodiscard]] std::uint64_t most() const { return most_; }
  [[nodiscard]] std::uint64_t used() const { return used_; }

 private:
  const std::uint64_t most_;
  std::atomic<std::uint64_t> used_ = 0;
};

}  // namespace penstock
