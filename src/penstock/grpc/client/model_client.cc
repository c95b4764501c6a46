// Sends requests in one stream or as single calls, checks that the server lives, and reconnects.
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

#include "penstock/base/thread.h"
#include "penstock/device/affinity.h"
#include "penstock/grpc/client/answer.h"
#include "penstock/grpc/client/may_start.h"
#include "penstock/grpc/client/peer.h"
#include "penstock/grpc/client/question.h"
#include "penstock/grpc/client/served_call.h"
#include "penstock/grpc/client/served_stream.h"
#include "penstock/grpc/client/timed_event.h"
#include "penstock/grpc/inference.grpc.pb.h"
#include "penstock/tensor/datatype.h"

namespace penstock::grpc {
namespace {

using Clock = std::chrono::steady_clock;
using Stub = inference::GRPCInferenceService::Stub;

constexpr const char* kInfer = "/inference.GRPCInferenceService/ModelInfer";
constexpr const char* kStreamInfer = "/inference.GRPCInferenceService/ModelStreamInfer";
/// As many as keep a server busy while answers are on their way; the plan may say otherwise.
constexpr int kCalls = 8;
/// Bytes of tensors that every server takes, unless it was told otherwise: gRPC's own limit of a
/// message, without what stands around them.
constexpr std::size_t kSurelyTaken = (std::size_t{4} << 20) - (std::size_t{64} << 10);

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

std::size_t bytes_of(std::span<const Tensor* const> inputs) {
  std::size_t bytes = 0;
  for (const Tensor* input : inputs) bytes += input->bytes();
  return bytes;
}

std::string to_text(const ModelInterface& model) {
  const auto listed = [](const std::vector<ModelPort>& ports) {
    std::vector<std::string> texts;
    for (const auto& port : ports) texts.push_back(concat(port.name, " ", port.type));
    return texts.empty() ? "nothing" : join(texts, ", ");
  };
  return concat("(", listed(model.inputs), ") to (", listed(model.outputs), ")");
}

/// Whether a failed try tells more of a lost server than that it took too long.
bool says_why(const Error& error) {
  return error.code != Code::kDeadlineExceeded && error.code != Code::kCancelled;
}

class Infer;

/// A request that the server has refused for a reason of its own. Its caller is told once it is
/// known whether the server is lost: it would send the request there again.
class Refusal final : public TimedEvent, public std::enable_shared_from_this<Refusal> {
 public:
  Refusal(std::shared_ptr<ServedCall> call, Error why)
      : call_(std::move(call)), why_(std::move(why)) {}

  /// At most until the call's deadline. False: its caller has left it.
  bool wait_until_known(::grpc::CompletionQueue& queue) {
    if (call_->left()) return false;
    end_at(call_->deadline_ns(), shared_from_this(), queue);
    return true;
  }
  void tell(bool is_lost) {
    if (is_lost) why_.code = Code::kUnavailable;
    call_->end(std::move(why_));
    clear();
  }

 private:
  void too_late() override { call_->end(make_error(Code::kCancelled, "its deadline has passed")); }

  const std::shared_ptr<ServedCall> call_;
  Error why_;
};

struct State {
  ~State();
  Status start();
  Status open();  ///< The first connections.
  Result<Connection> open_aside() const;
  Result<std::string> find_only_model(const Connection& at, Clock::duration patience);
  Result<ModelInterface> describe(const Connection& to, Clock::duration patience);
  template <typename Request, typename Response>
  using Asks = ::grpc::Status (Stub::*)(::grpc::ClientContext*, const Request&, Response*);
  template <typename Request, typename Response>
  ::grpc::Status ask_of_model(Asks<Request, Response> asks, const Connection& at,
                              Clock::duration patience, Response& response);
  Result<inference::ModelConfig> config_of(const Connection& at, Clock::duration patience);
  Status check_live(const Connection& at, Clock::duration patience);
  Status check_ready(const Connection& at, Clock::duration patience);
  Result<bool> choose_stream(const Connection& at, Clock::duration patience);

  Result<std::shared_ptr<InferCall>> infer(std::span<const Tensor* const> inputs,
                                           const InferOptions& told);
  Result<std::shared_ptr<InferCall>> infer_alone(const Connection& at,
                                                 std::span<const Tensor* const> inputs,
                                                 const InferOptions& told);
  /// Nothing where calls go alone now. \pre  holds the lock, nothing is lost
  std::shared_ptr<ServedStream> open_stream();

  // On the thread that ends calls.
  void ended(Infer& call);
  void answered();
  void refused(std::shared_ptr<ServedCall> call, Error why);
  void stream_ended(const ServedStream& which, Error why);

  void watch();  ///< On the thread that watches the peer.
  void watch_once(std::unique_lock<std::mutex>& lock);
  void try_again(std::unique_lock<std::mutex>& lock);
  void lose(Error told);
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
  std::optional<Connection> aside;  // For signs of life: they do not wait behind requests there.
  std::unordered_map<Infer*, std::shared_ptr<Infer>> in_flight;
  std::size_t taken = kSurelyTaken;      // Bytes of inputs: larger ones may be refused.
  bool streams = false;                  // Requests go in a stream, where there is one.
  std::shared_ptr<ServedStream> stream;  // Null before the first request, and after a break.
  int running_streams = 0;               // That have not ended yet.
  Clock::duration stream_pause = kFirstTry;
  Clock::time_point next_stream;
  std::int64_t heard_ns = 0;                       // When the peer gave the last sign of life.
  bool suspect = false;                            // It is to be asked at once.
  std::vector<std::shared_ptr<Refusal>> refusals;  // Of which nobody was told yet.
  bool ends = false;
  std::optional<Error> loss;
  Clock::duration pause = kFirstTry;
  Clock::time_point next_try;
  std::atomic<bool> lost{false};  // loss.has_value()
  std::thread dispatcher, watcher;
};

/// A call of its own.
class Infer final : public ServedCall, public QueueEvent {
 public:
  Infer(State& client, std::size_t bytes, const InferOptions& options)
      : ServedCall(client.options.address, client.interface.outputs, options),
        client_(client),
        bytes_(bytes),
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
    reader_->Finish(&answer_, &status_, static_cast<QueueEvent*>(this));
  }

  void cancel() noexcept override {
    was_left();
    context_.TryCancel();
    if (over_) end(make_error(Code::kCancelled, "the call was cancelled"));
  }
  /// Its server is lost: ends it as that, whatever becomes of the server meanwhile.
  void lose(const Error& why) {
    {
      const std::scoped_lock lock(mutex_);
      loss_ = why;
    }
    context_.TryCancel();
  }

  void happened(bool /*ok*/) override {
    over_ = true;
    client_.ended(*this);
  }
  /// \pre  happened()
  Result<Answer> outcome() {
    if (status_.ok()) return parse_answer(answer_);
    const std::scoped_lock lock(mutex_);
    const bool cancelled = status_.error_code() == ::grpc::StatusCode::CANCELLED;
    return loss_ && cancelled ? *loss_ : to_error(status_, peer());
  }
  [[nodiscard]] const ::grpc::Status& status() const { return status_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }  ///< Of the inputs.

 private:
  State& client_;
  const std::size_t bytes_;
  const std::int64_t deadline_ns_;
  ::grpc::ClientContext context_;
  std::unique_ptr<::grpc::ClientAsyncResponseReader<::grpc::ByteBuffer>> reader_;
  ::grpc::ByteBuffer answer_;
  ::grpc::Status status_;
  std::atomic<bool> over_{false};  // gRPC is done with it.
  std::mutex mutex_;               // Guards what follows.
  std::optional<Error> loss_;
};

State::~State() {
  {
    const std::scoped_lock lock(mutex);
    ends = true;
    for (const auto& refusal : std::exchange(refusals, {})) refusal->tell(false);
    for (const auto& [call, held] : in_flight) call->cancel();
    if (stream != nullptr) stream->break_off();
  }
  question.break_off();
  changed.notify_all();
  if (watcher.joinable()) watcher.join();
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return in_flight.empty() && running_streams == 0; });
  }
  queue.Shutdown();
  if (dispatcher.joinable()) dispatcher.join();
}

Status State::check_live(const Connection& at, Clock::duration patience) {
  const std::int64_t asked_ns = now_ns();
  inference::ServerLiveResponse response;
  const auto status = question.run(at, patience, [&](auto& context) {
    return Stub(at.channel()).ServerLive(&context, {}, &response);
  });
  const auto gone = [&](const auto&... why) {
    return make_error(Code::kUnavailable, why...).within({Where::kPeer, options.address});
  };
  if (status.error_code() == ::grpc::StatusCode::DEADLINE_EXCEEDED) {
    const std::scoped_lock lock(mutex);
    if (heard_ns > asked_ns) return {};  // Answers come: the link is slow.
    return gone("it gives no sign of life: expected an answer within ",
                std::chrono::duration_cast<std::chrono::milliseconds>(patience).count(),
                " ms (patience_ms is ",
                std::chrono::duration_cast<std::chrono::milliseconds>(options.patience).count(),
                ")");
  }
  if (status.error_code() == ::grpc::StatusCode::UNAVAILABLE) {
    return gone("cannot be reached: ", explain_unreachable(status.error_message()));
  }
  // Any other answer is one.
  if (status.ok() && !response.live()) return gone("says that it is not live");
  return {};
}

template <typename Request, typename Response>
::grpc::Status State::ask_of_model(Asks<Request, Response> asks, const Connection& at,
                                   Clock::duration patience, Response& response) {
  Request request;
  request.set_name(model);
  request.set_version(version);
  return question.run(at, patience, [&](auto& context) {
    Stub stub(at.channel());
    return (stub.*asks)(&context, request, &response);
  });
}

/// Whether it serves the model: a server that leaves lives for as long as its last requests last.
Status State::check_ready(const Connection& at, Clock::duration patience) {
  inference::ModelReadyResponse response;
  const auto status = ask_of_model(&Stub::ModelReady, at, patience, response);
  const bool unknown = status.error_code() == ::grpc::StatusCode::NOT_FOUND;
  const bool says_so = unknown || (status.ok() && !response.ready());
  if (!says_so) return {};  // Any other answer says nothing of it.
  return make_error(Code::kUnavailable, "says that it is not ready")
      .within({Where::kModel, model})
      .within({Where::kPeer, options.address});
}

Result<std::string> State::find_only_model(const Connection& at, Clock::duration patience) {
  inference::RepositoryIndexRequest request;
  request.set_ready(true);
  inference::RepositoryIndexResponse response;
  const auto status = question.run(at, patience, [&](auto& context) {
    return Stub(at.channel()).RepositoryIndex(&context, request, &response);
  });
  if (!status.ok()) {
    const bool reached = status.error_code() != ::grpc::StatusCode::UNAVAILABLE;
    return to_error(status, options.address)
        .adding(reached ? "; the server was asked which models it has: name one" : "");
  }
  std::set<std::string> names;
  for (const auto& entry : response.models()) names.insert(entry.name());
  if (names.size() == 1) return *names.begin();
  Error told = names.empty() ? not_found("the server has no model that is ready")
                             : invalid_argument("the server has ", names.size(), " models, '",
                                                join(names, "', '"), "': name one");
  return std::move(told).within({Where::kPeer, options.address});
}

/// Whether each frame has one answer, whatever came before.
Status check_config(const inference::ModelConfig& config) {
  if (config.has_sequence_batching()) {
    // Calls are of no sequence: the server would compute each from the model's first states.
    return make_error(Code::kFailedPrecondition,
                      "keeps states from request to request, which nobody keeps apart here: run "
                      "its package in this pipeline instead, or ask the server as a client that "
                      "sends a sequence_id");
  }
  if (config.model_transaction_policy().decoupled()) {
    return make_error(Code::kFailedPrecondition,
                      "is decoupled: it may answer a request several times or not at all, where a "
                      "frame has one answer; ask the server as a client of its stream instead");
  }
  return {};
}

Result<ModelInterface> State::describe(const Connection& to, Clock::duration patience) {
  inference::ModelMetadataResponse response;
  const auto status = ask_of_model(&Stub::ModelMetadata, to, patience, response);
  if (!status.ok()) return to_error(status, options.address);
  const auto placed = [&](Error error) {
    return std::move(error).within({Where::kModel, model}).within({Where::kPeer, options.address});
  };
  auto inputs = read_ports(response.inputs(), Where::kInput);
  if (!inputs) return placed(std::move(inputs).error());
  auto outputs = read_ports(response.outputs(), Where::kOutput);
  if (!outputs) return placed(std::move(outputs).error());
  PENSTOCK_TRY(const auto config, config_of(to, patience));
  Status suits = check_config(config);
  if (!suits) return placed(std::move(suits).error());
  return ModelInterface{*std::move(inputs), *std::move(outputs)};
}

/// Empty where a server does not tell.
Result<inference::ModelConfig> State::config_of(const Connection& at, Clock::duration patience) {
  inference::ModelConfigResponse response;
  const auto status = ask_of_model(&Stub::ModelConfig, at, patience, response);
  const auto code = status.error_code();
  if (code == ::grpc::StatusCode::UNAVAILABLE || code == ::grpc::StatusCode::CANCELLED ||
      code == ::grpc::StatusCode::DEADLINE_EXCEEDED) {
    return to_error(status, options.address);
  }
  return status.ok() ? std::move(*response.mutable_config()) : inference::ModelConfig();
}

Result<bool> State::choose_stream(const Connection& at, Clock::duration patience) {
  if (options.calls == Calls::kUnary) return false;
  const bool offered = ServedStream::is_offered(at, question, patience);
  if (offered || options.calls == Calls::kEither) return offered;
  return make_error(Code::kFailedPrecondition,
                    "option 'calls' is stream, but the server does not answer requests in a "
                    "stream one by one: leave the option out, or say unary")
      .within({Where::kPeer, options.address});
}

Result<Connection> State::open_aside() const {
  PENSTOCK_TRY(auto opened, Connection::open(options));
  opened.channel()->GetState(true);  // It connects before it is needed.
  return opened;
}

// On the watcher's thread, as gRPC's own threads take the name of the one that makes them.
Status State::open() {
  PENSTOCK_TRY(auto opened, Connection::open(options));
  if (model.empty()) {
    PENSTOCK_TRY(model, find_only_model(opened, kConnects));
  }
  PENSTOCK_TRY(interface, describe(opened, kConnects));
  PENSTOCK_TRY(streams, choose_stream(opened, kConnects));
  PENSTOCK_TRY(aside, open_aside());
  connection = std::move(opened);
  heard_ns = now_ns();
  return start_thread(dispatcher, [this] { dispatch_events(queue); });
}

Status State::start() {
  std::promise<Status> opened;
  auto outcome = opened.get_future();
  PENSTOCK_CHECK_OK(start_thread(watcher, [this, &opened] {
    device::name_this_thread("oip");
    Status made = open();
    const bool goes_on = static_cast<bool>(made);
    opened.set_value(std::move(made));
    if (goes_on) watch();
  }));
  return outcome.get();
}

void State::ended(Infer& call) {
  const auto code = call.status().error_code();
  std::shared_ptr<Infer> held;
  bool broke = false, news = false;
  {
    const std::scoped_lock lock(mutex);
    held = std::move(in_flight.extract(&call).mapped());
    news = ends;
    if (code == ::grpc::StatusCode::OK) {
      heard_ns = now_ns();
      taken = std::max(taken, held->bytes());
    }
    broke = code == ::grpc::StatusCode::UNAVAILABLE && !loss && connection->broken();
  }
  if (broke) lose(to_error(call.status(), options.address));
  auto outcome = held->outcome();
  if (is_refusal(outcome)) {
    refused(std::move(held), std::move(outcome).error());
  } else {
    held->end(std::move(outcome));
  }
  if (news) changed.notify_all();
}

void State::answered() {
  const std::scoped_lock lock(mutex);
  heard_ns = now_ns();
  stream_pause = kFirstTry;
}

/// The server may be leaving, or has unloaded the model: it lives, and a stream of it, all the
/// same.
void State::refused(std::shared_ptr<ServedCall> call, Error why) {
  const auto refusal = std::make_shared<Refusal>(std::move(call), std::move(why));
  bool waits = false;
  {
    const std::scoped_lock lock(mutex);
    if (!loss && !ends) {
      suspect = true;
      waits = refusal->wait_until_known(queue);
      if (waits) refusals.push_back(refusal);
    }
  }
  if (!waits) refusal->tell(false);
  changed.notify_all();
}

/// The server may be there all the same: calls go alone until the stream is tried again.
void State::stream_ended(const ServedStream& which, Error why) {
  bool broke = false;
  {
    const std::scoped_lock lock(mutex);
    --running_streams;
    const bool current = stream.get() == &which;
    if (current) {
      stream = nullptr;
      next_stream = Clock::now() + stream_pause;
      stream_pause = std::min<Clock::duration>(stream_pause * 2, kLongestTry);
      suspect = true;
      broke = connection->broken();
    }
  }
  if (broke) lose(std::move(why));
  changed.notify_all();
}

void State::lose(Error told) {
  std::vector<std::shared_ptr<Infer>> calls;
  std::shared_ptr<ServedStream> broken;
  std::vector<std::shared_ptr<Refusal>> refused;
  told.code = Code::kUnavailable;
  {
    const std::scoped_lock lock(mutex);
    if (loss) return;
    loss = told;
    lost.store(true, std::memory_order_release);
    suspect = false;
    pause = kFirstTry;
    next_try = Clock::now() + pause;
    for (const auto& [call, held] : in_flight) calls.push_back(held);
    broken = std::exchange(stream, nullptr);
    refused = std::exchange(refusals, {});
  }
  for (const auto& call : calls) call->lose(told);
  for (const auto& refusal : refused) refusal->tell(true);
  if (broken != nullptr) {
    broken->lose(told);
    broken->break_off();
  }
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
  const bool refuses = std::exchange(suspect, false);
  const auto refused = std::exchange(refusals, {});
  const Connection asked = *aside;
  lock.unlock();
  Status live = check_live(asked, answer_time());
  if (live && refuses) live = check_ready(asked, answer_time());
  const bool is_gone = !live;
  lock.lock();
  if (!is_gone) heard_ns = now_ns();
  const bool tells = is_gone && !ends;
  lock.unlock();
  if (tells) lose(std::move(live).error());
  for (const auto& refusal : refused) refusal->tell(is_gone);
  lock.lock();
}

/// The model may be another one than before: then the peer stays lost.
void State::try_again(std::unique_lock<std::mutex>& lock) {
  if (changed.wait_until(lock, next_try, [&] { return ends; })) return;
  lock.unlock();
  auto opened = Connection::open(options);
  auto beside = open_aside();
  Status back = beside ? check_live(*beside, answer_time()) : std::move(beside).error();
  if (back && !opened) back = std::move(opened).error();
  bool streams_now = false;
  if (back) {
    auto found = describe(*opened, answer_time());
    if (!found) {
      back = std::move(found).error();
    } else if (found->inputs != interface.inputs || found->outputs != interface.outputs) {
      back = make_error(Code::kFailedPrecondition, "came back with another model: expected ",
                        to_text(interface), ", found ", to_text(*found))
                 .within({Where::kModel, model})
                 .within({Where::kPeer, options.address});
    } else {
      const auto chosen = choose_stream(*opened, answer_time());
      streams_now = chosen && *chosen;
    }
  }
  lock.lock();
  if (back) {
    connection = *std::move(opened);
    aside = *std::move(beside);
    streams = streams_now;
    taken = kSurelyTaken;
    stream_pause = kFirstTry;
    next_stream = {};
    heard_ns = now_ns();
    loss.reset();
    lost.store(false, std::memory_order_release);
    return;
  }
  if (says_why(back.error())) loss->reason = back.error().reason;
  pause = std::min<Clock::duration>(pause * 2, kLongestTry);
  next_try = Clock::now() + pause;
}

std::shared_ptr<ServedStream> State::open_stream() {
  if (!streams || stream != nullptr || Clock::now() < next_stream) return stream;
  stream = std::make_shared<ServedStream>(ServedStream::Options{
      .queue = queue,
      .address = options.address,
      .answered = [this] { answered(); },
      .refused = [this](auto call, auto why) { refused(std::move(call), std::move(why)); },
      .ended = [this](auto& which, auto why) { stream_ended(which, std::move(why)); }});
  ++running_streams;
  stream->begin(*connection, kStreamInfer, queue);
  return stream;
}

Result<std::shared_ptr<InferCall>> State::infer(std::span<const Tensor* const> inputs,
                                                const InferOptions& told) {
  std::optional<Connection> at;
  std::shared_ptr<ServedStream> in;
  {
    const std::scoped_lock lock(mutex);
    if (loss) return *loss;
    at = connection;
    // A message that is too large ends its stream, and with it all others there.
    if (bytes_of(inputs) <= taken) in = open_stream();
  }
  if (in == nullptr) return infer_alone(*at, inputs, told);
  auto call = in->infer({.model = model, .version = version}, interface, inputs, told);
  const bool too_late = !call && call.error().code == Code::kUnavailable;
  return too_late ? infer_alone(*at, inputs, told) : std::move(call);
}

Result<std::shared_ptr<InferCall>> State::infer_alone(const Connection& at,
                                                      std::span<const Tensor* const> inputs,
                                                      const InferOptions& told) {
  PENSTOCK_TRY(const auto request,
               write_request({.model = model, .version = version}, interface.inputs, inputs));
  auto call = std::make_shared<Infer>(*this, bytes_of(inputs), told);
  {
    const std::scoped_lock lock(mutex);
    if (loss) return *loss;
    in_flight.emplace(call.get(), call);
  }
  call->start(at, request);  // Sends what it can at once: too long to hold the lock.
  return std::shared_ptr<InferCall>(std::move(call));
}

class ModelClient final : public RemoteModel {
 public:
  explicit ModelClient(std::unique_ptr<State> state) : state_(std::move(state)) {}

  [[nodiscard]] const ModelInterface& model() const override { return state_->interface; }
  [[nodiscard]] int recommended_calls() const override { return kCalls; }
  [[nodiscard]] bool is_lost() const override {
    return state_->lost.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::string why_lost() const override {
    const std::scoped_lock lock(state_->mutex);
    return state_->loss ? state_->loss->reason : "";
  }

  Result<std::shared_ptr<InferCall>> infer(std::span<const Tensor* const> inputs,
                                           const InferOptions& options) override {
    return state_->infer(inputs, options);
  }

 private:
  std::unique_ptr<State> state_;
};

}  // namespace

Result<std::unique_ptr<RemoteModel>> connect_model(PeerOptions options, std::string model,
                                                   std::string version) {
  PENSTOCK_CHECK_OK(check_may_start());
  auto state = std::make_unique<State>();
  state->options = std::move(options);
  state->model = std::move(model);
  state->version = std::move(version);
  PENSTOCK_CHECK_OK(state->start());
  return std::unique_ptr<RemoteModel>(std::make_unique<ModelClient>(std::move(state)));
}

}  // namespace penstock::grpc
