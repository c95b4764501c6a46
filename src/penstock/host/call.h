// One call of a stage: its inputs are gathered, it runs, its outputs are sent or kept.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base/byte_budget.h"
#include "penstock/base/result.h"
#include "penstock/host/session.h"
#include "penstock/host/tickets.h"
#include "penstock/serve/server.h"
#include "penstock/tensor/tensor.h"

namespace penstock::host {

struct Ticket {
  std::string id;
  std::string address;  ///< Of the worker that has the tensor; empty: it is here.
};

struct CallInput {
  DType dtype = DType::kUndefined;
  std::vector<std::int64_t> dims;
  Tensor value;  ///< Of `dtype` and `dims`; kNone where there is a ticket.
  std::optional<Ticket> ticket;
};

struct CallOutput {
  bool drop = false;   ///< Not sent.
  unsigned pulls = 0;  ///< > 0: kept for so many.
};

struct CallRequest {
  std::uint64_t stage = 0;
  std::uint64_t frame = 0;  ///< Of the caller's pipeline: for messages.
  std::optional<Clock::time_point> deadline;
  std::vector<CallInput> inputs;    ///< In the stage's order.
  std::vector<CallOutput> outputs;  ///< In the stage's order; those missing are sent.
  std::string traceparent;
  Clock::time_point received = Clock::now();
};

struct CallValue {
  Tensor value;  ///< Of a type and shape also where it is not to be sent.
  bool sent = true;
  std::string ticket;  ///< Empty: not kept.
};

/// When what happened; a time of the clock's begin: it did not.
struct CallTimes {
  Clock::time_point received, pulled, begun, ended;
};

struct CallReply {
  Result<std::vector<CallValue>> outputs;
  CallTimes times;
};

/// Gets tensors from other workers.
class Puller {
 public:
  virtual ~Puller() = default;
  using Done = std::function<void(Result<Tensor>)>;

  /// `done` is called once, by any thread, also within the call. It gets kInvalidArgument where
  /// the tensor is not of the type and shape that were expected. \returns what cancels it.
  virtual std::shared_ptr<serve::Call> pull(const Ticket& ticket, DType dtype,
                                            const std::vector<std::int64_t>& dims,
                                            std::optional<Clock::time_point> deadline,
                                            Done done) = 0;
};

/// What a call uses of the worker. \pre  all outlive it
struct CallPlaces {
  Tickets& tickets;
  Puller& puller;
  ByteBudget& budget;
};

/// A call in progress. Any thread.
class Call : public serve::Call {
 public:
  /// The worker of this address is lost: where the call still waits for a tensor of it, it ends as
  /// kUnavailable; else it goes on.
  virtual void lose(const std::string& address) = 0;
};

using CallDone = std::function<void(CallReply)>;

/// `done` is called once, by any thread, also within the call; it must be short. Its errors:
/// kNotFound (stage, ticket), kPermissionDenied (no peer), kUnavailable (a peer), kInvalidArgument
/// (inputs), kResourceExhausted, and those of serve::Server::infer().
/// \returns what cancels it.
std::shared_ptr<Call> start_call(const std::shared_ptr<Session>& session, const CallPlaces& places,
                                 CallRequest request, CallDone done);

}  // namespace penstock::host
