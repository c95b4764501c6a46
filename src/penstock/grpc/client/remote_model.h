// RemoteModel: a model on another machine, whichever protocol it is reached by.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/grpc/client/held.h"
#include "penstock/tensor/tensor.h"

namespace penstock::grpc {

struct ModelPort {
  std::string name;
  Type type;  ///< What the server leaves open is open, without a bound.
  bool operator==(const ModelPort&) const = default;
};

/// What a server says of a model.
struct ModelInterface {
  std::vector<ModelPort> inputs, outputs;
};

/// When a call ends, and who is told.
struct InferOptions {
  std::uint64_t frame = 0;               ///< Of the caller's, for messages there.
  std::int64_t deadline_ns = INT64_MAX;  ///< std::chrono::steady_clock; INT64_MAX: none.
  /// Called once the answer is there, on a thread of the client's, before wait() returns true.
  void (*done)(void* whom) = nullptr;
  void* whom = nullptr;
  std::string_view traceparent;  ///< W3C; empty: none. As the two below until infer() returns.
  /// Beside the inputs, or empty. What is not null stands for the input, and is fetched by the
  /// model's machine itself. \pre  the model holds_values()
  std::span<const std::shared_ptr<const Held>> far = {};
  /// Beside the outputs, or empty. Other than 0: the output stays there. \pre  as `far`
  std::span<const char> stay = {};
};

/// As penstock::backend::FarTimes.
struct CallTimes {
  std::int64_t received_ns = 0, pulled_ns = 0, begun_ns = 0, ended_ns = 0, error_ns = 0;
};

/// A call in flight. Any thread; take() once.
class InferCall {
 public:
  virtual ~InferCall() = default;
  /// Until the call has ended, or until `until_ns` (steady clock): false.
  virtual bool wait(std::int64_t until_ns) = 0;
  virtual void cancel() noexcept = 0;
  /// The worker of this address is lost: a call that still waits for a tensor of it ends as
  /// kUnavailable; any other goes on.
  virtual void lose_input([[maybe_unused]] const std::string& address) noexcept {}
  /// How the call ended; where it went well, `outputs` have the answer, in the model's order. Where
  /// an output is dense, of the same type and has room, it is written there, else replaced, and
  /// `allocations` is raised. \pre  wait() was true.
  /// \error kUnavailable  the peer was lost, or let go of the call. \error kCancelled  by cancel(),
  ///                      or by the deadline; by nothing else.
  /// \error kDataLoss     the answer is none, or not of the model's types.
  /// \error               what the server says.
  virtual Status take(std::span<Tensor* const> outputs, std::uint64_t& allocations) = 0;
  /// Of the outputs that were to stay, after take() went well: beside the outputs, null where it
  /// was written there after all. Empty: none stays.
  virtual std::vector<std::shared_ptr<const Held>> take_held() { return {}; }
  [[nodiscard]] virtual CallTimes times() const { return {}; }  ///< After take().
};

/// For many calls at a time. Watches its peer: where that is dead, hangs or cannot be reached,
/// calls in flight end as kUnavailable and new ones are not begun, until it is there again with the
/// same model. It is tried again after a while that grows to a second.
class RemoteModel {
 public:
  /// Ends what is in flight. \pre  no InferCall is used any more.
  virtual ~RemoteModel() = default;

  [[nodiscard]] virtual const ModelInterface& model() const = 0;
  /// In flight at a time, to make the most of it.
  [[nodiscard]] virtual int recommended_calls() const = 0;
  /// Whether calls would end as kUnavailable at once. Any thread.
  [[nodiscard]] virtual bool is_lost() const = 0;
  /// Why, as far as the last try has told. Empty: it is there. Any thread.
  [[nodiscard]] virtual std::string why_lost() const = 0;

  /// Whether outputs may stay, and inputs be fetched.
  [[nodiscard]] virtual bool holds_values() const { return false; }

  /// Begins a call; the tensors' memory is read until it has ended. Any thread.
  /// \error kUnavailable  the peer is lost: nothing was sent.
  virtual Result<std::shared_ptr<InferCall>> infer(std::span<const Tensor* const> inputs,
                                                   const InferOptions& options) = 0;
};

}  // namespace penstock::grpc
