// Numbers calls and matches answers to them; the end of the stream ends those in flight.
#include "penstock/grpc/client/line.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>

#include "penstock/base/words.h"
#include "penstock/grpc/client/answer.h"
#include "penstock/grpc/client/client_stream.h"
#include "penstock/grpc/client/held_source.h"
#include "penstock/grpc/client/oneof.h"
#include "penstock/grpc/client/question.h"
#include "penstock/grpc/client/raw_message.h"
#include "penstock/grpc/client/timed_event.h"
#include "penstock/grpc/client/worker_messages.h"
#include "penstock/grpc/client/worker_protocol.h"
#include "penstock/grpc/worker.pb.h"

namespace penstock::grpc {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kRun = "/penstock.worker.Worker/Run";
constexpr auto kLineOpens = std::chrono::seconds(5);

/// Readers may fetch it as often as they like, until the frame is over and it is released.
constexpr std::uint32_t kPulls = UINT32_MAX;
constexpr std::uint32_t kMostCalls = 1U << 16;  // Whatever a worker says.

std::vector<std::string> tickets_of(const worker::Answer& answer) {
  std::vector<std::string> tickets;
  for (const auto& value : answer.outputs()) {
    if (!value.ticket().empty()) tickets.push_back(value.ticket());
  }
  return tickets;
}

constexpr std::uint64_t kNoCall = 0;  // Messages that are of none.

Result<::grpc::ByteBuffer> write(const worker::RunRequest& request) {
  return RawWriter(request.SerializeAsString(), kRawField).finish();
}

/// Of a line that has ended: its calls are worth another try elsewhere, whatever the reason.
Error as_lost(Error why) {
  why.code = Code::kUnavailable;
  return why;
}

class LineImpl;

/// A call in flight. A worker that goes on over its time is not waited for.
class RunCall final : public InferCall, public TimedEvent {
 public:
  RunCall(std::weak_ptr<LineImpl> line, std::uint64_t number, std::span<const ModelPort> ports,
          const LineOptions& of_line, const InferOptions& options)
      : line_(std::move(line)),
        number_(number),
        ports_(ports),
        peer_(of_line.address),
        source_(of_line.source),
        clock_(of_line.clock),
        deadline_ns_(options.deadline_ns),
        done_(options.done),
        whom_(options.whom),
        far_(options.far.begin(), options.far.end()) {}
  RunCall(const RunCall&) = delete;
  RunCall& operator=(const RunCall&) = delete;
  ~RunCall() override { release(head_); }

  bool wait(std::int64_t until_ns) override;
  void cancel() noexcept override;
  void lose_input(const std::string& address) noexcept override;
  Status take(std::span<Tensor* const> outputs, std::uint64_t& allocations) override;
  std::vector<std::shared_ptr<const Held>> take_held() override { return std::move(held_); }
  [[nodiscard]] CallTimes times() const override;

  void end(Result<RawMessage> answer, worker::Answer head) {
    {
      const std::scoped_lock lock(mutex_);
      if (ended_) return release(head);
      answer_ = std::move(answer);
      head_ = std::move(head);
      tell_end();
    }
    clear();
    changed_.notify_all();
  }
  void end(const Error& why) { end(why, {}); }
  void too_late() override {
    end(make_error(Code::kCancelled, "its deadline has passed").within({Where::kPeer, peer_}));
    cancel();
    forget();
  }

 private:
  void forget();
  void tell_end() {
    ended_ = true;
    if (done_ != nullptr) done_(whom_);
  }
  /// What stays there for it: nobody wants it.
  void release(const worker::Answer& answer) noexcept;
  Error blame(Error told) const;
  /// Inputs that lie on that worker; without one, on the worker that was called.
  void lose_those_of(const Where* peer) const;
  Status take_value(const worker::Value& value, std::size_t at, Tensor& output,
                    std::uint64_t& allocations);

  const std::weak_ptr<LineImpl> line_;
  const std::uint64_t number_;
  const std::span<const ModelPort> ports_;
  const std::string peer_;
  const std::shared_ptr<HeldSource> source_;
  const std::shared_ptr<const PeerClock> clock_;
  const std::int64_t deadline_ns_;
  void (*const done_)(void*);
  void* const whom_;
  std::vector<std::shared_ptr<const Held>> far_;  // Its inputs: they stay until it has ended.
  std::atomic<bool> cancelled_{false};            // By who made it.
  std::vector<std::shared_ptr<const Held>> held_;
  std::mutex mutex_;  // Guards all below.
  std::condition_variable changed_;
  bool ended_ = false;
  Result<RawMessage> answer_ = make_error(Code::kInternal, "no answer");
  worker::Answer head_;
};

class LineImpl final : public Line, public ClientStream {
 public:
  explicit LineImpl(LineOptions options) : options_(std::move(options)) {}

  Status start(const Connection& connection, ::grpc::CompletionQueue& queue);

  Result<std::shared_ptr<InferCall>> call(std::uint64_t stage,
                                          std::span<const Tensor* const> inputs,
                                          std::span<const ModelPort> ports,
                                          const InferOptions& options) override;
  void release(const std::set<std::string>& tickets) override;
  [[nodiscard]] int most_calls() const override { return most_calls_; }
  [[nodiscard]] std::int64_t heard_ns() const override { return heard_ns_; }
  std::optional<Error> broken() override {
    const std::scoped_lock lock(mutex_);
    return why_;
  }
  [[nodiscard]] bool is_broken() const override {
    return is_broken_.load(std::memory_order_acquire);
  }
  void break_off(const Error& why) override;
  void wait_until_over() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return over_; });
  }

  /// `lost`: only where it waits for a worker of this address; empty: in any case.
  void cancel(std::uint64_t number, const std::string& lost) noexcept;
  void forget(std::uint64_t number) {
    const std::scoped_lock lock(mutex_);
    calls_.erase(number);
  }

 private:
  void received(const ::grpc::ByteBuffer& bytes) override;
  void ended(const ::grpc::Status& status) override;
  void over() override;
  void end_with(const Error& why);
  [[nodiscard]] Status check_size(const ::grpc::ByteBuffer& message) const;
  [[nodiscard]] Error at_peer(Error error) const {
    return as_lost(std::move(error)).within({Where::kPeer, options_.address});
  }

  const LineOptions options_;
  ::grpc::CompletionQueue* queue_ = nullptr;
  int most_calls_ = 1;            // Set before it is open, as is
  std::uint64_t most_bytes_ = 0;  // that one message may have. 0: the worker does not say.
  std::atomic<std::int64_t> heard_ns_{0};
  std::atomic<bool> is_broken_{false};  // why_.has_value()
  std::mutex mutex_;                    // Guards all below.
  std::condition_variable changed_;
  std::unordered_map<std::uint64_t, std::shared_ptr<RunCall>> calls_;
  std::uint64_t next_number_ = 1;
  std::optional<Error> why_;
  bool open_ = false;
  bool over_ = false;  ///< No event is due any more.
};

Status LineImpl::start(const Connection& connection, ::grpc::CompletionQueue& queue) {
  worker::RunRequest open;
  begin_part(open, &worker::RunRequest::set_allocated_open).set_session(options_.session);
  PENSTOCK_TRY(auto message, write(open));
  queue_ = &queue;
  begin(connection, kRun, queue);
  send(kNoCall, std::move(message));
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, kLineOpens, [&] { return open_ || why_; })) {
    why_ =
        make_error(Code::kUnavailable, "did not answer").within({Where::kPeer, options_.address});
  }
  if (!why_) return {};
  const Error why = *why_;
  lock.unlock();
  ClientStream::break_off();
  wait_until_over();
  return why;
}

void LineImpl::ended(const ::grpc::Status& status) {
  end_with(status.ok() ? make_error(Code::kUnavailable, "it ended the stream")
                             .within({Where::kPeer, options_.address})
                       : to_error(status, options_.address));
}

void LineImpl::over() {
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
}

void LineImpl::received(const ::grpc::ByteBuffer& bytes) {
  heard_ns_ = now_ns();
  auto raw = RawMessage::read(bytes, kRawField, "RunResponse");
  worker::RunResponse message;
  if (!raw) return break_off(at_peer(std::move(raw).error()));
  if (!message.ParseFromString(raw->head())) {
    return break_off(at_peer(invalid_argument("the bytes are no RunResponse")));
  }
  const auto tickets = tickets_of(message.answer());
  if (options_.source != nullptr) options_.source->arrived(tickets);
  std::shared_ptr<RunCall> call;
  {
    const std::scoped_lock lock(mutex_);
    if (message.has_opened() && !open_) {
      most_calls_ = static_cast<int>(std::clamp(message.opened().most_calls(), 1U, kMostCalls));
      most_bytes_ = message.opened().message_bytes();
      open_ = true;
    }
    if (message.has_answer()) {
      if (auto found = calls_.extract(message.answer().number())) call = found.mapped();
    }
  }
  if (message.has_opened()) changed_.notify_all();
  if (call != nullptr) return call->end(*std::move(raw), std::move(*message.mutable_answer()));
  if (options_.source == nullptr) return;
  for (const auto& ticket : tickets) options_.source->release(ticket);
}

void LineImpl::end_with(const Error& why) {
  std::unordered_map<std::uint64_t, std::shared_ptr<RunCall>> calls;
  {
    const std::scoped_lock lock(mutex_);
    if (!why_) why_ = why;
    is_broken_.store(true, std::memory_order_release);
    calls.swap(calls_);
  }
  changed_.notify_all();
  const Error told = as_lost(why);
  for (const auto& [number, call] : calls) call->end(told);
}

void LineImpl::break_off(const Error& why) {
  end_with(why);
  ClientStream::break_off();
}

void LineImpl::release(const std::set<std::string>& tickets) {
  worker::RunRequest request;
  auto& release = begin_part(request, &worker::RunRequest::set_allocated_release);
  for (const auto& ticket : tickets) release.add_tickets(ticket);
  if (auto message = write(request)) send(kNoCall, *std::move(message));
}

/// Where there is no memory to say so the line ends, and with it what the worker does for it.
void LineImpl::cancel(std::uint64_t number, const std::string& lost) noexcept {
  try {
    worker::RunRequest request;
    auto& cancel = begin_part(request, &worker::RunRequest::set_allocated_cancel);
    cancel.set_number(number);
    cancel.set_lost(lost);
    if (auto message = write(request)) send(kNoCall, *std::move(message));
  } catch (const std::bad_alloc&) {
    break_off(out_of_memory());
  }
}

/// One that is too large would end the stream, with the calls of all others.
Status LineImpl::check_size(const ::grpc::ByteBuffer& message) const {
  if (most_bytes_ == 0 || message.Length() <= most_bytes_) return {};
  return make_error(Code::kResourceExhausted, "expected inputs in a message of at most ",
                    most_bytes_, " bytes (--max-message), found ", message.Length(),
                    "; start the worker with a larger --max-message")
      .within({Where::kPeer, options_.address});
}

Result<std::shared_ptr<InferCall>> LineImpl::call(std::uint64_t stage,
                                                  std::span<const Tensor* const> inputs,
                                                  std::span<const ModelPort> ports,
                                                  const InferOptions& options) {
  for (const auto& far : options.far) {
    if (far == nullptr || !far->is_lost()) continue;
    return make_error(Code::kUnavailable, "an input was lost with the worker that had it")
        .within({Where::kPeer, far->address()});
  }
  const auto line = std::static_pointer_cast<LineImpl>(shared_from_this());
  worker::RunRequest request;
  auto& asked = begin_part(request, &worker::RunRequest::set_allocated_call);
  asked.set_stage(stage);
  asked.set_frame(options.frame);
  if (options.deadline_ns != INT64_MAX) {
    asked.set_left_ns(std::max<std::int64_t>(options.deadline_ns - now_ns(), 1));
  }
  {
    const std::scoped_lock lock(mutex_);
    if (why_) return as_lost(*why_);
    asked.set_number(next_number_++);
  }
  const auto is_far = [&](std::size_t i) { return i < options.far.size() && options.far[i]; };
  std::uint32_t sent = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    auto& input = *asked.add_inputs();
    input.set_dtype(static_cast<int>(inputs[i]->dtype()));
    for (const auto size : inputs[i]->dims()) input.add_dims(size);
    if (!is_far(i)) {
      input.set_raw(sent++);
      continue;
    }
    const Held& far = *options.far[i];
    auto& ticket = begin_part(input, &worker::Input::set_allocated_ticket);
    ticket.set_id(far.ticket());
    if (far.address() != options_.address) ticket.set_address(far.address());
  }
  for (const char stays : options.stay) {
    auto& output = *asked.add_outputs();
    output.set_drop(stays != 0);
    output.set_pulls(stays != 0 ? kPulls : 0);
  }
  asked.set_traceparent(std::string(options.traceparent));
  RawWriter writer(request.SerializeAsString(), kRawField);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!is_far(i)) writer.add(*inputs[i]);
  }
  PENSTOCK_TRY(auto message, std::move(writer).finish());
  PENSTOCK_CHECK_OK(check_size(message));
  const auto call = std::make_shared<RunCall>(line, asked.number(), ports, options_, options);
  {
    const std::scoped_lock lock(mutex_);
    if (why_) return as_lost(*why_);
    calls_.emplace(asked.number(), call);
    call->end_at(options.deadline_ns, call, *queue_);
  }
  send(asked.number(), std::move(message));
  for (const auto& far : options.far) {
    if (far != nullptr) far->read_by(call);
  }
  return std::shared_ptr<InferCall>(call);
}

bool RunCall::wait(std::int64_t until_ns) {
  std::unique_lock lock(mutex_);
  const auto ended = [&] { return ended_; };
  if (until_ns == INT64_MAX) {
    changed_.wait(lock, ended);
    return true;
  }
  return changed_.wait_until(lock, Clock::time_point(std::chrono::nanoseconds(until_ns)), ended);
}

void RunCall::forget() {
  if (const auto line = line_.lock()) line->forget(number_);
}

void RunCall::cancel() noexcept {
  cancelled_ = true;
  if (const auto line = line_.lock()) line->cancel(number_, {});
}

void RunCall::lose_input(const std::string& address) noexcept {
  if (const auto line = line_.lock()) line->cancel(number_, address);
}

Status RunCall::take(std::span<Tensor* const> outputs, std::uint64_t& allocations) {
  if (!answer_) return std::move(answer_).error();
  if (head_.has_error()) return blame(read(head_.error()));
  far_.clear();
  const auto wrong = [&](Error error) {
    error.code = Code::kDataLoss;
    return std::move(error).within("the answer").within({Where::kPeer, peer_});
  };
  if (static_cast<std::size_t>(head_.outputs_size()) != outputs.size()) {
    return wrong(invalid_argument("expected ", counted(outputs.size(), "output"), ", found ",
                                  head_.outputs_size()));
  }
  for (int i = 0; i < head_.outputs_size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    Status written = take_value(head_.outputs(i), at, *outputs[at], allocations);
    if (!written) {
      return wrong(std::move(written).error().within({Where::kOutput, ports_[at].name}));
    }
  }
  head_.clear_outputs();
  return {};
}

Status RunCall::take_value(const worker::Value& value, std::size_t at, Tensor& output,
                           std::uint64_t& allocations) {
  PENSTOCK_TRY(const DType dtype, read_dtype(value.dtype()));
  PENSTOCK_TRY(auto dims, read_dims(value.dims()));
  if (value.ticket().empty() != output.in_host_memory()) {
    return invalid_argument("expected ", output.in_host_memory() ? "the tensor" : "a ticket",
                            ", found ", output.in_host_memory() ? "a ticket" : "the tensor");
  }
  if (value.ticket().empty()) {
    const std::size_t raw = value.raw() == 0 ? SIZE_MAX : value.raw() - 1;
    return read_value(ports_[at], dtype, dims, *answer_, raw, output, allocations);
  }
  PENSTOCK_CHECK_OK(check_value(ports_[at], dtype, dims));
  if (!output.set_dims(dims)) {
    return invalid_argument("expected at most ", output.capacity_bytes(), " bytes, found ",
                            Type::tensor(dtype, std::span(std::as_const(dims))));
  }
  held_.resize(static_cast<std::size_t>(head_.outputs_size()));
  held_[at] = source_->hold(value.ticket(), dtype, std::move(dims), deadline_ns_);
  return {};
}

void RunCall::lose_those_of(const Where* peer) const {
  for (const auto& far : far_) {
    if (far != nullptr && far->address() == (peer == nullptr ? peer_ : peer->name)) far->lose();
  }
}

/// What the worker could not fetch any more is as lost as the one that had it. Where nobody here
/// cancelled the call, and its time is not over, the worker let go of it.
Error RunCall::blame(Error told) const {
  const bool fails = told.code == Code::kNotFound || told.code == Code::kUnavailable;
  const bool gone = !far_.empty() && fails && told.find(Where::kInput);
  if (gone) lose_those_of(told.find(Where::kPeer));
  const bool ended = told.code == Code::kCancelled || told.code == Code::kDeadlineExceeded;
  const bool by_us = cancelled_ || now_ns() >= deadline_ns_;
  if (gone || ended) told.code = ended && by_us ? Code::kCancelled : Code::kUnavailable;
  return std::move(told).within({Where::kPeer, peer_});
}

void RunCall::release(const worker::Answer& answer) noexcept {
  if (source_ == nullptr) return;
  for (const auto& value : answer.outputs()) source_->release(value.ticket());
}

CallTimes RunCall::times() const {
  const auto offset = clock_->offset();
  const auto& told = head_.times();
  if (!offset || told.ended_ns() == 0) return {};
  const auto here = [&](std::int64_t there) { return there == 0 ? 0 : there - offset->ahead_ns; };
  return {here(told.received_ns()), here(told.pulled_ns()), here(told.begun_ns()),
          here(told.ended_ns()), offset->error_ns};
}

}  // namespace

Result<std::shared_ptr<Line>> Line::open(const Connection& connection, LineOptions options,
                                         ::grpc::CompletionQueue& queue) {
  auto line = std::make_shared<LineImpl>(std::move(options));
  PENSTOCK_CHECK_OK(line->start(connection, queue));
  return std::shared_ptr<Line>(std::move(line));
}

}  // namespace penstock::grpc
