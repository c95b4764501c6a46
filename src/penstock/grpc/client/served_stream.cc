// Matches answers to requests by id, ends late calls by an alarm, and probes for streams.
#include "penstock/grpc/client/served_stream.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <utility>

#include "penstock/grpc/client/timed_event.h"
#include "penstock/grpc/inference.grpc.pb.h"

namespace penstock::grpc {

/// A server that goes on over the call's time, or after its caller has left it, is not waited for.
class ServedStream::Call final : public ServedCall, public TimedEvent {
 public:
  Call(std::weak_ptr<ServedStream> stream, std::uint64_t number, std::string peer,
       std::span<const ModelPort> outputs, const InferOptions& options)
      : ServedCall(std::move(peer), outputs, options),
        stream_(std::move(stream)),
        number_(number) {}

  void end(Result<Answer> outcome) override {
    ServedCall::end(std::move(outcome));
    clear();
  }
  void cancel() noexcept override { leave("the call was cancelled"); }

  void too_late() override { leave("its deadline has passed"); }

 private:
  void leave(const char* why) {
    was_left();
    if (const auto stream = stream_.lock()) stream->forget(number_);
    end(make_error(Code::kCancelled, why));
  }

  const std::weak_ptr<ServedStream> stream_;
  const std::uint64_t number_;
};

bool ServedStream::is_offered(const Connection& connection, Question& question,
                              std::chrono::nanoseconds patience) {
  const std::array<std::string, 2> ids = {"penstock-1", "penstock-2"};
  int refused = 0;
  const auto status = question.run(connection, patience, [&](auto& context) {
    const auto stream =
        inference::GRPCInferenceService::Stub(connection.channel()).ModelStreamInfer(&context);
    for (const auto& id : ids) {
      inference::ModelInferRequest request;
      request.set_id(id);
      inference::ModelStreamInferResponse response;
      if (!stream->Write(request) || !stream->Read(&response)) break;
      const bool told = !response.error_message().empty() && response.infer_response().id() == id;
      refused += told ? 1 : 0;
    }
    stream->WritesDone();
    inference::ModelStreamInferResponse more;
    while (stream->Read(&more)) refused = -1;
    return stream->Finish();
  });
  return status.ok() && refused == static_cast<int>(ids.size());
}

Result<std::shared_ptr<InferCall>> ServedStream::infer(RequestHead head,
                                                       const ModelInterface& interface,
                                                       std::span<const Tensor* const> inputs,
                                                       const InferOptions& options) {
  const std::uint64_t number = next_number_.fetch_add(1, std::memory_order_relaxed);
  head.id = std::to_string(number);
  head.traceparent = options.traceparent;
  if (options.deadline_ns != INT64_MAX) {
    head.timeout = std::chrono::duration_cast<std::chrono::microseconds>(
        std::chrono::nanoseconds(options.deadline_ns - now_ns()));
  }
  PENSTOCK_TRY(auto message, write_request(head, interface.inputs, inputs));
  std::shared_ptr<Call> call;
  {
    const std::scoped_lock lock(mutex_);
    if (why_) return *why_;
    call = std::make_shared<Call>(std::static_pointer_cast<ServedStream>(shared_from_this()),
                                  number, options_.address, interface.outputs, options);
    calls_.emplace(number, call);
    call->end_at(options.deadline_ns, call, options_.queue);
  }
  send(number, std::move(message));
  return std::shared_ptr<InferCall>(std::move(call));
}

void ServedStream::forget(std::uint64_t number) {
  withdraw(number);
  const std::scoped_lock lock(mutex_);
  calls_.erase(number);
}

/// What it says may be why: such as that it takes no more requests.
Error ServedStream::answers_nobody(const Result<Answer>& outcome) const {
  return make_error(Code::kUnavailable, "an answer in its stream names none of the requests",
                    outcome ? "" : ": ", outcome ? "" : outcome.error().message())
      .within({Where::kPeer, options_.address});
}

/// What nobody waits for any more is dropped.
void ServedStream::received(const ::grpc::ByteBuffer& message) {
  auto answer = parse_stream_answer(message);
  std::uint64_t number = 0;
  if (answer) {
    const auto& id = answer->id;
    std::from_chars(id.data(), id.data() + id.size(), number);
  }
  if (number == 0) {  // Whose is it?
    lose(answers_nobody(answer ? answer->outcome : std::move(answer).error()));
    return break_off();
  }
  std::shared_ptr<Call> call;
  {
    const std::scoped_lock lock(mutex_);
    if (auto found = calls_.extract(number)) call = std::move(found.mapped());
  }
  auto& outcome = answer->outcome;
  if (call != nullptr && is_refusal(outcome)) {
    return options_.refused(std::move(call), std::move(outcome).error());
  }
  options_.answered();
  if (call != nullptr) call->end(std::move(outcome));
}

void ServedStream::ended(const ::grpc::Status& status) {
  Error why = status.ok() ? make_error(Code::kUnavailable, "it ended the stream of requests")
                                .within({Where::kPeer, options_.address})
                          : to_error(status, options_.address);
  why.code = Code::kUnavailable;
  options_.ended(*this, why);
  lose(why);
}

void ServedStream::lose(const Error& why) {
  std::unordered_map<std::uint64_t, std::shared_ptr<Call>> calls;
  {
    const std::scoped_lock lock(mutex_);
    if (!why_) why_ = why;
    calls.swap(calls_);
  }
  for (const auto& [number, call] : calls) call->end(why);
}

}  // namespace penstock::grpc
