// The metrics of a pipeline with an invented backend, over HTTP, and who is refused them.
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/base/hash.h"
#include "penstock/gateway/watching.h"
#include "penstock/http/get.h"
#include "penstock/watch/doors.h"
#include "tests/support/fake_backend.h"
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

TEST(TokenOf, ReadsBearerAndThePasswordOfBasic) {
  EXPECT_EQ(token_of("Bearer abc"), "abc");
  EXPECT_EQ(token_of("Basic OmFiYw=="), "abc");  // ":abc"
  EXPECT_EQ(token_of("Basic YWJj"), "");         // "abc"
  EXPECT_EQ(token_of("Basic ?"), "");
  EXPECT_EQ(token_of(""), "");
}

}  // namespace
}  // namespace penstock::watch
