// A server in the process, over applications of functions: what needs no engine and no wire.
#include "penstock/serve/server.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <span>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/app/app.h"
#include "penstock/serve/access_log.h"
#include "penstock/serve/exchange.h"
#include "penstock/serve/sequences.h"
#include "penstock/serve/server_options.h"
#include "penstock/serve/shared_memory.h"
#include "penstock/serve/worker.h"
#include "penstock/tensor/datatype.h"
#include "tests/support/temporary_folder.h"

namespace penstock::serve {
namespace {

using function::Function;
using function::Inputs;
using function::Outputs;
using std::chrono::milliseconds;
using ::testing::_;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;
using Clock = std::chrono::steady_clock;

Type numbers(std::int64_t count) {
  return Type::tensor(DType::kF32, std::vector<Dim>{{count, "", Dim::kOpen}});
}

Tensor tensor_of(std::vector<float> values) {
  Tensor tensor = Tensor::allocate(DType::kF32, {static_cast<std::int64_t>(values.size())});
  std::ranges::copy(values, tensor.as<float>().begin());
  return tensor;
}

/// Lets calls of the function "wait" through one by one.
class Barrier {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_ || allowed_ > 0; });
    if (!open_) --allowed_;
  }
  void allow(int calls) {
    const std::scoped_lock lock(mutex_);
    allowed_ += calls;
    changed_.notify_all();
  }
  void open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait_for_arrivals(int calls) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ >= calls; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0, allowed_ = 0;
  bool open_ = false;
};

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    options_.functions = {
        function::stateless("double", {{"x", numbers(2)}}, {{"y", numbers(2)}},
                            [](Inputs in, Outputs out) -> Status {
                              for (std::size_t i = 0; i < 2; ++i)
                                out[0]->as<float>()[i] = 2 * in[0]->as<float>()[i];
                              return {};
                            }),
        function::stateless("wait", {{"x", numbers(2)}}, {{"y", numbers(2)}},
                            [this](Inputs in, Outputs out) -> Status {
                              if (warm_) barrier_.pass();
                              std::ranges::copy(in[0]->as<float>(), out[0]->as<float>().begin());
                              return {};
                            }),
        summing("sum"), summing("held_sum")};
  }
  ~ServerTest() override { barrier_.open(); }

  /// Adds what came before; of "held_sum" each call waits for the barrier.
  Function summing(const char* name) {
    const bool held = std::string(name) == "held_sum";
    return function::stateless(
        name, {{"x", numbers(2)}, {"before", numbers(2)}}, {{"total", numbers(2)}},
        [this, held](Inputs in, Outputs out) -> Status {
          if (held && warm_) barrier_.pass();
          for (std::size_t i = 0; i < 2; ++i)
            out[0]->as<float>()[i] = in[0]->as<float>()[i] + in[1]->as<float>()[i];
          return {};
        });
  }

  void add_model(const std::string& function, const std::string& output, bool states = false,
                 const std::string& file = {}) {
    app::App app;
    app.inputs = {{"x", std::nullopt, {}}};
    app::Node node;
    node.name = "n";
    node.runs = app::FunctionNode{function, {}, {}, 1, {}};
    node.inputs.push_back({"x", "x", {}});
    app.nodes.push_back(node);
    app.outputs = {{"out", "n." + output, {}}};
    if (states) app.states = {{"n." + output, "n.before", {}, {}}};
    const auto path = folder_.path() / (file.empty() ? function : file);
    const auto written = app::write_package(app, path, {}, options_.functions);
    ASSERT_TRUE(written) << written.error().message();
    options_.models.push_back({function, 1, path});
  }

  void start() {
    auto server = Server::start(options_, {});
    ASSERT_TRUE(server) << server.error().message();
    server_ = *std::move(server);
    warm_ = true;
  }

  static Request request(const std::string& model, float value) {
    Request made;
    made.model = model;
    made.inputs.push_back({"x", DType::kF32, {2}, tensor_of({value, value + 1}), std::nullopt});
    return made;
  }
  static Request in_sequence(Request request, std::uint64_t id, bool begin, bool end) {
    request.sequence = Sequence{id, begin, end};
    return request;
  }

  struct Pending {
    std::shared_ptr<Call> call;
    std::future<Result<Reply>> reply;
  };
  Pending infer(Request request) {
    auto promise = std::make_shared<std::promise<Result<Reply>>>();
    Pending pending{nullptr, promise->get_future()};
    pending.call = server_->infer(std::move(request), [promise](Result<Reply> reply) {
      promise->set_value(std::move(reply));
    });
    return pending;
  }

  static std::vector<float> values(const Result<Reply>& reply) {
    EXPECT_TRUE(reply) << reply.error().message();
    if (!reply || reply->outputs.size() != 1) return {};
    const auto found = reply->outputs[0].value.as<float>();
    return {found.begin(), found.end()};
  }
  std::vector<float> answer(Request request) {
    return values(infer(std::move(request)).reply.get());
  }
  Error error_of(Request request) {
    const auto reply = infer(std::move(request)).reply.get();
    EXPECT_FALSE(reply);
    return reply ? Error{} : reply.error();
  }

  TemporaryFolder folder_;
  Barrier barrier_;
  std::atomic<bool> warm_{false};
  Server::Options options_;
  std::unique_ptr<Server> server_;
};

TEST_F(ServerTest, ARequestIsAFrame) {
  add_model("double", "y");
  start();
  auto asked = request("double", 3);
  asked.id = "mine";
  const auto reply = infer(std::move(asked)).reply.get();
  EXPECT_THAT(values(reply), ElementsAre(6, 8));
  EXPECT_EQ(reply->id, "mine");
  EXPECT_EQ(reply->version, "1");
  EXPECT_EQ(reply->outputs[0].name, "out");
}

TEST_F(ServerTest, WhatIsWrongIsSaid) {
  add_model("double", "y");
  start();
  EXPECT_EQ(error_of(request("other", 0)).message(),
            "Request for unknown model: 'other' is not found");
  auto wrong = request("double", 0);
  wrong.version = "7";
  EXPECT_EQ(error_of(wrong).code, Code::kNotFound);
  wrong.version = "x";
  EXPECT_EQ(error_of(wrong).code, Code::kInvalidArgument);
  wrong.version = "";
  wrong.inputs[0].name = "z";
  EXPECT_THAT(error_of(wrong).message(), HasSubstr("unexpected inference input 'z'"));
  wrong.inputs.clear();
  wrong.id = "42";
  EXPECT_THAT(error_of(wrong).message(), HasSubstr("[request id: 42]"));
  wrong.inputs = request("double", 0).inputs;
  wrong.inputs.push_back(wrong.inputs[0]);
  EXPECT_THAT(error_of(wrong).message(), HasSubstr("twice"));
  wrong.inputs.resize(1);
  wrong.inputs[0].value = tensor_of({1, 2, 3});
  EXPECT_THAT(error_of(wrong).message(), HasSubstr("expected f32[2], found f32[3]"));
  wrong = request("double", 0);
  wrong.outputs.push_back({.name = "nothing"});
  EXPECT_THAT(error_of(wrong).message(), HasSubstr("unexpected inference output 'nothing'"));
  const auto statistics = server_->statistics("double", "");
  ASSERT_TRUE(statistics);
  EXPECT_EQ(statistics->at(0).success.count, 0U);
  EXPECT_EQ(statistics->at(0).fail.count, 5U);
}

TEST(WorkerTest, ATaskThatFindsNoMemoryIsLetGoOfAndOthersRun) {
  Worker worker;
  ASSERT_TRUE(worker.start());
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> lost = held;
  ASSERT_TRUE(worker.post([held = std::move(held)] { throw std::bad_alloc(); }));
  std::promise<bool> ran;
  ASSERT_TRUE(worker.post([&] { ran.set_value(lost.expired()); }));
  EXPECT_TRUE(ran.get_future().get());
}

TEST(ExchangeTest, ContentsWithoutAnInputAreRefused) {
  const SharedMemory regions(1, 1);
  Interface interface;  // All that the model reads may be bound.
  Request asked;
  asked.model = "m";
  EXPECT_TRUE(read_inputs(asked, interface, regions));
  asked.nameless = 2;
  const auto refused = read_inputs(asked, interface, regions);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_THAT(refused.error().message(),
              HasSubstr("model 'm' needs none, found those of 2 tensors"));
  interface.inputs.push_back({"x", numbers(2)});
  EXPECT_THAT(read_inputs(asked, interface, regions).error().message(),
              HasSubstr("expected 1 inputs but got 0 inputs for model 'm': 'x' is missing"));
}

TEST_F(ServerTest, WhatDoesNotFitWaitsAndThenIsRefused) {
  options_.limits.waiting = 2;
  add_model("wait", "y");
  start();
  std::vector<Pending> taken;
  std::optional<Error> refused;
  for (int i = 0; i < 100'000 && !refused; ++i) {
    auto pending = infer(request("wait", static_cast<float>(i)));
    if (pending.reply.wait_for(milliseconds(0)) == std::future_status::ready) {
      const auto reply = pending.reply.get();
      ASSERT_FALSE(reply);
      refused = reply.error();
    } else {
      taken.push_back(std::move(pending));
    }
  }
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code, Code::kResourceExhausted);
  EXPECT_EQ(server_->statistics("wait", "")->at(0).waiting, 2U);
  barrier_.open();
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const auto number = static_cast<float>(i);
    EXPECT_THAT(values(taken[i].reply.get()), ElementsAre(number, number + 1));
  }
  EXPECT_EQ(server_->statistics("wait", "")->at(0).success.count, taken.size());
}

TEST_F(ServerTest, RepliesThatNobodyReadsAreBounded) {
  options_.limits.request_bytes = 16;  // Two of two numbers.
  add_model("double", "y");
  start();
  const auto first = infer(request("double", 1)).reply.get();
  auto second = infer(request("double", 2)).reply.get();
  ASSERT_TRUE(first && second);
  const Error refused = error_of(request("double", 3));
  EXPECT_EQ(refused.code, Code::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("outputs of all replies"));
  Tensor kept = second->outputs[0].value;
  second = Error{};
  EXPECT_EQ(error_of(request("double", 3)).code, Code::kResourceExhausted);
  kept = {};
  EXPECT_THAT(answer(request("double", 3)), ElementsAre(6, 8));
  EXPECT_THAT(values(first), ElementsAre(2, 4));
}

TEST_F(ServerTest, AConnectionThatReadsNothingLeavesOthersTheirs) {
  options_.limits.request_bytes = 32;  // Four of two numbers.
  add_model("double", "y");
  start();
  const auto of = [](const char* connection, float value) {
    auto made = request("double", value);
    made.connection = connection;
    return made;
  };
  const auto first = infer(of("slow", 1)).reply.get();
  const auto second = infer(of("slow", 2)).reply.get();
  ASSERT_TRUE(first && second);
  const Error refused = error_of(of("slow", 3));
  EXPECT_EQ(refused.code, Code::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("replies of 16 bytes wait for this connection"));
  for (int i = 0; i < 3; ++i) EXPECT_THAT(answer(of("quick", 4)), ElementsAre(8, 10));
}

TEST_F(ServerTest, StringsInRepliesThatNobodyReadsAreCounted) {
  options_.limits.request_bytes = 100;  // Of two strings and their texts.
  add_model("double", "y");
  start();
  const auto classes = [] {
    auto made = request("double", 1);
    made.outputs.push_back({.name = "out", .classification = 2});
    return made;
  };
  auto first = infer(classes()).reply.get();
  ASSERT_TRUE(first) << first.error().message();
  EXPECT_EQ(error_of(classes()).code, Code::kResourceExhausted);
  first = Error{};
  EXPECT_TRUE(infer(classes()).reply.get());
}

TEST_F(ServerTest, HighPriorityDeadlineAndCancelHoldWhileWaiting) {
  add_model("wait", "y");
  start();
  std::vector<Pending> taken;  // Fills the pipeline: one more waits.
  while (server_->statistics("wait", "")->at(0).waiting == 0) {
    taken.push_back(infer(request("wait", 0)));
  }
  auto late = request("wait", 1);
  late.deadline = Clock::now() + milliseconds(5);
  auto late_one = infer(std::move(late));
  auto cancelled = infer(request("wait", 2));
  auto normal = infer(request("wait", 3));
  auto urgent = request("wait", 4);
  urgent.priority = pipeline::Priority::kHigh;
  auto high = infer(std::move(urgent));
  const auto expired = late_one.reply.get();
  ASSERT_FALSE(expired);
  EXPECT_EQ(expired.error().code, Code::kDeadlineExceeded);
  cancelled.call->cancel();
  const auto gone = cancelled.reply.get();
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Code::kCancelled);
  barrier_.allow(static_cast<int>(taken.size()) +
                 1);  // Those before, and one of the two that wait.
  ASSERT_EQ(high.reply.wait_for(std::chrono::minutes(1)), std::future_status::ready);
  EXPECT_EQ(normal.reply.wait_for(milliseconds(0)), std::future_status::timeout);
  EXPECT_THAT(values(high.reply.get()), ElementsAre(4, 5));
  barrier_.open();
  EXPECT_THAT(values(normal.reply.get()), ElementsAre(3, 4));
  for (auto& pending : taken) EXPECT_TRUE(pending.reply.get());
}

TEST_F(ServerTest, NoMoreWaitInThePipelineThanKeepItBusy) {
  add_model("wait", "y");
  start();
  std::vector<Pending> earlier;
  for (int i = 0; i < 60; ++i) earlier.push_back(infer(request("wait", 0)));
  EXPECT_GE(server_->statistics("wait", "")->at(0).waiting, 50U);
  auto late = request("wait", 1);
  late.deadline = Clock::now() + milliseconds(5);
  EXPECT_EQ(error_of(std::move(late)).code, Code::kDeadlineExceeded) << "while all wait";
  auto urgent = request("wait", 4);
  urgent.priority = pipeline::Priority::kHigh;
  auto high = infer(std::move(urgent));
  barrier_.allow(10);
  ASSERT_EQ(high.reply.wait_for(std::chrono::minutes(1)), std::future_status::ready);
  barrier_.open();
  for (auto& pending : earlier) EXPECT_TRUE(pending.reply.get());
  EXPECT_TRUE(high.reply.get());
  const auto counted = server_->statistics("wait", "")->at(0);
  EXPECT_GT(counted.queue.ns, counted.compute_infer.ns);
}

TEST(ReadInputs, RefusesTruthValuesThatAreNeitherZeroNorOne) {
  Interface interface;
  const std::array<std::int64_t, 1> dims = {3};
  interface.inputs = {{"x", Type::tensor(DType::kBool, dims)}};
  const SharedMemory regions(1, 1);
  const auto read_one = [&](std::uint8_t last) {
    Request request;
    const std::array<std::uint8_t, 3> bytes = {0, 1, last};
    const auto sent = std::as_bytes(std::span(bytes));
    request.inputs.push_back({"x", DType::kBool, {3}, *copy_raw(DType::kBool, {3}, sent), {}});
    return read_inputs(request, interface, regions);
  };
  EXPECT_TRUE(read_one(1));
  const auto refused = read_one(2);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(),
              HasSubstr("element 2: expected the byte 0 or 1, as it is BOOL, found 2"));
}

TEST_F(ServerTest, TellsAClientWhoseTimeIsOverHowLongItWas) {
  add_model("double", "y");
  start();
  auto hasty = request("double", 1);
  hasty.received = Clock::now() - milliseconds(1);  // Before it could be pushed.
  hasty.set_timeout(1);
  const auto late = infer(std::move(hasty)).reply.get();
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::kDeadlineExceeded);
  EXPECT_THAT(late.error().message(),
              ContainsRegex("deadline_exceeded: [0-9.]+ m?s since the request came, at most 1 us "
                            "allowed"));
  auto past = request("double", 1);
  past.deadline = past.received - milliseconds(1);
  EXPECT_THAT(error_of(std::move(past)).message(),
              HasSubstr("deadline_exceeded: its deadline had passed before the request came"));
}

/// Whatever the code of an engine's error: it may call inputs wrong that the server takes.
TEST_F(ServerTest, TellsFailuresOfEnginesFromThoseOfRequests) {
  options_.functions.push_back(function::stateless(
      "fail", {{"x", numbers(2)}}, {{"y", numbers(2)}}, [this](Inputs, Outputs) -> Status {
        if (!warm_) return {};
        return invalid_argument("an index is out of bounds");
      }));
  add_model("fail", "y");
  start();
  EXPECT_THAT(error_of(request("fail", 1)).message(), HasSubstr("out of bounds"));
  auto wrong = request("fail", 1);
  wrong.inputs[0].name = "z";
  EXPECT_EQ(error_of(wrong).code, Code::kInvalidArgument);
  auto late = request("fail", 1);
  late.deadline = Clock::now() - milliseconds(1);
  EXPECT_EQ(error_of(late).code, Code::kDeadlineExceeded);
  const auto failures = server_->statistics("fail", "")->at(0).failures;
  EXPECT_THAT(failures, ElementsAre(1, 0, 1, 1));  // REJECTED, CANCELED, BACKEND, OTHER
}

TEST_F(ServerTest, AFrameInThePipelineIsCancelled) {
  add_model("wait", "y");
  start();
  auto first = infer(request("wait", 0));
  barrier_.wait_for_arrivals(1);
  auto second = infer(request("wait", 1));
  second.call->cancel();
  barrier_.open();
  EXPECT_TRUE(first.reply.get());
  const auto reply = second.reply.get();
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Code::kCancelled);
  second.call->cancel();  // Long after.
}

TEST_F(ServerTest, SequencesHaveStatesOfTheirOwn) {
  options_.limits.sequences = 3;
  add_model("sum", "total", true);
  start();
  EXPECT_THAT(answer(in_sequence(request("sum", 1), 7, true, false)), ElementsAre(1, 2));
  EXPECT_THAT(answer(in_sequence(request("sum", 1), 8, true, false)), ElementsAre(1, 2));
  EXPECT_THAT(answer(in_sequence(request("sum", 1), 7, false, false)), ElementsAre(2, 4));
  EXPECT_THAT(answer(request("sum", 5)), ElementsAre(5, 6));
  EXPECT_THAT(answer(in_sequence(request("sum", 1), 7, false, true)), ElementsAre(3, 6));
  EXPECT_THAT(error_of(in_sequence(request("sum", 1), 7, false, false)).message(),
              HasSubstr("sequence 7 is not known"));
  EXPECT_THAT(answer(in_sequence(request("sum", 1), 8, true, false)), ElementsAre(1, 2));
  for (int i = 0; i < 50; ++i) {  // Each makes room for the next one.
    EXPECT_THAT(answer(in_sequence(request("sum", 4), 100 + i, true, true)), ElementsAre(4, 5));
  }
  EXPECT_THAT(answer(in_sequence(request("sum", 1), 1, true, false)), ElementsAre(1, 2));
  EXPECT_THAT(answer(in_sequence(request("sum", 1), 2, true, false)), ElementsAre(1, 2));
  EXPECT_EQ(error_of(in_sequence(request("sum", 1), 3, true, false)).code,
            Code::kResourceExhausted);
}

TEST_F(ServerTest, AnEndThatItsClientGaveUpEndsItsSequence) {
  add_model("held_sum", "total", true);
  start();
  barrier_.allow(2);
  EXPECT_THAT(answer(in_sequence(request("held_sum", 1), 7, true, false)), ElementsAre(1, 2));
  EXPECT_THAT(answer(in_sequence(request("held_sum", 1), 8, true, false)), ElementsAre(1, 2));
  std::vector<Pending> taken;  // Fills the pipeline: one more waits.
  while (server_->statistics("held_sum", "")->at(0).waiting == 0) {
    taken.push_back(infer(in_sequence(request("held_sum", 0), 9, taken.empty(), false)));
  }
  const auto soon = [](std::uint64_t id, bool end) {
    auto made = in_sequence(request("held_sum", 1), id, false, end);
    made.deadline = Clock::now() + milliseconds(5);
    return made;
  };
  EXPECT_EQ(error_of(soon(7, true)).code, Code::kDeadlineExceeded);
  EXPECT_THAT(error_of(soon(7, false)).message(), HasSubstr("sequence 7 is not known"));
  auto cancelled = infer(in_sequence(request("held_sum", 1), 8, false, true));
  cancelled.call->cancel();
  EXPECT_EQ(cancelled.reply.get().error().code, Code::kCancelled);
  EXPECT_THAT(error_of(soon(8, false)).message(), HasSubstr("sequence 8 is not known"));
  barrier_.open();
  for (auto& pending : taken) EXPECT_TRUE(pending.reply.get());
}

TEST(SequencesTest, ARequestThatIsRefusedDoesNotEndItsSequence) {
  std::vector<std::uint64_t> ended;
  Sequences sequences({.has_states = true, .most = 4, .end_stream = [&](std::uint64_t stream) {
                         ended.push_back(stream);
                         return true;
                       }});
  const auto enter = [&](std::uint64_t id, bool begin, bool end) {
    return sequences.enter(Sequence{id, begin, end});
  };
  const auto first = *enter(7, true, false);
  sequences.leave(first, false, Sequences::Left::kFrame);
  const auto refused = *enter(7, false, true);
  EXPECT_FALSE(enter(7, false, false)) << "while its last request is in progress";
  sequences.leave(refused, true, Sequences::Left::kRefused);
  const auto again = enter(7, false, true);
  ASSERT_TRUE(again);
  EXPECT_EQ((*again)->stream, first->stream);
  sequences.leave(*again, true, Sequences::Left::kFrame);
  EXPECT_FALSE(enter(7, false, false));
  EXPECT_TRUE(sequences.end_streams());
  EXPECT_THAT(ended, ElementsAre(first->stream));
  sequences.leave(*enter(8, true, false), false, Sequences::Left::kRefused);
  EXPECT_FALSE(enter(8, false, false)) << "it never began";
}

TEST_F(ServerTest, ManyClientsGetTheirOwnAnswers) {
  options_.limits.waiting = 1000;
  add_model("double", "y");
  start();
  std::vector<std::thread> clients;
  std::atomic<int> right{0};
  for (int client = 0; client < 4; ++client) {
    clients.emplace_back([&, client] {
      for (int i = 0; i < 200; ++i) {
        const auto value = static_cast<float>(1000 * client + i);
        const auto found = answer(request("double", value));
        if (found.size() == 2 && found[0] == 2 * value) ++right;
      }
    });
  }
  for (auto& client : clients) client.join();
  EXPECT_EQ(right, 800);
  auto statistics = server_->statistics("double", "1");
  ASSERT_TRUE(statistics);
  while (statistics->at(0).pending > 0) {  // A request ends just behind its reply.
    std::this_thread::yield();
    statistics = server_->statistics("double", "1");
    ASSERT_TRUE(statistics);
  }
  const auto& of_model = statistics->at(0);
  EXPECT_EQ(of_model.success.count, 800U);
  EXPECT_EQ(of_model.queue.count, 800U);
  EXPECT_EQ(of_model.compute_infer.count, 800U);
  EXPECT_GE(of_model.executions, 800U);
  EXPECT_EQ(of_model.pending, 0U);
}

TEST_F(ServerTest, AModelIsUnloadedAndLoadedWhileItIsAsked) {
  options_.limits.waiting = 1000;
  add_model("double", "y");
  start();
  std::atomic<bool> ends{false};
  std::atomic<int> wrong{0}, right{0};
  std::thread client([&] {
    while (!ends) {
      const auto reply = infer(request("double", 5)).reply.get();
      if (reply) ++right;
      if (!reply && reply.error().code != Code::kNotFound) ++wrong;
    }
  });
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(server_->unload("double"));
    EXPECT_FALSE(*server_->model_ready("double", "1"));
    EXPECT_EQ(server_->index(false).at(0).state, "UNAVAILABLE");
    EXPECT_EQ(server_->index(false).at(0).reason, "unloaded");
    EXPECT_TRUE(server_->load("double", {}));
    EXPECT_TRUE(server_->load("double", {}));  // Once more: replaced.
    EXPECT_TRUE(*server_->model_ready("double", ""));
    const int before = right;
    while (right == before) std::this_thread::yield();
  }
  ends = true;
  client.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_FALSE(server_->load("unknown", {}));
}

/// The folder of a package is rewritten between two loads, as an operator does before SIGHUP.
TEST_F(ServerTest, ALoadChangesAllVersionsOrNone) {
  add_model("double", "y");
  add_model("wait", "y", false, "other");
  options_.models[1] = {"double", 2, options_.models[1].path};
  const auto first = options_.models[0].path, second = options_.models[1].path;
  barrier_.open();
  start();
  auto asked = request("double", 3);
  asked.version = "1";
  EXPECT_THAT(answer(asked), ElementsAre(6, 8));
  const auto plan = second / "plan.json";
  std::filesystem::rename(plan, second / "kept");
  std::ofstream(plan) << "{";
  const auto load = [&] {
    const Status loaded = server_->load("double", {});
    return loaded ? std::string() : loaded.error().message();
  };

  std::filesystem::remove_all(first);
  std::filesystem::copy(second, first);  // The same interface, which another function has.
  std::filesystem::rename(first / "kept", first / "plan.json");
  EXPECT_THAT(load(), StartsWith("model 'double' version 2: "));
  EXPECT_THAT(answer(asked), ElementsAre(6, 8)) << "version 1 has the plan of a load that failed";

  EXPECT_TRUE(server_->unload("double"));
  EXPECT_THAT(load(), StartsWith("model 'double' version 2: "));
  for (const auto& entry : server_->index(false)) {
    EXPECT_EQ(entry.state, "UNAVAILABLE");
    EXPECT_THAT(entry.reason, HasSubstr("plan.json")) << entry.version;
  }

  std::filesystem::rename(second / "kept", plan);
  EXPECT_EQ(load(), "");
  EXPECT_THAT(answer(asked), ElementsAre(3, 4));
}

/// One version keeps its pipeline, the other one gets a new one beside requests of the old.
TEST_F(ServerTest, ALoadsVersionsDoNotWaitForOneAnothersRequests) {
  options_.functions.push_back(function::stateless(
      "negate", {{"x", numbers(2)}}, {{"y", numbers(2)}}, [](Inputs in, Outputs out) -> Status {
        for (std::size_t i = 0; i < 2; ++i) out[0]->as<float>()[i] = -in[0]->as<float>()[i];
        return {};
      }));
  add_model("double", "y");
  add_model("wait", "y");
  add_model("negate", "y");
  add_model("sum", "total", true);
  const auto given = std::exchange(options_.models, {});
  options_.models = {{"m", 1, given[0].path}, {"m", 2, given[1].path}};
  start();
  auto first = request("m", 3), second = request("m", 3);
  first.version = "1";
  second.version = "2";
  const auto held = infer(second);
  barrier_.wait_for_arrivals(1);
  for (const std::size_t i : {0, 1}) {
    std::filesystem::remove_all(given[i].path);
    std::filesystem::copy(given[i + 2].path, given[i].path);
  }

  auto loaded = std::async(std::launch::async, [&] { return server_->load("m", {}); });
  const auto end = Clock::now() + std::chrono::seconds(20);  // Where it has to wait, for good.
  while (answer(first) == std::vector<float>{6, 8} && Clock::now() < end) {
    std::this_thread::yield();
  }
  EXPECT_THAT(answer(first), ElementsAre(-3, -4));
  EXPECT_EQ(held.reply.wait_for(milliseconds(0)), std::future_status::timeout)
      << "version 1 had to wait until version 2's request was over";
  barrier_.open();
  const Status done = loaded.get();
  EXPECT_TRUE(done) << done.error().message();
  EXPECT_THAT(answer(second), ElementsAre(3, 4));
}

TEST_F(ServerTest, MoreModelsThanTheServerTakesAreRefused) {
  add_model("double", "y");
  options_.models.push_back({"double", 2, options_.models.front().path});
  add_model("wait", "y");
  options_.limits.models = 2;
  const auto refused = Server::start(options_, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(),
            "model 'wait': the server takes 2 models, 2 others are loaded, and this load wants 1; "
            "unload one");
}

TEST_F(ServerTest, ReloadingLosesNoRequest) {
  options_.limits.waiting = 1000;
  add_model("double", "y");
  start();
  std::atomic<bool> ends{false};
  std::atomic<int> lost{0};
  std::thread client([&] {
    while (!ends) {
      if (!infer(request("double", 5)).reply.get()) ++lost;
    }
  });
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(server_->reload().errors.empty());
  ends = true;
  client.join();
  EXPECT_EQ(lost, 0);
}

/// What was unloaded by request stays so.
TEST_F(ServerTest, ReloadingTriesAgainWhatFailedToLoad) {
  add_model("double", "y");
  start();
  const auto plan = options_.models[0].path / "plan.json";
  EXPECT_TRUE(server_->unload("double"));
  EXPECT_EQ(server_->reload().models, 0U);
  EXPECT_FALSE(*server_->model_ready("double", "1"));
  std::filesystem::rename(plan, folder_.path() / "kept");
  EXPECT_FALSE(server_->load("double", {}));
  EXPECT_FALSE(server_->ready());
  const auto failed = server_->reload();
  EXPECT_EQ(failed.models, 0U);
  ASSERT_EQ(failed.errors.size(), 1U);
  EXPECT_THAT(failed.errors[0].message(), HasSubstr("plan.json"));
  std::filesystem::rename(folder_.path() / "kept", plan);
  const auto healed = server_->reload();
  EXPECT_EQ(healed.models, 1U);
  EXPECT_TRUE(healed.errors.empty());
  EXPECT_TRUE(server_->ready());
  EXPECT_THAT(answer(request("double", 3)), ElementsAre(6, 8));
}

TEST_F(ServerTest, CallsAreCountedOverReloads) {
  add_model("wait", "y");
  start();
  auto first = infer(request("wait", 0));
  barrier_.wait_for_arrivals(1);  // Its call ends in the plan that is replaced now.
  warm_ = false;
  EXPECT_TRUE(server_->reload().errors.empty());
  barrier_.open();
  EXPECT_TRUE(first.reply.get());
  EXPECT_THAT(answer(request("wait", 5)), ElementsAre(5, 6));
  EXPECT_TRUE(server_->reload().errors.empty());  // Ends the first plan.
  EXPECT_THAT(answer(request("wait", 7)), ElementsAre(7, 8));
  const auto statistics = server_->statistics("wait", "");
  ASSERT_TRUE(statistics);
  EXPECT_EQ(statistics->at(0).success.count, 3U);
  EXPECT_EQ(statistics->at(0).executions, 3U);
  ASSERT_EQ(statistics->at(0).batches.size(), 1U);
  const auto& batch = statistics->at(0).batches[0];
  for (const auto* phase : {&batch.compute_input, &batch.compute_infer, &batch.compute_output}) {
    EXPECT_EQ(phase->count, 3U);
    EXPECT_GT(phase->ns, 0U);
  }
  EXPECT_LE(batch.compute_infer.ns, statistics->at(0).success.ns);
}

TEST_F(ServerTest, ADrainingServerEndsWhatItHas) {
  add_model("wait", "y");
  start();
  EXPECT_TRUE(server_->ready());
  auto pending = infer(request("wait", 0));
  barrier_.wait_for_arrivals(1);
  EXPECT_FALSE(server_->drain(milliseconds(1)));
  EXPECT_FALSE(server_->ready());
  EXPECT_EQ(error_of(request("wait", 1)).code, Code::kUnavailable);
  barrier_.open();
  EXPECT_TRUE(server_->drain(std::chrono::minutes(1)));
  EXPECT_TRUE(pending.reply.get());
}

TEST_F(ServerTest, UploadsStayInTheirFolder) {
  add_model("double", "y");
  start();
  const auto load = [&](const std::string& config, const std::string& path) {
    const Status loaded = server_->load("new", {config, {{path, "bytes"}}});
    EXPECT_FALSE(loaded);
    return loaded ? std::string() : loaded.error().message();
  };
  EXPECT_THAT(load("", "1/model.onnx"), HasSubstr("'config' must be specified"));
  EXPECT_THAT(load("[]", "1/model.onnx"), HasSubstr("JSON object"));
  EXPECT_THAT(load("{\"nme\":1}", "1/model.onnx"), HasSubstr("unknown field 'nme'"));
  EXPECT_THAT(load("{\"name\":\"other\"}", "1/model.onnx"), HasSubstr("of model 'other'"));
  EXPECT_THAT(load("{\"max_batch_size\":4}", "1/model.onnx"), HasSubstr("max_batch_size"));
  for (const std::string path : {"01/model.onnx", "00/x", "model.onnx", "/1/model.onnx",
                                 "1/../../x", "1//etc/x", "1/", "x/y", "-1/x", "1/a/../b"}) {
    EXPECT_THAT(load("{}", path), HasSubstr("expected VERSION/PATH")) << path;
  }
  EXPECT_THAT(load("{\"dynamicBatching\":{\"a\":1}}", "1/model.onnx"),
              HasSubstr("'dynamic_batching' is not supported"));
  EXPECT_FALSE(server_->load("../new", {"{}", {{"1/model.onnx", ""}}}));
  EXPECT_THAT(load("{}", "1/model.onnx"), HasSubstr("model 'new' version 1"));
}

TEST_F(ServerTest, NamesOfModelsHoldNoControlCharacters) {
  add_model("double", "y");
  start();
  const std::map<std::string, std::string> shown = {{"a\nb", "a\\nb"},
                                                    {"a\tb", "a\\tb"},
                                                    {"\x1b[1mb", "\\x1b[1mb"},
                                                    {"a\xc2\x9bz", "a\\x9bz"},
                                                    {std::string("a\0b", 3), "a\\x00b"}};
  for (const auto& [name, as] : shown) {
    const auto told =
        concat("expected a model's name without control characters, found '", as, "'");
    const Status loaded = server_->load(name, {"{}", {{"1/model.onnx", "bytes"}}});
    ASSERT_FALSE(loaded) << as;
    EXPECT_EQ(loaded.error().code, Code::kInvalidArgument);
    EXPECT_EQ(loaded.error().message(), told);
    for (const auto& text : {name + "=x.onnx", "folder/" + name + ".onnx"}) {
      const auto source = parse_source(text);
      ASSERT_FALSE(source) << as;
      EXPECT_THAT(source.error().message(), HasSubstr(told));
      EXPECT_THAT(source.error().message(), Not(HasSubstr(name)));
    }
  }
  EXPECT_TRUE(parse_source("caf\xc3\xa9 1=x.onnx"));
}

/// Whoever sends requests by readiness must not leave a server because a client uploads a model.
TEST_F(ServerTest, ItIsReadyWhileAnUploadedVersionComesToStand) {
  add_model("held_sum", "total", true);
  const auto package = options_.models.front().path;
  start();
  LoadOptions sent{.config = "{}", .files = {}, .constants = {}, .states = {}};
  for (const auto& file : std::filesystem::directory_iterator(package)) {
    std::ifstream from(file.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(from), {}};
    for (const char* version : {"1/", "7/"})
      sent.files[version + file.path().filename().string()] = bytes;
  }
  const auto held = infer(in_sequence(request("held_sum", 1), 5, true, true));
  barrier_.wait_for_arrivals(1);
  auto loaded = std::async(std::launch::async, [&] { return server_->load("held_sum", sent); });
  const auto is_loading = [&] {
    return std::ranges::any_of(server_->index(false), [](const auto& entry) {
      return entry.version == "7" && entry.state == "LOADING";
    });
  };
  while (!is_loading()) std::this_thread::yield();  // Until the frame of version 1 is computed.
  EXPECT_TRUE(server_->ready());
  EXPECT_FALSE(*server_->model_ready("held_sum", "7"));
  barrier_.open();
  const Status done = loaded.get();
  EXPECT_TRUE(done) << done.error().message();
  EXPECT_TRUE(*server_->model_ready("held_sum", "7"));
}

TEST_F(ServerTest, WhatALoadBindsIsRefusedByName) {
  add_model("double", "y");
  start();
  const auto told = [&](const std::string& model, LoadOptions options) {
    if (model == "new") options.config = "{}";
    const Status loaded = server_->load(model, options);
    return loaded ? std::string("loaded") : loaded.error().message();
  };
  const std::map<std::string, std::string> file = {{"2/model.onnx", "bytes"}};
  EXPECT_THAT(told("double", {.constants = {{"sr", "1"}}}),
              HasSubstr("load parameter 'constant:sr': is for a model (.onnx), found a package"));
  EXPECT_THAT(told("double", {.states = {{"h1", "h0"}}}), HasSubstr("'state:h1': is for a model"));
  EXPECT_THAT(told("new", {.files = file, .constants = {{"", "1"}}}),
              HasSubstr("expected 'constant:NAME'"));
  EXPECT_THAT(told("new", {.files = file, .states = {{"h1", ""}}}),
              HasSubstr("'state:h1': expected 'state:OUT' with the value IN or IN:FILE.npy"));
  // Nothing of the server's machine is read, not even what is there.
  std::ofstream(folder_.path() / "here.npy") << "array";
  for (const std::string& name :
       {(folder_.path() / "here.npy").string(), std::string("../here.npy"), std::string("mask.npy"),
        std::string("/etc/x.npy")}) {
    EXPECT_THAT(told("new", {.files = file, .constants = {{"mask", name}}}),
                HasSubstr("load parameter 'constant:mask': '" + name +
                          "' is none of the files that the request brings: expected it as "
                          "'file:2/"));
    EXPECT_THAT(told("new", {.files = file, .states = {{"h1", "h0:" + name}}}),
                HasSubstr("load parameter 'state:h1': '" + name + "' is none of the files"));
  }
  EXPECT_THAT(answer(request("double", 3)), ElementsAre(6, 8));
}

TEST_F(ServerTest, AConfigurationIsCheckedWithoutFilesToo) {
  add_model("double", "y");
  start();
  const auto told = [&](const std::string& config) {
    const Status loaded = server_->load("double", {config, {}});
    return loaded ? std::string() : loaded.error().message();
  };
  EXPECT_EQ(told(R"({"name":"double","maxBatchSize":0,"modelWarmup":[],"optimization":{}})"), "");
  EXPECT_THAT(told("rubbish"), HasSubstr("JSON object"));
  EXPECT_THAT(told(R"({"max_batch_size":4})"), HasSubstr("max_batch_size"));
  EXPECT_THAT(told(R"({"default_model_filename":"m.onnx"})"), HasSubstr("brings none"));
  EXPECT_THAT(answer(request("double", 3)), ElementsAre(6, 8));
}

TEST_F(ServerTest, AFieldOfAConfigurationIsObeyedOrRefusedByName) {
  add_model("double", "y");
  start();
  const auto told = [&](const std::string& config) {
    const Status loaded = server_->load("double", {config, {}});
    return loaded ? std::string() : loaded.error().message();
  };
  EXPECT_EQ(told(R"({"platform":"penstock","backend":"penstock","instance_group":[]})"), "");
  EXPECT_THAT(told(R"({"instanceGroup":[{"count":4}]})"),
              HasSubstr("'instance_group' is not supported: how many replicas a stage has"));
  EXPECT_THAT(told(R"({"parameters":{"threads":{"string_value":"1"}}})"),
              HasSubstr("'parameters' is not supported"));
  EXPECT_THAT(told(R"({"runtime":"x.so"})"), HasSubstr("'runtime' is not supported"));
  EXPECT_THAT(told(R"({"platform":"tensorrt_plan"})"),
              HasSubstr("platform: expected penstock or onnxruntime_onnx, found 'tensorrt_plan'"));
  EXPECT_THAT(told(R"({"backend":7})"), HasSubstr("'backend': expected a string, found number"));
  EXPECT_EQ(told(R"({"input":[{"name":"x","data_type":"TYPE_FP32","dims":["2"]}]})"), "");
  EXPECT_THAT(told(R"({"input":[{"name":"y"}]})"),
              HasSubstr("input 'y' is none of the model's: 'x'"));
  EXPECT_THAT(told(R"({"input":[{"name":"x","data_type":"TYPE_INT8"}]})"),
              HasSubstr("input 'x': the model has f32[2], the configuration TYPE_INT8;"));
  EXPECT_THAT(told(R"({"output":[{"name":"out","dims":[-1]}]})"),
              HasSubstr("output 'out': the model has f32[2], the configuration any type[-1];"));
  EXPECT_THAT(told(R"({"input":[{"name":"x","reshape":{"shape":[2]}}]})"),
              HasSubstr("'reshape' is not supported"));
  EXPECT_THAT(told(R"({"input":[{"name":"x","shape":null}]})"),
              HasSubstr("'input' 'x': unknown field 'shape'"));
  EXPECT_THAT(answer(request("double", 3)), ElementsAre(6, 8));
}

/// A message that is there asks for something, though it be empty.
TEST_F(ServerTest, AnEmptyFieldOfAConfigurationIsRefusedWhereItAsksForSomething) {
  add_model("double", "y");
  start();
  const auto told = [&](const std::string& config) {
    const Status loaded = server_->load("double", {config, {}});
    return loaded ? std::string() : loaded.error().message();
  };
  EXPECT_THAT(told(R"({"dynamic_batching":{}})"),
              HasSubstr("'dynamic_batching' is not supported: frames share calls where"));
  EXPECT_THAT(told(R"({"ensembleScheduling":{}})"),
              HasSubstr("'ensemble_scheduling' is not supported"));
  EXPECT_THAT(told(R"({"input":[{"name":"x","reshape":{}}]})"),
              HasSubstr("'reshape' is not supported"));
  EXPECT_EQ(told(R"({"dynamic_batching":null,"sequence_batching":null,"responseCache":{},
                     "modelTransactionPolicy":{},"input":[{"name":"x","reshape":null,
                     "allowRaggedBatch":false,"optional":false}]})"),
            "");
}

TEST_F(ServerTest, AConfigurationWithSequencesIsOfAModelWithStates) {
  add_model("double", "y");
  add_model("sum", "total", true);
  start();
  const auto told = [&](const std::string& model, const std::string& sequences) {
    const Status loaded =
        server_->load(model, {concat(R"({"sequence_batching":)", sequences, "}"), {}});
    return loaded ? std::string() : loaded.error().message();
  };
  EXPECT_THAT(told("double", "{}"),
              HasSubstr("'sequence_batching': the model has no states, which requests of one "
                        "sequence would share: bind them by the load parameter 'state:OUT', or "
                        "leave it out"));
  EXPECT_EQ(told("double", "null"), "");
  EXPECT_EQ(told("sum", "{}"), "");
  EXPECT_THAT(
      told("sum", R"({"max_sequence_idle_microseconds":5})"),
      HasSubstr("'sequence_batching' is not supported: expected {}, of a model with states"));
}

TEST_F(ServerTest, AVersionPolicyChoosesVersions) {
  add_model("double", "y");
  for (const std::uint64_t version : {2, 3}) {
    options_.models.push_back({"double", version, options_.models.front().path});
  }
  start();
  const auto served_with = [&](const std::string& policy) {
    const Status loaded = server_->load("double", {R"({"version_policy":)" + policy + "}", {}});
    if (!loaded) return loaded.error().message();
    std::string versions;
    for (const auto& entry : server_->index(true)) versions += entry.version;
    return versions;
  };
  EXPECT_EQ(served_with(R"({"latest":{}})"), "3");
  EXPECT_EQ(served_with(R"({"latest":{"num_versions":2}})"), "23");
  EXPECT_EQ(served_with(R"({"specific":{"versions":["1", 3]}})"), "13");
  EXPECT_EQ(served_with(R"({"all":{}})"), "123");
  EXPECT_THAT(served_with(R"({"specific":{"versions":[7]}})"),
              HasSubstr("'version_policy': version 7 is none of the model's: 1, 2, 3"));
  EXPECT_THAT(served_with(R"({"newest":{}})"), HasSubstr("'version_policy': expected {\"all\""));
  for (const char* more : {R"({"all":{"but":1}})", R"({"latest":{"versions":[1]}})",
                           R"({"specific":{"versions":[1],"num_versions":1}})"}) {
    EXPECT_THAT(served_with(more), HasSubstr("'version_policy': expected {\"all\"")) << more;
  }
}

TEST_F(ServerTest, OneFileIsNotSentTwice) {
  start();
  const Status loaded =
      server_->load("new", {"{}", {{"1/a/model.onnx", "a"}, {"1/a//model.onnx", "b"}}});
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().message(), HasSubstr("are one file: give it once"));
  const Status named = server_->load(std::string(300, 'm'), {"{}", {{"1/model.onnx", "a"}}});
  ASSERT_FALSE(named);
  EXPECT_THAT(named.error().message(), HasSubstr("at most 255 bytes, found 300"));
}

TEST_F(ServerTest, PathsThatNoFolderTakesAreTheirSendersMistake) {
  start();
  const auto refused = [&](const LoadOptions& load) {
    const Status loaded = server_->load("new", load);
    EXPECT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code, Code::kInvalidArgument);
    return loaded.error().message();
  };
  EXPECT_THAT(refused({"{}", {{"1/a", "x"}, {"1/a-b", "y"}, {"1/a/b/c", "z"}}}),
              HasSubstr("'file:1/a/b/c': lies in 'file:1/a', which is a file, too"));
  EXPECT_THAT(refused({"{}", {{"1/" + std::string(256, 'a'), "x"}}}),
              HasSubstr("expected at most 1024 bytes, and 255 between two '/', found 258 and 256"));
  std::string deep = "1";
  for (int i = 0; i < 512; ++i) deep += "/a";
  EXPECT_THAT(refused({"{}", {{deep, "x"}}}), HasSubstr("found 1025 and 1"));
}

TEST(AccessLogTest, GoesOnInTheFileOfItsName) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "log", old = folder.path() / "log.1";
  const auto lines_of = [](const std::filesystem::path& path) {
    std::ifstream stream(path);
    return std::count(std::istreambuf_iterator<char>(stream), {}, '\n');
  };
  const auto log = *AccessLog::open(file, {});
  log->write({.protocol = "grpc"});
  std::filesystem::rename(file, old);
  log->write({.protocol = "grpc"});
  EXPECT_TRUE(log->reopen());
  log->write({.protocol = "grpc"});
  EXPECT_EQ(lines_of(old), 2);
  EXPECT_EQ(lines_of(file), 1);
}

/// Of a log that was told to `told`.
AccessLog::Say to(std::vector<std::string>& told) {
  return [&told](const std::string& text) { told.push_back(text); };
}

constexpr auto kCalm = milliseconds(1100);  // Then a log says that it goes on.

TEST(AccessLogTest, LosesLinesRatherThanWaitForTheReaderOfAPipe) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  const auto unread = AccessLog::open(file, {});
  ASSERT_FALSE(unread);
  EXPECT_THAT(unread.error().message(), HasSubstr("start its reader first"));

  const int reader = ::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(::fcntl(reader, F_SETPIPE_SZ, 16384), 16384);
  std::vector<std::string> told;
  const auto log = *AccessLog::open(file, to(told));
  const AccessEntry entry{.protocol = "http", .target = std::string(9000, 'a')};
  for (int i = 0; i < 10; ++i) log->write(entry);
  ASSERT_THAT(told, ElementsAre(HasSubstr("lines are lost: nobody reads on")));

  std::string read(65536, ' ');
  read.resize(static_cast<std::size_t>(::read(reader, read.data(), read.size())));
  EXPECT_EQ(std::ranges::count(read, '\n'), 1);
  std::this_thread::sleep_for(kCalm);
  log->write({.protocol = "grpc"});
  EXPECT_THAT(told, ElementsAre(_, HasSubstr("goes on; lines lost: 9")));
  std::string after(8192, ' ');
  after.resize(static_cast<std::size_t>(::read(reader, after.data(), after.size())));
  EXPECT_THAT(after, StartsWith("\n{"));  // After a line that was cut.
  EXPECT_EQ(after.back(), '\n');
  ::close(reader);
}

TEST(AccessLogTest, EndsALineThatAFullDiskCut) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "log";
  std::vector<std::string> told;
  const auto log = *AccessLog::open(file, to(told));
  log->write({.protocol = "http"});
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit full{std::filesystem::file_size(file) + 20, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  for (int i = 0; i < 3; ++i) log->write({.protocol = "http"});
  EXPECT_TRUE(log->reopen());
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old_handler);
  log->write({.protocol = "http"});
  EXPECT_THAT(told, ElementsAre(HasSubstr("lines are lost: ")));
  std::this_thread::sleep_for(kCalm);
  log->write({.protocol = "http"});
  EXPECT_THAT(told, ElementsAre(_, HasSubstr("goes on; lines lost: 3")));

  std::ifstream stream(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  const auto whole = AllOf(StartsWith("{"), EndsWith("}"));
  EXPECT_THAT(lines, ElementsAre(whole, SizeIs(20), whole, whole));
}

TEST_F(ServerTest, RegionsAreReadInPlaceAndWritten) {
  add_model("double", "y");
  start();
  const std::string key = "/penstock_test_" + std::to_string(::getpid());
  const int file = ::shm_open(key.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
  ASSERT_GE(file, 0);
  ASSERT_EQ(::ftruncate(file, 4096), 0);
  auto* floats =
      static_cast<float*>(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  auto& regions = server_->shared_memory();
  EXPECT_TRUE(regions.add({"r", key, 0, 4096}));
  EXPECT_EQ(regions.add({"r", key, 0, 4096}).error().code, Code::kAlreadyExists);
  EXPECT_FALSE(regions.add({"s", key, 0, 4097}));
  EXPECT_FALSE(regions.add({"s", key, std::numeric_limits<std::uint64_t>::max(), 2}));
  EXPECT_FALSE(regions.add({"s", "/../etc/passwd", 0, 1}));
  EXPECT_FALSE(regions.add({"s", "/there_is_no_such_thing", 0, 1}));
  floats[0] = 10;
  floats[1] = 20;
  Request made;
  made.model = "double";
  made.inputs.push_back({"x", DType::kF32, {2}, {}, RegionPlace{"r", 0, 8}});
  made.outputs.push_back({"out", RegionPlace{"r", 512, 8}, 0, true});
  const auto reply = infer(made).reply.get();
  ASSERT_TRUE(reply) << reply.error().message();
  EXPECT_EQ(floats[128], 20);
  EXPECT_EQ(floats[129], 40);
  EXPECT_EQ(reply->outputs[0].place->byte_size, 8U);
  EXPECT_EQ(server_->statistics("double", "")->at(0).copies, 1U);  // The output's.
  auto outside = made;
  outside.inputs[0].place->offset = 4090;
  EXPECT_THAT(error_of(outside).message(), HasSubstr("do not lie within"));
  auto small = made;
  small.inputs[0].place->byte_size = 4;
  EXPECT_THAT(error_of(small).message(), HasSubstr("expected 8 bytes"));
  auto tight = made;
  tight.outputs[0].place->byte_size = 4;
  EXPECT_THAT(error_of(tight).message(), HasSubstr("it has 8 bytes"));
  ASSERT_EQ(::ftruncate(file, 0), 0);  // To touch it now would end the process.
  EXPECT_THAT(error_of(made).message(), HasSubstr("which has 0"));
  auto only_written = made;
  only_written.inputs = request("double", 1).inputs;
  EXPECT_THAT(error_of(only_written).message(), HasSubstr("which has 0"));
  ASSERT_EQ(::ftruncate(file, 4096), 0);
  EXPECT_TRUE(infer(made).reply.get());
  regions.remove("r");
  EXPECT_THAT(error_of(made).message(), HasSubstr("Unable to find shared memory region"));
  ::munmap(floats, 4096);
  ::close(file);
  ::shm_unlink(key.c_str());
}

TEST(Datatype, ShapesAndBytesAreChecked) {
  const auto elements = [](std::vector<std::int64_t> dims) { return count_elements(dims); };
  EXPECT_EQ(*elements({2, 3}), 6U);
  EXPECT_EQ(*elements({}), 1U);
  EXPECT_EQ(*elements({0, 1000}), 0U);
  EXPECT_FALSE(elements({-1}));
  EXPECT_FALSE(elements({std::int64_t{1} << 32, std::int64_t{1} << 32}));
  EXPECT_FALSE(elements({std::int64_t{1} << 62}));
  const std::array<std::byte, 6> bytes{std::byte{2}, {}, {}, {}, std::byte{'a'}, std::byte{'b'}};
  const auto strings = decode_strings(bytes, {1});
  ASSERT_TRUE(strings);
  EXPECT_EQ(strings->strings(), std::vector<std::string>{"ab"});
  EXPECT_EQ(encode_strings(*strings).size(), 6U);
  EXPECT_FALSE(decode_strings(std::span(bytes).first(5), {1}));
  EXPECT_FALSE(decode_strings(bytes, {2}));
  EXPECT_FALSE(decode_strings(bytes, {0}));
  EXPECT_FALSE(decode_strings(bytes, {std::int64_t{1} << 50}));
  EXPECT_FALSE(copy_raw(DType::kF32, {2}, bytes));
  EXPECT_EQ(copy_raw(DType::kU8, {2, 3}, bytes)->bytes(), 6U);
  EXPECT_FALSE(parse_datatype("fp32"));
  EXPECT_EQ(*parse_datatype("BYTES"), DType::kString);
}

}  // namespace
}  // namespace penstock::serve
