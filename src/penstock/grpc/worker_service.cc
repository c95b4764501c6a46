// The unary calls: describe, contents, stages and measurements, each on a thread of a worker pool.
#include "penstock/grpc/worker_service.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "penstock/backend/request.h"
#include "penstock/base/version.h"
#include "penstock/grpc/caller.h"
#include "penstock/grpc/client/worker_messages.h"
#include "penstock/grpc/client/worker_protocol.h"
#include "penstock/grpc/ended.h"
#include "penstock/pipeline/guarded.h"
#include "penstock/serve/running_model.h"

namespace penstock::grpc {
namespace {

using serve::Right;

/// Who calls, and whether they may.
struct Caller {
  Status may;
  std::string name;  ///< By which the server knows them, or empty.
  CallLog log;
};

Caller caller_of(const WorkerParts& parts, Right right,
                 const ::grpc::CallbackServerContext& context, const char* method) {
  auto client = check_caller(parts.access, right, context);
  Caller caller{client ? Status() : Status(client.error()), client ? *client : "",
                log_call(parts, context, "unary", method)};
  caller.log.client(caller.name);
  return caller;
}

/// What takes long, on a thread of ours. Lives until gRPC is done with it.
class LongCall final : public ::grpc::ServerUnaryReactor {
 public:
  using Work = std::function<Status(const LongCall&)>;

  static LongCall* start(serve::Worker& worker, const Caller& caller, Work work) {
    const std::shared_ptr<LongCall> call(new LongCall(caller.log));
    call->self_ = call;
    Status posted = caller.may;
    if (posted) {
      posted = worker.post([call, made = std::move(work)] {
        call->end(pipeline::guarded([&] { return made(*call); }));
      });
    }
    if (!posted) call->end(posted);
    return call.get();
  }

  /// Nobody waits for it any more.
  [[nodiscard]] bool cancelled() const { return cancelled_; }
  void OnCancel() override { cancelled_ = true; }
  void OnDone() override { self_.reset(); }

 private:
  explicit LongCall(CallLog log) : log_(std::move(log)) {}
  void end(const Status& status) {
    auto told =
        ended_by([&] { return status ? ::grpc::Status::OK : to_worker_status(status.error()); });
    log_.end(told);
    Finish(std::move(told));
  }
  CallLog log_;
  std::atomic<bool> cancelled_ = false;
  std::shared_ptr<LongCall> self_;  // Until OnDone().
};

Error nobody_waits() {
  return make_error(Code::kCancelled, "the caller cancelled the call");
}

// -------------------------------------------------------------------------------------- describe

void tell(const device::Topology& topology, worker::DescribeResponse& message) {
  message.set_cpu_model(topology.cpu_model);
  message.set_fingerprint(topology.fingerprint);
  message.set_memory_bytes(topology.memory_bytes);
  message.set_cpu_quota(topology.cpu_quota.value_or(0));
  for (const auto& cpu : topology.cpus) {
    if (!cpu.allowed) continue;
    auto& written = *message.add_cpus();
    written.set_number(cpu.number);
    written.set_core(cpu.core);
    written.set_package(cpu.package);
    written.set_numa_node(cpu.numa_node);
    written.set_kind(cpu.kind);
    written.mutable_siblings()->Add(cpu.siblings.begin(), cpu.siblings.end());
  }
  for (const auto& cache : topology.caches) {
    auto& written = *message.add_caches();
    written.set_level(cache.level);
    written.set_size_bytes(cache.size_bytes);
    written.set_line_bytes(cache.line_bytes);
    written.mutable_cpus()->Add(cache.cpus.begin(), cache.cpus.end());
  }
  for (const auto& node : topology.numa_nodes) {
    auto& written = *message.add_numa_nodes();
    written.set_number(node.number);
    written.set_memory_bytes(node.memory_bytes);
    written.mutable_cpus()->Add(node.cpus.begin(), node.cpus.end());
  }
}

void tell(const host::BackendFacts& facts, worker::Backend& message) {
  message.set_name(facts.description.name);
  message.set_engine_version(facts.description.engine_version);
  message.set_unavailable(facts.description.unavailable);
  message.set_whole_graph(facts.description.whole_graph);
  message.set_rules(facts.rules);
  for (const auto precision : facts.lower_precisions) {
    message.add_lower_precisions(std::string(backend::to_string(precision)));
  }
}

void tell(const host::Limits& limits, std::uint64_t message_bytes, worker::Limits& message) {
  message.set_message_bytes(message_bytes);
  message.set_content_bytes(limits.content_bytes);
  message.set_sessions(static_cast<std::uint32_t>(limits.sessions));
  message.set_stages(static_cast<std::uint32_t>(limits.stages));
  message.set_calls(static_cast<std::uint32_t>(limits.calls));
  message.set_ticket_bytes(limits.ticket_bytes);
  message.set_most_lease_ns(limits.most_lease.count());
}

// ---------------------------------------------------------------------------------------- stages

std::vector<host::FileOrder> read_files(
    const google::protobuf::RepeatedPtrField<worker::File>& files) {
  std::vector<host::FileOrder> read;
  for (const auto& file : files) read.push_back({file.path(), file.sha256()});
  return read;
}

/// One for each instance.
Result<std::vector<device::Device>> read_devices(const worker::OpenStageRequest& request) {
  PENSTOCK_TRY(auto devices, device::parse_devices(request.device()));
  const int replicas = std::max(request.replicas(), 1);
  if (replicas > plan::kMostInstances) {
    return invalid_argument("expected at most ", plan::kMostInstances, " replicas, found ",
                            replicas);
  }
  for (const auto& device : devices) {
    const auto cpus = static_cast<int>(device.cpus.size());
    if (request.threads() != 0 && request.threads() != cpus) {
      return invalid_argument("device '", device::to_string(device), "': expected ", cpus,
                              " threads, one for each CPU, found ", request.threads());
    }
  }
  std::vector<device::Device> instances;
  for (int i = 0; i < replicas; ++i) {
    instances.insert(instances.end(), devices.begin(), devices.end());
  }
  return instances;
}

Result<host::StageOrder> read_order(const worker::OpenStageRequest& request) {
  host::StageOrder order;
  order.name = request.name().empty() ? "stage" : request.name().substr(0, 128);
  order.backend = request.backend();
  PENSTOCK_TRY(order.devices, read_devices(request));
  order.lanes = request.lanes();
  order.options = {request.options().begin(), request.options().end()};
  order.flush_denormals = request.flush_denormals();
  order.pinned = request.pinned();
  order.max_run = std::chrono::microseconds(request.max_run_ns() / 1000);
  order.bounds = {request.bounds().begin(), request.bounds().end()};
  return order;
}

void tell(const std::vector<plan::TensorInfo>& infos,
          google::protobuf::RepeatedPtrField<worker::Port>& ports) {
  for (const auto& info : infos) {
    auto& port = *ports.Add();
    port.set_name(info.name);
    grpc::write(info.type, *port.mutable_type());
  }
}

void tell(const host::Stage& stage, worker::OpenStageResponse& response) {
  tell(stage.facts()->inputs, *response.mutable_inputs());
  tell(stage.facts()->outputs, *response.mutable_outputs());
  response.set_recommended_calls(stage.recommended_calls());
  response.set_memory_bytes(stage.memory_bytes());
}

}  // namespace

CallLog log_call(const WorkerParts& parts, const ::grpc::CallbackServerContext& context,
                 const char* kind, const char* method) {
  return {parts.log, context, kind, method, "penstock.worker.Worker"};
}

WorkerService::Unary* WorkerService::Describe(Context* context,
                                              const worker::DescribeRequest* /*request*/,
                                              worker::DescribeResponse* response) {
  const auto caller = caller_of(parts_, Right::kInfer, *context, "Describe");
  return LongCall::start(parts_.chores, caller, [this, response](const LongCall&) -> Status {
    PENSTOCK_TRY(const auto facts, parts_.host.describe());
    response->set_protocol(kWorkerProtocol);
    response->set_penstock(std::string(version()));
    response->set_host(facts.host);
    tell(facts.topology, *response);
    response->set_memory_left_bytes(facts.memory_left_bytes);
    for (const auto& backend : facts.backends) tell(backend, *response->add_backends());
    response->set_native_code(parts_.host.native_code());
    tell(parts_.host.limits(), parts_.message_bytes, *response->mutable_limits());
    response->set_draining(parts_.host.draining());
    response->set_instance(parts_.host.instance());
    return {};
  });
}

WorkerService::Unary* WorkerService::MissingContents(Context* context,
                                                     const worker::MissingContentsRequest* request,
                                                     worker::MissingContentsResponse* response) {
  const auto caller = caller_of(parts_, Right::kLoad, *context, "MissingContents");
  return LongCall::start(
      parts_.disk, caller,
      [this, request, response, name = caller.name](const LongCall&) -> Status {
        PENSTOCK_TRY(const auto session, parts_.host.find(request->session(), name));
        const std::vector<std::string> wanted(request->sha256().begin(), request->sha256().end());
        for (auto& hash : parts_.host.missing(*session, wanted)) {
          response->add_sha256(std::move(hash));
        }
        return {};
      });
}

WorkerService::Unary* WorkerService::OpenStage(Context* context,
                                               const worker::OpenStageRequest* request,
                                               worker::OpenStageResponse* response) {
  const auto caller = caller_of(parts_, Right::kLoad, *context, "OpenStage");
  return LongCall::start(
      parts_.chores, caller,
      [this, request, response, name = caller.name](const LongCall& call) -> Status {
        PENSTOCK_TRY(const auto session, parts_.host.find(request->session(), name));
        PENSTOCK_TRY(auto order, read_order(*request));
        PENSTOCK_TRY(const auto number, parts_.host.open_stage(*session, std::move(order),
                                                               read_files(request->files()),
                                                               read_files(request->custom_ops())));
        if (call.cancelled()) {
          parts_.host.close_stage(*session, number);
          return nobody_waits();
        }
        PENSTOCK_TRY(const auto stage, session->stage(number));
        response->set_stage(number);
        response->set_engine_version(parts_.host.engine_version(request->backend()));
        tell(*stage, *response);
        return {};
      });
}

WorkerService::Unary* WorkerService::CloseStage(Context* context,
                                                const worker::CloseStageRequest* request,
                                                worker::CloseStageResponse* /*response*/) {
  const auto caller = caller_of(parts_, Right::kInfer, *context, "CloseStage");
  return LongCall::start(
      parts_.chores, caller, [this, request, name = caller.name](const LongCall&) -> Status {
        PENSTOCK_TRY(const auto session, parts_.host.find(request->session(), name));
        parts_.host.close_stage(*session, request->stage());
        return {};
      });
}

WorkerService::Unary* WorkerService::Measure(Context* context,
                                             const worker::MeasureRequest* request,
                                             worker::MeasureResponse* response) {
  const auto caller = caller_of(parts_, Right::kLoad, *context, "Measure");
  return LongCall::start(
      parts_.measuring, caller,
      [this, request, response, name = caller.name](const LongCall& call) -> Status {
        PENSTOCK_TRY(const auto session, parts_.host.find(request->session(), name));
        host::MeasureOrder order;
        order.job = request->job();
        order.memory_bytes = request->memory_bytes();
        order.silence = std::chrono::nanoseconds(request->silence_ns());
        const auto interrupted = [&] {
          return call.cancelled() || session->ended() || parts_.host.draining();
        };
        PENSTOCK_TRY(auto measured, parts_.host.measure(std::move(order),
                                                        read_files(request->files()), interrupted));
        response->set_report(std::move(measured.report));
        response->set_died(std::move(measured.died));
        response->set_why(std::move(measured.why));
        return {};
      });
}

WorkerService::Unary* WorkerService::MeasureLink(Context* context,
                                                 const worker::MeasureLinkRequest* request,
                                                 worker::MeasureLinkResponse* response) {
  const auto caller = caller_of(parts_, Right::kLoad, *context, "MeasureLink");
  return LongCall::start(
      parts_.measuring, caller,
      [this, request, response, name = caller.name](const LongCall&) -> Status {
        constexpr std::int64_t kDefault = 300'000'000, kMost = 10'000'000'000;
        PENSTOCK_TRY(const auto session, parts_.host.find(request->session(), name));
        const std::string& address = request->address();
        if (!session->has_peer(address)) {
          return make_error(Code::kPermissionDenied, "'", address.substr(0, 128),
                            "' is none of the peers that the session was opened with");
        }
        PENSTOCK_TRY(const auto connection, parts_.puller.connect(address));
        const std::chrono::nanoseconds most(
            request->most_ns() > 0 ? std::min(request->most_ns(), kMost) : kDefault);
        const auto times = measure_link(*connection, address, most, request->moving());
        if (!times && times.error().code == Code::kUnavailable) parts_.puller.forget(address);
        PENSTOCK_CHECK_OK(times);
        response->set_latency_seconds(times->latency_seconds);
        response->set_there_bytes_per_second(times->there_bytes_per_second);
        response->set_back_bytes_per_second(times->back_bytes_per_second);
        return {};
      });
}

::grpc::ServerBidiReactor<worker::SessionRequest, worker::SessionResponse>* WorkerService::Session(
    Context* context) {
  return keep_session(parts_, *context);
}

::grpc::ServerReadReactor<worker::PutContentRequest>* WorkerService::PutContent(
    Context* context, worker::PutContentResponse* /*response*/) {
  return put_content(parts_, *context);
}

::grpc::ServerBidiReactor<WorkerService::Bytes, WorkerService::Bytes>* WorkerService::Run(
    Context* context) {
  return run_calls(parts_, *context);
}

::grpc::ServerWriteReactor<WorkerService::Bytes>* WorkerService::Pull(Context* context,
                                                                      const Bytes* request) {
  return send_tensor(parts_, *context, *request);
}

::grpc::ServerBidiReactor<WorkerService::Bytes, WorkerService::Bytes>* WorkerService::Echo(
    Context* context) {
  return echo(parts_, *context);
}

}  // namespace penstock::grpc
