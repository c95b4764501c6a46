#include "penstock/grpc/client/model_client.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>

#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>

#include "penstock/device/affinity.h"
#include "penstock/grpc/client/answer.h"
#include "penstock/grpc/client/peer.h"
#include "penstock/grpc/client/question.h"
#include "penstock/grpc/inference.grpc.pb.h"
#include "penstock/tensor/datatype.h"

namespace penstock::grpc {
namespace {

using Clock = std::chrono::steady_clock;
using Stub = inference::GRPCInferenceService::Stub;

constexpr const char* kInfer = "/inference.GRPCInferenceService/ModelInfer";
/// As many as keep a server busy while answers are on their way; the plan may say otherwise.
constexpr int kCalls = 8;

Result<ModelPort> read_port(const inference::ModelMetadataResponse::TensorMetadata& message) {
  PENSTOCK_TRY(const DType dtype, parse_datatype(message.datatype()));
  std::vector<Dim> dims;
  for (const auto size : message.shape()) dims.push_back({.size = std::max(size, Dim::kOpen)});
  return ModelPort{message.name(), Type::tensor(dtype, std::move(dims))};
}

template <typename Messages>
Result<std::vector<ModelPort>> read_ports(const Messages& messages, Where::Kind kind) {
  std::vector<ModelPort> ports;
  for (const auto& message : messages) {
    auto port = read_port(message);
    if (!port) return std::move(port).error().within({kind, message.name()});
    ports.push_back(*std::move(port));
  }
  return ports;
}

class Infer;

struct State {
  ~State();
  Status start();
  Status open();  ///< The first connection.
  Result<std::string> find_only_model(const Connection& at, Clock::duration patience);
  Result<ModelInterface> describe(const Connection& to, Clock::duration patience);
  Status check_live(const Connection& at, Clock::duration patience);

  void dispatch();          ///< On the thread that ends calls.
  void ended(Infer& call);  ///< There.

  void watch();  ///< On the thread that watches the peer.
  void watch_once(std::unique_lock<std::mutex>& lock);
  void try_again(std::unique_lock<std::mutex>& lock);
  void lose(Error why);
  [[nodiscard]] Clock::duration interval() const { return options.patience * 3 / 10; }
  [[nodiscard]] Clock::duration answer_time() const { return options.patience * 6 / 10; }

  PeerOptions options;
  std::string model, version;
  ModelInterface interface;
  ::grpc::CompletionQueue queue;
  Question question;

  std::mutex mutex;  // Guards all below but `lost`.
  std::condition_variable changed;
  std::optional<Connection> connection;
  std::unordered_map<Infer*, std::shared_ptr<Infer>> in_flight;
  std::int64_t heard_ns = 0;  // When the peer gave the last sign of life.
  bool suspect = false;       // It is to be asked at once.
  bool ends = false;
  std::optional<Error> loss;
  Clock::duration pause = kFirstTry;
  Clock::time_point next_try;
  std::atomic<bool> lost{false};  // loss.has_value()
  std::thread dispatcher, watcher;
};

class Infer final : public InferCall {
 public:
  Infer(State& client, const InferOptions& options)
      : client_(client),
        done_(options.done),
        whom_(options.whom),
        deadline_ns_(options.deadline_ns) {
    if (!options.traceparent.empty()) {
      context_.AddMetadata("traceparent", std::string(options.traceparent));
    }
  }

  void start(const Connection& connection, const ::grpc::ByteBuffer& request) {
    connection.introduce(context_);
    if (deadline_ns_ != INT64_MAX) context_.set_deadline(system_time(deadline_ns_));
    ::grpc::GenericStub stub(connection.channel());
    reader_ = stub.PrepareUnaryCall(&context_, kInfer, request, &client_.queue);
    reader_->StartCall();
    reader_->Finish(&answer_, &status_, this);
  }

  bool wait(std::int64_t until_ns) override {
    std::unique_lock lock(mutex_);
    const auto ended = [&] { return ended_; };
    if (until_ns == INT64_MAX) {
      changed_.wait(lock, ended);
      return true;
    }
    return changed_.wait_until(lock, Clock::time_point(std::chrono::nanoseconds(until_ns)), ended);
  }

  void cancel() noexcept override {
    cancelled_ = true;
    context_.TryCancel();
  }
  /// Its server is lost: ends it as that, whatever becomes of the server meanwhile.
  void lose(const Error& why) {
    {
      const std::scoped_lock lock(mutex_);
      if (ended_) return;
      loss_ = why;
    }
    context_.TryCancel();
  }

  Status take(std::span<Tensor* const> outputs, std::uint64_t& allocations) override {
    const auto& peer = client_.options.address;
    const bool cancelled = status_.error_code() == ::grpc::StatusCode::CANCELLED;
    if (loss_ && cancelled) return *std::move(loss_);
    if (!status_.ok()) return ended_badly(to_error(status_, peer));
    Status read = read_answer(answer_, client_.interface.outputs, outputs, allocations);
    answer_.Clear();
    if (!read) return std::move(read).error().within({Where::kPeer, peer});
    return {};
  }

  /// On the dispatcher's thread.
  void end() {
    {
      const std::scoped_lock lock(mutex_);
      ended_ = true;
      if (done_ != nullptr) done_(whom_);
    }
    changed_.notify_all();
  }
  [[nodiscard]] const ::grpc::Status& status() const { return status_; }

 private:
  /// What is over time is no call that goes on. Who was not cancelled from here was let go there.
  Error ended_badly(Error error) const {
    const bool by_us = cancelled_ || now_ns() >= deadline_ns_;
    if (error.code == Code::kCancelled && !by_us) error.code = Code::kUnavailable;
    const bool has_deadline = deadline_ns_ != INT64_MAX;
    if (error.code == Code::kDeadlineExceeded && has_deadline) error.code = Code::kCancelled;
    return error;
  }

  State& client_;
  void (*const done_)(void*);
  void* const whom_;
  const std::int64_t deadline_ns_;
  ::grpc::ClientContext context_;
  std::unique_ptr<::grpc::ClientAsyncResponseReader<::grpc::ByteBuffer>> reader_;
  ::grpc::ByteBuffer answer_;
  ::grpc::Status status_;
  std::atomic<bool> cancelled_{false};  // By who made it.
  std::mutex mutex_;                    // Guards all below.
  std::condition_variable changed_;
  bool ended_ = false;
  std::optional<Error> loss_;
};

State::~State() {
  {
    const std::scoped_lock lock(mutex);
    ends = true;
    for (const auto& [call, held] : in_flight) call->cancel();
  }
  question.break_off();
  changed.notify_all();
  if (watcher.joinable()) watcher.join();
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return in_flight.empty(); });
  }
  queue.Shutdown();
  if (dispatcher.joinable()) dispatcher.join();
}

Status State::check_live(const Connection& at, Clock::duration patience) {
  inference::ServerLiveResponse response;
  const auto status = question.run(at, patience, [&](auto& context) {
    return Stub(at.channel()).ServerLive(&context, {}, &response);
  });
  const auto gone = [&](const auto&... why) {
    return make_error(Code::kUnavailable, why...).within({Where::kPeer, options.address});
  };
  if (status.error_code() == ::grpc::StatusCode::DEADLINE_EXCEEDED) {
    return gone("it gives no sign of life: expected an answer within ",
                std::chrono::duration_cast<std::chrono::milliseconds>(patience).count(),
                " ms (patience_ms is ",
                std::chrono::duration_cast<std::chrono::milliseconds>(options.patience).count(),
                ")");
  }
  if (status.error_code() == ::grpc::StatusCode::UNAVAILABLE) {
    return gone("cannot be reached: ", status.error_message());
  }
  // Any other answer is one.
  if (status.ok() && !response.live()) return gone("says that it is not live");
  return {};
}

Result<std::string> State::find_only_model(const Connection& at, Clock::duration patience) {
  inference::RepositoryIndexRequest request;
  request.set_ready(true);
  inference::RepositoryIndexResponse response;
  const auto status = question.run(at, patience, [&](auto& context) {
    return Stub(at.channel()).RepositoryIndex(&context, request, &response);
  });
  if (!status.ok()) {
    return to_error(status, options.address)
        .adding("; the server was asked which models it has: name one");
  }
  std::set<std::string> names;
  for (const auto& entry : response.models()) names.insert(entry.name());
  if (names.size() == 1) return *names.begin();
  Error told = names.empty() ? not_found("the server has no model that is ready")
                             : invalid_argument("the server has ", names.size(), " models, '",
                                                join(names, "', '"), "': name one");
  return std::move(told).within({Where::kPeer, options.address});
}

Result<ModelInterface> State::describe(const Connection& to, Clock::duration patience) {
  inference::ModelMetadataRequest request;
  request.set_name(model);
  request.set_version(version);
  inference::ModelMetadataResponse response;
  const auto status = question.run(to, patience, [&](auto& context) {
    return Stub(to.channel()).ModelMetadata(&context, request, &response);
  });
  if (!status.ok()) return to_error(status, options.address);
  const auto placed = [&](Error error) {
    return std::move(error).within({Where::kModel, model}).within({Where::kPeer, options.address});
  };
  ModelInterface read;
  auto inputs = read_ports(response.inputs(), Where::kInput);
  if (!inputs) return placed(std::move(inputs).error());
  auto outputs = read_ports(response.outputs(), Where::kOutput);
  if (!outputs) return placed(std::move(outputs).error());
  return ModelInterface{*std::move(inputs), *std::move(outputs)};
}

// On the watcher's thread, as gRPC's own threads take the name of the one that makes them.
Status State::open() {
  PENSTOCK_TRY(auto opened, Connection::open(options));
  if (model.empty()) {
    PENSTOCK_TRY(model, find_only_model(opened, kConnects));
  }
  PENSTOCK_TRY(interface, describe(opened, kConnects));
  connection = std::move(opened);
  heard_ns = now_ns();
  dispatcher = std::thread([this] { dispatch(); });
  return {};
}

Status State::start() {
  std::promise<Status> opened;
  auto outcome = opened.get_future();
  watcher = std::thread([this, &opened] {
    device::name_this_thread("oip");
    Status made = open();
    const bool goes_on = static_cast<bool>(made);
    opened.set_value(std::move(made));
    if (goes_on) watch();
  });
  return outcome.get();
}

void State::dispatch() {
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) ended(*static_cast<Infer*>(tag));
}

void State::ended(Infer& call) {
  const auto code = call.status().error_code();
  std::shared_ptr<Infer> held;
  bool broke = false, news = false;
  {
    const std::scoped_lock lock(mutex);
    held = std::move(in_flight.extract(&call).mapped());
    news = ends;
    const bool unavailable = code == ::grpc::StatusCode::UNAVAILABLE;
    if (code == ::grpc::StatusCode::OK) heard_ns = now_ns();
    if (unavailable && !loss) {
      suspect = news = true;
      broke = connection->broken();
    }
  }
  if (broke) lose(to_error(call.status(), options.address));
  held->end();
  if (news) changed.notify_all();
}

void State::lose(Error why) {
  std::vector<std::shared_ptr<Infer>> calls;
  {
    const std::scoped_lock lock(mutex);
    if (loss) return;
    why.code = Code::kUnavailable;
    loss = std::move(why);
    lost.store(true, std::memory_order_release);
    suspect = false;
    pause = kFirstTry;
    next_try = Clock::now() + pause;
    for (const auto& [call, held] : in_flight) calls.push_back(held);
    why = *loss;
  }
  for (const auto& call : calls) call->lose(why);
  changed.notify_all();
}

void State::watch() {
  std::unique_lock lock(mutex);
  while (!ends) loss ? try_again(lock) : watch_once(lock);
}

void State::watch_once(std::unique_lock<std::mutex>& lock) {
  changed.wait_for(lock, interval(), [&] { return ends || suspect || loss; });
  const bool heard = now_ns() - heard_ns < interval().count();
  if (ends || loss || (heard && !suspect)) return;
  suspect = false;
  const Connection asked = *connection;
  lock.unlock();
  Status live = check_live(asked, answer_time());
  lock.lock();
  if (live) {
    heard_ns = now_ns();
  } else if (!ends) {
    lock.unlock();
    lose(std::move(live).error());
    lock.lock();
  }
}

/// The model may be another one than before: then the peer stays lost.
void State::try_again(std::unique_lock<std::mutex>& lock) {
  if (changed.wait_until(lock, next_try, [&] { return ends; })) return;
  lock.unlock();
  auto opened = Connection::open(options);
  Status back = opened ? check_live(*opened, answer_time()) : std::move(opened).error();
  if (back) {
    auto found = describe(*opened, answer_time());
    if (!found) {
      back = std::move(found).error();
    } else if (found->inputs != interface.inputs || found->outputs != interface.outputs) {
      back = make_error(Code::kFailedPrecondition,
                        "came back with a model of other inputs and outputs")
                 .within({Where::kModel, model})
                 .within({Where::kPeer, options.address});
    }
  }
  lock.lock();
  if (back) {
    connection = *std::move(opened);
    heard_ns = now_ns();
    loss.reset();
    lost.store(false, std::memory_order_release);
    return;
  }
  if (back.error().code == Code::kFailedPrecondition) loss->reason = back.error().reason;
  pause = std::min<Clock::duration>(pause * 2, kLongestTry);
  next_try = Clock::now() + pause;
}

class ModelClient final : public RemoteModel {
 public:
  explicit ModelClient(std::unique_ptr<State> state) : state_(std::move(state)) {}

  [[nodiscard]] const ModelInterface& model() const override { return state_->interface; }
  [[nodiscard]] int recommended_calls() const override { return kCalls; }
  [[nodiscard]] bool is_lost() const override {
    return state_->lost.load(std::memory_order_acquire);
  }

  Result<std::shared_ptr<InferCall>> infer(std::span<const Tensor* const> inputs,
                                           const InferOptions& options) override {
    PENSTOCK_TRY(const auto request,
                 write_request(state_->model, state_->version, state_->interface.inputs, inputs));
    auto call = std::make_shared<Infer>(*state_, options);
    std::optional<Connection> connection;
    {
      const std::scoped_lock lock(state_->mutex);
      if (state_->loss) return *state_->loss;
      state_->in_flight.emplace(call.get(), call);
      connection = state_->connection;
    }
    call->start(*connection, request);  // Sends what it can at once: too long to hold the lock.
    return std::shared_ptr<InferCall>(std::move(call));
  }

 private:
  std::unique_ptr<State> state_;
};

}  // namespace

Result<std::unique_ptr<RemoteModel>> connect_model(PeerOptions options, std::string model,
                                                   std::string version) {
  auto state = std::make_unique<State>();
  state->options = std::move(options);
  state->model = std::move(model);
  state->version = std::move(version);
  PENSTOCK_CHECK_OK(state->start());
  return std::unique_ptr<RemoteModel>(std::make_unique<ModelClient>(std::move(state)));
}

}  // namespace penstock::grpc
