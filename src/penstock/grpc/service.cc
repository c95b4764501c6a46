// Each method checks the caller's right and asks the server, at once or on a worker's thread.
#include "penstock/grpc/service.h"

#include <memory>
#include <string>
#include <utility>

#include "penstock/grpc/answers.h"
#include "penstock/grpc/call_log.h"
#include "penstock/grpc/caller.h"
#include "penstock/grpc/ended.h"
#include "penstock/grpc/infer.h"
#include "penstock/grpc/status.h"
#include "penstock/grpc/stream.h"
#include "penstock/pipeline/guarded.h"
#include "penstock/serve/server_options.h"
#include "penstock/serve/shared_memory.h"

namespace penstock::grpc {
namespace {

using serve::Right;

Status refuse_repository(const std::string& name) {
  if (name.empty()) return {};
  return make_error(Code::kUnimplemented, "'repository_name' specification is not supported");
}

/// Nothing is changed while the server runs: what is, is told.
Status refuse_settings(bool given, const char* what) {
  if (!given) return {};
  return make_error(Code::kUnimplemented, what,
                    " settings cannot be changed while the server runs");
}

}  // namespace

template <typename Make>
Service::Unary* Service::answer_now(Context* context, const char* method, Right right, Make make) {
  auto* reactor = context->DefaultReactor();
  CallLog log(log_, *context, "unary", method);
  Status status = may(*context, right, log);
  if (status) status = make();
  const auto told = to_status(status);
  log.end(told);
  reactor->Finish(told);
  return reactor;
}

Service::Unary* Service::answer_later(Context* context, const char* method,
                                      const std::string& repository, std::function<Status()> make) {
  auto* reactor = context->DefaultReactor();
  const auto log = std::make_shared<CallLog>(log_, *context, "unary", method);
  const auto finish = [reactor, log](const Status& status) {
    auto told = ended_by([&] { return to_status(status); });
    log->end(told);
    reactor->Finish(std::move(told));
  };
  Status status = may(*context, Right::kLoad, *log);
  if (status) status = refuse_repository(repository);
  if (status) {
    status = worker_.post(
        [finish, made = std::move(make)] { finish(pipeline::guarded([&] { return made(); })); });
  }
  if (!status) finish(status);
  return reactor;
}

Status Service::may(const Context& context, Right right, CallLog& log) const {
  PENSTOCK_TRY(const auto client, check_caller(access_, right, context));
  log.client(client);
  return {};
}

Service::Unary* Service::ServerLive(Context* context,
                                    const inference::ServerLiveRequest* /*request*/,
                                    inference::ServerLiveResponse* response) {
  // Needs no right: what asks for it often has none to show.
  response->set_live(server_.live());
  auto* reactor = context->DefaultReactor();
  reactor->Finish(::grpc::Status::OK);
  return reactor;
}

Service::Unary* Service::ServerReady(Context* context,
                                     const inference::ServerReadyRequest* /*request*/,
                                     inference::ServerReadyResponse* response) {
  response->set_ready(server_.ready());  // As ServerLive().
  auto* reactor = context->DefaultReactor();
  reactor->Finish(::grpc::Status::OK);
  return reactor;
}

Service::Unary* Service::ModelReady(Context* context, const inference::ModelReadyRequest* request,
                                    inference::ModelReadyResponse* response) {
  const auto ready = server_.model_ready(request->name(), request->version());  // As ServerLive().
  if (ready) response->set_ready(*ready);
  auto* reactor = context->DefaultReactor();
  reactor->Finish(ready ? ::grpc::Status::OK : to_status(ready.error()));
  return reactor;
}

Service::Unary* Service::ServerMetadata(Context* context,
                                        const inference::ServerMetadataRequest* /*request*/,
                                        inference::ServerMetadataResponse* response) {
  return answer_now(context, "ServerMetadata", Right::kInfer, [&]() -> Status {
    answer(*response);
    return {};
  });
}

Service::Unary* Service::ModelMetadata(Context* context,
                                       const inference::ModelMetadataRequest* request,
                                       inference::ModelMetadataResponse* response) {
  return answer_now(context, "ModelMetadata", Right::kInfer, [&]() -> Status {
    PENSTOCK_TRY(const auto model, server_.describe(request->name(), request->version()));
    answer(model, *response);
    return {};
  });
}

Service::Unary* Service::ModelInfer(Context* context, const Bytes* request, Bytes* response) {
  return infer(server_, access_, log_, *context, *request, *response);
}

::grpc::ServerBidiReactor<Service::Bytes, Service::Bytes>* Service::ModelStreamInfer(
    Context* context) {
  return infer_stream(server_, access_, log_, *context, server_.limits().waiting, lasting_);
}

Service::Unary* Service::ModelConfig(Context* context, const inference::ModelConfigRequest* request,
                                     inference::ModelConfigResponse* response) {
  return answer_now(context, "ModelConfig", Right::kInfer, [&]() -> Status {
    PENSTOCK_TRY(const auto model, server_.describe(request->name(), request->version()));
    answer(model, *response->mutable_config());
    return {};
  });
}

Service::Unary* Service::ModelStatistics(Context* context,
                                         const inference::ModelStatisticsRequest* request,
                                         inference::ModelStatisticsResponse* response) {
  return answer_now(context, "ModelStatistics", Right::kInfer, [&]() -> Status {
    PENSTOCK_TRY(const auto all, server_.statistics(request->name(), request->version()));
    for (const auto& of_model : all) answer(of_model, *response->add_model_stats());
    return {};
  });
}

Service::Unary* Service::RepositoryIndex(Context* context,
                                         const inference::RepositoryIndexRequest* request,
                                         inference::RepositoryIndexResponse* response) {
  return answer_now(context, "RepositoryIndex", Right::kInfer, [&]() -> Status {
    PENSTOCK_CHECK_OK(refuse_repository(request->repository_name()));
    for (const auto& entry : server_.index(request->ready()))
      answer(entry, *response->add_models());
    return {};
  });
}

Service::Unary* Service::RepositoryModelLoad(Context* context,
                                             const inference::RepositoryModelLoadRequest* request,
                                             inference::RepositoryModelLoadResponse* /*response*/) {
  return answer_later(context, "RepositoryModelLoad", request->repository_name(),
                      [this, request]() -> Status {
                        PENSTOCK_TRY(const auto options, read_load(*request));
                        return server_.load(request->model_name(), options);
                      });
}

Service::Unary* Service::RepositoryModelUnload(
    Context* context, const inference::RepositoryModelUnloadRequest* request,
    inference::RepositoryModelUnloadResponse* /*response*/) {
  return answer_later(context, "RepositoryModelUnload", request->repository_name(),
                      [this, request] { return server_.unload(request->model_name()); });
}

Service::Unary* Service::SystemSharedMemoryStatus(
    Context* context, const inference::SystemSharedMemoryStatusRequest* request,
    inference::SystemSharedMemoryStatusResponse* response) {
  return answer_now(context, "SystemSharedMemoryStatus", Right::kSharedMemory, [&]() -> Status {
    PENSTOCK_TRY(const auto regions, server_.shared_memory().list(request->name()));
    for (const auto& region : regions) {
      auto& status = (*response->mutable_regions())[region.name];
      status.set_name(region.name);
      status.set_key(region.key);
      status.set_offset(region.offset);
      status.set_byte_size(region.byte_size);
    }
    return {};
  });
}

Service::Unary* Service::SystemSharedMemoryRegister(
    Context* context, const inference::SystemSharedMemoryRegisterRequest* request,
    inference::SystemSharedMemoryRegisterResponse* /*response*/) {
  return answer_now(context, "SystemSharedMemoryRegister", Right::kSharedMemory, [&] {
    return server_.shared_memory().add(
        {request->name(), request->key(), request->offset(), request->byte_size()});
  });
}

Service::Unary* Service::SystemSharedMemoryUnregister(
    Context* context, const inference::SystemSharedMemoryUnregisterRequest* request,
    inference::SystemSharedMemoryUnregisterResponse* /*response*/) {
  return answer_now(context, "SystemSharedMemoryUnregister", Right::kSharedMemory, [&]() -> Status {
    server_.shared_memory().remove(request->name());
    return {};
  });
}

// Memory of CUDA devices is not shared. Clients that ask for none of it are content.

Service::Unary* Service::CudaSharedMemoryStatus(
    Context* context, const inference::CudaSharedMemoryStatusRequest* request,
    inference::CudaSharedMemoryStatusResponse* /*response*/) {
  return answer_now(context, "CudaSharedMemoryStatus", Right::kSharedMemory, [&]() -> Status {
    if (request->name().empty()) return {};
    return not_found("Unable to find cuda shared memory region: '", request->name(), "'");
  });
}

Service::Unary* Service::CudaSharedMemoryRegister(
    Context* context, const inference::CudaSharedMemoryRegisterRequest* request,
    inference::CudaSharedMemoryRegisterResponse* /*response*/) {
  return answer_now(context, "CudaSharedMemoryRegister", Right::kSharedMemory, [&]() -> Status {
    return make_error(Code::kUnimplemented, "failed to register CUDA shared memory region '",
                      request->name(), "': this server shares system memory only");
  });
}

Service::Unary* Service::CudaSharedMemoryUnregister(
    Context* context, const inference::CudaSharedMemoryUnregisterRequest* /*request*/,
    inference::CudaSharedMemoryUnregisterResponse* /*response*/) {
  return answer_now(context, "CudaSharedMemoryUnregister", Right::kSharedMemory,
                    []() -> Status { return {}; });
}

Service::Unary* Service::TraceSetting(Context* context,
                                      const inference::TraceSettingRequest* request,
                                      inference::TraceSettingResponse* response) {
  return answer_now(context, "TraceSetting", Right::kAdmin, [&]() -> Status {
    if (const auto& model = request->model_name(); !model.empty()) {
      PENSTOCK_CHECK_OK(server_.model_ready(model, ""));
    }
    answer(*response);
    return refuse_settings(!request->settings().empty(), "trace");
  });
}

Service::Unary* Service::LogSettings(Context* context, const inference::LogSettingsRequest* request,
                                     inference::LogSettingsResponse* response) {
  return answer_now(context, "LogSettings", Right::kAdmin, [&]() -> Status {
    answer(*response);
    return refuse_settings(!request->settings().empty(), "log");
  });
}

}  // namespace penstock::grpc
