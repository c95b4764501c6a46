// A real pipeline whose stages sleep, so that what they take does not depend on the machine.
#include "penstock/follow/tuner.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/device/affinity.h"
#include "penstock/device/topology.h"
#include "tests/support/fake_backend.h"

namespace penstock::follow {
namespace {

using ::testing::HasSubstr;
using namespace penstock::testing;  // NOLINT(google-build-using-namespace): test support

constexpr std::chrono::nanoseconds kSoon = std::chrono::seconds(60);

Function sleeping(std::chrono::milliseconds time) {
  return [time](Inputs in, Outputs out) -> Status {
    std::this_thread::sleep_for(time);
    out[0]->as<float>()[0] = value_of(*in[0]) + 1;
    return {};
  };
}

class TunerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto cpus = device::inherited_cpus();
    if (cpus.size() < 2) GTEST_SKIP() << "one CPU: there is no other plan";
    // One stage has hardly anything to do: whole on each CPU is almost twice as fast.
    network_.input("in")
        .stage("slow", {"in"}, {"mid"}, sleeping(std::chrono::milliseconds(20)))
        .stage("fast", {"mid"}, {"out"}, sleeping(std::chrono::milliseconds(1)))
        .output("out");
    for (std::size_t i = 0; i < 2; ++i) {
      network_.plan.stages[i].devices = {device::Device{.host = {}, .cpus = {cpus[i]}}};
    }
  }

  void start(double share = 0.02) {
    auto started = network_.start();
    ASSERT_TRUE(started) << started.error().message();
    pipeline_ = *std::move(started);
    setting_.share = share;
    setting_.replace = [this](const plan::Plan& plan, const std::filesystem::path& folder) {
      return pipeline_->replace(plan, folder, network_.registry);
    };
  }
  Result<std::unique_ptr<Tuner>> tuned() {
    return Tuner::start(pipeline_, {network_.plan, network_.folder, nullptr}, setting_);
  }

  /// Keeps the pipeline full until it is told to end; frames are numbered. \returns how many came.
  std::uint64_t stream_until(const std::function<bool()>& done) {
    std::atomic<std::uint64_t> pushed{0};
    std::thread pusher([&] {
      const auto give_up = std::chrono::steady_clock::now() + kSoon;
      while (!done() && std::chrono::steady_clock::now() < give_up) {
        const std::vector<Tensor> inputs{number(static_cast<float>(pushed))};
        if (!pipeline_->push(inputs, kSoon)) break;
        ++pushed;
      }
      pipeline_->close();
    });
    std::uint64_t popped = 0;
    while (true) {
      const auto output = pipeline_->pop(kSoon);
      EXPECT_TRUE(output) << output.error().message();
      if (!output || !*output) break;
      EXPECT_TRUE((*output)->ok());
      EXPECT_EQ(value_of((**output)[0]), static_cast<float>(popped) + 2);
      ++popped;
    }
    pusher.join();
    EXPECT_EQ(popped, pushed);
    return popped;
  }

  FakeNetwork network_;
  std::shared_ptr<pipeline::Pipeline> pipeline_;
  Tuner::Setting setting_;
};

TEST_F(TunerTest, SwapsToWhatIsFasterAndLosesNothing) {
  start();
  auto tuner = tuned();
  ASSERT_TRUE(tuner) << tuner.error().message();
  EXPECT_EQ((*tuner)->report().running, "as it is");
  int after = 0;
  const auto frames =
      stream_until([&] { return !(*tuner)->report().swaps.empty() && ++after > 20; });
  EXPECT_GT(frames, 20);
  const auto report = (*tuner)->report();
  ASSERT_FALSE(report.swaps.empty());
  EXPECT_EQ(report.swaps[0].refused, "");
  EXPECT_EQ(report.swaps[0].from, "as it is");
  EXPECT_THAT(report.swaps[0].to, HasSubstr("whole on each"));
  EXPECT_GT(report.swaps[0].gain, 1.1);
  EXPECT_EQ(pipeline_->shared_plan()->stages.size(), 1);
}

TEST_F(TunerTest, PlansByThePacesThatItSees) {
  network_.stage("faster", {"out"}, {"end"}, sleeping(std::chrono::milliseconds(0))).output("end");
  network_.plan.stages[2].devices = network_.plan.stages[1].devices;
  for (auto& stage : network_.plan.stages) stage.predicted_seconds = 0.001;
  network_.plan.stages[0].predicted_seconds = 0.020;
  start();
  setting_.replace = [](const plan::Plan&, const std::filesystem::path&) -> Status {
    return make_error(Code::kResourceExhausted, "no room");
  };
  auto tuner = tuned();
  ASSERT_TRUE(tuner) << tuner.error().message();
  const auto planned = [&] {
    const auto names = (*tuner)->report().candidates;
    return std::ranges::any_of(
        names, [](const auto& name) { return name.find("fast+faster on cpu:") != name.npos; });
  };
  stream_until(planned);
  EXPECT_TRUE(planned());
}

TEST_F(TunerTest, GoesOnWhereThePlanCannotStart) {
  network_.plan.stages[0].predicted_seconds = 0.020;
  network_.plan.stages[1].predicted_seconds = 0.001;
  start();
  setting_.replace = [](const plan::Plan&, const std::filesystem::path&) -> Status {
    return make_error(Code::kResourceExhausted, "no room");
  };
  auto tuner = tuned();
  ASSERT_TRUE(tuner) << tuner.error().message();
  EXPECT_FALSE((*tuner)->report().candidates.empty()) << "what is foretold need not be learned";
  stream_until([&] { return !(*tuner)->report().swaps.empty(); });
  const auto report = (*tuner)->report();
  ASSERT_FALSE(report.swaps.empty());
  EXPECT_THAT(report.swaps[0].refused, HasSubstr("no room"));
  EXPECT_EQ(report.running, "as it is");
}

TEST_F(TunerTest, EndsWhereAnotherPlanIsPutThere) {
  start();
  auto tuner = tuned();
  ASSERT_TRUE(tuner) << tuner.error().message();
  ASSERT_TRUE(pipeline_->replace(network_.plan, network_.folder, network_.registry));
  const auto give_up = std::chrono::steady_clock::now() + kSoon;
  while ((*tuner)->report().ended.empty() && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_THAT((*tuner)->report().ended, HasSubstr("another plan"));
}

TEST_F(TunerTest, EndsWithThePipeline) {
  start();
  auto tuner = tuned();
  ASSERT_TRUE(tuner) << tuner.error().message();
  pipeline_->cancel();
  const auto give_up = std::chrono::steady_clock::now() + kSoon;
  while ((*tuner)->report().ended.empty() && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_NE((*tuner)->report().ended, "");
}

TEST_F(TunerTest, EndsAloneWhereMemoryIsRefused) {
  network_.plan.stages[0].predicted_seconds = 0.020;
  network_.plan.stages[1].predicted_seconds = 0.001;
  start();
  setting_.replace = [](const plan::Plan&, const std::filesystem::path&) -> Status {
    throw std::bad_alloc();
  };
  auto tuner = tuned();
  ASSERT_TRUE(tuner) << tuner.error().message();
  stream_until([&] { return !(*tuner)->report().ended.empty(); });
  EXPECT_THAT((*tuner)->report().ended, HasSubstr("no memory is left"));
}

TEST_F(TunerTest, IsTheOnlyOneOfItsPipelineWhileItLasts) {
  start();
  auto first = tuned();
  ASSERT_TRUE(first) << first.error().message();
  const auto second = tuned();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kFailedPrecondition);
  EXPECT_EQ(second.error().message(),
            "the pipeline has a tuner already: expected one at a time; end that first (stop())");
  (*first)->stop();
  EXPECT_TRUE(tuned());
}

TEST_F(TunerTest, RefusesASetting) {
  start(0);
  EXPECT_THAT(tuned().error().message(), HasSubstr("share"));
  start();
  setting_.others.push_back({network_.plan, "other.penstock", nullptr});
  EXPECT_THAT(tuned().error().message(), HasSubstr("'other.penstock'"));
}

TEST_F(TunerTest, RefusesAPackageThatCannotTakeThePlaceOfWhatRuns) {
  start();
  FakeNetwork other;
  other.input("in").stage("slow", {"in"}, {"end"}, sleeping(std::chrono::milliseconds(1)));
  other.output("end").finish();
  other.plan.stages[0].predicted_seconds = 0.001;
  setting_.others.push_back({other.plan, "other.penstock", nullptr});
  const auto refused = tuned();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_EQ(refused.error().message(),
            "package 'other.penstock': the outputs: expected 'out', as the pipeline has them, "
            "found 'end'");
}

}  // namespace
}  // namespace penstock::follow
