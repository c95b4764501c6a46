// A reactor per call: checks the caller, gives the server the request, writes its reply or cancels.
#include "penstock/grpc/infer.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "penstock/grpc/call_log.h"
#include "penstock/grpc/caller.h"
#include "penstock/grpc/ended.h"
#include "penstock/grpc/status.h"
#include "penstock/grpc/wire.h"

namespace penstock::grpc {
namespace {

/// Clients of a socket of the file system have all the same address.
std::string connection_of(const ::grpc::CallbackServerContext& context) {
  std::string peer = context.peer();
  return peer.starts_with("ipv") ? peer : std::string();
}

/// Lives until gRPC is done with the call and the pipeline with the frame.
class UnaryCall final : public ::grpc::ServerUnaryReactor {
 public:
  static UnaryCall* start(serve::Server& server, Result<serve::Request> request, CallLog log,
                          ::grpc::ByteBuffer& reply) {
    const std::shared_ptr<UnaryCall> call(new UnaryCall(std::move(log), reply));
    call->self_ = call;
    if (request) {
      call->log_.asks(*request);
      call->keep(server.infer(*std::move(request), [call](Result<serve::Reply> made) {
        call->answer(std::move(made));
      }));
    } else {
      call->answer(std::move(request).error());
    }
    return call.get();
  }

  void OnCancel() override {
    std::shared_ptr<serve::Call> call;
    {
      const std::scoped_lock lock(mutex_);
      cancelled_ = true;
      call = call_;
    }
    if (call != nullptr) call->cancel();
  }
  void OnDone() override { self_.reset(); }

 private:
  UnaryCall(CallLog log, ::grpc::ByteBuffer& reply) : log_(std::move(log)), reply_(reply) {}

  void keep(std::shared_ptr<serve::Call> call) {
    {
      const std::scoped_lock lock(mutex_);
      call_ = call;
      if (!cancelled_) return;
    }
    if (call != nullptr) call->cancel();
  }

  void answer(Result<serve::Reply> made) {
    auto status = ended_by([&] { return write(std::move(made)); });
    log_.end(status, reply_.Length());
    Finish(std::move(status));
  }

  ::grpc::Status write(Result<serve::Reply> made) {
    auto written = made ? write_reply(*std::move(made)) : std::move(made).error();
    if (!written) return to_status(written.error());
    reply_ = *std::move(written);
    return ::grpc::Status::OK;
  }

  CallLog log_;
  ::grpc::ByteBuffer& reply_;
  std::shared_ptr<UnaryCall> self_;  // Until OnDone().
  std::mutex mutex_;                 // Guards the two below.
  std::shared_ptr<serve::Call> call_;
  bool cancelled_ = false;
};

}  // namespace

Result<serve::Request> read_call(const serve::Access& access,
                                 const ::grpc::CallbackServerContext& context,
                                 const ::grpc::ByteBuffer& message, std::string& id) {
  PENSTOCK_TRY(auto request, read_request(message, id));
  if (request.uses_regions()) {
    const auto may = check_caller(access, serve::Right::kSharedMemory, context);
    if (!may) return may.error();
  }
  const auto deadline = deadline_of(context);
  if (deadline) request.deadline = std::min(*deadline, request.deadline.value_or(*deadline));
  request.connection = connection_of(context);
  // A stream's requests may have one each, the header is of all of them.
  if (request.traceparent.empty()) request.traceparent = header_of(context, "traceparent");
  return request;
}

::grpc::ServerUnaryReactor* infer(serve::Server& server, const serve::Access& access,
                                  serve::AccessLog* log,
                                  const ::grpc::CallbackServerContext& context,
                                  const ::grpc::ByteBuffer& message, ::grpc::ByteBuffer& reply) {
  std::string id;
  CallLog line(log, context, "unary", "ModelInfer");
  line.received(message.Length());
  auto client = check_caller(access, serve::Right::kInfer, context);
  if (client) line.client(*client);
  auto request = client ? read_call(access, context, message, id) : std::move(client).error();
  return UnaryCall::start(server, std::move(request), std::move(line), reply);
}

}  // namespace penstock::grpc
