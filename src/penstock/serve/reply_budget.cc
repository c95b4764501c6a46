// Counts the bytes of unsent replies, in all and by connection, and refuses what goes beyond.
#include "penstock/serve/reply_budget.h"

namespace penstock::serve {

Status ReplyBudget::take(const std::string& connection, std::uint64_t bytes) {
  if (bytes == 0) return {};
  const std::scoped_lock lock(mutex_);
  const std::uint64_t left = most_ - used_;
  if (bytes > left) {
    return make_error(Code::kResourceExhausted,
                      "the outputs of all replies that are not sent yet may take ", most_,
                      " bytes; try again later");
  }
  if (!connection.empty()) {
    const auto found = of_connections_.find(connection);
    const std::uint64_t held = found == of_connections_.end() ? 0 : found->second;
    if (held + bytes > left - bytes) {
      return make_error(Code::kResourceExhausted, "replies of ", held,
                        " bytes wait for this connection to read them; with ", bytes,
                        " more it would hold more than the ", left - bytes,
                        " that are left for others; read them first");
    }
    of_connections_[connection] = held + bytes;
  }
  used_ += bytes;
  return {};
}

void ReplyBudget::give(const std::string& connection, std::uint64_t bytes) {
  if (bytes == 0) return;
  const std::scoped_lock lock(mutex_);
  used_ -= bytes;
  const auto found = of_connections_.find(connection);
  if (found == of_connections_.end()) return;
  found->second -= bytes;
  if (found->second == 0) of_connections_.erase(found);
}

std::uint64_t ReplyBudget::used() const {
  const std::scoped_lock lock(mutex_);
  return used_;
}

Status ReplyCharge::become(std::uint64_t bytes) {
  if (bytes > bytes_) {
    PENSTOCK_CHECK_OK(budget_->take(connection_, bytes - bytes_));
  } else {
    budget_->give(connection_, bytes_ - bytes);
  }
  bytes_ = bytes;
  return {};
}

}  // namespace penstock::serve
