// Calls, deadlines, broken streams and lost servers, over sockets to an invented server.
#include "penstock/grpc/client/model_client.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "tests/support/fake_server.h"

namespace penstock::grpc {
namespace {

using ::testing::ElementsAre;
using testing::FakeServer;
using ::testing::HasSubstr;

Tensor numbers(std::vector<float> values) {
  Tensor made = Tensor::allocate(DType::kF32, {static_cast<std::int64_t>(values.size())});
  std::ranges::copy(values, made.as<float>().begin());
  return made;
}

struct Called {
  std::mutex mutex;
  std::condition_variable changed;
  int times = 0;
  static void tell(void* self) {
    auto& called = *static_cast<Called*>(self);
    const std::scoped_lock lock(called.mutex);
    ++called.times;
    called.changed.notify_all();
  }
  void wait_for(int least) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return times >= least; });
  }
};

::grpc::Status leaves() {
  return {::grpc::StatusCode::UNAVAILABLE, "it leaves"};
}

/// Each test with a server that has streams, and with one that has not.
class ModelClientTest : public ::testing::TestWithParam<bool> {
 protected:
  ModelClientTest() { server.streams = GetParam(); }

  Result<std::unique_ptr<RemoteModel>> connect(const std::string& model = "twice",
                                               Calls calls = Calls::kEither) {
    PeerOptions options;
    options.address = server.address();
    options.calls = calls;
    options.patience = patience;
    return connect_model(options, model, "");
  }
  std::shared_ptr<InferCall> begin(RemoteModel& client, const Tensor& x,
                                   InferOptions options = {}) {
    const Tensor* const inputs[] = {&x};
    auto call = client.infer(inputs, options);
    EXPECT_TRUE(call) << call.error().message();
    return call ? *std::move(call) : nullptr;
  }
  Status end(InferCall& call, Tensor& y) {
    EXPECT_TRUE(call.wait(INT64_MAX));
    Tensor* const outputs[] = {&y};
    return call.take(outputs, allocations);
  }
  /// Where patience is short, a server that gets no CPU counts as lost, too.
  Result<std::unique_ptr<RemoteModel>> connect_at_last() {
    auto client = connect();
    while (!client) client = connect();
    return client;
  }
  bool answers(RemoteModel& client, const Tensor& x, Tensor& y) {
    const Tensor* const inputs[] = {&x};
    const auto call = client.infer(inputs, {});
    return call && end(**call, y);
  }
  static void wait_until(const RemoteModel& client, bool lost) {
    while (client.is_lost() != lost) std::this_thread::yield();
  }

  FakeServer server;
  std::uint64_t allocations = 0;
  static constexpr std::chrono::milliseconds kShort{1000};
  /// Long but where a server is to be lost, as a busy machine may let any server wait.
  std::chrono::milliseconds patience{60'000};
};

TEST_P(ModelClientTest, TellsWhatTheModelReadsAndGives) {
  const auto client = connect();
  ASSERT_TRUE(client) << client.error().message();
  ASSERT_EQ((*client)->model().inputs.size(), 1U);
  EXPECT_EQ((*client)->model().inputs[0].name, "x");
  EXPECT_EQ(to_string((*client)->model().outputs[0].type), "f32[?]");
}

TEST_P(ModelClientTest, AModelThatKeepsStatesIsRefused) {
  server.on_config = [](auto& config) {
    config.mutable_sequence_batching();
    return ::grpc::Status::OK;
  };
  const auto refused = connect();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(refused.error().message(), HasSubstr("keeps states from request to request"));
  EXPECT_EQ(refused.error().find(Where::kModel)->name, "twice");
  server.on_config = [](auto&) { return ::grpc::Status::OK; };
  EXPECT_TRUE(connect());
}

TEST_P(ModelClientTest, AModelWithoutOneAnswerForEachRequestIsRefused) {
  server.on_config = [](auto& config) {
    config.mutable_model_transaction_policy()->set_decoupled(true);
    return ::grpc::Status::OK;
  };
  const auto refused = connect();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(refused.error().message(), HasSubstr("is decoupled"));
  EXPECT_EQ(refused.error().find(Where::kModel)->name, "twice");
}

TEST_P(ModelClientTest, AnAnswerIsWrittenWhereThereIsRoom) {
  const auto client = connect();
  ASSERT_TRUE(client);
  Tensor y = Tensor::reserve(DType::kF32, 64);
  const void* const place = y.data();
  auto call = begin(**client, numbers({1, 2, 3}));
  ASSERT_TRUE(end(*call, y));
  EXPECT_EQ(y.data(), place);
  EXPECT_THAT(y.as<float>(), ElementsAre(2, 4, 6));
  EXPECT_EQ(allocations, 0U);
}

TEST_P(ModelClientTest, AnAnswerWithoutRoomBringsItsOwn) {
  const auto client = connect();
  Tensor y;
  auto call = begin(**client, numbers({5}));
  ASSERT_TRUE(end(*call, y));
  EXPECT_THAT(y.as<float>(), ElementsAre(10));
  EXPECT_EQ(allocations, 1U);
}

TEST_P(ModelClientTest, ManyCallsAreInFlightAndEachTellsThatItIsDone) {
  const auto client = connect();
  Called called;
  server.hold(true);
  std::vector<std::shared_ptr<InferCall>> calls;
  for (int i = 0; i < 4; ++i) {
    calls.push_back(
        begin(**client, numbers({static_cast<float>(i)}), {.done = Called::tell, .whom = &called}));
  }
  server.wait_for_calls(4);
  EXPECT_FALSE(calls[0]->wait(0));
  server.hold(false);
  called.wait_for(4);
  for (int i = 3; i >= 0; --i) {
    Tensor y;
    ASSERT_TRUE(end(*calls[static_cast<std::size_t>(i)], y));
    EXPECT_THAT(y.as<float>(), ElementsAre(2.0F * static_cast<float>(i)));
  }
}

TEST_P(ModelClientTest, WhatTheServerSaysOfAnErrorIsToldWithItsAddress) {
  const auto client = connect();
  server.on_infer = [](const auto&, auto&) {
    return ::grpc::Status(::grpc::StatusCode::INVALID_ARGUMENT, "no such shape");
  };
  Tensor y;
  auto call = begin(**client, numbers({1}));
  const Status ended = end(*call, y);
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, Code::kInvalidArgument);
  EXPECT_EQ(ended.error().find(Where::kPeer)->name, server.address());
  EXPECT_FALSE((*client)->is_lost());
}

TEST_P(ModelClientTest, ALongErrorIsToldCutAndDisturbsNoOtherCall) {
  const auto client = connect();
  std::atomic<bool> told{false};
  const std::string line = "File \"model.py\", line 7, in infer\n";
  server.on_infer = [&](const auto& request, auto&) {
    if (request.inputs(0).shape(0) == 1) {
      while (!told) std::this_thread::yield();
      return ::grpc::Status::OK;
    }
    std::string trace = "no thirteen\n";
    while (trace.size() < 24'000) trace += line;
    return ::grpc::Status(::grpc::StatusCode::INTERNAL, trace + "the end");
  };
  std::vector<std::shared_ptr<InferCall>> others;
  for (int i = 0; i < 3; ++i) others.push_back(begin(**client, numbers({3})));
  Tensor y;
  const Status ended = end(*begin(**client, numbers({13, 13})), y);
  told = true;
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, Code::kInternal);
  EXPECT_THAT(ended.error().message(), HasSubstr("no thirteen"));
  EXPECT_THAT(ended.error().message(), HasSubstr("the end"));
  EXPECT_LT(ended.error().message().size(), 2200U);
  for (const auto& other : others) {
    const Status good = end(*other, y);
    ASSERT_TRUE(good) << good.error().message();
    EXPECT_THAT(y.as<float>(), ElementsAre(6));
  }
}

/// The code that a run in progress has would be taken for one.
TEST_P(ModelClientTest, ACallThatTheServersOwnLimitsEndIsUnavailable) {
  const auto client = connect();
  const auto far = std::chrono::steady_clock::now() + std::chrono::hours(1);
  for (const auto deadline : {INT64_MAX, std::int64_t{far.time_since_epoch().count()}}) {
    for (const auto code : {::grpc::StatusCode::DEADLINE_EXCEEDED, ::grpc::StatusCode::CANCELLED}) {
      server.on_infer = [&](const auto&, auto&) { return ::grpc::Status(code, "5 ms are over"); };
      Tensor y;
      const Status ended = end(*begin(**client, numbers({1}), {.deadline_ns = deadline}), y);
      ASSERT_FALSE(ended);
      EXPECT_EQ(ended.error().code, Code::kUnavailable);
      EXPECT_THAT(ended.error().message(), HasSubstr("5 ms are over"));
    }
  }
}

TEST_P(ModelClientTest, AnAnswerOfAnotherShapeIsRefused) {
  server.on_metadata = [](auto& metadata) { metadata.mutable_outputs(0)->set_shape(0, 2); };
  const auto client = connect();
  Tensor y;
  auto call = begin(**client, numbers({1, 2, 3}));
  const Status ended = end(*call, y);
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, Code::kDataLoss);
  EXPECT_THAT(ended.error().message(), HasSubstr("output 'y': expected f32[2], found f32[3]"));
}

TEST_P(ModelClientTest, AnAnswerWithTooFewBytesOrWithoutAnOutputIsRefused) {
  const auto client = connect();
  Tensor y;
  server.on_infer = [](const auto&, auto& answer) {
    answer.mutable_raw_output_contents(0)->pop_back();
    return ::grpc::Status::OK;
  };
  EXPECT_EQ(end(*begin(**client, numbers({1})), y).error().code, Code::kDataLoss);
  server.on_infer = [](const auto&, auto& answer) {
    answer.Clear();
    return ::grpc::Status::OK;
  };
  const Status ended = end(*begin(**client, numbers({1})), y);
  EXPECT_THAT(ended.error().message(), HasSubstr("output 'y': it is missing"));
}

TEST_P(ModelClientTest, AnAnswerMayHoldListsOfNumbers) {
  const auto client = connect();
  server.on_infer = [](const auto&, auto& answer) {
    answer.clear_raw_output_contents();
    answer.mutable_outputs(0)->mutable_contents()->add_fp32_contents(7);
    return ::grpc::Status::OK;
  };
  Tensor y;
  ASSERT_TRUE(end(*begin(**client, numbers({1})), y));
  EXPECT_THAT(y.as<float>(), ElementsAre(7));
}

TEST_P(ModelClientTest, ACallEndsAtItsDeadline) {
  const auto client = connect();
  server.hold(true);
  const auto soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  auto call = begin(**client, numbers({1}), {.deadline_ns = soon.time_since_epoch().count()});
  Tensor y;
  EXPECT_EQ(end(*call, y).error().code, Code::kCancelled);
  server.hold(false);
}

TEST_P(ModelClientTest, ACancelledCallEndsWhileTheServerGoesOn) {
  const auto client = connect();
  server.hold(true);
  auto call = begin(**client, numbers({1}));
  server.wait_for_calls(1);
  call->cancel();
  Tensor y;
  EXPECT_EQ(end(*call, y).error().code, Code::kCancelled);
  server.hold(false);
}

TEST_P(ModelClientTest, AModelThatIsNotThereIsNamed) {
  const auto client = connect("thrice");
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code, Code::kNotFound);
}

TEST_P(ModelClientTest, ATypeThatNobodyKnowsIsRefusedAtTheStart) {
  server.on_metadata = [](auto& metadata) { metadata.mutable_inputs(0)->set_datatype("FP31"); };
  const auto client = connect();
  ASSERT_FALSE(client);
  EXPECT_THAT(client.error().message(),
              HasSubstr("model 'twice': input 'x': 'FP31' is no datatype"));
}

TEST_P(ModelClientTest, WhereNobodyListensItSaysSo) {
  server.stop();
  const auto client = connect();
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code, Code::kUnavailable);
  EXPECT_EQ(client.error().find(Where::kPeer)->name, server.address());
  EXPECT_THAT(client.error().reason, HasSubstr("nobody listens there: start it"));
}

TEST_P(ModelClientTest, CallsInFlightOfAServerThatDiesAreUnavailable) {
  const auto client = connect();
  server.hold(true);
  auto call = begin(**client, numbers({1}));
  server.wait_for_calls(1);
  server.stop();
  Tensor y;
  const Status ended = end(*call, y);
  EXPECT_EQ(ended.error().code, Code::kUnavailable);
  wait_until(**client, true);
  const Tensor x = numbers({1});
  const Tensor* const inputs[] = {&x};
  EXPECT_EQ((*client)->infer(inputs, {}).error().code, Code::kUnavailable);
}

TEST_P(ModelClientTest, ARequestThatIsLargerThanTheServerTakesIsRefusedAlone) {
  server.stop();
  server.most_bytes = 5 << 20;
  server.restart();
  const auto client = connect();
  ASSERT_TRUE(client) << client.error().message();
  server.hold(true);
  const auto before = begin(**client, numbers({1}));
  server.wait_for_calls(1);
  Tensor y;
  const auto refused = end(*begin(**client, numbers(std::vector<float>(2 << 20))), y);
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_THAT(refused.error().message(), HasSubstr("larger than max"));
  server.hold(false);
  EXPECT_TRUE(end(*before, y));
}

TEST_P(ModelClientTest, LargeRequestsGoInTheStreamOnceTheServerHasTakenOne) {
  const auto client = connect();
  const Tensor large = numbers(std::vector<float>(2 << 20));
  Tensor y;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(end(*begin(**client, large), y));
  EXPECT_EQ(server.streamed, GetParam() ? 2 : 0);
}

TEST_P(ModelClientTest, CallsInFlightOfAServerThatHangsAreUnavailable) {
  patience = kShort;
  const auto client = connect_at_last();
  server.hang(true);
  Tensor y;
  const Status ended = end(*begin(**client, numbers({1})), y);
  EXPECT_EQ(ended.error().code, Code::kUnavailable);
  EXPECT_THAT(ended.error().message(), HasSubstr("no sign of life"));
  server.hang(false);
  wait_until(**client, false);
  while (!answers(**client, numbers({4}), y)) std::this_thread::yield();
  EXPECT_THAT(y.as<float>(), ElementsAre(8));
}

/// Its frame would go there again at once, and be refused as often as it may be tried.
TEST_P(ModelClientTest, ARefusedCallEndsOnceItIsKnownWhetherTheServerIsLost) {
  const auto client = connect();
  server.on_infer = [](const auto&, auto&) { return leaves(); };
  server.lives = false;
  Tensor y;
  EXPECT_EQ(end(*begin(**client, numbers({1})), y).error().code, Code::kUnavailable);
  EXPECT_TRUE((*client)->is_lost());
}

TEST_P(ModelClientTest, AServerThatHasUnloadedTheModelIsLost) {
  const auto client = connect();
  server.on_infer = [](const auto&, auto&) {
    return ::grpc::Status(::grpc::StatusCode::NOT_FOUND, "unknown model");
  };
  Tensor y;
  EXPECT_EQ(end(*begin(**client, numbers({1})), y).error().code, Code::kNotFound);
  EXPECT_FALSE((*client)->is_lost());
  server.ready = false;
  EXPECT_EQ(end(*begin(**client, numbers({1})), y).error().code, Code::kUnavailable);
  EXPECT_TRUE((*client)->is_lost());
}

TEST_P(ModelClientTest, AServerThatRefusesAndLivesIsNotLost) {
  const auto client = connect();
  server.on_infer = [](const auto&, auto&) { return leaves(); };
  Tensor y;
  const Status ended = end(*begin(**client, numbers({1})), y);
  EXPECT_EQ(ended.error().code, Code::kUnavailable);
  EXPECT_THAT(ended.error().message(), HasSubstr("it leaves"));
  EXPECT_FALSE((*client)->is_lost());
}

TEST_P(ModelClientTest, ARefusedCallEndsInTimeWhereTheServerHangsThen) {
  const auto client = connect();
  server.on_infer = [this](const auto&, auto&) {
    server.hang(true);
    return leaves();
  };
  Tensor y;
  const auto soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  auto late = begin(**client, numbers({1}), {.deadline_ns = soon.time_since_epoch().count()});
  EXPECT_EQ(end(*late, y).error().code, Code::kCancelled);
  server.hang(false);
  auto left = begin(**client, numbers({1}));
  EXPECT_FALSE(left->wait(now_ns() + 50'000'000));
  left->cancel();
  EXPECT_EQ(end(*left, y).error().code, Code::kCancelled);
  server.hang(false);
}

TEST_P(ModelClientTest, AServerThatReturnsIsTakenBack) {
  patience = kShort;
  const auto client = connect_at_last();
  server.stop();
  wait_until(**client, true);
  server.restart();
  wait_until(**client, false);
  Tensor y;
  while (!answers(**client, numbers({4}), y)) std::this_thread::yield();
  EXPECT_THAT(y.as<float>(), ElementsAre(8));
}

TEST_P(ModelClientTest, AServerThatReturnsWithAnotherModelStaysLost) {
  patience = kShort;
  const auto client = connect_at_last();
  server.stop();
  wait_until(**client, true);
  std::atomic<int> asked{0};
  server.on_metadata = [&](auto& metadata) {
    metadata.mutable_inputs(0)->set_datatype("INT8");
    ++asked;
  };
  server.restart();
  while (asked < 2) std::this_thread::yield();
  EXPECT_TRUE((*client)->is_lost());
  EXPECT_EQ((*client)->why_lost(),
            "came back with another model: expected (x f32[?]) to (y f32[?]), found (x i8[?]) to "
            "(y f32[?])");
  server.stop();
}

TEST_P(ModelClientTest, AClientThatGoesEndsItsCalls) {
  auto client = connect();
  server.hold(true);
  auto call = begin(**client, numbers({1}));
  server.wait_for_calls(1);
  call.reset();
  client->reset();
  server.hold(false);
}

TEST_P(ModelClientTest, RequestsGoInAStreamWhereTheServerHasOne) {
  const auto client = connect();
  Tensor y;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(end(*begin(**client, numbers({1})), y));
  EXPECT_EQ(server.infers, 3);
  EXPECT_EQ(server.streamed, GetParam() ? 3 : 0);
}

INSTANTIATE_TEST_SUITE_P(Servers, ModelClientTest, ::testing::Bool(), [](const auto& of) {
  return of.param ? std::string("WithStreams") : std::string("WithoutStreams");
});

class StreamTest : public ModelClientTest {
 protected:
  /// The request of x = {-1} ends its stream, which answers the others.
  void let_one_end_the_stream() {
    server.on_streamed = [](const inference::ModelInferRequest& request) {
      float first = 0;
      if (request.raw_input_contents_size() > 0) {
        std::memcpy(&first, request.raw_input_contents(0).data(), sizeof first);
      }
      return first == -1 ? ::grpc::Status(::grpc::StatusCode::RESOURCE_EXHAUSTED, "enough")
                         : ::grpc::Status::OK;
    };
  }
};

TEST_P(StreamTest, OneRequestThatFailsEndsNoOther) {
  const auto client = connect();
  server.on_infer = [](const inference::ModelInferRequest& request, auto&) {
    return request.inputs(0).shape(0) == 3 ? ::grpc::Status(::grpc::StatusCode::INTERNAL, "three")
                                           : ::grpc::Status::OK;
  };
  server.hold(true);
  auto good = begin(**client, numbers({1})), bad = begin(**client, numbers({1, 2, 3})),
       late = begin(**client, numbers({1, 2}));
  server.wait_for_calls(3);
  server.hold(false);
  Tensor y;
  EXPECT_TRUE(end(*late, y));
  EXPECT_THAT(y.as<float>(), ElementsAre(2, 4));
  EXPECT_EQ(end(*bad, y).error().code, Code::kInternal);
  EXPECT_TRUE(end(*good, y));
  EXPECT_EQ(server.streamed, 3);
}

TEST_P(StreamTest, AnErrorWithoutACodeIsUnknown) {
  server.tells_codes = false;
  const auto client = connect();
  server.on_infer = [](const auto&, auto&) {
    return ::grpc::Status(::grpc::StatusCode::INTERNAL, "as it says");
  };
  Tensor y;
  const Status ended = end(*begin(**client, numbers({1})), y);
  EXPECT_EQ(ended.error().code, Code::kUnknown);
  EXPECT_THAT(ended.error().message(), HasSubstr("as it says"));
}

TEST_P(StreamTest, AServerWhoseAnswersNameNoRequestIsToldSo) {
  const auto client = connect();
  server.tells_ids = false;
  Tensor y;
  const Status ended = end(*begin(**client, numbers({1})), y);
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, Code::kUnavailable);
  EXPECT_THAT(ended.error().message(), HasSubstr("names none of the requests"));
  server.on_infer = [](const auto&, auto&) {
    return ::grpc::Status(::grpc::StatusCode::INTERNAL, "as it says");
  };
  while (server.streamed < 2) {
    const Status failed = end(*begin(**client, numbers({1})), y);
    ASSERT_FALSE(failed);
    EXPECT_THAT(failed.error().message(), HasSubstr("as it says"));
  }
}

TEST_P(StreamTest, AfterABreakCallsGoAloneUntilTheStreamIsOpenedAgain) {
  let_one_end_the_stream();
  const auto client = connect();
  Tensor y;
  const Status ended = end(*begin(**client, numbers({-1})), y);
  EXPECT_EQ(ended.error().code, Code::kUnavailable);
  EXPECT_THAT(ended.error().message(), HasSubstr("enough"));
  EXPECT_FALSE((*client)->is_lost());
  int calls = 0;
  for (; server.streamed == 0; ++calls) {
    ASSERT_TRUE(end(*begin(**client, numbers({3})), y));
    EXPECT_THAT(y.as<float>(), ElementsAre(6));
  }
  EXPECT_EQ(server.infers, calls);
}

TEST_P(StreamTest, WhatIsCancelledBeforeAServerReadsItIsNotSent) {
  std::atomic<bool> reads{false};
  std::atomic<int> read{0};
  server.on_streamed = [&](const inference::ModelInferRequest& request) {
    if (request.model_name() == "twice") {
      ++read;
      reads.wait(false);
    }
    return ::grpc::Status::OK;
  };
  const auto client = connect();
  constexpr int kCalls = 200;
  const Tensor large = Tensor::allocate(DType::kF32, {16'384});
  for (int i = 0; i < kCalls; ++i) begin(**client, large)->cancel();
  reads = true;
  reads.notify_all();
  Tensor y;
  ASSERT_TRUE(end(*begin(**client, numbers({3})), y));
  EXPECT_LT(read, kCalls);
}

TEST_P(StreamTest, AServerThatEndsItsStreamAtAnErrorIsAskedByCallsOfTheirOwn) {
  server.on_streamed = [](const auto& request) {
    return request.model_name() == "twice"
               ? ::grpc::Status::OK
               : ::grpc::Status(::grpc::StatusCode::NOT_FOUND, "no such model");
  };
  const auto client = connect();
  Tensor y;
  ASSERT_TRUE(end(*begin(**client, numbers({1})), y));
  EXPECT_EQ(server.streamed, 0);
}

TEST_P(StreamTest, UnaryCallsMayBeAskedFor) {
  const auto client = connect("twice", Calls::kUnary);
  Tensor y;
  ASSERT_TRUE(end(*begin(**client, numbers({1})), y));
  EXPECT_EQ(server.infers, 1);
  EXPECT_EQ(server.streamed, 0);
}

TEST_P(StreamTest, AStreamThatIsAskedForMustBeThere) {
  ASSERT_TRUE(connect("twice", Calls::kStream));
  server.streams = false;
  const auto client = connect("twice", Calls::kStream);
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(client.error().message(), HasSubstr("option 'calls' is stream"));
}

TEST_P(StreamTest, TheFramesTimeGoesWithItsRequest) {
  const auto client = connect();
  std::atomic<std::int64_t> told{0};
  server.on_infer = [&](const inference::ModelInferRequest& request, auto&) {
    told = request.parameters().at("timeout").int64_param();
    return ::grpc::Status::OK;
  };
  const auto in_an_hour = std::chrono::steady_clock::now() + std::chrono::hours(1);
  Tensor y;
  ASSERT_TRUE(end(
      *begin(**client, numbers({1}), {.deadline_ns = in_an_hour.time_since_epoch().count()}), y));
  EXPECT_GT(told, 0);
  EXPECT_LE(told, std::int64_t{3600} * 1'000'000);
}

INSTANTIATE_TEST_SUITE_P(Servers, StreamTest, ::testing::Values(true),
                         [](const auto&) { return std::string("WithStreams"); });

/// What the kernel was told of each connection of this process to the port.
std::vector<int> user_timeouts(int port) {
  std::vector<int> found;
  for (int fd = 0; fd < 1024; ++fd) {
    sockaddr_in6 peer{};
    socklen_t size = sizeof peer;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    if (peer.sin6_family == AF_UNIX || ntohs(peer.sin6_port) != port) continue;
    int ms = 0;
    size = sizeof ms;
    getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, &size);
    found.push_back(ms);
  }
  return found;
}

/// Signs of life have one of their own: they do not wait behind requests.
TEST(Connection, EachOfTwoStandsStillForThreePatiencesAtMost) {
  const FakeServer server;
  PeerOptions options{.address = server.address()};
  options.patience = std::chrono::seconds(7);
  const auto client = connect_model(options, "twice", "");
  ASSERT_TRUE(client) << client.error().message();
  while (user_timeouts(server.port()).size() < 2) std::this_thread::yield();
  EXPECT_THAT(user_timeouts(server.port()), ElementsAre(21'000, 21'000));
}

TEST(PeerOptions, HowCallsGoIsEitherStreamOrUnary) {
  std::map<std::string, std::string> options{{"calls", "unary"}};
  EXPECT_EQ(read_peer_options("127.0.0.1:1", options)->calls, Calls::kUnary);
  options = {{"calls", "both"}};
  EXPECT_THAT(read_peer_options("127.0.0.1:1", options).error().message(),
              HasSubstr("expected either, stream or unary, found 'both'"));
}

TEST(PeerOptions, ATokenDoesNotGoToAnotherMachineInPlainText) {
  std::map<std::string, std::string> options{{"token_file", "token"}};
  const auto read = read_peer_options("10.0.0.1:8001", options);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message(), HasSubstr("give 'tls' or 'root_file' too"));
}

TEST(PeerOptions, WhatIsKnownIsTakenAndAllElseLeft) {
  std::map<std::string, std::string> options{
      {"token_file", "token"}, {"patience_ms", "200"}, {"precision", "bf16"}};
  const auto read = read_peer_options("127.0.0.1:8001", options);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->token, "token");
  EXPECT_EQ(read->patience, std::chrono::milliseconds(200));
  EXPECT_EQ(options.size(), 1U);
}

TEST(PeerOptions, ACertificateNeedsItsKey) {
  std::map<std::string, std::string> options{{"certificate_file", "cert.pem"}};
  EXPECT_EQ(read_peer_options("127.0.0.1:1", options).error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace penstock::grpc
