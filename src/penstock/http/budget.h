// Budget: a bound on the bytes of all requests' bodies together.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace penstock::http {

class Budget {
 public:
  explicit Budget(std::size_t most_bytes) : most_(most_bytes) {}

  /// False, and nothing is taken, where there is not so much left.
  bool take(std::size_t bytes) {
    std::size_t used = used_;
    do {
      if (bytes > most_ - used) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes));
    return true;
  }
  void give_back(std::size_t bytes) { used_ -= bytes; }

 private:
  const std::size_t most_;
  std::atomic<std::size_t> used_ = 0;
};

/// What one body has of a budget; given back at its end.
class Lease {
 public:
  explicit Lease(std::shared_ptr<Budget> budget) : budget_(std::move(budget)) {}
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() { budget_->give_back(bytes_); }

  /// False where so much is not left; then the lease stays what it is.
  bool grow_to(std::size_t bytes) {
    if (bytes <= bytes_) return true;
    if (!budget_->take(bytes - bytes_)) return false;
    bytes_ = bytes;
    return true;
  }

 private:
  std::shared_ptr<Budget> budget_;
  std::size_t bytes_ = 0;
};

}  // namespace penstock::http
