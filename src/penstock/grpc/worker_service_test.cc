// Two workers in the process, over sockets, with a backend made of functions.
#include <atomic>
#include <fstream>
#include <future>
#include <thread>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "penstock/base/hash.h"
#include "penstock/grpc/client/pace.h"
#include "penstock/grpc/client/raw_message.h"
#include "penstock/grpc/client/session.h"
#include "penstock/grpc/client/stage_client.h"
#include "penstock/grpc/client/worker_messages.h"
#include "penstock/grpc/client/worker_protocol.h"
#include "penstock/grpc/front.h"
#include "penstock/grpc/inference.grpc.pb.h"
#include "penstock/grpc/worker.grpc.pb.h"
#include "penstock/host/host.h"
#include "penstock/serve/server_options.h"
#include "tests/support/fake_backend.h"
#include "tests/support/identity_model.h"
#include "tests/support/temporary_folder.h"

namespace penstock::grpc {
namespace {

using testing::FakeBackend;
using ::testing::HasSubstr;

const std::string kModelBytes = testing::identity_model();

Type open_type() {
  return Type::tensor(DType::kF32, std::vector<Dim>{{.symbol = "n"}});
}

std::shared_ptr<FakeBackend> make_backend() {
  auto backend = std::make_shared<FakeBackend>();
  backend->models["double.onnx"] = {
      {{"x", open_type()}}, {{"y", open_type()}}, [](testing::Inputs in, testing::Outputs out) {
        *out[0] = in[0]->clone();
        for (float& value : out[0]->as<float>()) value *= 2;
        return Status();
      }};
  return backend;
}

/// For callers that send no beats.
host::Host::Options with_a_long_lease() {
  return {.limits = {.lease = std::chrono::minutes(10)}, .cache = {}};
}

/// A worker with all that it is made of.
class Worker {
 public:
  explicit Worker(host::Host::Options options = with_a_long_lease(),
                  serve::Access::Options access = {}, std::string address = "127.0.0.1:0",
                  const serve::Server::Options& server = {}) {
    registry_.add(backend_);
    server_ = *serve::Server::start(server, registry_);
    access_.emplace(*serve::Access::open(std::move(access)));
    options.cache = folder_.path();
    host_ = *host::Host::start(*server_, std::move(options));
    Front::Options front{.address = std::move(address)};
    front.host = host_.get();
    front_ = *Front::start(*server_, *access_, front);
  }
  void stop() { front_->stop(std::chrono::seconds(0)); }

  [[nodiscard]] const std::string& address() const { return front_->address(); }
  [[nodiscard]] host::Host& host() const { return *host_; }
  [[nodiscard]] FakeBackend& backend() const { return *backend_; }

 private:
  TemporaryFolder folder_;
  std::shared_ptr<FakeBackend> backend_ = make_backend();
  backend::Registry registry_;
  std::unique_ptr<serve::Server> server_;
  std::optional<serve::Access> access_;
  std::unique_ptr<host::Host> host_;
  std::unique_ptr<Front> front_;
};

std::string bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

std::vector<float> values_of(const std::string& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// A caller with a session, as plain messages have it.
class Caller {
 public:
  explicit Caller(const Worker& worker, std::vector<std::string> peers = {},
                  std::string session = {}, const std::vector<std::string>& tickets = {},
                  const std::string& token = {}) {
    if (!token.empty()) session_context_.AddMetadata("authorization", "Bearer " + token);
    ::grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channel = ::grpc::CreateCustomChannel(worker.address(), ::grpc::InsecureChannelCredentials(),
                                          arguments);
    stub = worker::Worker::NewStub(channel);
    beats = stub->Session(&session_context_);
    worker::SessionRequest request;
    request.mutable_open()->set_protocol(kWorkerProtocol);
    request.mutable_open()->set_session(std::move(session));
    for (auto& peer : peers) request.mutable_open()->add_peers(std::move(peer));
    for (const auto& ticket : tickets) request.mutable_open()->add_tickets(ticket);
    worker::SessionResponse response;
    if (beats->Write(request) && beats->Read(&response)) id = response.session();
  }
  ~Caller() {
    if (beats != nullptr) session_context_.TryCancel();
  }

  /// In order.
  ::grpc::Status close() {
    beats->WritesDone();
    auto status = beats->Finish();
    beats = nullptr;
    return status;
  }

  ::grpc::Status put(const std::string& bytes, const std::string& sha256, std::size_t said) {
    ::grpc::ClientContext context;
    worker::PutContentResponse response;
    const auto writer = stub->PutContent(&context, &response);
    worker::PutContentRequest request;
    request.mutable_head()->set_session(id);
    request.mutable_head()->set_sha256(sha256);
    request.mutable_head()->set_bytes(said);
    writer->Write(request);
    for (std::size_t at = 0; at < bytes.size(); at += 50) {
      request.set_piece(bytes.substr(at, 50));
      if (!writer->Write(request)) break;
    }
    writer->WritesDone();
    return writer->Finish();
  }

  ::grpc::Status open_stage(worker::OpenStageResponse& response, const std::string& device = {}) {
    put(model, sha256_of(model), model.size());
    ::grpc::ClientContext context;
    worker::OpenStageRequest request;
    request.set_session(id);
    request.set_name("head");
    auto& file = *request.add_files();
    file.set_path("double.onnx");
    file.set_sha256(sha256_of(model));
    request.set_backend("fake");
    request.set_device(device.empty() ? concat("cpu:", device::inherited_cpus().front()) : device);
    request.set_pinned(true);
    return stub->OpenStage(&context, request, &response);
  }
  std::uint64_t open_stage() {
    worker::OpenStageResponse response;
    const auto status = open_stage(response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.stage();
  }

  std::shared_ptr<::grpc::Channel> channel;
  std::unique_ptr<worker::Worker::Stub> stub;
  std::unique_ptr<::grpc::ClientReaderWriter<worker::SessionRequest, worker::SessionResponse>>
      beats;
  std::string id;
  std::string model = kModelBytes;  // Of stages that are opened.

 private:
  ::grpc::ClientContext session_context_;
};

/// A stream of calls.
class Calls {
 public:
  explicit Calls(const Caller& caller, const std::string& token = {}) {
    if (!token.empty()) context_.AddMetadata("authorization", "Bearer " + token);
    stream_ = caller.stub->Run(&context_);
    worker::RunRequest request;
    request.mutable_open()->set_session(caller.id);
    stream_->Write(request);
    worker::RunResponse response;
    if (stream_->Read(&response)) most_calls = response.opened().most_calls();
  }
  ~Calls() {
    if (!finished_) context_.TryCancel();
  }

  static worker::RunRequest request(std::uint64_t number, std::uint64_t stage,
                                    const std::vector<float>& values) {
    worker::RunRequest request;
    auto& call = *request.mutable_call();
    call.set_number(number);
    call.set_stage(stage);
    call.set_frame(40 + number);
    auto& input = *call.add_inputs();
    input.set_dtype(1);
    input.add_dims(static_cast<std::int64_t>(values.size()));
    input.set_raw(0);
    request.add_raw(bytes_of(values));
    return request;
  }
  static worker::RunRequest request(std::uint64_t number, std::uint64_t stage,
                                    const worker::Ticket& ticket, std::int64_t count) {
    worker::RunRequest request;
    auto& call = *request.mutable_call();
    call.set_number(number);
    call.set_stage(stage);
    auto& input = *call.add_inputs();
    input.set_dtype(1);
    input.add_dims(count);
    *input.mutable_ticket() = ticket;
    return request;
  }

  void write(const worker::RunRequest& request) { stream_->Write(request); }
  worker::RunResponse read() {
    worker::RunResponse response;
    stream_->Read(&response);
    return response;
  }
  worker::RunResponse ask(const worker::RunRequest& request) {
    write(request);
    return read();
  }
  ::grpc::Status finish() {
    stream_->WritesDone();
    finished_ = true;
    return stream_->Finish();
  }

  std::uint32_t most_calls = 0;

 private:
  ::grpc::ClientContext context_;
  std::unique_ptr<::grpc::ClientReaderWriter<worker::RunRequest, worker::RunResponse>> stream_;
  bool finished_ = false;
};

/// The first call of the stage behind arm() waits in the worker until let_go().
class HeldCall {
 public:
  explicit HeldCall(Worker& worker) {
    worker.backend().models["double.onnx"].run = [this](testing::Inputs in,
                                                        testing::Outputs out) -> Status {
      *out[0] = in[0]->clone();
      if (!armed_.exchange(false)) return {};
      begun_.set_value();
      wait_.wait();
      return {};
    };
  }

  void arm() { armed_ = true; }
  void wait_until_begun() { begun_.get_future().wait(); }
  void let_go() { released_.set_value(); }

 private:
  std::atomic<bool> armed_ = false;
  std::promise<void> begun_, released_;
  const std::shared_future<void> wait_ = released_.get_future().share();
};

TEST(WorkerServiceTest, TellsWhatItIs) {
  const Worker worker;
  Caller caller(worker);
  ::grpc::ClientContext context;
  worker::DescribeResponse response;
  ASSERT_TRUE(caller.stub->Describe(&context, {}, &response).ok());
  EXPECT_EQ(response.protocol(), kWorkerProtocol);
  EXPECT_EQ(response.cpus_size(), static_cast<int>(device::inherited_cpus().size()));
  EXPECT_FALSE(response.fingerprint().empty());
  ASSERT_EQ(response.backends_size(), 1);
  EXPECT_EQ(response.backends(0).name(), "fake");
  EXPECT_FALSE(response.native_code());
  EXPECT_EQ(response.instance().size(), 32U);
}

TEST(WorkerServiceTest, RunsCallsOfAStage) {
  const Worker worker;
  Caller caller(worker);
  worker::OpenStageResponse stage;
  const auto opened = caller.open_stage(stage);
  ASSERT_TRUE(opened.ok()) << opened.error_message();
  EXPECT_EQ(stage.inputs(0).name(), "x");
  EXPECT_EQ(stage.inputs(0).type().dims(0).symbol(), "n");
  EXPECT_EQ(stage.engine_version(), "1");
  Calls run(caller);
  EXPECT_GT(run.most_calls, 1U);
  const auto response = run.ask(Calls::request(7, stage.stage(), {1, 2, 3}));
  EXPECT_EQ(response.answer().number(), 7U);
  ASSERT_EQ(response.answer().outputs_size(), 1) << response.DebugString();
  EXPECT_EQ(response.answer().outputs(0).raw(), 1U);
  EXPECT_EQ(response.answer().outputs(0).dims(0), 3);
  EXPECT_EQ(values_of(response.raw(0)), (std::vector<float>{2, 4, 6}));
  EXPECT_GE(response.answer().times().ended_ns(), response.answer().times().begun_ns());
  EXPECT_TRUE(run.finish().ok());
}

TEST(WorkerServiceTest, ManyCallsAreInFlight) {
  const Worker worker;
  Caller caller(worker);
  const auto stage = caller.open_stage();
  Calls run(caller);
  constexpr std::uint64_t kCalls = 500;  // More than are read at a time.
  std::thread writer([&] {
    for (std::uint64_t i = 0; i < kCalls; ++i) {
      run.write(Calls::request(i, stage, {static_cast<float>(i)}));
    }
  });
  std::vector<bool> answered(kCalls);
  for (std::uint64_t i = 0; i < kCalls; ++i) {
    const auto response = run.read();
    const auto number = response.answer().number();
    ASSERT_EQ(response.raw_size(), 1) << response.DebugString();
    ASSERT_LT(number, kCalls);
    ASSERT_FALSE(answered[number]);
    answered[number] = true;
    ASSERT_EQ(values_of(response.raw(0)).at(0), 2 * static_cast<float>(number));
  }
  writer.join();
  EXPECT_TRUE(run.finish().ok());
}

/// Listens, and says nothing.
class Silent {
 public:
  Silent() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    ::sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::socklen_t length = sizeof at;
    auto* const named = reinterpret_cast<::sockaddr*>(&at);
    EXPECT_EQ(::bind(socket_, named, length), 0);
    EXPECT_EQ(::listen(socket_, 8), 0);
    EXPECT_EQ(::getsockname(socket_, named, &length), 0);
    address = concat("127.0.0.1:", ntohs(at.sin_port));
  }
  ~Silent() { ::close(socket_); }
  Silent(const Silent&) = delete;
  Silent& operator=(const Silent&) = delete;

  std::string address;

 private:
  const int socket_;
};

/// As many calls as a stream takes wait for a worker that stands still: whoever says that it is
/// lost must be heard.
TEST(WorkerServiceTest, CallsThatWaitForALostPeerEndHoweverManyThereAre) {
  const Silent silent;
  const Worker worker({.limits = {.calls = 3, .lease = std::chrono::minutes(10)}, .cache = {}});
  Caller caller(worker, {silent.address});
  const auto stage = caller.open_stage();
  Calls run(caller);
  worker::Ticket ticket;
  ticket.set_id("any");
  ticket.set_address(silent.address);
  for (std::uint64_t i = 0; i < run.most_calls; ++i) {
    run.write(Calls::request(i, stage, ticket, 3));
  }
  for (std::uint64_t i = 0; i < run.most_calls; ++i) {
    worker::RunRequest lost;
    lost.mutable_cancel()->set_number(i);
    lost.mutable_cancel()->set_lost(silent.address);
    run.write(lost);
    const auto answer = run.read().answer();
    EXPECT_EQ(answer.number(), i);
    EXPECT_EQ(answer.error().code(), static_cast<int>(Code::kUnavailable)) << answer.DebugString();
    EXPECT_THAT(answer.error().reason(), HasSubstr("lost"));
  }
  EXPECT_EQ(run.ask(Calls::request(7, stage, {1})).raw_size(), 1);
}

/// Of the model "double.onnx" that lies there.
StageRequest order_in(const TemporaryFolder& folder) {
  StageRequest request;
  request.name = "head";
  request.model = folder.path() / "double.onnx";
  request.backend = "fake";
  request.device = concat("cpu:", device::inherited_cpus().front());
  return request;
}

TEST(WorkerServiceTest, AStageHasNoMoreCallsInFlightThanItsStreamTakes) {
  const TemporaryFolder folder;
  const Worker worker({.limits = {.calls = 1}, .cache = {}});
  PeerOptions peer;
  peer.address = worker.address();
  peer.patience = std::chrono::seconds(60);
  std::ofstream(folder.path() / "double.onnx") << kModelBytes;
  const auto stage = open_stage(peer, order_in(folder));
  ASSERT_TRUE(stage) << stage.error().message();
  EXPECT_EQ((*stage)->recommended_calls(), 1);
}

TEST(WorkerServiceTest, AStageThatIsRefusedLeavesNoSession) {
  const TemporaryFolder folder;
  const Worker worker;
  PeerOptions peer;
  peer.address = worker.address();
  peer.patience = std::chrono::seconds(60);
  std::ofstream(folder.path() / "double.onnx") << kModelBytes;
  auto order = order_in(folder);
  order.backend = "unknown";
  ASSERT_FALSE(open_stage(peer, order));
  while (worker.host().sessions() > 0) std::this_thread::yield();
}

TEST(WorkerServiceTest, ACallThatIsLargerThanTheWorkerTakesIsRefusedAlone) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "double.onnx") << kModelBytes;
  const Worker worker(with_a_long_lease(), {}, "127.0.0.1:0", {.limits = {.message_bytes = 2000}});
  PeerOptions peer;
  peer.address = worker.address();
  peer.patience = std::chrono::seconds(60);
  const auto stage = open_stage(peer, order_in(folder));
  ASSERT_TRUE(stage) << stage.error().message();
  const auto begin = [&](std::int64_t size) {
    const Tensor x = Tensor::allocate(DType::kF32, {size});
    const Tensor* const inputs[] = {&x};
    return (*stage)->infer(inputs, {});
  };
  const auto before = begin(10);
  ASSERT_TRUE(before);
  const auto large = begin(1000);
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, Code::kResourceExhausted);
  EXPECT_THAT(large.error().message(), HasSubstr("at most 2000 bytes (--max-message), found 40"));
  EXPECT_EQ(large.error().find(Where::kPeer)->name, worker.address());
  const auto after = begin(10);
  ASSERT_TRUE(after);
  for (const auto& call : {*before, *after}) {
    Tensor y;
    Tensor* const outputs[] = {&y};
    std::uint64_t allocations = 0;
    EXPECT_TRUE(call->wait(INT64_MAX));
    EXPECT_TRUE(call->take(outputs, allocations));
  }
  EXPECT_FALSE((*stage)->is_lost());
}

TEST(WorkerServiceTest, AnErrorIsThatCallsAlone) {
  const Worker worker;
  Caller caller(worker);
  const auto stage = caller.open_stage();
  Calls run(caller);
  const auto code_of = [&](const worker::RunRequest& request) {
    return static_cast<Code>(run.ask(request).answer().error().code());
  };
  auto wrong = Calls::request(1, stage, {1});
  wrong.mutable_call()->mutable_inputs(0)->set_dtype(7);  // i64 of 4 bytes
  EXPECT_EQ(code_of(wrong), Code::kInvalidArgument);
  wrong = Calls::request(1, stage, {1});
  wrong.mutable_call()->mutable_inputs(0)->set_dtype(99);
  EXPECT_EQ(code_of(wrong), Code::kInvalidArgument);
  wrong = Calls::request(1, stage, {1});
  wrong.mutable_call()->mutable_inputs(0)->set_dims(0, std::int64_t{1} << 61);
  EXPECT_EQ(code_of(wrong), Code::kInvalidArgument);
  wrong = Calls::request(1, stage, {1});
  wrong.mutable_call()->mutable_inputs(0)->set_raw(5);
  EXPECT_EQ(code_of(wrong), Code::kInvalidArgument);
  wrong = Calls::request(1, stage, {1});
  wrong.mutable_call()->mutable_inputs(0)->add_dims(1);
  EXPECT_EQ(code_of(wrong), Code::kInvalidArgument);
  wrong = Calls::request(1, stage, {1});
  wrong.mutable_call()->clear_inputs();
  EXPECT_EQ(code_of(wrong), Code::kInvalidArgument);
  wrong = Calls::request(1, stage, {1});
  wrong.mutable_call()->set_left_ns(-1);
  EXPECT_EQ(code_of(wrong), Code::kDeadlineExceeded);
  EXPECT_EQ(code_of(Calls::request(1, stage + 1, {1})), Code::kNotFound);
  worker::Ticket guess;
  guess.set_id(std::string(32, 'x'));
  EXPECT_EQ(code_of(Calls::request(1, stage, guess, 1)), Code::kNotFound);
  guess.set_address("127.0.0.1:1");
  EXPECT_EQ(code_of(Calls::request(1, stage, guess, 1)), Code::kPermissionDenied);
  const auto right = run.ask(Calls::request(1, stage, {}));
  EXPECT_TRUE(right.raw(0).empty());
  EXPECT_FALSE(right.answer().has_error()) << right.DebugString();
}

TEST(WorkerServiceTest, TruthValuesThatAreNeitherZeroNorOneAreRefused) {
  const Worker worker;
  const auto flags = Type::tensor(DType::kBool, std::vector<Dim>{{.symbol = "n"}});
  worker.backend().models["double.onnx"] = {
      {{"x", flags}}, {{"y", flags}}, [](testing::Inputs in, testing::Outputs out) {
        *out[0] = in[0]->clone();
        return Status();
      }};
  Caller caller(worker);
  caller.model = testing::identity_model(static_cast<char>(DType::kBool));
  const auto stage = caller.open_stage();
  Calls run(caller);
  const auto ask = [&](const std::string& bytes) {
    auto request = Calls::request(1, stage, std::vector<float>(bytes.size()));
    request.mutable_call()->mutable_inputs(0)->set_dtype(static_cast<int>(DType::kBool));
    request.set_raw(0, bytes);
    return run.ask(request);
  };
  EXPECT_EQ(ask(std::string("\0\1\1", 3)).raw(0), std::string("\0\1\1", 3));
  const auto refused = read(ask(std::string("\0\1\2", 3)).answer().error());
  EXPECT_EQ(refused.code, Code::kInvalidArgument);
  EXPECT_THAT(refused.message(),
              HasSubstr("element 2: expected the byte 0 or 1, as it is BOOL, found 2"));
}

TEST(WorkerServiceTest, AnErrorSaysWhere) {
  const Worker worker;
  Caller caller(worker);
  const auto stage = caller.open_stage();
  Calls run(caller);
  auto wrong = Calls::request(2, stage, {1});
  wrong.mutable_call()->clear_inputs();
  const auto error = read(run.ask(wrong).answer().error());
  ASSERT_NE(error.find(Where::kStage), nullptr);
  EXPECT_EQ(error.find(Where::kStage)->name, "head");
  EXPECT_EQ(error.find(Where::kFrame)->number, 42U);
}

TEST(WorkerServiceTest, BytesThatAreNoRequestEndThatStreamAlone) {
  const Worker worker;
  Caller caller(worker);
  const auto stage = caller.open_stage();
  Calls other(caller), bad(caller);
  bad.write(worker::RunRequest());
  EXPECT_EQ(bad.finish().error_code(), ::grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(other.ask(Calls::request(1, stage, {1})).raw_size(), 1);
}

TEST(WorkerServiceTest, ATensorGoesFromWorkerToWorker) {
  const Worker first, second;
  Caller of_first(first), of_second(second, {first.address()});
  const auto stage = of_first.open_stage(), next = of_second.open_stage();
  Calls run(of_first), run_next(of_second);
  std::vector<float> values(700'000, 1.5F);  // Several pieces.
  auto request = Calls::request(1, stage, values);
  auto& output = *request.mutable_call()->add_outputs();
  output.set_drop(true);
  output.set_pulls(1);
  const auto kept = run.ask(request);
  EXPECT_EQ(kept.raw_size(), 0);
  ASSERT_EQ(kept.answer().outputs_size(), 1) << kept.DebugString();
  worker::Ticket ticket;
  ticket.set_id(kept.answer().outputs(0).ticket());
  ticket.set_address(first.address());
  const auto done = run_next.ask(Calls::request(1, next, ticket, 700'000));
  ASSERT_EQ(done.raw_size(), 1) << done.answer().error().DebugString();
  EXPECT_EQ(values_of(done.raw(0)), std::vector<float>(700'000, 6.0F));
  while (first.host().tickets().bytes() > 0) std::this_thread::yield();  // Told to the transport.
  const auto again = run_next.ask(Calls::request(2, next, ticket, 700'000));
  EXPECT_EQ(again.answer().error().code(), static_cast<int>(Code::kNotFound));
}

TEST(WorkerServiceTest, ATensorComesInPiecesOfTheSizeThatItsReaderAsksFor) {
  const Worker worker;
  Caller caller(worker);
  const auto stage = caller.open_stage();
  Calls run(caller);
  auto request =
      Calls::request(1, stage, std::vector<float>(std::size_t{1} << 20, 1.5F));  // 4 MiB.
  auto& output = *request.mutable_call()->add_outputs();
  output.set_drop(true);
  output.set_pulls(4);
  const auto ticket = run.ask(request).answer().outputs(0).ticket();
  const auto pieces = [&](std::uint32_t bytes) {
    worker::PullRequest pull;
    pull.set_ticket(ticket);
    pull.set_piece_bytes(bytes);
    ::grpc::ClientContext context;
    const auto stub = worker::Worker::NewStub(
        ::grpc::CreateChannel(worker.address(), ::grpc::InsecureChannelCredentials()));
    const auto reader = stub->Pull(&context, pull);
    int count = 0;
    for (worker::PullResponse response; reader->Read(&response);) ++count;
    EXPECT_TRUE(reader->Finish().ok());
    return count;
  };
  EXPECT_EQ(pieces(0), 64);
  EXPECT_EQ(pieces(1), 64);
  EXPECT_EQ(pieces(512 << 10), 8);
  EXPECT_EQ(pieces(UINT32_MAX), 4);
}

TEST(PaceTest, AsksForWhatComesInAHundredthOfASecond) {
  Pace pace;
  const Pace shared = pace;
  EXPECT_EQ(shared.piece_bytes(), 64U << 10);  // Nothing is known.
  for (const auto expected : {128U << 10, 250'000U, 250'000U}) {
    pace.saw(25'000'000, 1);
    EXPECT_EQ(shared.piece_bytes(), expected);  // No more than twice what it was.
  }
  pace.saw(100, 0);  // Tells nothing.
  EXPECT_EQ(shared.piece_bytes(), 250'000U);
  pace.saw(1'000'000, 1);
  EXPECT_EQ(shared.piece_bytes(), 64U << 10);
  for (int i = 0; i < 5; ++i) pace.saw(10'000'000, 1e-6);
  EXPECT_EQ(shared.piece_bytes(), 1U << 20);
  pace.failed();
  EXPECT_EQ(shared.piece_bytes(), 64U << 10);
}

TEST(WorkerServiceTest, ATensorOfAnotherShapeThanWasSaidIsRefused) {
  const Worker first, second;
  Caller of_first(first), of_second(second, {first.address()});
  const auto stage = of_first.open_stage(), next = of_second.open_stage();
  Calls run(of_first), run_next(of_second);
  auto request = Calls::request(1, stage, {1, 2});
  request.mutable_call()->add_outputs()->set_pulls(1);
  worker::Ticket ticket;
  ticket.set_id(run.ask(request).answer().outputs(0).ticket());
  ticket.set_address(first.address());
  const auto refused = run_next.ask(Calls::request(1, next, ticket, 3));
  EXPECT_EQ(refused.answer().error().code(), static_cast<int>(Code::kInvalidArgument));
}

TEST(WorkerServiceTest, APeerThatIsGoneIsUnavailable) {
  const Worker worker;
  std::string address;
  {
    const Worker gone;
    address = gone.address();
  }
  Caller caller(worker, {address});
  const auto stage = caller.open_stage();
  Calls run(caller);
  worker::Ticket ticket;
  ticket.set_id("any");
  ticket.set_address(address);
  const auto response = run.ask(Calls::request(1, stage, ticket, 3));
  EXPECT_EQ(response.answer().error().code(), static_cast<int>(Code::kUnavailable));
}

TEST(WorkerServiceTest, WhatIsReleasedIsFreed) {
  const Worker worker;
  Caller caller(worker), thief(worker);
  const auto stage = caller.open_stage();
  Calls run(caller), other(thief);
  auto request = Calls::request(1, stage, {1, 2});
  request.mutable_call()->add_outputs()->set_pulls(3);
  const auto ticket = run.ask(request).answer().outputs(0).ticket();
  worker::RunRequest release;
  release.mutable_release()->add_tickets(ticket);
  other.write(release);
  EXPECT_TRUE(other.finish().ok());
  EXPECT_GT(worker.host().tickets().bytes(), 0U);
  run.write(release);
  EXPECT_TRUE(run.finish().ok());
  EXPECT_EQ(worker.host().tickets().bytes(), 0U);
}

TEST(WorkerServiceTest, ASessionThatIsClosedInOrderLeavesNothing) {
  const Worker worker;
  Caller caller(worker);
  caller.open_stage();
  EXPECT_EQ(worker.host().sessions(), 1U);
  EXPECT_TRUE(caller.close().ok());
  while (worker.host().sessions() > 0 || worker.backend().alive() > 0) std::this_thread::yield();
}

TEST(WorkerServiceTest, ASessionThatWasCutOffIsTakenUpAgain) {
  const Worker worker;
  std::string id;
  std::uint64_t stage = 0;
  {
    Caller caller(worker);
    id = caller.id;
    stage = caller.open_stage();
  }
  Caller again(worker, {}, id);
  EXPECT_EQ(again.id, id);
  Calls run(again);
  EXPECT_EQ(run.ask(Calls::request(1, stage, {1})).raw_size(), 1);
}

/// Of an answer or a release that was on its way when the link broke, nobody can tell.
TEST(WorkerServiceTest, WhoTakesASessionUpNamesTheTicketsThatItHas) {
  const Worker worker;
  std::string id;
  std::vector<std::string> tickets;
  {
    Caller caller(worker);
    id = caller.id;
    const auto stage = caller.open_stage();
    Calls run(caller);
    for (std::uint64_t i = 0; i < 3; ++i) {
      auto request = Calls::request(i, stage, {1, 2});
      request.mutable_call()->add_outputs()->set_pulls(3);
      tickets.push_back(run.ask(request).answer().outputs(0).ticket());
    }
  }
  const auto all = worker.host().tickets().bytes();
  tickets.pop_back();
  Caller again(worker, {}, id, tickets);
  EXPECT_EQ(again.id, id);
  EXPECT_EQ(worker.host().tickets().bytes(), all / 3 * 2);
  for (const auto& ticket : tickets) EXPECT_TRUE(worker.host().tickets().pull(ticket));
}

TEST(WorkerServiceTest, WhatAnEarlierStreamStillMakesIsNotKept) {
  Worker worker;
  HeldCall held(worker);
  Caller caller(worker);
  const auto stage = caller.open_stage();
  held.arm();
  Calls run(caller);  // It stays: the worker has not heard yet that its caller was cut off.
  auto request = Calls::request(1, stage, {1, 2});
  request.mutable_call()->add_outputs()->set_pulls(3);
  run.write(request);
  held.wait_until_begun();
  Caller again(worker, {}, caller.id);
  held.let_go();
  EXPECT_EQ(run.read().answer().number(), 1U);
  EXPECT_TRUE(worker.host().drain(std::chrono::minutes(1)));
  EXPECT_EQ(worker.host().tickets().bytes(), 0U);
}

/// Beats come as seldom as the patience is long, and the worker forgets whom it does not hear.
TEST(WorkerServiceTest, APatientCallerKeepsItsSession) {
  using std::chrono::milliseconds;
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "double.onnx") << kModelBytes;
  const Worker worker({.limits = {.lease = milliseconds(2000)}, .cache = {}});
  PeerOptions peer;
  peer.address = worker.address();
  peer.patience = std::chrono::seconds(20);
  const auto stage = open_stage(peer, order_in(folder));
  ASSERT_TRUE(stage) << stage.error().message();
  for (int looks = 0; looks < 30; ++looks) {
    std::this_thread::sleep_for(milliseconds(100));
    ASSERT_EQ(worker.host().sessions(), 1U);
  }
}

TEST(WorkerServiceTest, AFileThatIsGoneWhenAWorkerComesBackEmptyIsTold) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "double.onnx";
  std::ofstream(file) << kModelBytes;
  std::optional<Worker> worker(std::in_place);
  PeerOptions peer;
  peer.address = worker->address();
  peer.patience = std::chrono::seconds(10);
  const auto stage = open_stage(peer, order_in(folder));
  ASSERT_TRUE(stage) << stage.error().message();
  std::filesystem::remove(file);
  worker.reset();
  worker.emplace(with_a_long_lease(), serve::Access::Options{}, peer.address);
  Tensor x = Tensor::allocate(DType::kF32, {1});
  const Tensor* const inputs[] = {&x};
  std::string said;
  while (said.find("cannot be read any more") == std::string::npos) {
    const auto call = (*stage)->infer(inputs, {});
    if (!call) said = call.error().message();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_THAT(said, HasSubstr(file.string()));
  std::ofstream(file) << kModelBytes;
  while ((*stage)->is_lost()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(WorkerServiceTest, BeatsComeWithinPatienceAndLease) {
  using std::chrono::milliseconds;
  EXPECT_EQ(Session::beats_every(milliseconds(1000), milliseconds(5000)), milliseconds(300));
  EXPECT_EQ(Session::beats_every(milliseconds(20'000), milliseconds(2000)), milliseconds(600));
  EXPECT_GT(Session::beats_every(milliseconds(1000), milliseconds(0)), milliseconds(1));
}

TEST(WorkerServiceTest, ASessionThatIsUnknownIsRefused) {
  const Worker worker;
  Caller caller(worker, {}, std::string(32, 'x'));
  EXPECT_TRUE(caller.id.empty());
  EXPECT_EQ(caller.beats->Finish().error_code(), ::grpc::StatusCode::NOT_FOUND);
  caller.beats = nullptr;
}

TEST(WorkerServiceTest, ASessionThatNeverBeganHasNotEndedWell) {
  const Worker worker;
  const Caller caller(worker);
  ::grpc::ClientContext context;
  const auto stream = caller.stub->Session(&context);
  stream->WritesDone();
  const auto status = stream->Finish();
  EXPECT_EQ(status.error_code(), ::grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("expected Open in the first request"));
}

TEST(WorkerServiceTest, BeatsAreAnswered) {
  const Worker worker;
  Caller caller(worker);
  for (std::uint64_t i = 1; i < 4; ++i) {
    worker::SessionRequest request;
    request.mutable_beat()->set_number(i);
    ASSERT_TRUE(caller.beats->Write(request));
    worker::SessionResponse response;
    ASSERT_TRUE(caller.beats->Read(&response));
    EXPECT_EQ(response.number(), i);
    EXPECT_GE(response.sent_ns(), response.received_ns());
    EXPECT_FALSE(response.draining());
  }
}

TEST(WorkerServiceTest, KnownContentsAreNotSentAgain) {
  const Worker worker;
  Caller caller(worker);
  const auto hash = sha256_of(kModelBytes);
  const auto missing = [&] {
    ::grpc::ClientContext context;
    worker::MissingContentsRequest request;
    request.set_session(caller.id);
    request.add_sha256(hash);
    worker::MissingContentsResponse response;
    EXPECT_TRUE(caller.stub->MissingContents(&context, request, &response).ok());
    return response.sha256_size();
  };
  EXPECT_EQ(missing(), 1);
  EXPECT_TRUE(caller.put(kModelBytes, hash, kModelBytes.size()).ok());
  EXPECT_EQ(missing(), 0);
  EXPECT_TRUE(caller.put("", hash, kModelBytes.size()).ok());
}

TEST(WorkerServiceTest, ContentsThatAreWrongAreRefused) {
  host::Host::Options options;
  options.limits.content_bytes = 1000;
  const Worker worker(options);
  Caller caller(worker);
  const auto code_of = [&](const std::string& bytes, const std::string& hash, std::size_t said) {
    return caller.put(bytes, hash, said).error_code();
  };
  using ::grpc::StatusCode;
  EXPECT_EQ(code_of("abc", sha256_of("abd"), 3), StatusCode::DATA_LOSS);
  EXPECT_EQ(code_of("abc", sha256_of("abc"), 4), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code_of("abc", sha256_of("abc"), 2), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code_of("abc", "../../../etc/passwd", 3), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code_of("abc", sha256_of("abc"), 2000), StatusCode::RESOURCE_EXHAUSTED);
  caller.id = "guess";
  EXPECT_EQ(code_of("abc", sha256_of("abc"), 3), StatusCode::NOT_FOUND);
  // The worker lets go of a call's bytes when it has told how the call ended.
  while (worker.host().contents().bytes() != 0) std::this_thread::yield();
}

TEST(WorkerServiceTest, AStageThatCannotBeOpenedSaysWhy) {
  const Worker worker;
  Caller caller(worker);
  worker::OpenStageResponse response;
  EXPECT_EQ(caller.open_stage(response, "cpu:1000").error_code(), ::grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(caller.open_stage(response, "moon").error_code(), ::grpc::StatusCode::INVALID_ARGUMENT);
  worker.backend().on_compile = [](const auto&) -> Status {
    return make_error(Code::kUnimplemented, "no such operator").within({Where::kNode, "n7"});
  };
  const auto error = read_status(caller.open_stage(response));
  EXPECT_EQ(error.code, Code::kUnimplemented);
  ASSERT_NE(error.find(Where::kNode), nullptr) << error.message();
  EXPECT_EQ(error.find(Where::kNode)->name, "n7");
}

TEST(WorkerServiceTest, RightsAreAskedFor) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "tokens";
  std::ofstream(file) << "reader sha256:" << sha256_of("secret") << " infer\n";
  const Worker worker(with_a_long_lease(),
                      {.tokens = file, .client_certificates = false, .say = {}});
  Caller stranger(worker);
  EXPECT_TRUE(stranger.id.empty());
  EXPECT_EQ(stranger.beats->Finish().error_code(), ::grpc::StatusCode::UNAUTHENTICATED);
  stranger.beats = nullptr;
  ::grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer secret");
  worker::OpenStageRequest request;
  worker::OpenStageResponse response;
  EXPECT_EQ(stranger.stub->OpenStage(&context, request, &response).error_code(),
            ::grpc::StatusCode::PERMISSION_DENIED);
}

TEST(WorkerServiceTest, ATokenThatIsTakenBackEndsTheStreamsThatItOpened) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "tokens";
  std::ofstream(file) << "me sha256:" << sha256_of("secret") << " infer\n";
  const Worker worker(with_a_long_lease(),
                      {.tokens = file, .client_certificates = false, .say = {}});
  const Caller caller(worker, {}, {}, {}, "secret");
  Calls calls(caller, "secret");
  EXPECT_EQ(calls.ask(Calls::request(1, 7, {1})).answer().error().code(),
            static_cast<int>(Code::kNotFound));
  std::ofstream(file) << "# nobody\n";
  ASSERT_FALSE(calls.ask(Calls::request(2, 7, {1})).has_answer());
  EXPECT_EQ(calls.finish().error_code(), ::grpc::StatusCode::UNAUTHENTICATED);
  worker::SessionRequest beat;
  beat.mutable_beat()->set_number(1);
  caller.beats->Write(beat);
  worker::SessionResponse response;
  ASSERT_FALSE(caller.beats->Read(&response));
  EXPECT_EQ(caller.beats->Finish().error_code(), ::grpc::StatusCode::UNAUTHENTICATED);
}

TEST(WorkerServiceTest, WhetherAModelIsReadyIsOpenToEverybody) {
  const TemporaryFolder folder;
  const auto tokens = folder.path() / "tokens";
  std::ofstream(tokens) << "me sha256:" << sha256_of("secret") << " infer\n";
  const Worker worker(with_a_long_lease(),
                      {.tokens = tokens, .client_certificates = false, .say = {}});
  const auto channel =
      ::grpc::CreateChannel(worker.address(), ::grpc::InsecureChannelCredentials());
  const auto stub = inference::GRPCInferenceService::NewStub(channel);
  ::grpc::ClientContext context, other;
  inference::ModelReadyRequest request;
  request.set_name("none");
  inference::ModelReadyResponse response;
  EXPECT_EQ(stub->ModelReady(&context, request, &response).error_code(),
            ::grpc::StatusCode::NOT_FOUND);
  inference::ModelMetadataRequest about;
  inference::ModelMetadataResponse told;
  EXPECT_EQ(stub->ModelMetadata(&other, about, &told).error_code(),
            ::grpc::StatusCode::UNAUTHENTICATED);
}

TEST(WorkerServiceTest, MeasuresTheLinkToAPeer) {
  const Worker worker, peer;
  Caller caller(worker, {peer.address()});
  worker::MeasureLinkRequest request;
  request.set_session(caller.id);
  request.set_address(peer.address());
  request.set_most_ns(50'000'000);
  worker::MeasureLinkResponse response;
  {
    ::grpc::ClientContext context;
    const auto status = caller.stub->MeasureLink(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
  EXPECT_GT(response.latency_seconds(), 0);
  EXPECT_GT(response.there_bytes_per_second(), 0);
  EXPECT_GT(response.back_bytes_per_second(), 0);
  request.set_address("127.0.0.1:1");
  ::grpc::ClientContext context;
  EXPECT_EQ(caller.stub->MeasureLink(&context, request, &response).error_code(),
            ::grpc::StatusCode::PERMISSION_DENIED);
}

TEST(WorkerServiceTest, MovesBytesOneWayOnlyWhereThatIsAskedFor) {
  const Worker worker, peer;
  Caller caller(worker, {peer.address()});
  using Request = worker::MeasureLinkRequest;
  for (const auto moving : {Request::THERE, Request::BACK}) {
    Request request;
    request.set_session(caller.id);
    request.set_address(peer.address());
    request.set_most_ns(20'000'000);
    request.set_moving(moving);
    worker::MeasureLinkResponse response;
    ::grpc::ClientContext context;
    const auto status = caller.stub->MeasureLink(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.there_bytes_per_second() > 0, moving == Request::THERE);
    EXPECT_EQ(response.back_bytes_per_second() > 0, moving == Request::BACK);
    EXPECT_EQ(response.latency_seconds(), 0);
  }
}

TEST(WorkerServiceTest, AnEchoIsBounded) {
  const Worker worker;
  Caller caller(worker);
  ::grpc::ClientContext context;
  const auto echoes = caller.stub->Echo(&context);
  worker::EchoRequest request;
  request.set_answer_bytes(100'000);
  ASSERT_TRUE(echoes->Write(request));
  worker::EchoResponse response;
  ASSERT_TRUE(echoes->Read(&response));
  EXPECT_EQ(response.payload().size(), 100'000U);
  request.set_answer_bytes(std::uint64_t{1} << 40);
  echoes->Write(request);
  EXPECT_FALSE(echoes->Read(&response));
  EXPECT_EQ(echoes->Finish().error_code(), ::grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST(WorkerServiceTest, ACancelledStreamCancelsItsCalls) {
  Worker worker;
  HeldCall held(worker);
  Caller caller(worker);
  const auto stage = caller.open_stage();
  held.arm();
  {
    Calls run(caller);
    run.write(Calls::request(1, stage, {1}));
    held.wait_until_begun();
  }
  held.let_go();
  EXPECT_TRUE(worker.host().drain(std::chrono::minutes(1)));
  Calls run(caller);
  EXPECT_EQ(run.ask(Calls::request(1, stage, {1})).raw_size(), 1);
}

TEST(WorkerServiceTest, AWorkerThatLeavesEndsItsStreams) {
  Worker worker;
  Caller caller(worker);
  Calls run(caller);
  worker.stop();
  EXPECT_EQ(run.finish().error_code(), ::grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(caller.close().error_code(), ::grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace penstock::grpc
