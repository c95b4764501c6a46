// The service of penstock.worker (worker.proto), for callers of other machines.
// It offers stages, tickets and measurements.
#pragma once

#include <functional>
#include <memory>

#include "penstock/grpc/call_log.h"
#include "penstock/grpc/dialogue.h"
#include "penstock/grpc/lasting_calls.h"
#include "penstock/grpc/worker.grpc.pb.h"
#include "penstock/grpc/worker_puller.h"
#include "penstock/host/host.h"
#include "penstock/serve/access.h"
#include "penstock/serve/worker.h"

namespace penstock::grpc {

/// What the calls of the service share. \pre  those that it refers to outlive it
struct WorkerParts {
  host::Host& host;
  const serve::Access& access;
  const std::uint64_t message_bytes;  ///< At most, of one message.
  serve::AccessLog* const log;        ///< Null: none.
  LastingCalls& lasting;
  WorkerPuller puller;
  serve::Worker chores;     ///< What takes long: compiling, loading engines.
  serve::Worker disk;       ///< What waits for a disk.
  serve::Worker measuring;  ///< Jobs, which wait for one another.
};

/// A line of the access log for a call of this service. `kind`: "unary", "stream".
CallLog log_call(const WorkerParts& parts, const ::grpc::CallbackServerContext& context,
                 const char* kind, const char* method);

struct WorkerMethods {
  using Api = worker::Worker;
  using Raw = Api::WithRawCallbackMethod_Run<
      Api::WithRawCallbackMethod_Pull<Api::WithRawCallbackMethod_Echo<Api::Service>>>;
  using Streams = Api::WithCallbackMethod_Session<Api::WithCallbackMethod_PutContent<Raw>>;
  using Stages = Api::WithCallbackMethod_MissingContents<
      Api::WithCallbackMethod_OpenStage<Api::WithCallbackMethod_CloseStage<Streams>>>;
  using All = Api::WithCallbackMethod_Describe<
      Api::WithCallbackMethod_Measure<Api::WithCallbackMethod_MeasureLink<Stages>>>;
};

class WorkerService final : public WorkerMethods::All {
 public:
  using Context = ::grpc::CallbackServerContext;
  using Unary = ::grpc::ServerUnaryReactor;
  using Bytes = ::grpc::ByteBuffer;

  explicit WorkerService(WorkerParts& parts) : parts_(parts) {}

  Unary* Describe(Context* context, const worker::DescribeRequest* request,
                  worker::DescribeResponse* response) override;
  ::grpc::ServerBidiReactor<worker::SessionRequest, worker::SessionResponse>* Session(
      Context* context) override;
  Unary* MissingContents(Context* context, const worker::MissingContentsRequest* request,
                         worker::MissingContentsResponse* response) override;
  ::grpc::ServerReadReactor<worker::PutContentRequest>* PutContent(
      Context* context, worker::PutContentResponse* response) override;
  Unary* OpenStage(Context* context, const worker::OpenStageRequest* request,
                   worker::OpenStageResponse* response) override;
  Unary* CloseStage(Context* context, const worker::CloseStageRequest* request,
                    worker::CloseStageResponse* response) override;
  ::grpc::ServerBidiReactor<Bytes, Bytes>* Run(Context* context) override;
  ::grpc::ServerWriteReactor<Bytes>* Pull(Context* context, const Bytes* request) override;
  Unary* Measure(Context* context, const worker::MeasureRequest* request,
                 worker::MeasureResponse* response) override;
  ::grpc::ServerBidiReactor<Bytes, Bytes>* Echo(Context* context) override;
  Unary* MeasureLink(Context* context, const worker::MeasureLinkRequest* request,
                     worker::MeasureLinkResponse* response) override;

 private:
  WorkerParts& parts_;
};

// The streams, each in a source of its own. They live until gRPC is done with them.

::grpc::ServerBidiReactor<worker::SessionRequest, worker::SessionResponse>* keep_session(
    WorkerParts& parts, ::grpc::CallbackServerContext& context);
::grpc::ServerReadReactor<worker::PutContentRequest>* put_content(
    WorkerParts& parts, ::grpc::CallbackServerContext& context);
::grpc::ServerBidiReactor<::grpc::ByteBuffer, ::grpc::ByteBuffer>* run_calls(
    WorkerParts& parts, ::grpc::CallbackServerContext& context);
::grpc::ServerWriteReactor<::grpc::ByteBuffer>* send_tensor(WorkerParts& parts,
                                                            ::grpc::CallbackServerContext& context,
                                                            const ::grpc::ByteBuffer& request);
::grpc::ServerBidiReactor<::grpc::ByteBuffer, ::grpc::ByteBuffer>* echo(
    WorkerParts& parts, ::grpc::CallbackServerContext& context);

}  // namespace penstock::grpc
