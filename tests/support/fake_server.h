// A server of the Open Inference Protocol in this process, over a real socket, for tests: it has
// the model "twice", y = 2 x, and errs as it is told.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include "penstock/grpc/inference.grpc.pb.h"

namespace penstock::testing {

class FakeServer final : public inference::GRPCInferenceService::Service {
 public:
  using Stream =
      ::grpc::ServerReaderWriter<inference::ModelStreamInferResponse, inference::ModelInferRequest>;
  /// Port 0: one that is free.
  explicit FakeServer(int port = 0) { start(port); }
  ~FakeServer() override { stop(); }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  [[nodiscard]] int port() const { return port_; }

  /// Answers change when set before a call.
  std::function<void(inference::ModelMetadataResponse&)> on_metadata = [](auto&) {};
  std::function<::grpc::Status(inference::ModelConfig&)> on_config = [](auto&) {
    return ::grpc::Status(::grpc::StatusCode::UNIMPLEMENTED, "");
  };
  std::function<::grpc::Status(const inference::ModelInferRequest&, inference::ModelInferResponse&)>
      on_infer = [](const auto&, auto&) { return ::grpc::Status::OK; };
  std::atomic<int> infers{0};
  /// Whether it has ModelStreamInfer.
  std::atomic<bool> streams{true};
  std::atomic<int> streamed{0};  ///< Of `infers`.
  /// Before a request of a stream is answered; other than OK ends the stream.
  std::function<::grpc::Status(const inference::ModelInferRequest&)> on_streamed = [](const auto&) {
    return ::grpc::Status::OK;
  };
  std::atomic<bool> lives{true};  ///< As ServerLive says,
  std::atomic<bool> ready{true};  ///< and ModelReady.
  /// Whether errors in a stream have a code, as ours do.
  std::atomic<bool> tells_codes{true};
  std::atomic<bool> tells_ids{true};  ///< Whether answers in a stream have their requests' ids.
  int most_bytes = -1;                ///< Of a request, from the next restart() on; -1: any.

  /// While it hangs, nothing is answered, as if the process were stopped.
  void hang(bool hangs) {
    {
      const std::scoped_lock lock(mutex_);
      hangs_ = hangs;
    }
    changed_.notify_all();
  }
  /// While held, no call of the model ends.
  void hold(bool held) {
    {
      const std::scoped_lock lock(mutex_);
      held_ = held;
    }
    changed_.notify_all();
  }
  void wait_for_calls(int calls) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return in_progress_ >= calls; });
  }
  /// Calls in progress end as UNAVAILABLE, and nobody listens any more.
  void stop() {
    {
      const std::scoped_lock lock(mutex_);
      stops_ = true;
    }
    changed_.notify_all();
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();
  }
  void restart() {
    stops_ = false;
    start(port_);
  }

  ::grpc::Status ServerLive(::grpc::ServerContext* /*context*/,
                            const inference::ServerLiveRequest* /*request*/,
                            inference::ServerLiveResponse* response) override {
    if (!wait_while(hangs_)) return {::grpc::StatusCode::UNAVAILABLE, kStopped};
    response->set_live(lives);
    return ::grpc::Status::OK;
  }
  ::grpc::Status ModelReady(::grpc::ServerContext* /*context*/,
                            const inference::ModelReadyRequest* /*request*/,
                            inference::ModelReadyResponse* response) override {
    if (!wait_while(hangs_)) return {::grpc::StatusCode::UNAVAILABLE, kStopped};
    response->set_ready(ready);
    return ::grpc::Status::OK;
  }
  ::grpc::Status ModelMetadata(::grpc::ServerContext* /*context*/,
                               const inference::ModelMetadataRequest* request,
                               inference::ModelMetadataResponse* response) override {
    if (request->name() != "twice") return {::grpc::StatusCode::NOT_FOUND, "unknown model"};
    response->set_name("twice");
    add_port(*response->add_inputs(), "x");
    add_port(*response->add_outputs(), "y");
    on_metadata(*response);
    return ::grpc::Status::OK;
  }
  ::grpc::Status ModelConfig(::grpc::ServerContext* /*context*/,
                             const inference::ModelConfigRequest* /*request*/,
                             inference::ModelConfigResponse* response) override {
    return on_config(*response->mutable_config());
  }
  ::grpc::Status ModelInfer(::grpc::ServerContext* /*context*/,
                            const inference::ModelInferRequest* request,
                            inference::ModelInferResponse* response) override {
    ++infers;
    {
      const std::scoped_lock lock(mutex_);
      ++in_progress_;
    }
    changed_.notify_all();
    const bool goes_on = wait_while(held_) && wait_while(hangs_);
    {
      const std::scoped_lock lock(mutex_);
      --in_progress_;
    }
    if (!goes_on) return {::grpc::StatusCode::UNAVAILABLE, kStopped};
    std::string values = request->raw_input_contents(0);
    auto* numbers = reinterpret_cast<float*>(values.data());
    for (std::size_t i = 0; i < values.size() / sizeof(float); ++i) numbers[i] *= 2;
    auto& output = *response->add_outputs();
    output.set_name("y");
    output.set_datatype("FP32");
    *output.mutable_shape() = request->inputs(0).shape();
    response->add_raw_output_contents(std::move(values));
    return on_infer(*request, *response);
  }

  /// Answers as they are ready, in any order.
  ::grpc::Status ModelStreamInfer(::grpc::ServerContext* context, Stream* stream) override {
    if (!streams) return {::grpc::StatusCode::UNIMPLEMENTED, "no streams"};
    ::grpc::Status ends;
    std::mutex writes;  // Guards writing and `ends`.
    std::vector<std::jthread> answering;
    inference::ModelInferRequest request;
    while (stream->Read(&request)) {
      if (auto told = on_streamed(request); !told.ok()) {
        const std::scoped_lock lock(writes);
        ends = std::move(told);
        break;
      }
      answering.emplace_back([&, request] {
        auto response = answer_streamed(request);
        const std::scoped_lock lock(writes);
        if (!response) {
          ends = {::grpc::StatusCode::UNAVAILABLE, kStopped};
          context->TryCancel();
        } else {
          stream->Write(*response);
        }
      });
    }
    answering.clear();
    return ends;
  }

 private:
  static constexpr const char* kStopped = "stopped";

  /// Nothing: the server stops.
  std::optional<inference::ModelStreamInferResponse> answer_streamed(
      const inference::ModelInferRequest& request) {
    inference::ModelStreamInferResponse response;
    auto& answer = *response.mutable_infer_response();
    ::grpc::Status status{::grpc::StatusCode::NOT_FOUND, "unknown model"};
    if (request.model_name() == "twice") {
      ++streamed;
      status = ModelInfer(nullptr, &request, &answer);
    }
    if (status.error_message() == kStopped) return std::nullopt;
    if (!status.ok()) {
      answer.Clear();
      response.set_error_message(status.error_message());
      if (tells_codes)
        (*answer.mutable_parameters())["error_code"].set_int64_param(status.error_code());
    }
    if (tells_ids) answer.set_id(request.id());
    return response;
  }

  static void add_port(inference::ModelMetadataResponse::TensorMetadata& port, const char* name) {
    port.set_name(name);
    port.set_datatype("FP32");
    port.add_shape(-1);
  }

  void start(int port) {
    ::grpc::ServerBuilder builder;
    builder.SetMaxReceiveMessageSize(most_bytes);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddListeningPort("127.0.0.1:" + std::to_string(port),
                             ::grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) throw std::runtime_error("the port is not free");
  }

  bool wait_while(const bool& told) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !told || stops_; });
    return !stops_;
  }

  int port_ = 0;
  std::unique_ptr<::grpc::Server> server_;
  std::mutex mutex_;  // Guards all below.
  std::condition_variable changed_;
  bool hangs_ = false, held_ = false, stops_ = false;
  int in_progress_ = 0;
};

}  // namespace penstock::testing
