// The metrics of a pipeline with an invented backend, over HTTP, and who is refused them.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/base/hash.h"
#include "penstock/gateway/watching.h"
#include "penstock/http/get.h"
#include "penstock/http/server.h"
#include "penstock/watch/doors.h"
#include "penstock/watch/history.h"
#include "penstock/watch/recorder.h"
#include "tests/support/fake_backend.h"
#include "tests/support/fake_remote.h"
#include "tests/support/temporary_folder.h"

namespace penstock::watch {
namespace {

using ::testing::HasSubstr;
using namespace penstock::testing;  // NOLINT(google-build-using-namespace): test support

constexpr std::chrono::nanoseconds kSoon = std::chrono::seconds(60);

class WatchTest : public ::testing::Test {
 protected:
  WatchTest() {
    network_.input("in")
        .stage("a", {"in"}, {"mid"}, unary([](float x) { return x + 1; }))
        .stage("b", {"mid"}, {"out"},
               [](Inputs in, Outputs out) -> Status {
                 if (value_of(*in[0]) == 100) return invalid_argument("100 is too much");
                 out[0]->as<float>()[0] = value_of(*in[0]);
                 return {};
               })
        .output("out");
    network_.backend->models.at("a.onnx").counters = [this] {
      if (out_of_memory_ && ++refused_ > 0) throw std::bad_alloc();
      return backend::Context::Counters();
    };
    auto started = network_.start({}, {});
    EXPECT_TRUE(started) << started.error().message();
    pipeline_ = *std::move(started);
  }

  void run(float value) {
    const std::vector<Tensor> inputs{number(value)};
    ASSERT_TRUE(pipeline_->push(inputs, kSoon));
    ASSERT_TRUE(pipeline_->pop(kSoon));
  }
  std::unique_ptr<gateway::Watching> watched(const gateway::WatchOptions& options = {}) {
    auto watching = gateway::start_watching(pipeline_, options);
    EXPECT_TRUE(watching) << watching.error().message();
    return *std::move(watching);
  }
  static http::Answer ask(const gateway::Watching& watching, const std::string& target,
                          const std::vector<http::Header>& headers = {}) {
    auto answer = http::get(watching.address(), target, headers, kSoon);
    EXPECT_TRUE(answer) << answer.error().message();
    return *std::move(answer);
  }

  std::atomic<bool> out_of_memory_ = false;
  std::atomic<int> refused_ = 0;
  FakeNetwork network_;
  std::shared_ptr<pipeline::Pipeline> pipeline_;
};

TEST_F(WatchTest, ExportsWhatFramesStagesAndEdgesDid) {
  const auto watching = watched();
  for (const float value : {1.0F, 2.0F, 99.0F}) run(value);
  const auto answer = ask(*watching, "/metrics");
  EXPECT_EQ(answer.status, 200);
  for (const auto* line :
       {R"(penstock_frames{model="fake",outcome="ok"} 2)",
        R"(penstock_frames{model="fake",outcome="error"} 1)",
        R"(penstock_stage_errors{model="fake",stage="b"} 1)",
        R"(penstock_pushed_frames{model="fake"} 3)", R"(penstock_frames_in_flight{model="fake"} 0)",
        "# TYPE penstock_stage_busy_seconds counter",
        R"(penstock_latency_seconds_count{model="fake"} 3)", "process_resident_memory_bytes "}) {
    EXPECT_THAT(answer.body, HasSubstr(line));
  }
}

TEST_F(WatchTest, StaysWhenThePipelineHasEnded) {
  const auto watching = watched();
  run(1);
  pipeline_->cancel();
  pipeline_.reset();
  EXPECT_THAT(ask(*watching, "/metrics").body, HasSubstr("penstock_pushed_frames"));
}

TEST_F(WatchTest, RefusesToSpeakPlainlyToOtherMachines) {
  const auto watching = gateway::start_watching(pipeline_, {.address = "0.0.0.0:0"});
  ASSERT_FALSE(watching);
  EXPECT_EQ(watching.error().code, Code::kPermissionDenied);
  EXPECT_TRUE(gateway::start_watching(pipeline_, {.address = "0.0.0.0:0", .insecure = true}));
}

TEST_F(WatchTest, RefusesRequestsThatPagesOfStrangersMake) {
  const auto watching = watched();
  const auto answer = ask(*watching, "/metrics", {{"Host", "evil.example:80"}});
  EXPECT_EQ(answer.status, 403);
  EXPECT_THAT(answer.body, HasSubstr("evil.example"));
  EXPECT_EQ(ask(*watching, "/metrics", {{"Host", "localhost:80"}}).status, 200);
}

TEST_F(WatchTest, AsksForATokenWhereThereAreSome) {
  const auto folder = TemporaryFolder();
  const auto file = folder.path() / "tokens";
  std::ofstream(file) << "me sha256:" << sha256_of("secret") << " admin\n"
                      << "you sha256:" << sha256_of("other") << " infer\n";
  const auto watching = watched({.tokens = file});
  EXPECT_EQ(ask(*watching, "/metrics").status, 401);
  EXPECT_EQ(ask(*watching, "/metrics", {{"Authorization", "Bearer secret"}}).status, 200);
  EXPECT_EQ(ask(*watching, "/metrics", {{"Authorization", "Bearer other"}}).status, 403);
  // "anybody:secret", as a browser sends what was typed into its window.
  EXPECT_EQ(ask(*watching, "/metrics", {{"Authorization", "Basic YW55Ym9keTpzZWNyZXQ="}}).status,
            200);
}

TEST_F(WatchTest, TellsAtTheStartThatTheRecordingHasNoPlace) {
  const auto folder = TemporaryFolder();
  for (const auto& [file, code] :
       {std::pair(folder.path() / "nowhere" / "run.html", Code::kNotFound),
        std::pair(folder.path(), Code::kPermissionDenied)}) {
    const auto watching = gateway::start_watching(pipeline_, {.address = "", .record = file});
    ASSERT_FALSE(watching);
    EXPECT_EQ(watching.error().code, code);
    EXPECT_THAT(watching.error().message(), HasSubstr(file.string()));
  }
  EXPECT_FALSE(
      gateway::start_watching(pipeline_, {.address = "nobody", .record = folder.path() / "a"}));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST_F(WatchTest, GoesOnWhereALookFindsNoMemory) {
  const auto watching = watched({.page = true});
  out_of_memory_ = true;
  while (refused_ == 0) std::this_thread::yield();
  out_of_memory_ = false;
  Json sample;  // Of before, or none, until it looks again.
  while (!sample.is_object() || sample["skipped"] == 0) {
    sample = Json::parse(ask(*watching, "/snapshot").body)["sample"];
  }
  EXPECT_GT(sample["skipped"], 0);
}

TEST_F(WatchTest, TellsTheEndToWhoeverListens) {
  const auto watching = watched({.page = true});
  auto events = http::Listener::start(watching->address(), "/events", {});
  ASSERT_TRUE(events) << events.error().message();
  EXPECT_TRUE(events->wait_for("retry:", kSoon));
  EXPECT_FALSE(events->wait_for("event: end\n", std::chrono::milliseconds(10)));
  EXPECT_FALSE(events->ended());
  ASSERT_TRUE(watching->stop());
  EXPECT_TRUE(events->wait_for("event: end\n", kSoon));
  EXPECT_FALSE(events->wait_for("event: end\n", kSoon)) << "once";
  EXPECT_TRUE(events->ended());
}

TEST_F(WatchTest, TellsTheEndToWhoeverListensAfterIt) {
  const auto recorder = std::make_shared<Recorder>(pipeline_, "");
  ASSERT_TRUE(recorder->start());
  recorder->stop();
  http::Router router;
  router.add("GET", "/events", {},
             [&](const http::Request&, const http::Responder& to) { recorder->listen(to, 0); });
  const auto server = http::Server::start({.address = "127.0.0.1:0"}, std::move(router));
  ASSERT_TRUE(server) << server.error().message();
  const auto answer = http::get((*server)->address(), "/events", {}, kSoon);
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_THAT(answer->body, ::testing::EndsWith("event: end\ndata: {}\n\n"));
}

TEST_F(WatchTest, ShowsTheCpusOfThisMachineOnly) {
  network_.registry.add(std::make_shared<FakeRemote>(network_));
  network_.plan.stages[0].devices = {{.host = "10.0.0.1:8470", .cpus = {0, 1}}};
  auto started = network_.start({}, {});
  ASSERT_TRUE(started) << started.error().message();
  pipeline_ = *std::move(started);
  const auto watching = watched({.page = true});
  const auto about = Json::parse(ask(*watching, "/snapshot").body)["about"];
  EXPECT_EQ(about["stages"][0]["devices"][0], "10.0.0.1:8470/cpu:0-1");
  EXPECT_TRUE(about["stages"][0]["cpus"].empty());
  EXPECT_EQ(about["stages"][1]["cpus"].size(), 1);
}

TEST_F(WatchTest, BeginsAnewWithAnotherPlanOfTheSamePlaces) {
  const auto watching = watched({.page = true});
  const auto about = [&] { return Json::parse(ask(*watching, "/snapshot").body)["about"]; };
  EXPECT_EQ(about()["generation"], 1);
  EXPECT_EQ(about()["predicted"]["period_seconds"], 0);
  network_.plan.prediction.period_seconds = 0.25;
  ASSERT_TRUE(pipeline_->replace(network_.with({}), network_.folder, network_.registry));
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (about()["generation"] == 1 && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  EXPECT_EQ(about()["generation"], 2);
  EXPECT_EQ(about()["predicted"]["period_seconds"], 0.25);
}

Sample sample_of(std::uint64_t number, int failures = 0, std::uint64_t missed = 0) {
  Sample sample{.number = number, .json = {{"n", number}}, .failures = {}, .missed = missed};
  for (int i = 0; i < failures; ++i) sample.failures.push_back({{"frame", 100 * number + i}});
  return sample;
}

TEST(History, TellsTheFailuresThatAListenerLacks) {
  History history;
  history.keep(sample_of(1, 1));
  history.keep(sample_of(2));
  history.keep(sample_of(3, 2, 5));
  const auto texts = history.since(1);
  ASSERT_EQ(texts.size(), 2);
  EXPECT_EQ(texts[0].json, R"({"n":2,"failures":[],"missed":0})");
  EXPECT_EQ(texts[1].json, R"({"n":3,"failures":[{"frame":300},{"frame":301}],"missed":5})");
  EXPECT_TRUE(history.since(3).empty());
  history.forget_samples();
  history.keep(sample_of(4, 1));
  EXPECT_EQ(history.since(3).at(0).json, R"({"n":4,"failures":[{"frame":400}],"missed":0})");
}

TEST(History, LeavesOutTheOldestWhereThereIsNoRoomAndCountsTheirFailures) {
  History history;
  for (std::uint64_t n = 1; n <= 10; ++n) history.keep(sample_of(n, 1));
  const auto texts = history.since(2, 300);
  ASSERT_EQ(texts.size(), 2);
  EXPECT_EQ(texts[0].json, R"({"n":9,"failures":[{"frame":900}],"missed":6})");
  EXPECT_EQ(texts[1].json, R"({"n":10,"failures":[{"frame":1000}],"missed":0})");
}

TEST(History, CountsAllFailuresOfALongRun) {
  History history;
  for (std::uint64_t n = 1; n <= 5000; ++n) history.keep(sample_of(n, 1, 1));
  std::size_t told = 0;
  for (const auto& text : history.since(0)) {
    const auto sample = Json::parse(text.json);
    told += sample["failures"].size() + sample["missed"].get<std::size_t>();
  }
  EXPECT_EQ(told, 10'000);
  EXPECT_EQ(Json::parse(history.failures()).size() + history.missed(), 10'000);
  EXPECT_LE(Json::parse(history.samples()).size(), 2400);
}

TEST(TokenOf, ReadsBearerAndThePasswordOfBasic) {
  EXPECT_EQ(token_of("Bearer abc"), "abc");
  EXPECT_EQ(token_of("Basic OmFiYw=="), "abc");  // ":abc"
  EXPECT_EQ(token_of("Basic YWJj"), "");         // "abc"
  EXPECT_EQ(token_of("Basic ?"), "");
  EXPECT_EQ(token_of(""), "");
}

}  // namespace
}  // namespace penstock::watch
