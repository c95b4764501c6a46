// A worker's part without a wire: stages over a backend made of functions.
#include "penstock/host/host.h"

#include <atomic>
#include <future>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/base/hash.h"
#include "penstock/graph/test_support.h"
#include "penstock/serve/server_options.h"
#include "tests/support/fake_backend.h"
#include "tests/support/temporary_folder.h"

namespace penstock::host {
namespace {

using std::chrono::seconds;
using testing::FakeBackend;
using ::testing::HasSubstr;
using testing::number;
using testing::scalar;
using testing::value_of;

constexpr const char* kModel = R"(
<ir_version: 8, opset_import: ["" : 17]>
f (float[1] x) => (float[1] y) { y = Identity(x) })";

/// Tensors of other workers, by address; those that are not there yet are given later.
class FakePuller : public Puller {
 public:
  struct Asked final : serve::Call {
    void cancel() override {
      if (done) std::exchange(done, nullptr)(make_error(Code::kCancelled, "cancelled"));
    }
    Done done;
  };

  std::shared_ptr<serve::Call> pull(const Ticket& ticket, DType, const std::vector<std::int64_t>&,
                                    std::optional<Clock::time_point>, Done done) override {
    const auto asked = std::make_shared<Asked>();
    asked->done = std::move(done);
    if (ticket.id == "there") {
      std::exchange(asked->done, nullptr)(number(5));
    } else if (ticket.id == "gone") {
      std::exchange(asked->done, nullptr)(not_found("no such ticket"));
    }
    waiting.push_back(asked);
    return asked;
  }

  std::vector<std::shared_ptr<Asked>> waiting;
};

class HostTest : public ::testing::Test {
 protected:
  HostTest() {
    backend_->models["double.onnx"] = {{{"x", scalar()}},
                                       {{"y", scalar()}},
                                       [](testing::Inputs in, testing::Outputs out) -> Status {
                                         out[0]->as<float>()[0] = 2 * value_of(*in[0]);
                                         return {};
                                       }};
    backend_->models["fail.onnx"] = {
        {{"x", scalar()}}, {{"y", scalar()}}, [this](testing::Inputs, testing::Outputs) -> Status {
          if (!opened_) return {};
          return internal_error("it is broken");
        }};
    registry_.add(backend_);
    server_ = *serve::Server::start({}, registry_);
    options_.cache = folder_.path();
  }

  void start() {
    auto host = Host::start(*server_, options_);
    ASSERT_TRUE(host) << host.error().message();
    host_ = *std::move(host);
    session_ = *host_->open("", "test", seconds(60));
  }

  std::string put(const std::string& text) {
    const std::string hash = sha256_of(text);
    auto writer = host_->contents().begin(hash, text.size());
    EXPECT_TRUE(writer) << writer.error().message();
    EXPECT_TRUE((*writer)->add(std::as_bytes(std::span(text))));
    session_->hold(*(*writer)->finish());
    return hash;
  }

  static StageOrder order() {
    StageOrder made;
    made.name = "head";
    made.backend = "fake";
    made.devices = {{.cpus = {device::inherited_cpus().front()}}};
    return made;
  }

  Result<std::uint64_t> open(const std::string& file, StageOrder made = order()) {
    const auto hash = put(graph::bytes_of_text(kModel));
    auto number = host_->open_stage(*session_, std::move(made), {{file, hash}}, {});
    opened_ = true;
    return number;
  }

  static CallRequest request(std::uint64_t stage, float value) {
    CallRequest made;
    made.stage = stage;
    made.frame = 42;
    made.inputs.push_back({DType::kF32, {1}, number(value), std::nullopt});
    return made;
  }
  static CallRequest request(std::uint64_t stage, Ticket ticket) {
    CallRequest made;
    made.stage = stage;
    made.inputs.push_back({DType::kF32, {1}, {}, std::move(ticket)});
    return made;
  }

  std::future<CallReply> begin(CallRequest made, std::shared_ptr<Call>* call = nullptr) {
    auto promise = std::make_shared<std::promise<CallReply>>();
    auto future = promise->get_future();
    auto started = host_->call(session_, puller_, std::move(made), [promise](CallReply reply) {
      promise->set_value(std::move(reply));
    });
    if (call != nullptr) *call = std::move(started);
    return future;
  }
  Result<std::vector<CallValue>> run(CallRequest made) {
    return begin(std::move(made)).get().outputs;
  }

  TemporaryFolder folder_;
  std::shared_ptr<FakeBackend> backend_ = std::make_shared<FakeBackend>();
  backend::Registry registry_;
  std::unique_ptr<serve::Server> server_;
  Host::Options options_;
  FakePuller puller_;
  std::unique_ptr<Host> host_;
  std::shared_ptr<Session> session_;
  std::atomic<bool> opened_ = false;
};

TEST_F(HostTest, RunsAStage) {
  start();
  const auto stage = open("double.onnx");
  ASSERT_TRUE(stage) << stage.error().message();
  const auto values = run(request(*stage, 4));
  ASSERT_TRUE(values) << values.error().message();
  ASSERT_EQ(values->size(), 1U);
  EXPECT_EQ(value_of(values->front().value), 8);
  EXPECT_TRUE(values->front().sent);
  EXPECT_TRUE(values->front().ticket.empty());
}

TEST_F(HostTest, TellsWhatAStageReadsAndGives) {
  start();
  const auto stage = open("double.onnx");
  const auto opened = session_->stage(*stage);
  const auto& facts = *(*opened)->facts();
  ASSERT_EQ(facts.inputs.size(), 1U);
  EXPECT_EQ(facts.inputs.front().name, "x");
  EXPECT_EQ(facts.outputs.front().type, scalar());
  EXPECT_GE((*opened)->recommended_calls(), 1);
}

TEST_F(HostTest, AnErrorNamesTheStageAndTheCallersFrame) {
  start();
  const auto stage = open("fail.onnx");
  ASSERT_TRUE(stage) << stage.error().message();
  const auto values = run(request(*stage, 4));
  ASSERT_FALSE(values);
  EXPECT_EQ(values.error().code, Code::kInternal);
  EXPECT_EQ(values.error().find(Where::kStage)->name, "head");
  EXPECT_EQ(values.error().find(Where::kFrame)->number, 42U);
}

TEST_F(HostTest, AnOutputThatStaysIsTheNextStagesInput) {
  start();
  const auto first = open("double.onnx"), second = open("double.onnx");
  auto made = request(*first, 4);
  made.outputs = {{.drop = true, .pulls = 1}};
  const auto kept = run(std::move(made));
  ASSERT_TRUE(kept);
  EXPECT_FALSE(kept->front().sent);
  EXPECT_EQ(host_->tickets().count(session_->number()), 1U);
  const auto values = run(request(*second, Ticket{kept->front().ticket, ""}));
  ASSERT_TRUE(values) << values.error().message();
  EXPECT_EQ(value_of(values->front().value), 16);
  EXPECT_EQ(host_->tickets().bytes(), 0U);
}

TEST_F(HostTest, AnUnknownTicketFailsThatCallAlone) {
  start();
  const auto stage = open("double.onnx");
  const auto values = run(request(*stage, Ticket{"guess", ""}));
  EXPECT_EQ(values.error().code, Code::kNotFound);
  EXPECT_EQ(values.error().find(Where::kInput)->name, "x");
  EXPECT_TRUE(run(request(*stage, 1)));
}

TEST_F(HostTest, PullsFromPeersOfTheSessionOnly) {
  start();
  const auto stage = open("double.onnx");
  EXPECT_EQ(run(request(*stage, Ticket{"there", "10.0.0.1:8001"})).error().code,
            Code::kPermissionDenied);
  session_->set_peers({"10.0.0.1:8001"});
  const auto values = run(request(*stage, Ticket{"there", "10.0.0.1:8001"}));
  ASSERT_TRUE(values) << values.error().message();
  EXPECT_EQ(value_of(values->front().value), 10);
  EXPECT_EQ(run(request(*stage, Ticket{"gone", "10.0.0.1:8001"})).error().code, Code::kNotFound);
}

TEST_F(HostTest, ACallThatWaitsForAPeerIsCancelled) {
  start();
  const auto stage = open("double.onnx");
  session_->set_peers({"peer:1"});
  std::shared_ptr<Call> call;
  auto reply = begin(request(*stage, Ticket{"late", "peer:1"}), &call);
  call->cancel();
  EXPECT_EQ(reply.get().outputs.error().code, Code::kCancelled);
  EXPECT_EQ(server_->shared().budget.used(), 0U);
}

TEST_F(HostTest, ACallThatWaitsForALostPeerIsUnavailable) {
  start();
  const auto stage = open("double.onnx");
  session_->set_peers({"peer:1", "peer:2"});
  std::shared_ptr<Call> call;
  auto reply = begin(request(*stage, Ticket{"late", "peer:1"}), &call);
  call->lose("peer:2");  // It waits for none of that one's.
  EXPECT_EQ(reply.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  call->lose("peer:1");
  const auto error = reply.get().outputs.error();
  EXPECT_EQ(error.code, Code::kUnavailable);
  EXPECT_EQ(error.find(Where::kPeer)->name, "peer:1");
  EXPECT_EQ(error.find(Where::kInput)->name, "x");
  EXPECT_EQ(server_->shared().budget.used(), 0U);
}

TEST_F(HostTest, ACallThatHasItsInputsOutlivesThePeerThatHadThem) {
  start();
  std::promise<void> entered, released;
  auto wait = released.get_future().share();
  const auto twice = backend_->models["double.onnx"].run;
  backend_->models["double.onnx"].run = [&, wait, twice](testing::Inputs in, testing::Outputs out) {
    if (opened_) {
      entered.set_value();
      wait.wait();
    }
    return twice(in, out);
  };
  const auto stage = open("double.onnx");
  session_->set_peers({"peer:1"});
  std::shared_ptr<Call> call;
  auto reply = begin(request(*stage, Ticket{"there", "peer:1"}), &call);
  entered.get_future().wait();
  call->lose("peer:1");
  released.set_value();
  const auto outputs = reply.get().outputs;
  ASSERT_TRUE(outputs) << outputs.error().message();
  EXPECT_EQ(value_of(outputs->front().value), 10);
}

TEST_F(HostTest, AHugeShapeIsRefusedBeforeItIsPulled) {
  start();
  const auto stage = open("double.onnx");
  session_->set_peers({"peer:1"});
  auto made = request(*stage, Ticket{"late", "peer:1"});
  made.inputs[0].dims = {std::int64_t{1} << 50};
  EXPECT_EQ(run(std::move(made)).error().code, Code::kResourceExhausted);
  EXPECT_TRUE(puller_.waiting.empty());
}

TEST_F(HostTest, WrongCountsTypesAndShapesAreRefused) {
  start();
  const auto stage = open("double.onnx");
  auto two = request(*stage, 1);
  two.inputs.push_back(two.inputs.front());
  EXPECT_EQ(run(std::move(two)).error().code, Code::kInvalidArgument);
  CallRequest none;
  none.stage = *stage;
  EXPECT_EQ(run(none).error().code, Code::kInvalidArgument);
  auto wrong = request(*stage, 1);
  wrong.inputs[0].value = Tensor::allocate(DType::kI64, {1});
  EXPECT_EQ(run(std::move(wrong)).error().code, Code::kInvalidArgument);
  wrong = request(*stage, 1);
  wrong.inputs[0].value = Tensor::allocate(DType::kF32, {0});
  EXPECT_EQ(run(std::move(wrong)).error().code, Code::kInvalidArgument);
  auto outputs = request(*stage, 1);
  outputs.outputs.resize(3);
  EXPECT_EQ(run(std::move(outputs)).error().code, Code::kInvalidArgument);
  EXPECT_EQ(run(request(77, 1)).error().code, Code::kNotFound);
  EXPECT_TRUE(run(request(*stage, 1)));
}

TEST_F(HostTest, WhatStaysIsBounded) {
  options_.limits.ticket_bytes = 3;
  start();
  const auto stage = open("double.onnx");
  auto made = request(*stage, 4);
  made.outputs = {{.drop = true, .pulls = 1}};
  EXPECT_EQ(run(std::move(made)).error().code, Code::kResourceExhausted);
  EXPECT_EQ(host_->tickets().bytes(), 0U);
}

TEST_F(HostTest, ASessionThatIsClosedLeavesNothing) {
  start();
  const auto stage = open("double.onnx");
  auto made = request(*stage, 4);
  made.outputs = {{.pulls = 1}};
  ASSERT_TRUE(run(std::move(made)));
  const auto content = host_->contents().find(sha256_of(graph::bytes_of_text(kModel)));
  host_->close(*session_);
  EXPECT_EQ(host_->tickets().bytes(), 0U);
  EXPECT_EQ(run(request(*stage, 1)).error().code, Code::kNotFound);
  host_->stop();
  EXPECT_EQ(backend_->alive(), 0);
  EXPECT_EQ(content.use_count(), 2);
}

TEST_F(HostTest, ASessionThatIsNotHeardOfEndsByItself) {
  start();
  session_ = *host_->open("", "brief", std::chrono::milliseconds(1));
  while (host_->find(session_->id(), "")) std::this_thread::yield();
  EXPECT_EQ(host_->sessions(), 1U);
}

TEST_F(HostTest, AClosedStageIsGone) {
  start();
  const auto stage = open("double.onnx"), other = open("double.onnx");
  host_->close_stage(*session_, *stage);
  host_->close_stage(*session_, *stage);
  EXPECT_EQ(run(request(*stage, 1)).error().code, Code::kNotFound);
  EXPECT_TRUE(run(request(*other, 1)));
}

TEST_F(HostTest, TheNumberOfStagesIsBounded) {
  options_.limits.stages = 1;
  start();
  const auto stage = open("double.onnx");
  ASSERT_TRUE(stage);
  EXPECT_EQ(open("double.onnx").error().code, Code::kResourceExhausted);
  host_->close_stage(*session_, *stage);
  EXPECT_TRUE(open("double.onnx"));
}

TEST_F(HostTest, AStageThatCannotBeOpenedLeavesNoTrace) {
  options_.limits.stages = 1;
  start();
  EXPECT_EQ(open("absent.onnx").error().code,
            Code::kInvalidArgument);  // The engine knows no such file.
  auto made = order();
  made.devices = {{.cpus = {100'000}}};
  EXPECT_EQ(open("double.onnx", made).error().code, Code::kNotFound);
  made = order();
  made.backend = "absent";
  EXPECT_EQ(open("double.onnx", made).error().code, Code::kNotFound);
  made = order();
  made.devices = {{.host = "elsewhere:1", .cpus = {0}}};
  EXPECT_EQ(open("double.onnx", made).error().code, Code::kUnimplemented);
  EXPECT_TRUE(open("double.onnx"));
}

TEST_F(HostTest, AnUnknownContentIsNamed) {
  start();
  const std::string hash(64, 'a');
  const auto stage = host_->open_stage(*session_, order(), {{"double.onnx", hash}}, {});
  EXPECT_EQ(stage.error().code, Code::kNotFound);
  EXPECT_THAT(stage.error().message(), HasSubstr(hash));
  EXPECT_EQ(host_->missing(*session_, {hash, "no hash"}).size(), 2U);
}

TEST_F(HostTest, NativeCodeIsRefusedUnlessItIsAllowed) {
  start();
  const auto hash = put(graph::bytes_of_text(kModel));
  const auto stage =
      host_->open_stage(*session_, order(), {{"double.onnx", hash}}, {{"ops.so", hash}});
  EXPECT_EQ(stage.error().code, Code::kPermissionDenied);
}

TEST_F(HostTest, OptionsThatNameFilesAreRefused) {
  start();
  for (const auto& [key, value] : std::map<std::string, std::string>{
           {"CACHE_DIR", "x"}, {"key", "/etc/passwd"}, {"ep.context_file_path", "x"}}) {
    auto made = order();
    made.options = {{key, value}};
    EXPECT_EQ(open("double.onnx", made).error().code, Code::kPermissionDenied) << key;
  }
}

TEST_F(HostTest, AWorkerThatLeavesTakesNothingNew) {
  start();
  const auto stage = open("double.onnx");
  EXPECT_TRUE(host_->drain(seconds(60)));
  EXPECT_EQ(host_->open("", "late", seconds(1)).error().code, Code::kUnavailable);
  EXPECT_EQ(open("double.onnx").error().code, Code::kUnavailable);
  EXPECT_TRUE(run(request(*stage, 1)));
}

TEST_F(HostTest, AJobIsPlacedAmongItsFilesOnly) {
  MeasureOrder order;
  order.files = {{"stage.onnx", nullptr}};
  cost::Job job;
  job.models.push_back({.name = "m", .file = "stage.onnx", .backend = "fake"});
  job.cpus = {0};
  order.job = to_line(job);
  const auto placed = place_job(order, "/laid/out", false);
  ASSERT_TRUE(placed) << placed.error().message();
  EXPECT_EQ(placed->models[0].file, "/laid/out/stage.onnx");

  auto other = job;
  other.models[0].file = "/etc/passwd";
  order.job = to_line(other);
  EXPECT_EQ(place_job(order, "/laid/out", false).error().code, Code::kInvalidArgument);
  other = job;
  other.write_outputs = "/tmp/out.npz";
  order.job = to_line(other);
  EXPECT_EQ(place_job(order, "/laid/out", false).error().code, Code::kInvalidArgument);
  other = job;
  other.models[0].custom_ops = {"stage.onnx"};
  order.job = to_line(other);
  EXPECT_EQ(place_job(order, "/laid/out", false).error().code, Code::kPermissionDenied);
  other = job;
  other.models[0].options = {{"CACHE_DIR", "x"}};
  order.job = to_line(other);
  EXPECT_EQ(place_job(order, "/laid/out", false).error().code, Code::kPermissionDenied);
  order.job = "{}}";
  EXPECT_EQ(place_job(order, "/laid/out", false).error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace penstock::host
