// A reactor per stream: requests are in progress side by side, replies go out in their order.
#include "penstock/grpc/stream.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "penstock/grpc/call_log.h"
#include "penstock/grpc/caller.h"
#include "penstock/grpc/ended.h"
#include "penstock/grpc/infer.h"
#include "penstock/grpc/lasting_calls.h"
#include "penstock/grpc/status.h"
#include "penstock/grpc/wire.h"

namespace penstock::grpc {
namespace {

using Reactor = ::grpc::ServerBidiReactor<::grpc::ByteBuffer, ::grpc::ByteBuffer>;

/// Lives until gRPC is done with the call and the pipelines with its frames.
class StreamCall final : public Reactor, public LastingCall {
 public:
  static StreamCall* start(serve::Server& server, const serve::Access& access,
                           serve::AccessLog* log, const ::grpc::CallbackServerContext& context,
                           std::size_t most, LastingCalls& lasting) {
    const std::shared_ptr<StreamCall> call(new StreamCall(server, access, log, context, most));
    call->self_ = call;
    auto client = call->right_.check();
    if (client) {
      call->client_ = *std::move(client);
      call->StartRead(&call->message_);
      lasting.add(call);
    } else {
      call->finished_ = true;
      const auto status = to_status(client.error());
      CallLog(log, context, "stream", kMethod).end(status);
      call->Finish(status);
    }
    return call.get();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return no_more();
    const auto slot = std::make_shared<Slot>(CallLog(log_, context_, "stream", kMethod));
    slot->log.client(client_);
    slot->log.received(message_.Length());
    {
      const std::scoped_lock lock(mutex_);
      slots_.push_back(slot);
    }
    if (const auto may = right_.check(); !may) return refuse(*slot, to_status(may.error()));
    auto request = read_call(access_, context_, message_, slot->id);
    message_.Clear();
    if (request) {
      slot->log.asks(*request);
      keep(slot, server_.infer(*std::move(request), [call = self_, slot](auto made) {
        call->answer(*slot, std::move(made));
      }));
    } else {
      answer(*slot, std::move(request).error());
    }
    read_next();
  }

  void OnWriteDone(bool ok) override {
    {
      const std::scoped_lock lock(mutex_);
      slots_.pop_front();
      writing_ = false;
      if (!ok && !end_) end_ = ::grpc::Status(::grpc::StatusCode::CANCELLED, "a write failed");
    }
    if (!ok) cancel_all();
    go_on();
  }

  void OnCancel() override {
    {
      const std::scoped_lock lock(mutex_);
      if (!end_) end_ = ::grpc::Status(::grpc::StatusCode::CANCELLED, "the client cancelled");
    }
    cancel_all();
    go_on();
  }

  void OnDone() override { self_.reset(); }

  void leave(const ::grpc::Status& status) override {
    {
      const std::scoped_lock lock(mutex_);
      if (!left_) left_ = status;
    }
    go_on();
  }

 private:
  /// A request's place among the replies.
  struct Slot {
    explicit Slot(CallLog line) : log(std::move(line)) {}
    CallLog log;
    std::string id;
    std::shared_ptr<serve::Call> call;
    std::optional<::grpc::ByteBuffer> reply;
    std::optional<::grpc::Status> ends;  ///< The stream, with this, in place of the reply.
  };

  static constexpr const char* kMethod = "ModelStreamInfer";

  StreamCall(serve::Server& server, const serve::Access& access, serve::AccessLog* log,
             const ::grpc::CallbackServerContext& context, std::size_t most)
      : server_(server),
        access_(access),
        right_(access, serve::Right::kInfer, context),
        log_(log),
        context_(context),
        most_(most),
        ends_on_error_(header_of(context, "triton_grpc_error") == "true") {}

  void keep(const std::shared_ptr<Slot>& slot, std::shared_ptr<serve::Call> call) {
    {
      const std::scoped_lock lock(mutex_);
      if (slot->reply) return;
      slot->call = call;
      if (!end_) return;
    }
    if (call != nullptr) call->cancel();
  }

  /// Where there is no memory for the reply, the stream ends when its turn comes: those behind it
  /// wait for it.
  void answer(Slot& slot, Result<serve::Reply> made) {
    ::grpc::ByteBuffer reply;
    bool is_written = false;
    auto status = ended_by([&] {
      auto written = made ? write_stream_reply(*std::move(made)) : std::move(made).error();
      const auto told = written ? ::grpc::Status::OK : to_status(written.error());
      reply = written ? *std::move(written) : write_stream_error(written.error(), slot.id);
      is_written = true;
      return told;
    });
    slot.log.end(status, status.ok() ? reply.Length() : 0);
    {
      const std::scoped_lock lock(mutex_);
      slot.call = nullptr;
      if (!is_written || (!status.ok() && ends_on_error_)) slot.ends = std::move(status);
      slot.reply = std::move(reply);
    }
    go_on();
  }

  /// The stream ends with this once what came before is answered.
  void refuse(Slot& slot, const ::grpc::Status& status) {
    slot.log.end(status);
    {
      const std::scoped_lock lock(mutex_);
      slot.ends = status;
      slot.reply.emplace();
    }
    go_on();
  }

  void no_more() {
    {
      const std::scoped_lock lock(mutex_);
      all_read_ = true;
    }
    go_on();
  }

  /// Where too many are in progress, the one that is answered next reads on.
  void read_next() {
    {
      const std::scoped_lock lock(mutex_);
      wants_to_read_ = slots_.size() >= most_ || end_ || left_;
      if (wants_to_read_) return;
    }
    StartRead(&message_);
  }

  void cancel_all() {
    while (const auto call = take_call()) call->cancel();
  }

  /// One that is in progress, which is forgotten. Null: there is none.
  std::shared_ptr<serve::Call> take_call() {
    const std::scoped_lock lock(mutex_);
    for (const auto& slot : slots_) {
      if (slot->call != nullptr) return std::exchange(slot->call, nullptr);
    }
    return nullptr;
  }

  /// Whatever can be done now.
  void go_on() {
    std::shared_ptr<Slot> writes;
    bool reads = false, ends = false;
    std::optional<::grpc::Status> finishes;
    {
      const std::scoped_lock lock(mutex_);
      if (finished_) return;
      ends = !end_ && !writing_ && !slots_.empty() && slots_.front()->ends;  // Its turn has come.
      if (ends) end_ = slots_.front()->ends;
      if (end_) drop_answered();
      if (!writing_ && !slots_.empty() && slots_.front()->reply && !end_) {
        writing_ = true;
        writes = slots_.front();
      }
      const bool over = end_ || all_read_ || left_;
      reads = wants_to_read_ && !over && slots_.size() < most_;
      if (reads) wants_to_read_ = false;
      if (over && slots_.empty() && !writing_) {
        finished_ = true;
        finishes = end_ ? *std::move(end_) : all_read_ ? ::grpc::Status::OK : *left_;
      }
    }
    if (ends) cancel_all();
    if (writes != nullptr) StartWrite(&*writes->reply);
    if (reads) StartRead(&message_);
    if (finishes) Finish(*std::move(finishes));
  }

  /// Nobody reads those any more; the one that is being written goes when that has ended.
  void drop_answered() {
    const auto first = slots_.begin() + (writing_ ? 1 : 0);
    const auto is_answered = [](const auto& slot) { return slot->reply.has_value(); };
    slots_.erase(std::remove_if(first, slots_.end(), is_answered), slots_.end());
  }

  serve::Server& server_;
  const serve::Access& access_;
  StreamRight right_;
  serve::AccessLog* const log_;
  std::string client_;  // Whose rights the requests have.
  const ::grpc::CallbackServerContext& context_;
  const std::size_t most_;
  const bool ends_on_error_;
  std::shared_ptr<StreamCall> self_;  // Until OnDone().
  ::grpc::ByteBuffer message_;

  std::mutex mutex_;                         // Guards all below.
  std::deque<std::shared_ptr<Slot>> slots_;  // In the order of the requests.
  bool writing_ = false;                     // The first one's reply.
  bool wants_to_read_ = false;
  bool all_read_ = false;
  bool finished_ = false;
  std::optional<::grpc::Status> end_;   // How the call ends before its time.
  std::optional<::grpc::Status> left_;  // How it ends once all that was read is answered.
};

}  // namespace

Reactor* infer_stream(serve::Server& server, const serve::Access& access, serve::AccessLog* log,
                      const ::grpc::CallbackServerContext& context, std::size_t most,
                      LastingCalls& lasting) {
  return StreamCall::start(server, access, log, context, most, lasting);
}

}  // namespace penstock::grpc
