// libFuzzer target over the messages of penstock.worker: each goes over a socket to a worker of
// this process, as one that a caller with a session and a stage has sent.
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>

#include "penstock/base/hash.h"
#include "penstock/grpc/client/worker_protocol.h"
#include "penstock/grpc/front.h"
#include "penstock/grpc/worker.grpc.pb.h"
#include "penstock/host/host.h"
#include "penstock/serve/server_options.h"
#include "tests/support/fake_backend.h"
#include "tests/support/identity_model.h"
#include "tests/support/temporary_folder.h"

namespace {

using penstock::DType;
namespace messages = penstock::worker;

void require(bool holds) {
  if (!holds) std::abort();
}

/// y = x, of any number of values, whatever bytes a caller calls its model.
std::shared_ptr<penstock::testing::FakeBackend> make_backend() {
  auto backend = std::make_shared<penstock::testing::FakeBackend>();
  const auto open =
      penstock::Type::tensor(DType::kF32, std::vector<penstock::Dim>{{.symbol = "n"}});
  backend->models["double.onnx"] = {
      {{"x", open}},
      {{"y", open}},
      [](penstock::testing::Inputs in, penstock::testing::Outputs out) {
        *out[0] = in[0]->clone();
        return penstock::Status();
      }};
  return backend;
}

/// One worker, and a caller of it, for all inputs.
class Called {
 public:
  Called() {
    registry_.add(make_backend());
    auto server = penstock::serve::Server::start({}, registry_);
    require(static_cast<bool>(server));
    server_ = *std::move(server);
    auto access = penstock::serve::Access::open({});
    require(static_cast<bool>(access));
    access_.emplace(*std::move(access));
    penstock::host::Host::Options options;
    options.cache = folder_.path();
    options.limits.content_bytes = 1U << 20U;
    options.limits.sessions = 8;
    options.limits.stages = 8;
    options.limits.lease = options.limits.most_lease = std::chrono::hours(24);
    auto host = penstock::host::Host::start(*server_, std::move(options));
    require(static_cast<bool>(host));
    host_ = *std::move(host);
    penstock::grpc::Front::Options front{.address = "127.0.0.1:0"};
    front.host = host_.get();
    auto started = penstock::grpc::Front::start(*server_, *access_, front);
    require(static_cast<bool>(started));
    front_ = *std::move(started);
    channel_ = ::grpc::CreateChannel(front_->address(), ::grpc::InsecureChannelCredentials());
    stub_ = messages::Worker::NewStub(channel_);
    begin();
  }
  Called(const Called&) = delete;
  Called& operator=(const Called&) = delete;
  ~Called() {
    session_context_.TryCancel();
    front_->stop(std::chrono::seconds(0));
  }

  /// The first byte says which method the others are for.
  void input(char method, std::string_view bytes) {
    static constexpr std::array<std::pair<char, const char*>, 6> kUnary{{{'m', "MissingContents"},
                                                                         {'o', "OpenStage"},
                                                                         {'c', "CloseStage"},
                                                                         {'x', "Measure"},
                                                                         {'l', "MeasureLink"},
                                                                         {'d', "Describe"}}};
    static constexpr std::array<std::pair<char, const char*>, 5> kStreams{
        {{'r', "Run"}, {'p', "PutContent"}, {'e', "Echo"}, {'t', "Pull"}, {'s', "Session"}}};
    for (const auto& [key, name] : kUnary) {
      // A field that comes twice counts the last time: the session is the caller's. Not where that
      // would close the caller's own stage, or start a process.
      const bool ours = std::string_view("mol").find(key) != std::string_view::npos;
      if (key == method) ask(name, {}, std::string(bytes) + (ours ? of_session() : ""));
    }
    for (const auto& [key, name] : kStreams) {
      if (key == method) ask(name, key == 'r' ? opened_ : std::string(), std::string(bytes));
    }
    if (++count_ % 64 == 0) still_works();
  }

 private:
  [[nodiscard]] std::string of_session() const {
    return std::string{'\x0a', static_cast<char>(session_.size())} + session_;
  }

  void begin() {
    session_stream_ = stub_->Session(&session_context_);
    messages::SessionRequest request;
    request.mutable_open()->set_protocol(penstock::grpc::kWorkerProtocol);
    messages::SessionResponse response;
    require(session_stream_->Write(request) && session_stream_->Read(&response));
    session_ = response.session();
    messages::RunRequest open;
    open.mutable_open()->set_session(session_);
    opened_ = open.SerializeAsString();
    const std::string model = penstock::testing::identity_model();
    const auto sha256 = penstock::sha256_of(model);
    ::grpc::ClientContext context;
    messages::PutContentResponse put;
    const auto writer = stub_->PutContent(&context, &put);
    messages::PutContentRequest content;
    content.mutable_head()->set_session(session_);
    content.mutable_head()->set_sha256(sha256);
    content.mutable_head()->set_bytes(model.size());
    require(writer->Write(content));
    content.set_piece(model);
    require(writer->Write(content) && writer->WritesDone() && writer->Finish().ok());
    messages::OpenStageRequest stage;
    stage.set_session(session_);
    auto& file = *stage.add_files();
    file.set_path("double.onnx");
    file.set_sha256(sha256);
    stage.set_backend("fake");
    stage.set_device("cpu:0");
    messages::OpenStageResponse made;
    ::grpc::ClientContext opening;
    require(stub_->OpenStage(&opening, stage, &made).ok());
    stage_ = made.stage();
  }

  /// Sends the messages that are not empty, reads all answers, and looks at the end.
  void ask(const std::string& method, const std::string& first, const std::string& bytes) {
    ::grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    ::grpc::CompletionQueue queue;
    ::grpc::GenericStub generic(channel_);
    const auto call = generic.PrepareCall(&context, "/penstock.worker.Worker/" + method, &queue);
    const auto wait = [&] {
      void* tag = nullptr;
      bool ok = false;
      return queue.Next(&tag, &ok) && ok;
    };
    call->StartCall(nullptr);
    bool open = wait();
    for (const auto& message : {first, bytes}) {
      if (!open || (&message == &first && first.empty())) continue;
      const ::grpc::Slice slice(message);
      call->Write(::grpc::ByteBuffer(&slice, 1), nullptr);
      open = wait();
    }
    if (open) {
      call->WritesDone(nullptr);
      wait();
    }
    std::string answer;
    for (bool more = true; more;) {
      ::grpc::ByteBuffer read;
      call->Read(&read, nullptr);
      more = wait();
      std::vector<::grpc::Slice> slices;
      if (!more || !read.Dump(&slices).ok()) continue;
      answer.clear();
      for (const auto& slice : slices) answer.append(slice.begin(), slice.end());
    }
    ::grpc::Status status;
    call->Finish(&status, nullptr);
    wait();
    queue.Shutdown();
    using Code = ::grpc::StatusCode;
    require(status.error_code() != Code::UNKNOWN && status.error_code() != Code::UNAVAILABLE &&
            status.error_code() != Code::DEADLINE_EXCEEDED);
    if (method == "OpenStage" && status.ok()) close(answer);
  }

  /// As many stages as there may be would leave no room for others.
  void close(const std::string& answer) {
    messages::OpenStageResponse made;
    require(made.ParseFromString(answer) && made.stage() != stage_);
    messages::CloseStageRequest asked;
    asked.set_session(session_);
    asked.set_stage(made.stage());
    messages::CloseStageResponse closed;
    ::grpc::ClientContext context;
    require(stub_->CloseStage(&context, asked, &closed).ok());
  }

  /// The caller's own stage answers.
  void still_works() {
    ::grpc::ClientContext context;
    const auto run = stub_->Run(&context);
    messages::RunRequest request;
    request.mutable_open()->set_session(session_);
    messages::RunResponse response;
    require(run->Write(request) && run->Read(&response) && response.has_opened());
    auto& call = *request.mutable_call();
    call.set_number(1);
    call.set_stage(stage_);
    auto& input = *call.add_inputs();
    input.set_dtype(1);
    input.add_dims(1);
    input.set_raw(0);
    request.add_raw("abcd");
    require(run->Write(request) && run->Read(&response));
    require(response.has_answer());
    run->WritesDone();
    require(run->Finish().ok());
  }

  penstock::TemporaryFolder folder_;
  penstock::backend::Registry registry_;
  std::unique_ptr<penstock::serve::Server> server_;
  std::optional<penstock::serve::Access> access_;
  std::unique_ptr<penstock::host::Host> host_;
  std::unique_ptr<penstock::grpc::Front> front_;
  std::shared_ptr<::grpc::Channel> channel_;
  std::unique_ptr<messages::Worker::Stub> stub_;
  ::grpc::ClientContext session_context_;
  std::unique_ptr<::grpc::ClientReaderWriter<messages::SessionRequest, messages::SessionResponse>>
      session_stream_;
  std::string session_, opened_;
  std::uint64_t stage_ = 0, count_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Called called;
  if (size == 0) return 0;
  const auto* bytes = reinterpret_cast<const char*>(data);
  called.input(bytes[0], {bytes + 1, size - 1});
  return 0;
}
