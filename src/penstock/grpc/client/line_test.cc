#include "penstock/grpc/client/line.h"

#include <future>
#include <thread>

#include <gmock/gmock.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include "penstock/grpc/worker.grpc.pb.h"

namespace penstock::grpc {
namespace {

/// Opens the line, and reads no further: what is sent waits. Then it ends the call.
class Deaf final : public worker::Worker::Service {
 public:
  ::grpc::Status Run(
      ::grpc::ServerContext*,
      ::grpc::ServerReaderWriter<worker::RunResponse, worker::RunRequest>* stream) override {
    worker::RunRequest first;
    if (!stream->Read(&first)) return ::grpc::Status::CANCELLED;
    worker::RunResponse opened;
    opened.mutable_opened()->set_most_calls(1);
    stream->Write(opened);
    leaves.get_future().wait();
    return {::grpc::StatusCode::UNAVAILABLE, "it leaves"};
  }

  std::promise<void> leaves;
};

class LineTest : public ::testing::Test {
 protected:
  LineTest() {
    ::grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", ::grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&deaf_);
    server_ = builder.BuildAndStart();
    dispatcher_ = std::thread([this] { Line::dispatch(queue_); });
  }
  ~LineTest() override {
    queue_.Shutdown();
    dispatcher_.join();
  }

  Result<std::shared_ptr<Line>> open() {
    PeerOptions options;
    options.address = concat("127.0.0.1:", port_);
    PENSTOCK_TRY(const auto connection, Connection::open(options));
    return Line::open(
        connection,
        {.address = options.address, .session = "session", .clock = std::make_shared<PeerClock>()},
        queue_);
  }

  Deaf deaf_;
  int port_ = 0;
  std::unique_ptr<::grpc::Server> server_;
  ::grpc::CompletionQueue queue_;
  std::thread dispatcher_;
};

/// The end of the stream may be told before the end of the write: whoever waited for the one only
/// let go of what the other was told to.
TEST_F(LineTest, IsOverWhenTheLastWriteIsToo) {
  for (int i = 0; i < 20; ++i) {
    deaf_.leaves = {};
    auto line = open();
    ASSERT_TRUE(line) << line.error().message();
    const Tensor large = Tensor::allocate(DType::kF32, {16 << 20});  // More than a window holds.
    const Tensor* const inputs[] = {&large};
    const auto call = (*line)->call(1, inputs, {}, {});
    ASSERT_TRUE(call) << call.error().message();
    deaf_.leaves.set_value();
    ASSERT_TRUE((*call)->wait(INT64_MAX));
    (*line)->wait_until_over();
    EXPECT_TRUE((*line)->is_broken());
    line->reset();
  }
}

}  // namespace
}  // namespace penstock::grpc
