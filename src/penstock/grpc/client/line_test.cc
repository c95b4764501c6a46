// Calls and held tensors of an invented worker that leaves, cancels calls or sends nothing.
#include "penstock/grpc/client/line.h"

#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include "penstock/grpc/client/client_stream.h"
#include "penstock/grpc/client/held_source.h"
#include "penstock/grpc/client/question.h"
#include "penstock/grpc/worker.grpc.pb.h"
#include "tests/support/refused_memory.h"

namespace penstock::grpc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Stream = ::grpc::ServerReaderWriter<worker::RunResponse, worker::RunRequest>;

/// Opens lines; what a test says becomes of them.
class FakeWorker final : public worker::Worker::Service {
 public:
  ::grpc::Status Run(::grpc::ServerContext*, Stream* stream) override {
    worker::RunRequest first;
    if (!stream->Read(&first)) return ::grpc::Status::CANCELLED;
    worker::RunResponse opened;
    opened.mutable_opened()->set_most_calls(7);
    stream->Write(opened);
    return goes_on(*stream);
  }

  /// Stands still.
  ::grpc::Status Pull(::grpc::ServerContext* context, const worker::PullRequest*,
                      ::grpc::ServerWriter<worker::PullResponse>*) override {
    while (!context->IsCancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return ::grpc::Status::CANCELLED;
  }

  std::function<::grpc::Status(Stream&)> goes_on;
};

worker::RunRequest next(Stream& stream) {
  worker::RunRequest request;
  EXPECT_TRUE(stream.Read(&request));
  return request;
}

void answer(Stream& stream, std::uint64_t number, Code code) {
  worker::RunResponse response;
  response.mutable_answer()->set_number(number);
  response.mutable_answer()->mutable_error()->set_code(static_cast<int>(code));
  stream.Write(response);
}

Error error_of(InferCall& call) {
  EXPECT_TRUE(call.wait(INT64_MAX));
  std::uint64_t allocations = 0;
  const Status taken = call.take({}, allocations);
  EXPECT_FALSE(taken);
  return taken ? Error() : taken.error();
}

class LineTest : public ::testing::Test {
 protected:
  LineTest() {
    ::grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", ::grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&worker_);
    server_ = builder.BuildAndStart();
    dispatcher_ = std::thread([this] { dispatch_events(queue_); });
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

  /// Why a tensor that the worker has does not come.
  Error read_what_stands_still(std::chrono::nanoseconds patience, std::int64_t deadline_ns) {
    const auto address = concat("127.0.0.1:", port_);
    const auto source = std::make_shared<HeldSource>(address, patience);
    const auto held = source->hold("ticket", DType::kF32, {1}, deadline_ns);
    source->connected(*Connection::open({.address = address}), nullptr, true);
    Tensor place = Tensor::allocate(DType::kF32, {1});
    const Status brought = held->read(place);
    EXPECT_FALSE(brought);
    if (brought) return {};
    EXPECT_EQ(brought.error().find(Where::kPeer)->name, address);
    return brought.error();
  }

  FakeWorker worker_;
  int port_ = 0;
  std::unique_ptr<::grpc::Server> server_;
  ::grpc::CompletionQueue queue_;
  std::thread dispatcher_;
};

/// The end of the stream may be told before the end of the write: whoever waited for the one only
/// let go of what the other was told to.
TEST_F(LineTest, IsOverWhenTheLastWriteIsToo) {
  for (int i = 0; i < 20; ++i) {
    std::promise<void> leaves;
    worker_.goes_on = [&](Stream&) -> ::grpc::Status {  // It reads no further: what is sent waits.
      leaves.get_future().wait();
      return {::grpc::StatusCode::UNAVAILABLE, "it leaves"};
    };
    auto line = open();
    ASSERT_TRUE(line) << line.error().message();
    const Tensor large = Tensor::allocate(DType::kF32, {16 << 20});  // More than a window holds.
    const Tensor* const inputs[] = {&large};
    const auto call = (*line)->call(1, inputs, {}, {});
    ASSERT_TRUE(call) << call.error().message();
    leaves.set_value();
    ASSERT_TRUE((*call)->wait(INT64_MAX));
    (*line)->wait_until_over();
    EXPECT_TRUE((*line)->is_broken());
    line->reset();
  }
}

TEST_F(LineTest, OnlyWhoCancelledACallHearsThatItWas) {
  worker_.goes_on = [](Stream& stream) -> ::grpc::Status {
    answer(stream, next(stream).call().number(), Code::kCancelled);
    const auto number = next(stream).call().number();
    EXPECT_EQ(next(stream).cancel().number(), number);
    answer(stream, number, Code::kCancelled);
    answer(stream, next(stream).call().number(), Code::kDeadlineExceeded);
    return ::grpc::Status::OK;
  };
  const auto line = *open();
  EXPECT_EQ(line->most_calls(), 7);
  const auto let_go = *line->call(1, {}, {}, {});
  EXPECT_EQ(error_of(*let_go).code, Code::kUnavailable);
  const auto cancelled = *line->call(1, {}, {}, {});
  cancelled->cancel();
  EXPECT_EQ(error_of(*cancelled).code, Code::kCancelled);
  const auto without_deadline = *line->call(1, {}, {}, {});
  EXPECT_EQ(error_of(*without_deadline).code, Code::kUnavailable);
  line->wait_until_over();
}

/// A pipeline is told that a call has ended, and waits only then.
TEST_F(LineTest, ACallEndsAtItsDeadlineThoughNobodyWaitsForIt) {
  worker_.goes_on = [](Stream& stream) -> ::grpc::Status {
    const auto number = next(stream).call().number();
    EXPECT_EQ(next(stream).cancel().number(), number) << "the worker need not go on";
    return ::grpc::Status::OK;
  };
  const auto line = *open();
  std::promise<void> told;
  InferOptions options{.deadline_ns = now_ns() + 20'000'000};
  options.done = [](void* whom) { static_cast<std::promise<void>*>(whom)->set_value(); };
  options.whom = &told;
  const auto call = *line->call(1, {}, {}, options);
  told.get_future().wait();
  EXPECT_EQ(error_of(*call).code, Code::kCancelled);
  line->wait_until_over();
}

TEST_F(LineTest, CallsOfAStreamThatWasCancelledThereAreUnavailable) {
  worker_.goes_on = [](Stream& stream) -> ::grpc::Status {
    next(stream);
    return ::grpc::Status::CANCELLED;
  };
  const auto line = *open();
  const auto call = *line->call(1, {}, {}, {});
  EXPECT_EQ(error_of(*call).code, Code::kUnavailable);
  line->wait_until_over();
  const auto late = line->call(1, {}, {}, {});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::kUnavailable);
}

TEST_F(LineTest, AWorkerThatSendsNoMessageIsToldSo) {
  worker_.goes_on = [](Stream& stream) -> ::grpc::Status {
    worker::RunResponse response;
    response.mutable_answer()->set_number(next(stream).call().number());
    response.mutable_answer()->mutable_error()->set_reason("\xff");  // No UTF-8: it cannot be read.
    stream.Write(response);
    for (worker::RunRequest request; stream.Read(&request);) {
    }
    return ::grpc::Status::CANCELLED;
  };
  const auto line = *open();
  const auto call = *line->call(1, {}, {}, {});
  const Error told = error_of(*call);
  EXPECT_EQ(told.code, Code::kUnavailable);
  EXPECT_THAT(told.message(), HasSubstr("are no RunResponse"));
  line->wait_until_over();
}

TEST_F(LineTest, ALineEndsWhereThereIsNoMemoryToCancelACall) {
  if (!PENSTOCK_COUNTS_ALLOCATIONS) GTEST_SKIP() << "a sanitizer takes malloc's place itself";
  worker_.goes_on = [](Stream& stream) -> ::grpc::Status {
    for (worker::RunRequest request; stream.Read(&request);) {
    }
    return ::grpc::Status::CANCELLED;
  };
  const std::string address = "maker:1";
  for (const bool lost : {false, true}) {
    SCOPED_TRACE(lost);
    const auto line = *open();
    const auto call = *line->call(1, {}, {}, {});
    testing::t_tester = true;
    testing::g_others_spared = true;
    testing::g_until_failure = 0;
    lost ? call->lose_input(address) : call->cancel();
    EXPECT_LT(testing::g_until_failure.exchange(-1), 0);
    testing::g_others_spared = false;
    const Error why = error_of(*call);
    EXPECT_EQ(why.code, Code::kUnavailable);
    EXPECT_THAT(why.message(), HasSubstr("out of memory"));
    EXPECT_TRUE(line->is_broken());
    line->wait_until_over();
  }
}

TEST_F(LineTest, WhatIsReleasedWithoutMemoryIsToldWithTheNextOne) {
  if (!PENSTOCK_COUNTS_ALLOCATIONS) GTEST_SKIP() << "a sanitizer takes malloc's place itself";
  const std::string first(32, 'a'), second(32, 'b');  // As long as a worker's.
  // The message and the ticket in it: what comes after is gRPC's, which ends the process.
  constexpr std::int64_t kOurs = 3;
  std::vector<std::string> told;
  worker_.goes_on = [&](Stream& stream) -> ::grpc::Status {
    const auto request = next(stream);
    told = {request.release().tickets().begin(), request.release().tickets().end()};
    return ::grpc::Status::OK;
  };
  for (std::int64_t k = 0; k < kOurs; ++k) {
    SCOPED_TRACE(k);
    const auto line = *open();
    const auto source = std::make_shared<HeldSource>("maker:1");
    source->connected(*Connection::open({.address = "maker:1"}), line, true);
    source->arrived({first, second});
    auto one = source->hold(first, DType::kF32, {1});
    auto two = source->hold(second, DType::kF32, {1});
    source->hold("another's", DType::kF32, {1}).reset();
    testing::t_tester = true;
    testing::g_others_spared = true;
    testing::g_until_failure = k;
    one.reset();
    EXPECT_LT(testing::g_until_failure.exchange(-1), 0);
    testing::g_others_spared = false;
    testing::t_tester = false;
    two.reset();
    line->wait_until_over();
    EXPECT_THAT(told, ElementsAre(first, second));
  }
}

TEST_F(LineTest, ATensorThatDoesNotComeIsUnavailableAtItsWorker) {
  const Error why = read_what_stands_still(std::chrono::milliseconds(100), INT64_MAX);
  EXPECT_EQ(why.code, Code::kUnavailable);
  EXPECT_THAT(why.message(), HasSubstr("(patience_ms)"));
}

TEST_F(LineTest, ATensorIsWaitedForUntilTheDeadlineOfItsFrame) {
  const Error why = read_what_stands_still(std::chrono::hours(1), now_ns() + 100'000'000);
  EXPECT_EQ(why.code, Code::kCancelled);
  EXPECT_THAT(why.message(), HasSubstr("its deadline has passed"));
}

TEST_F(LineTest, ALostInputIsUnavailableThoughItsWorkerIsBackBeforeTheAnswer) {
  std::promise<void> asked, back;
  std::string lost;
  worker_.goes_on = [&](Stream& stream) -> ::grpc::Status {
    const auto number = next(stream).call().number();
    asked.set_value();
    lost = next(stream).cancel().lost();
    back.get_future().wait();
    answer(stream, number, Code::kCancelled);
    return ::grpc::Status::OK;
  };
  const auto line = *open();
  const auto maker = std::make_shared<HeldSource>("maker:1");
  const std::shared_ptr<const Held> held = maker->hold("ticket", DType::kF32, {1});
  const Tensor place = Tensor::allocate(DType::kF32, {1});
  const Tensor* const inputs[] = {&place};
  const auto call = *line->call(1, inputs, {}, {.far = {&held, 1}});
  asked.get_future().wait();
  maker->lost();
  maker->connected(*Connection::open({.address = "maker:1"}), nullptr, true);
  EXPECT_FALSE(held->is_lost());
  back.set_value();
  EXPECT_EQ(error_of(*call).code, Code::kUnavailable);
  EXPECT_EQ(lost, "maker:1");
  line->wait_until_over();
}

}  // namespace
}  // namespace penstock::grpc
