// Sides and their rounds on engines made of functions: threads, states, warm-up and errors.
#include "penstock/measure/side.h"

#include <atomic>
#include <barrier>
#include <mutex>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/device/affinity.h"
#include "penstock/measure/rounds.h"
#include "tests/support/fake_backend.h"
#include "tests/support/no_more_threads.h"

namespace penstock::measure {
namespace {

using namespace penstock::testing;  // NOLINT(google-build-using-namespace): test support

constexpr std::size_t kFrames = 100;

/// Of as many frames on each thread, however long they take.
Round round_of_frames() {
  return {std::chrono::nanoseconds(0), std::chrono::hours(1), [] {
            thread_local std::size_t frames = 0;
            return ++frames % kFrames == 0;
          }};
}

/// y = x; like an engine, where there is no buffer it makes one.
Status copy(Inputs in, Outputs out) {
  if (out[0]->data() == nullptr) *out[0] = number(0);
  out[0]->as<float>()[0] = value_of(*in[0]);
  return {};
}

FakeModel model(Function run) {
  FakeModel made;
  made.inputs = {{"x", scalar()}};
  made.outputs = {{"y", scalar()}};
  made.run = std::move(run);
  return made;
}

/// What an engine runs without a pipeline.
class PlainSideTest : public ::testing::Test {
 protected:
  void set(Function run) { engine_.models["whole.onnx"] = model(std::move(run)); }

  PlainRequest request() {
    PlainRequest made;
    made.file = "whole.onnx";
    made.cpus = cpus_;
    made.package = &package_;
    made.ring = &ring_;
    return made;
  }

  FakeBackend engine_;
  std::vector<int> cpus_ = device::inherited_cpus();
  plan::Package package_ = [] {
    plan::Package package;
    package.plan.inputs = {{"x", scalar()}};
    return package;
  }();
  Ring ring_ = *frames::random_frames(package_.plan.inputs, {}, 16);
};

TEST_F(PlainSideTest, ASessionOnEachCpuRunsAtTheSameTimeAsTheOthers) {
  std::barrier together(static_cast<std::ptrdiff_t>(cpus_.size()));
  std::atomic<bool> measuring = false;
  std::mutex mutex;
  std::set<std::vector<int>> places;
  set([&](Inputs in, Outputs out) -> Status {
    thread_local std::size_t frames = 0;
    if (measuring && ++frames <= kFrames) {  // Who is done first goes on for a while.
      together.arrive_and_wait();
      const std::scoped_lock lock(mutex);
      places.insert(device::cpus_of_thread(device::this_thread_id()));
    }
    return copy(in, out);
  });
  const auto side = per_core_side(engine_, request());
  ASSERT_TRUE(side) << side.error().message();
  measuring = true;
  const auto sample = (*side)->measure(round_of_frames());
  ASSERT_TRUE(sample) << sample.error().message();
  EXPECT_EQ((*side)->in_flight(), static_cast<int>(cpus_.size()));
  EXPECT_EQ(sample->latencies_ns.size(), kFrames * cpus_.size());
  std::set<std::vector<int>> expected;
  for (const int cpu : cpus_) expected.insert({cpu});
  EXPECT_EQ(places, expected);
}

/// y = sum = x + last, which the next frame reads as its last.
class PlainSideWithStateTest : public PlainSideTest {
 protected:
  PlainSideWithStateTest() {
    auto& plan = package_.plan;
    plan.states = {{"sum", "last", ""}};
    plan.tensors = {{"sum", scalar()}, {"last", scalar()}};
    FakeModel made;
    made.inputs = {{"last", scalar()}, {"x", scalar()}};
    made.outputs = {{"y", scalar()}, {"sum", scalar()}};
    made.run = [this](Inputs in, Outputs out) -> Status {
      read_.push_back(value_of(*in[0]));
      for (auto* const one : out) {
        *one = number(value_of(*in[0]) + value_of(*in[1]));
        wrote_.push_back(value_of(*one));
      }
      return {};
    };
    engine_.models["whole.onnx"] = std::move(made);
  }

  std::vector<float> read_, wrote_;
};

TEST_F(PlainSideWithStateTest, EachFrameReadsWhatTheOneBeforeItWrote) {
  const auto side = default_side(engine_, request());
  ASSERT_TRUE(side) << side.error().message();
  const auto sample = (*side)->measure(round_of_frames());
  ASSERT_TRUE(sample) << sample.error().message();
  ASSERT_GE(read_.size(), kFrames);
  EXPECT_EQ(read_[0], 0);
  EXPECT_NE(wrote_[1], 0);
  for (std::size_t frame = 1; frame < read_.size(); ++frame) {
    // With the ring the sequence begins again.
    const auto before = frame % ring_.size() == 0 ? 0 : wrote_[2 * frame - 1];
    EXPECT_EQ(read_[frame], before) << "frame " << frame;
  }
}

TEST_F(PlainSideWithStateTest, SeveralSessionsCannotHandAStateOn) {
  cpus_ = {0, 1};
  const auto side = per_core_side(engine_, request());
  ASSERT_FALSE(side);
  EXPECT_EQ(side.error().message(),
            "it runs 2 frames at once, and cannot hand a state from each to the next");
}

TEST_F(PlainSideTest, NoSessionCountsFramesThatRanAlone) {
  if (cpus_.size() < 2) GTEST_SKIP() << "needs two CPUs";
  const auto on_first_cpu = [&] {
    return device::cpus_of_thread(device::this_thread_id()) == std::vector<int>{cpus_[0]};
  };
  std::atomic<bool> measuring = false, alone = false;
  std::atomic<std::size_t> runs = 0;  // On the first CPU, whose session has counted at once.
  set([&](Inputs in, Outputs out) -> Status {
    if (measuring && on_first_cpu()) {
      ++runs;
    } else if (measuring) {
      const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      for (const std::size_t seen = runs; runs == seen && !alone; std::this_thread::yield()) {
        alone = std::chrono::steady_clock::now() > limit;
      }
    }
    return copy(in, out);
  });
  const auto side = per_core_side(engine_, request());
  ASSERT_TRUE(side) << side.error().message();
  measuring = true;
  const Round round{std::chrono::nanoseconds(0), std::chrono::hours(1), [&] {
                      thread_local std::size_t counted = 0;
                      return ++counted == 20 || on_first_cpu();
                    }};
  const auto sample = (*side)->measure(round);
  ASSERT_TRUE(sample) << sample.error().message();
  EXPECT_FALSE(alone);
  EXPECT_EQ(sample->latencies_ns.size(), 1 + 20 * (cpus_.size() - 1));
}

/// Recommends two requests of a model.
class OfTwoRequests final : public FakeBackend {
 public:
  Result<std::unique_ptr<backend::Executable>> compile(
      const backend::CompileRequest& request) override {
    PENSTOCK_TRY(auto made, FakeBackend::compile(request));
    return std::unique_ptr<backend::Executable>(std::make_unique<Compiled>(std::move(made)));
  }

 private:
  struct Compiled final : backend::Executable {
    explicit Compiled(std::unique_ptr<backend::Executable> of) : inner(std::move(of)) {}
    [[nodiscard]] std::span<const backend::Port> inputs() const override { return inner->inputs(); }
    [[nodiscard]] std::span<const backend::Port> outputs() const override {
      return inner->outputs();
    }
    Result<std::unique_ptr<backend::Context>> create_context() override {
      return inner->create_context();
    }
    [[nodiscard]] int recommended_contexts() const override { return 2; }
    std::unique_ptr<backend::Executable> inner;
  };
};

TEST_F(PlainSideTest, ARequestThatIsSlowHoldsUpNoOther) {
  std::atomic<bool> measuring = false, first = true, alone = false;
  std::atomic<std::size_t> others = 0;
  OfTwoRequests engine;
  engine.models["whole.onnx"] = model([&](Inputs in, Outputs out) -> Status {
    if (measuring && first.exchange(false)) {
      const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      for (; others < 3 && !alone; std::this_thread::yield()) {
        alone = std::chrono::steady_clock::now() > limit;
      }
    }
    ++others;
    return copy(in, out);
  });
  const auto side = hint_side(engine, request(), "THROUGHPUT");
  ASSERT_TRUE(side) << side.error().message();
  EXPECT_EQ((*side)->in_flight(), 2);
  others = 0;
  measuring = true;
  const auto sample = (*side)->measure(round_of_frames());
  ASSERT_TRUE(sample) << sample.error().message();
  EXPECT_FALSE(alone);
  EXPECT_EQ(sample->latencies_ns.size(), 2 * kFrames);
}

TEST_F(PlainSideTest, TheSideOfAnotherEngineHasItsName) {
  set(copy);
  const auto side = per_core_side(engine_, request(), "openvino");
  ASSERT_TRUE(side) << side.error().message();
  EXPECT_EQ((*side)->name(), "openvino-per-core");
}

TEST_F(PlainSideTest, AThreadThatTheSystemRefusesIsAnError) {
  set(copy);
  const auto side = per_core_side(engine_, request());
  ASSERT_TRUE(side) << side.error().message();
  {
    const NoMoreThreads limited;
    const auto refused = (*side)->measure(round_of_frames());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
    EXPECT_THAT(refused.error().message(), ::testing::HasSubstr("no thread could be started"));
  }
  EXPECT_TRUE((*side)->measure(round_of_frames()));
}

TEST_F(PlainSideTest, AFrameThatBeganInTheWarmUpDoesNotCount) {
  constexpr std::chrono::milliseconds kWarmUp(500);
  std::atomic<int> runs = 0;
  std::atomic<bool> measuring = false;
  set([&](Inputs in, Outputs out) -> Status {
    if (++runs == 1 && measuring) std::this_thread::sleep_for(2 * kWarmUp);
    return copy(in, out);
  });
  const auto side = default_side(engine_, request());
  ASSERT_TRUE(side) << side.error().message();
  runs = 0;
  measuring = true;
  const Round round{kWarmUp, std::chrono::hours(1), [] { return true; }};
  const auto sample = (*side)->measure(round);
  ASSERT_TRUE(sample) << sample.error().message();
  EXPECT_EQ(sample->latencies_ns.size(), 1U);
  EXPECT_EQ(runs, 2);
}

TEST_F(PlainSideTest, AFrameThatFailsOnOneCpuIsTheSidesError) {
  std::atomic<bool> measuring = false;
  std::atomic<std::size_t> frames = 0;
  set([&](Inputs in, Outputs out) -> Status {
    if (measuring && ++frames == kFrames / 2) return internal_error("frame 50");
    return copy(in, out);
  });
  const auto side = per_core_side(engine_, request());
  ASSERT_TRUE(side) << side.error().message();
  measuring = true;
  const auto sample = (*side)->measure(round_of_frames());
  ASSERT_FALSE(sample);
  EXPECT_EQ(sample.error().message(), "frame 50");
}

TEST_F(PlainSideTest, AnInputThatThePlanDoesNotHaveIsNamed) {
  set(copy);
  package_.plan.inputs[0].name = "image";
  const auto side = default_side(engine_, request());
  ASSERT_FALSE(side);
  EXPECT_EQ(side.error().code, Code::kInvalidArgument);
  EXPECT_EQ(side.error().message(),
            "--model: its input 'x' is none of the package's; expected the model that the package "
            "was made from");
}

TEST(RoundsTest, APipelineAndAnEngineTakeTurns) {
  FakeNetwork network;
  network.input("x")
      .stage("a", {"x"}, {"mid"}, copy)
      .stage("b", {"mid"}, {"y"}, copy, 2)
      .output("y");
  auto pipeline = network.start();
  ASSERT_TRUE(pipeline) << pipeline.error().message();
  const Ring ring = *frames::random_frames(network.plan.inputs, {}, 16);
  FakeBackend engine;
  engine.models["whole.onnx"] = model(copy);
  PlainRequest request;
  request.file = "whole.onnx";
  request.cpus = device::inherited_cpus();
  const plan::Package package{network.plan, {}, {}};
  request.package = &package;
  request.ring = &ring;
  Sides sides;
  sides.push_back(pipeline_side(**pipeline, ring, 4));
  sides.push_back(*per_core_side(engine, request));
  Rounds rounds;
  rounds.seconds = 0.06;
  rounds.count = 3;
  const auto measured = measure_in_turn(sides, rounds);
  ASSERT_TRUE(measured) << measured.error().message();
  ASSERT_EQ(measured->size(), 2U);
  EXPECT_EQ((*measured)[0].name, "penstock");
  EXPECT_EQ((*measured)[1].name, "onnxruntime-per-core");
  for (const auto& side : *measured) {
    EXPECT_EQ(side.rates.size(), 3U);
    EXPECT_FALSE(side.latencies_ns.empty());
  }
}

TEST(RoundsTest, StreamsOfAPipelineTakeTurns) {
  FakeNetwork network;
  network.input("x").stage("a", {"x"}, {"y"}, copy).output("y");
  network.plan.streams.most = 3;
  const Ring ring = *frames::random_frames(network.plan.inputs, {}, 16);
  for (const int in_flight : {4, 2, 1}) {
    auto pipeline = network.start();
    ASSERT_TRUE(pipeline) << pipeline.error().message();
    const auto side = pipeline_side(**pipeline, ring, in_flight);
    const auto sample = side->measure({std::chrono::milliseconds(1), std::chrono::milliseconds(5)});
    ASSERT_TRUE(sample) << sample.error().message();
    EXPECT_GT(sample->frames_per_second, 0);
    EXPECT_EQ((*pipeline)->stats().streams, static_cast<std::size_t>(std::min(in_flight, 3)));
    EXPECT_EQ(side->explain(), in_flight == 1   ? "this pipeline, one frame at a time"
                               : in_flight == 2 ? "this pipeline, 2 streams in turn"
                                                : "this pipeline, 3 streams in turn");
  }
}

TEST(RoundsTest, AnErrorNamesTheSideThatFailed) {
  class Failing final : public Side {
   public:
    [[nodiscard]] std::string name() const override { return "openvino-latency"; }
    [[nodiscard]] std::string explain() const override { return ""; }
    [[nodiscard]] int in_flight() const override { return 1; }
    Result<Sample> measure(const Round& /*round*/) override {
      return invalid_argument("onnxruntime: no");
    }
  };
  Sides sides;
  sides.push_back(std::make_unique<Failing>());
  const auto measured = measure_in_turn(sides, {});
  ASSERT_FALSE(measured);
  const std::vector<Where> places{{Where::kWay, "openvino-latency"}};
  EXPECT_EQ(measured.error().places, places);
  EXPECT_EQ(measured.error().message(), "openvino-latency: onnxruntime: no");
}

}  // namespace
}  // namespace penstock::measure
