// ReplyBudget: a bound on the bytes of replies not sent yet, with a share for each connection.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "penstock/base/result.h"

namespace penstock::serve {

/// Clients that read no replies must not fill the memory with them, nor keep others from theirs: a
/// connection may hold as much as it leaves free. So n connections that read nothing leave the
/// (n + 1)th part of the whole (dynamic thresholds: Choudhury and Hahne, "Dynamic queue length
/// thresholds for shared-memory packet switches", IEEE/ACM Transactions on Networking 6(2), 1998).
///
/// \threads  all functions may be called from any thread.
class ReplyBudget {
 public:
  explicit ReplyBudget(std::uint64_t most) : most_(most) {}

  /// `connection`: as Request::connection; empty: only the whole is bounded.
  /// \error kResourceExhausted  says which bound; nothing is taken.
  Status take(const std::string& connection, std::uint64_t bytes);
  /// \pre  as many were taken
  void give(const std::string& connection, std::uint64_t bytes);
  [[nodiscard]] std::uint64_t used() const;

 private:
  const std::uint64_t most_;
  mutable std::mutex mutex_;  // Guards the two below.
  std::uint64_t used_ = 0;
  std::map<std::string, std::uint64_t> of_connections_;  // Of those that hold any.
};

/// What one reply has of the budget, until whoever sends it lets go of this.
class ReplyCharge {
 public:
  ReplyCharge(std::shared_ptr<ReplyBudget> budget, std::string connection)
      : budget_(std::move(budget)), connection_(std::move(connection)) {}
  ReplyCharge(const ReplyCharge&) = delete;
  ReplyCharge& operator=(const ReplyCharge&) = delete;
  ~ReplyCharge() { budget_->give(connection_, bytes_); }

  /// The reply has so many bytes now. One thread at a time.
  /// \error as ReplyBudget::take(): it stays what it was.
  Status become(std::uint64_t bytes);

 private:
  const std::shared_ptr<ReplyBudget> budget_;
  const std::string connection_;
  std::uint64_t bytes_ = 0;
};

}  // namespace penstock::serve
