// ServedStream: one ModelStreamInfer of a server, with many requests in flight.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

#include "penstock/grpc/client/client_stream.h"
#include "penstock/grpc/client/question.h"
#include "penstock/grpc/client/served_call.h"

namespace penstock::grpc {

/// Requests are told apart by their ids; answers may come in any order, and one that fails ends no
/// other.
class ServedStream final : public ClientStream {
 public:
  /// The functions are called on the thread that reads the queue.
  struct Options {
    ::grpc::CompletionQueue& queue;  ///< Which begin() is given.
    std::string address;             ///< The server's, for errors.
    std::function<void()> answered;  ///< One more request, well or badly.
    /// Or is_refusal(): ends the call with that error, soon.
    std::function<void(std::shared_ptr<ServedCall>, Error)> refused;
    std::function<void(ServedStream&, Error)> ended;  ///< Before its calls end as unavailable.
  };
  explicit ServedStream(Options options) : options_(std::move(options)) {}

  /// Whether the server answers requests in a stream one by one: two are sent that ask for no
  /// model, and both must be refused by their ids in a stream that goes on. Not on the queue's
  /// thread.
  static bool is_offered(const Connection& connection, Question& question,
                         std::chrono::nanoseconds patience);

  /// As RemoteModel::infer(), of the model that `head` names, whose interface outlives the call.
  Result<std::shared_ptr<InferCall>> infer(RequestHead head, const ModelInterface& interface,
                                           std::span<const Tensor* const> inputs,
                                           const InferOptions& options);
  /// Calls in flight end with the error, and those that follow. Any thread.
  void lose(const Error& why);

 private:
  class Call;
  void received(const ::grpc::ByteBuffer& message) override;
  void ended(const ::grpc::Status& status) override;
  void forget(std::uint64_t number);
  [[nodiscard]] Error answers_nobody(const Result<Answer>& outcome) const;

  const Options options_;
  std::atomic<std::uint64_t> next_number_{1};
  std::mutex mutex_;  // Guards all below.
  std::unordered_map<std::uint64_t, std::shared_ptr<Call>> calls_;
  std::optional<Error> why_;  // It has ended.
};

}  // namespace penstock::grpc
