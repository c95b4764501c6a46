// Sets up the gRPC server with its services, limits, certificates and listener, and shuts it down.
#include "penstock/grpc/front.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <utility>

#include <google/protobuf/stubs/logging.h>
#include <grpc/grpc.h>
#include <grpc/support/time.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include "penstock/grpc/client/may_start.h"
#include "penstock/grpc/health.h"
#include "penstock/grpc/lasting_calls.h"
#include "penstock/grpc/listener.h"
#include "penstock/grpc/log_lines.h"
#include "penstock/grpc/service.h"
#include "penstock/grpc/unknown.h"
#include "penstock/grpc/worker_service.h"
#include "penstock/serve/running_model.h"
#include "penstock/serve/server_options.h"
#include "penstock/serve/worker.h"

namespace penstock::grpc {
namespace {

int to_int(std::uint64_t number) {
  return static_cast<int>(std::min<std::uint64_t>(number, INT_MAX));
}

/// Bytes of messages on their way in and out, of all connections: over it, gRPC closes idle
/// connections, then ends calls. A message that one alone may send fits.
std::size_t wire_bytes(const serve::Limits& limits) {
  return limits.request_bytes + limits.message_bytes;
}

/// What one client or all of them could otherwise make grow.
void limit(::grpc::ServerBuilder& builder, const serve::Limits& limits) {
  builder.SetResourceQuota(::grpc::ResourceQuota("penstock").Resize(wire_bytes(limits)));
  builder.SetMaxReceiveMessageSize(to_int(limits.message_bytes));
  builder.SetMaxSendMessageSize(-1);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, to_int(limits.streams));
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, 300'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);  // Half-open ones are closed.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
}

}  // namespace

struct Front::State {
  State(serve::Server& models, const serve::Access& access, const Options& options)
      : models(models),
        health(models),
        service(models, access, worker, lasting, options.log),
        unknown(options.host != nullptr) {}
  /// Whether all that is told is on its way.
  bool all_is_told() {
    return models.shared().replies->used() == 0 && lasting.all_gone() && health.all_gone();
  }
  serve::Server& models;
  std::unique_ptr<LogLines> lines;  // Null: they go where gRPC sends them.
  serve::Worker worker;
  LastingCalls lasting;
  Health health;
  Service service;
  Unknown unknown;
  std::unique_ptr<WorkerParts> parts;  // Null: no callers of other machines.
  std::unique_ptr<WorkerService> worker_service;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<::grpc::experimental::ExternalConnectionAcceptor> acceptor;
  std::unique_ptr<::grpc::Server> server;
};

namespace {

constexpr std::int64_t kPollMs = 2;
constexpr std::size_t kChores = 4;  // Stages that are compiled at a time, say.

Result<std::unique_ptr<WorkerParts>> make_parts(const serve::Server& server,
                                                const serve::Access& access, LastingCalls& lasting,
                                                const Front::Options& options) {
  std::unique_ptr<WorkerParts> parts(new WorkerParts{.host = *options.host,
                                                     .access = access,
                                                     .message_bytes = server.limits().message_bytes,
                                                     .log = options.log,
                                                     .lasting = lasting,
                                                     .puller = WorkerPuller(options.peers)});
  PENSTOCK_CHECK_OK(parts->chores.start(kChores));
  PENSTOCK_CHECK_OK(parts->disk.start());
  PENSTOCK_CHECK_OK(parts->measuring.start());
  return parts;
}

}  // namespace

Front::Front(std::unique_ptr<State> state) : state_(std::move(state)) {}

Front::~Front() {
  stop(std::chrono::nanoseconds(0));
}

Result<std::unique_ptr<Front>> Front::start(serve::Server& server, const serve::Access& access,
                                            const Options& options) {
  // Of bytes that are no message it would write a line for each: strangers could fill the log.
  google::protobuf::SetLogHandler(nullptr);
  PENSTOCK_CHECK_OK(check_may_start());
  auto state = std::make_unique<State>(server, access, options);
  if (options.say) state->lines = std::make_unique<LogLines>(options.say);
  PENSTOCK_CHECK_OK(state->worker.start());
  PENSTOCK_CHECK_OK(state->health.start());
  PENSTOCK_TRY(state->listener, Listener::bind(options.address));
  ::grpc::ServerBuilder builder;
  using Kind = ::grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  auto credentials = ::grpc::InsecureServerCredentials();
  if (options.certificates) {
    PENSTOCK_TRY(credentials, credentials_of(options.certificates, options.say));
  }
  state->acceptor =
      builder.experimental().AddExternalConnectionAcceptor(Kind::FROM_FD, credentials);
  limit(builder, server.limits());
  builder.RegisterService(&state->service);
  builder.RegisterService(&state->health);
  builder.RegisterCallbackGenericService(&state->unknown);
  if (options.host != nullptr) {
    PENSTOCK_TRY(state->parts, make_parts(server, access, state->lasting, options));
    state->worker_service = std::make_unique<WorkerService>(*state->parts);
    builder.RegisterService(state->worker_service.get());
  }
  state->server = builder.BuildAndStart();
  if (state->server == nullptr) {
    return make_error(Code::kUnavailable, "gRPC could not be started at '", options.address, "'");
  }
  PENSTOCK_CHECK_OK(state->listener->start(
      server.limits().connections, [acceptor = state->acceptor.get()](int descriptor) {
        ::grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
        connection.fd = descriptor;
        acceptor->HandleNewConnection(&connection);
      }));
  return std::unique_ptr<Front>(new Front(std::move(state)));
}

const std::string& Front::address() const {
  return state_->listener->address();
}

void Front::stop(std::chrono::nanoseconds patience) {
  if (state_ == nullptr || state_->server == nullptr) return;
  state_->listener->stop();
  state_->health.stop();
  state_->lasting.end();
  state_->worker.stop();
  constexpr std::chrono::nanoseconds kLongest = std::chrono::hours(24);
  const auto end = std::chrono::steady_clock::now() + std::min(patience, kLongest);
  while (!state_->all_is_told() && std::chrono::steady_clock::now() < end) {
    gpr_sleep_until(
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(kPollMs, GPR_TIMESPAN)));
  }
  // A server that is shut down ends the calls that come as cancelled; of a connection that closes,
  // clients hear that the server is unavailable, and ask elsewhere. gRPC offers this call for after
  // a shutdown; before one it closes the connections too (surface/server.cc, CancelAllCalls).
  grpc_server_cancel_all_calls(state_->server->c_server());
  state_->server->Shutdown(std::chrono::system_clock::now());
  if (state_->parts != nullptr) {
    state_->parts->chores.stop();
    state_->parts->disk.stop();
    state_->parts->measuring.stop();
  }
  state_->server.reset();
}

}  // namespace penstock::grpc
