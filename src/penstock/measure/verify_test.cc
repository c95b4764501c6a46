// Bursts: each model for several frames runs, or is given up.
#include "penstock/measure/verify.h"

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/measure/bursts.h"
#include "penstock/measure/slow_runs.h"
#include "tests/support/fake_backend.h"

namespace penstock::measure {
namespace {

using namespace penstock::testing;  // NOLINT(google-build-using-namespace): test support

/// y = x + 1
class PlusOne final : public Reference {
 public:
  Result<std::vector<Tensor>> run(const frames::Frame& inputs) override {
    return std::vector<Tensor>{number(value_of(inputs[0]) + 1)};
  }
};

/// A network whose calls take up to four frames, and a while, and wait for none.
class BurstTest : public ::testing::Test {
 protected:
  BurstTest() {
    network_.input("x").stage("net", {"x"}, {"y"}, [](Inputs in, Outputs out) -> Status {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      out[0]->as<float>()[0] = value_of(*in[0]) + 1;
      return {};
    });
    network_.output("y").together("net", {2, 4});
  }

  void start() {
    auto started = network_.start({.capacity = 16});
    ASSERT_TRUE(started) << started.error().message();
    pipeline_ = *std::move(started);
  }

  VerifyReport judge(
      std::vector<std::size_t> bursts, std::size_t repeats,
      std::function<bool()> out_of_time = [] { return false; }) {
    const auto frames = std::accumulate(bursts.begin(), bursts.end(), std::uint64_t{0});
    auto report = verify({.pipeline = *pipeline_,
                          .reference = reference_,
                          .judge = judge_,
                          .look_again = {},
                          .frame = [](auto i) { return frames::Frame{number(float(i))}; },
                          .frames = frames,
                          .bursts = std::move(bursts),
                          .repeats = repeats,
                          .out_of_time = std::move(out_of_time),
                          .inputs = pipeline_->plan().inputs,
                          .bound = {}});
    EXPECT_TRUE(report) << report.error().message();
    return *std::move(report);
  }

  [[nodiscard]] std::uint64_t frames_run() const { return pipeline_->stats().stages[0].frames; }

  FakeNetwork network_;
  PlusOne reference_;
  const Judge judge_ = Judge::unmeasured({"y"}, {});
  std::unique_ptr<pipeline::Pipeline> pipeline_;
};

TEST_F(BurstTest, ComeAgainUntilEachModelHasRun) {
  start();
  const auto report = judge({1}, 20);
  EXPECT_THAT(unseen_sizes(*pipeline_), ::testing::IsEmpty());
  EXPECT_EQ(report.frames, frames_run());
  EXPECT_EQ(report.finding(), Finding::kRight);
}

TEST_F(BurstTest, DoNotComeAgainWhereAllModelsRan) {
  network_.plan.stages[0].batch.wait = std::chrono::milliseconds(500);
  start();
  EXPECT_EQ(judge(bursts_of(*pipeline_), 20).frames, 8 + 4 + 2 + 1);
}

TEST_F(BurstTest, AreGivenUpAfterSoMany) {
  start();
  EXPECT_EQ(judge({1}, 0).frames, 1);
  EXPECT_EQ(judge({1}, 1).frames, 1 + 2);
}

TEST_F(BurstTest, DoNotGoOnOnceTheTimeIsOver) {
  start();
  EXPECT_EQ(judge({4}, 20, [] { return true; }).frames, 4) << "what must be judged is";
  int left = 3;
  const auto report = judge({1}, 20, [&] { return --left < 0; });
  EXPECT_EQ(report.frames, 1 + 2) << "asked before each repeat, and before each frame";
  EXPECT_FALSE(report.interrupted);
}

/// Its runs last until somebody was told of them.
class Lasting final : public Reference {
 public:
  explicit Lasting(std::atomic<int>& told) : told_(told) {}
  Result<std::vector<Tensor>> run(const frames::Frame& /*inputs*/) override {
    while (told_ == 0) std::this_thread::yield();
    return std::vector<Tensor>();
  }

 private:
  std::atomic<int>& told_;
};

TEST(WatchedReferenceTest, ARunThatLastsIsToldOnce) {
  std::atomic<int> told{0};
  Lasting lasting(told);
  WatchedReference watched(lasting, [&] { ++told; }, std::chrono::milliseconds(1));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(watched.run({}));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(told, 1);
}

TEST(WatchedReferenceTest, OfRunsThatEndNothingIsTold) {
  std::atomic<int> told{1};
  Lasting ends(told);
  WatchedReference watched(ends, [&] { ++told; }, std::chrono::hours(1));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(watched.run({}));
  EXPECT_EQ(told, 1);
}

}  // namespace
}  // namespace penstock::measure
