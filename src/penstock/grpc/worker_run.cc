// Calls of stages over one stream.
#include <map>
#include <utility>

#include "penstock/grpc/caller.h"
#include "penstock/grpc/client/oneof.h"
#include "penstock/grpc/client/raw_message.h"
#include "penstock/grpc/client/worker_messages.h"
#include "penstock/grpc/client/worker_protocol.h"
#include "penstock/grpc/worker_service.h"

namespace penstock::grpc {
namespace {

using Bytes = ::grpc::ByteBuffer;

std::int64_t nanoseconds_of(host::Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

// -------------------------------------------------------------------------------------- messages

Result<host::CallInput> read_input(const worker::Input& message, const RawMessage& parts) {
  host::CallInput input;
  PENSTOCK_TRY(input.dtype, read_dtype(message.dtype()));
  PENSTOCK_TRY(input.dims, read_dims(message.dims()));
  if (message.has_ticket()) {
    input.ticket = host::Ticket{message.ticket().id(), message.ticket().address()};
    return input;
  }
  if (!message.has_raw() || message.raw() >= parts.count()) {
    return invalid_argument("expected a ticket, or the index of one of ", parts.count(),
                            " raw tensors");
  }
  PENSTOCK_TRY(input.value, read_raw(parts.tensor(message.raw()), input.dtype, input.dims));
  return input;
}

Result<host::CallRequest> read_call(const worker::Call& message, const RawMessage& parts) {
  host::CallRequest request;
  request.stage = message.stage();
  request.frame = message.frame();
  request.traceparent = message.traceparent().substr(0, 128);
  constexpr std::int64_t kLongest = std::int64_t{365} * 24 * 3600 * 1'000'000'000;
  if (message.left_ns() < 0) {
    return make_error(Code::kDeadlineExceeded, "the deadline had passed when the call was sent");
  }
  if (message.left_ns() > 0 && message.left_ns() < kLongest) {
    request.deadline = request.received + std::chrono::nanoseconds(message.left_ns());
  }
  for (int i = 0; i < message.inputs_size(); ++i) {
    auto input = read_input(message.inputs(i), parts);
    if (!input) return std::move(input).error().within(concat("input ", i));
    request.inputs.push_back(*std::move(input));
  }
  for (const auto& output : message.outputs()) {
    request.outputs.push_back({output.drop(), output.pulls()});
  }
  return request;
}

void tell(const host::CallTimes& times, worker::Times& message) {
  message.set_received_ns(nanoseconds_of(times.received));
  message.set_pulled_ns(nanoseconds_of(times.pulled));
  message.set_begun_ns(nanoseconds_of(times.begun));
  message.set_ended_ns(nanoseconds_of(times.ended));
}

void describe(const host::CallValue& value, std::uint32_t raw, worker::Value& message) {
  message.set_dtype(static_cast<int>(value.value.dtype()));
  for (const auto dim : value.value.dims()) message.add_dims(dim);
  message.set_bytes(value.value.bytes());
  message.set_raw(raw);
  message.set_ticket(value.ticket);
}

Bytes write_error(std::uint64_t number, const Error& error, const host::CallTimes& times) {
  worker::RunResponse response;
  auto& answer = begin_part(response, &worker::RunResponse::set_allocated_answer);
  answer.set_number(number);
  grpc::write(error, *answer.mutable_error());
  tell(times, *answer.mutable_times());
  const ::grpc::Slice slice(response.SerializeAsString());
  return {&slice, 1};
}

Result<Bytes> write_values(std::uint64_t number, std::vector<host::CallValue> values,
                           const host::CallTimes& times) {
  worker::RunResponse response;
  auto& answer = begin_part(response, &worker::RunResponse::set_allocated_answer);
  answer.set_number(number);
  tell(times, *answer.mutable_times());
  std::uint32_t sent = 0;
  for (const auto& value : values) {
    describe(value, value.sent ? ++sent : 0, *answer.add_outputs());
  }
  RawWriter writer(response.SerializeAsString(), kRawField);
  for (auto& value : values) {
    if (value.sent) writer.add(std::move(value.value));
  }
  return std::move(writer).finish();
}

std::vector<std::string> tickets_of(const std::vector<host::CallValue>& values) {
  std::vector<std::string> tickets;
  for (const auto& value : values) {
    if (!value.ticket.empty()) tickets.push_back(value.ticket);
  }
  return tickets;
}

// ------------------------------------------------------------------------------------------ calls

class RunCall final : public Dialogue<Bytes, Bytes> {
 public:
  RunCall(WorkerParts& parts, ::grpc::CallbackServerContext& context)
      : parts_(parts),
        context_(context),
        right_(parts.access, serve::Right::kInfer, context),
        most_(parts.host.limits().calls) {}

  void start() {
    auto client = right_.check();
    if (!client) return end(to_worker_status(client.error()));
    client_ = *std::move(client);
    read();
  }

 private:
  struct Begun {
    std::shared_ptr<host::Call> call;  // Null: it has not said yet what cancels it.
    bool cancelled = false;
    CallLog log;
  };

  void received(Bytes& message) override {
    Status taken = take(message);
    message.Clear();
    if (!taken) {
      end(to_worker_status(taken.error()));
      return cancel_all();
    }
    {
      const std::scoped_lock lock(mutex_);
      waits_ = too_many();
      if (waits_) return;
    }
    read();
  }

  /// The calls in progress are answered first.
  void closed() override {
    {
      const std::scoped_lock lock(mutex_);
      all_read_ = true;
      if (in_progress_ > 0) return;
    }
    end(::grpc::Status::OK);
  }

  void sent() override {
    bool reads = false, ends = false;
    {
      const std::scoped_lock lock(mutex_);
      if (in_progress_ > 0 && opened_) --in_progress_;
      opened_ = true;  // The first answer is that to RunOpen.
      reads = std::exchange(waits_, waits_ && too_many()) && !waits_;
      ends = all_read_ && in_progress_ == 0;
    }
    if (reads) read();
    if (ends) end(::grpc::Status::OK);
  }

  void broken() override { cancel_all(); }
  void done(bool /*in_order*/) override { cancel_all(); }

  /// \error  the stream cannot go on: what was sent is no request, or cannot be answered.
  Status take(const Bytes& message) {
    PENSTOCK_CHECK_OK(right_.check());
    PENSTOCK_TRY(const auto parts, RawMessage::read(message, kRawField, "RunRequest"));
    worker::RunRequest request;
    if (!request.ParseFromString(parts.head())) {
      return invalid_argument("the bytes are no RunRequest");
    }
    if (session_ == nullptr) return open(request);
    switch (request.what_case()) {
      case worker::RunRequest::kCall:
        return call(request.call(), parts);
      case worker::RunRequest::kCancel:
        cancel(request.cancel());
        return {};
      case worker::RunRequest::kRelease:
        parts_.host.tickets().release(session_->number(), {request.release().tickets().begin(),
                                                           request.release().tickets().end()});
        return {};
      default:
        return invalid_argument("expected Call, Cancel or Release, found another request");
    }
  }

  Status open(const worker::RunRequest& request) {
    if (!request.has_open()) return invalid_argument("expected RunOpen in the first request");
    PENSTOCK_TRY(session_, parts_.host.find(request.open().session(), client_));
    times_taken_up_ = session_->times_taken_up();
    worker::RunResponse response;
    auto& opened = begin_part(response, &worker::RunResponse::set_allocated_opened);
    opened.set_most_calls(static_cast<std::uint32_t>(most_));
    opened.set_message_bytes(parts_.message_bytes);
    const ::grpc::Slice slice(response.SerializeAsString());
    send(Bytes(&slice, 1));
    return {};
  }

  Status call(const worker::Call& message, const RawMessage& parts) {
    const std::uint64_t number = message.number();
    auto log = log_call(parts_, context_, "stream", "Run");
    log.client(client_);
    log.note("stage", [&] { return std::to_string(message.stage()); });
    log.note("frame", [&] { return std::to_string(message.frame()); });
    log.note("traceparent", [&] { return message.traceparent().substr(0, 128); });
    {
      const std::scoped_lock lock(mutex_);
      if (!calls_.emplace(number, Begun{.log = std::move(log)}).second) {
        return invalid_argument("call ", number, " is in progress already");
      }
      ++in_progress_;
    }
    auto request = read_call(message, parts);
    if (!request) {
      answer(number, {std::move(request).error(), {}});
      return {};
    }
    const auto self = std::static_pointer_cast<RunCall>(shared_from_this());
    keep(number, parts_.host.call(session_, parts_.puller, *std::move(request),
                                  [self, number](host::CallReply reply) {
                                    self->answer(number, std::move(reply));
                                  }));
    return {};
  }

  void keep(std::uint64_t number, std::shared_ptr<host::Call> call) {
    {
      const std::scoped_lock lock(mutex_);
      const auto found = calls_.find(number);
      if (found == calls_.end()) return;  // Answered.
      found->second.call = call;
      if (!found->second.cancelled) return;
    }
    call->cancel();
  }

  void answer(std::uint64_t number, host::CallReply reply) {
    auto begun = [&] {
      const std::scoped_lock lock(mutex_);
      return calls_.extract(number);
    }();
    CallLog& log = begun.mapped().log;
    if (!reply.outputs) {
      log.end(to_worker_status(reply.outputs.error()));
      send(write_error(number, reply.outputs.error(), reply.times));
      return;
    }
    const auto kept = tickets_of(*reply.outputs);
    auto written = write_values(number, *std::move(reply.outputs), reply.times);
    log.end(written ? ::grpc::Status::OK : to_worker_status(written.error()),
            written ? written->Length() : 0);
    const bool told =
        send(written ? *std::move(written) : write_error(number, written.error(), reply.times));
    const bool goes = !told || !written || session_->times_taken_up() != times_taken_up_;
    if (goes) parts_.host.tickets().release(session_->number(), kept);
  }

  void cancel(const worker::Cancel& message) {
    std::shared_ptr<host::Call> call;
    {
      const std::scoped_lock lock(mutex_);
      const auto found = calls_.find(message.number());
      if (found == calls_.end()) return;
      if (message.lost().empty()) found->second.cancelled = true;
      call = found->second.call;
    }
    if (call == nullptr) return;
    message.lost().empty() ? call->cancel() : call->lose(message.lost());
  }

  void cancel_all() {
    std::vector<std::shared_ptr<host::Call>> calls;
    {
      const std::scoped_lock lock(mutex_);
      for (auto& [number, begun] : calls_) {
        begun.cancelled = true;
        if (begun.call != nullptr) calls.push_back(begun.call);
      }
    }
    for (const auto& call : calls) call->cancel();
  }

  /// So that a caller who keeps to `most_` is heard in any case: its cancels may be what ends them.
  [[nodiscard]] bool too_many() const { return in_progress_ > most_; }

  WorkerParts& parts_;
  ::grpc::CallbackServerContext& context_;
  StreamRight right_;
  const std::size_t most_;
  std::string client_;
  std::shared_ptr<host::Session> session_;
  std::uint64_t times_taken_up_ = 0;  // As it was when this stream began.

  std::mutex mutex_;  // Guards all below.
  std::map<std::uint64_t, Begun> calls_;
  std::size_t in_progress_ = 0;  // Calls whose answer has not gone out.
  bool opened_ = false, waits_ = false, all_read_ = false;
};

}  // namespace

::grpc::ServerBidiReactor<Bytes, Bytes>* run_calls(WorkerParts& parts,
                                                   ::grpc::CallbackServerContext& context) {
  const auto call = std::make_shared<RunCall>(parts, context);
  auto* begun = RunCall::begin(call);
  parts.lasting.add(call);
  call->start();
  return begun;
}

}  // namespace penstock::grpc
