// One thread opens the session, sends beats and reads their echoes; a long silence is an error.
#include "penstock/grpc/client/session.h"

#include <algorithm>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include "penstock/base/thread.h"
#include "penstock/grpc/client/oneof.h"
#include "penstock/grpc/client/question.h"
#include "penstock/grpc/client/worker_protocol.h"
#include "penstock/grpc/worker.grpc.pb.h"

namespace penstock::grpc {
namespace {

constexpr auto kSessionOpens = std::chrono::seconds(5);
/// So that a caller who has nothing to do for a while, or is cut off, finds its stages again.
constexpr auto kLeastLease = std::chrono::seconds(5);
constexpr std::chrono::nanoseconds kOftenest = std::chrono::milliseconds(50);
constexpr auto kSessionCloses = std::chrono::milliseconds(500);

}  // namespace

struct Session::State {
  void beat(std::promise<Status>& opened);
  Status greet();
  bool exchange(const worker::SessionRequest& request, worker::SessionResponse& response);
  Error ended();

  PeerOptions options;
  Wanted wanted;
  std::unique_ptr<worker::Worker::Stub> stub;
  ::grpc::ClientContext context;
  std::unique_ptr<::grpc::ClientReaderWriter<worker::SessionRequest, worker::SessionResponse>>
      stream;
  std::string id;
  std::chrono::nanoseconds between{};  // Two beats.

  std::mutex mutex;  // Guards all below.
  std::condition_variable changed;
  std::int64_t heard_ns = 0;
  std::optional<Error> end;
  bool closes = false;
  std::thread thread;
};

Error Session::State::ended() {
  const auto status = stream->Finish();
  if (status.ok()) return make_error(Code::kUnavailable, "it ended the session");
  Error told = to_error(status, options.address);
  // Any server of gRPC says so of services that it has not; a worker's own error has details.
  if (told.code == Code::kUnimplemented && status.error_details().empty()) {
    told.reason =
        "it is no penstock worker: start one there ('penstock worker'), or name its model by "
        "oip://";
  }
  return told;
}

bool Session::State::exchange(const worker::SessionRequest& request,
                              worker::SessionResponse& response) {
  const std::int64_t left = now_ns();
  if (!stream->Write(request) || !stream->Read(&response)) return false;
  wanted.clock->note(left, response.received_ns(), response.sent_ns(), now_ns());
  return true;
}

Status Session::State::greet() {
  worker::SessionRequest request;
  auto& open = begin_part(request, &worker::SessionRequest::set_allocated_open);
  open.set_protocol(kWorkerProtocol);
  open.set_session(wanted.id);
  open.set_lease_ns(std::max<std::chrono::nanoseconds>(kLeastLease, options.patience * 2).count());
  for (const auto& ticket : wanted.tickets) open.add_tickets(ticket);
  for (const auto& peer : wanted.peers) open.add_peers(peer);
  worker::SessionResponse response;
  if (!exchange(request, response)) return ended();
  id = response.session();
  // The worker gives no longer lease than it likes.
  between = beats_every(options.patience, std::chrono::nanoseconds(response.lease_ns()));
  return {};
}

/// On a thread of its own: a beat, its echo, a pause.
void Session::State::beat(std::promise<Status>& opened) {
  stream = stub->Session(&context);
  Status greeted = greet();
  heard_ns = now_ns();
  const bool goes_on = static_cast<bool>(greeted);
  opened.set_value(std::move(greeted));
  if (!goes_on) return;
  worker::SessionRequest request;
  worker::SessionResponse response;
  std::unique_lock lock(mutex);
  for (std::uint64_t number = 1;; ++number) {
    if (changed.wait_for(lock, between, [&] { return closes; })) break;
    lock.unlock();
    begin_part(request, &worker::SessionRequest::set_allocated_beat).set_number(number);
    const bool echoed = exchange(request, response);
    lock.lock();
    if (!echoed) break;
    heard_ns = now_ns();
  }
  const bool in_order = closes;
  lock.unlock();
  if (in_order) stream->WritesDone();
  Error why = ended();
  lock.lock();
  end = std::move(why);
  changed.notify_all();
}

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}

Session::~Session() {
  break_off();
  if (state_->thread.joinable()) state_->thread.join();
}

Result<std::unique_ptr<Session>> Session::open(const Connection& connection,
                                               const PeerOptions& options, Wanted wanted) {
  auto state = std::make_unique<State>();
  state->options = options;
  state->wanted = std::move(wanted);
  state->stub = worker::Worker::NewStub(connection.channel());
  connection.introduce(state->context);
  std::promise<Status> opened;
  auto outcome = opened.get_future();
  std::unique_ptr<Session> made(new Session(std::move(state)));
  State* const at = made->state_.get();
  PENSTOCK_CHECK_OK(start_thread(at->thread, [at, &opened] { at->beat(opened); }));
  if (outcome.wait_for(kSessionOpens) == std::future_status::timeout) at->context.TryCancel();
  PENSTOCK_CHECK_OK(outcome.get());
  return made;
}

std::chrono::nanoseconds Session::beats_every(std::chrono::nanoseconds patience,
                                              std::chrono::nanoseconds lease) {
  return std::min(patience, std::max(lease, kOftenest)) * 3 / 10;
}

const std::string& Session::id() const {
  return state_->id;
}

std::optional<Error> Session::silence(std::int64_t heard_ns) const {
  const std::scoped_lock lock(state_->mutex);
  if (state_->end) return state_->end;
  const auto silent = std::chrono::nanoseconds(now_ns() - std::max(state_->heard_ns, heard_ns));
  if (silent < state_->options.patience * 9 / 10) return std::nullopt;
  return make_error(
      Code::kUnavailable, "it gives no sign of life: silent for ",
      std::chrono::duration_cast<std::chrono::milliseconds>(silent).count(), " ms (patience_ms is ",
      std::chrono::duration_cast<std::chrono::milliseconds>(state_->options.patience).count(), ")");
}

void Session::close() {
  std::unique_lock lock(state_->mutex);
  state_->closes = true;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, kSessionCloses, [&] { return state_->end.has_value(); });
}

void Session::break_off() {
  {
    const std::scoped_lock lock(state_->mutex);
    state_->closes = true;
  }
  state_->context.TryCancel();
  state_->changed.notify_all();
}

}  // namespace penstock::grpc
