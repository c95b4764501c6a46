// The inference service: every call of the protocol.
#pragma once

#include <functional>

#include "penstock/grpc/inference.grpc.pb.h"
#include "penstock/serve/access.h"
#include "penstock/serve/access_log.h"
#include "penstock/serve/server.h"
#include "penstock/serve/worker.h"

namespace penstock::grpc {

class CallLog;
class LastingCalls;

/// Inference reads and writes the messages' bytes itself; the other calls have messages.
struct Methods {
  using Api = inference::GRPCInferenceService;
  using Bytes = Api::WithRawCallbackMethod_ModelInfer<
      Api::WithRawCallbackMethod_ModelStreamInfer<Api::Service>>;
  using About = Api::WithCallbackMethod_ServerLive<Api::WithCallbackMethod_ServerReady<
      Api::WithCallbackMethod_ModelReady<Api::WithCallbackMethod_ServerMetadata<
          Api::WithCallbackMethod_ModelMetadata<Api::WithCallbackMethod_ModelConfig<
              Api::WithCallbackMethod_ModelStatistics<Bytes>>>>>>>;
  using Repository =
      Api::WithCallbackMethod_RepositoryIndex<Api::WithCallbackMethod_RepositoryModelLoad<
          Api::WithCallbackMethod_RepositoryModelUnload<About>>>;
  using Memory = Api::WithCallbackMethod_SystemSharedMemoryStatus<
      Api::WithCallbackMethod_SystemSharedMemoryRegister<
          Api::WithCallbackMethod_SystemSharedMemoryUnregister<
              Api::WithCallbackMethod_CudaSharedMemoryStatus<
                  Api::WithCallbackMethod_CudaSharedMemoryRegister<
                      Api::WithCallbackMethod_CudaSharedMemoryUnregister<Repository>>>>>>;
  using All = Api::WithCallbackMethod_TraceSetting<Api::WithCallbackMethod_LogSettings<Memory>>;
};

class Service final : public Methods::All {
 public:
  using Context = ::grpc::CallbackServerContext;
  using Unary = ::grpc::ServerUnaryReactor;
  using Bytes = ::grpc::ByteBuffer;

  /// \pre  all outlive it
  Service(serve::Server& server, const serve::Access& access, serve::Worker& worker,
          LastingCalls& lasting, serve::AccessLog* log)
      : server_(server), access_(access), worker_(worker), lasting_(lasting), log_(log) {}

  Unary* ServerLive(Context* context, const inference::ServerLiveRequest* request,
                    inference::ServerLiveResponse* response) override;
  Unary* ServerReady(Context* context, const inference::ServerReadyRequest* request,
                     inference::ServerReadyResponse* response) override;
  Unary* ModelReady(Context* context, const inference::ModelReadyRequest* request,
                    inference::ModelReadyResponse* response) override;
  Unary* ServerMetadata(Context* context, const inference::ServerMetadataRequest* request,
                        inference::ServerMetadataResponse* response) override;
  Unary* ModelMetadata(Context* context, const inference::ModelMetadataRequest* request,
                       inference::ModelMetadataResponse* response) override;
  Unary* ModelInfer(Context* context, const Bytes* request, Bytes* response) override;
  ::grpc::ServerBidiReactor<Bytes, Bytes>* ModelStreamInfer(Context* context) override;
  Unary* ModelConfig(Context* context, const inference::ModelConfigRequest* request,
                     inference::ModelConfigResponse* response) override;
  Unary* ModelStatistics(Context* context, const inference::ModelStatisticsRequest* request,
                         inference::ModelStatisticsResponse* response) override;
  Unary* RepositoryIndex(Context* context, const inference::RepositoryIndexRequest* request,
                         inference::RepositoryIndexResponse* response) override;
  Unary* RepositoryModelLoad(Context* context, const inference::RepositoryModelLoadRequest* request,
                             inference::RepositoryModelLoadResponse* response) override;
  Unary* RepositoryModelUnload(Context* context,
                               const inference::RepositoryModelUnloadRequest* request,
                               inference::RepositoryModelUnloadResponse* response) override;
  Unary* SystemSharedMemoryStatus(Context* context,
                                  const inference::SystemSharedMemoryStatusRequest* request,
                                  inference::SystemSharedMemoryStatusResponse* response) override;
  Unary* SystemSharedMemoryRegister(
      Context* context, const inference::SystemSharedMemoryRegisterRequest* request,
      inference::SystemSharedMemoryRegisterResponse* response) override;
  Unary* SystemSharedMemoryUnregister(
      Context* context, const inference::SystemSharedMemoryUnregisterRequest* request,
      inference::SystemSharedMemoryUnregisterResponse* response) override;
  Unary* CudaSharedMemoryStatus(Context* context,
                                const inference::CudaSharedMemoryStatusRequest* request,
                                inference::CudaSharedMemoryStatusResponse* response) override;
  Unary* CudaSharedMemoryRegister(Context* context,
                                  const inference::CudaSharedMemoryRegisterRequest* request,
                                  inference::CudaSharedMemoryRegisterResponse* response) override;
  Unary* CudaSharedMemoryUnregister(
      Context* context, const inference::CudaSharedMemoryUnregisterRequest* request,
      inference::CudaSharedMemoryUnregisterResponse* response) override;
  Unary* TraceSetting(Context* context, const inference::TraceSettingRequest* request,
                      inference::TraceSettingResponse* response) override;
  Unary* LogSettings(Context* context, const inference::LogSettingsRequest* request,
                     inference::LogSettingsResponse* response) override;

 private:
  /// Ends the call with what `make` says, for who has the right.
  template <typename Make>
  Unary* answer_now(Context* context, const char* method, serve::Right right, Make make);
  /// Ends the call with what `make` says, on the worker's thread.
  Unary* answer_later(Context* context, const char* method, const std::string& repository,
                      std::function<Status()> make);

  Status may(const Context& context, serve::Right right, CallLog& log) const;

  serve::Server& server_;
  const serve::Access& access_;
  serve::Worker& worker_;
  LastingCalls& lasting_;
  serve::AccessLog* const log_;  // Null: none.
};

}  // namespace penstock::grpc
