// HeldSource: the tensors that a worker holds for one of our stages.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "penstock/grpc/client/held.h"
#include "penstock/grpc/client/line.h"
#include "penstock/grpc/client/peer.h"
#include "penstock/grpc/client/remote_model.h"
#include "penstock/tensor/tensor.h"

namespace penstock::grpc {

/// \threads  all functions may be called from any thread.
class HeldSource : public std::enable_shared_from_this<HeldSource> {
 public:
  /// `patience`: for how long a tensor that is brought here may stand still on its way.
  explicit HeldSource(std::string address, std::chrono::nanoseconds patience = kPatience)
      : address_(std::move(address)), patience_(patience) {}

  /// Another way to the worker. `same_session`: it has what it had before the last one was lost.
  void connected(const Connection& connection, const std::shared_ptr<Line>& line,
                 bool same_session);
  /// The worker is lost. Calls elsewhere that wait for what it has end: it may never send it.
  void lost();
  [[nodiscard]] bool is_lost() const;

  /// The worker has told of these: they are ours until release().
  void arrived(const std::vector<std::string>& tickets);
  /// The worker may free what it has kept for this ticket; one that is not ours is passed over.
  /// A worker that is lost is told by connected(); where there is no memory to tell it now, it is
  /// told with the next ticket.
  void release(const std::string& ticket) noexcept;
  [[nodiscard]] std::vector<std::string> tickets() const;  ///< That are ours.
  /// What the worker has kept for us, of a ticket that has arrived(). `deadline_ns`: of its frame,
  /// steady clock; INT64_MAX: none.
  std::shared_ptr<const Held> hold(std::string ticket, DType dtype, std::vector<std::int64_t> dims,
                                   std::int64_t deadline_ns = INT64_MAX);

  /// A call on another worker that reads one of these: lost() tells it.
  void note_reader(const std::shared_ptr<InferCall>& call);

 private:
  class HeldHere;
  Status read(const HeldHere& held, Tensor& to) const;
  void tell_released() noexcept;

  static constexpr std::chrono::nanoseconds kPatience = std::chrono::seconds(1);

  const std::string address_;
  const std::chrono::nanoseconds patience_;
  std::atomic<std::uint64_t> session_{0};  ///< How many there were before; tickets are of one.
  mutable std::mutex mutex_;               // Guards all below.
  std::shared_ptr<const Connection> connection_;
  std::weak_ptr<Line> line_;
  bool lost_ = false;
  std::set<std::string> tickets_;
  std::set<std::string> released_;  // Of which the worker was not told yet.
  std::vector<std::weak_ptr<InferCall>> readers_;
};

}  // namespace penstock::grpc
