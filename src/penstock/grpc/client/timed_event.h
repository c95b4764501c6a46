// TimedEvent: what ends at its deadline, whoever waits for it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <grpcpp/alarm.h>

#include "penstock/grpc/client/client_stream.h"
#include "penstock/grpc/client/question.h"

namespace penstock::grpc {

class TimedEvent : public QueueEvent {
 public:
  /// At `deadline_ns` (steady clock; INT64_MAX: never) too_late() comes, on the thread that reads
  /// `queue`; until then, or clear(), `self` stays. Once, before all else. \pre  `self` is this
  void end_at(std::int64_t deadline_ns, std::shared_ptr<const void> self,
              ::grpc::CompletionQueue& queue) {
    if (deadline_ns == INT64_MAX) return;
    self_ = std::move(self);
    alarm_.emplace();
    alarm_->Set(&queue, system_time(deadline_ns), static_cast<QueueEvent*>(this));
  }
  void happened(bool ok) final {
    const auto self = std::move(self_);
    if (ok) too_late();
  }

 protected:
  virtual void too_late() = 0;
  void clear() {
    if (alarm_) alarm_->Cancel();
  }

 private:
  std::optional<::grpc::Alarm> alarm_;
  std::shared_ptr<const void> self_;  // While the alarm is set.
};

}  // namespace penstock::grpc
