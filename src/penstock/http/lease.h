// Lease: what one request's body has of the bytes that all bodies may have together.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "penstock/base/byte_budget.h"

namespace penstock::http {

/// Given back at its end.
class Lease {
 public:
  explicit Lease(std::shared_ptr<ByteBudget> budget) : budget_(std::move(budget)) {}
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
  std::shared_ptr<ByteBudget> budget_;
  std::size_t bytes_ = 0;
};

}  // namespace penstock::http
