// Order, failures, full edges, parameters, memory, threads and traces, by invented backends.
#include "penstock/pipeline/pipeline.h"

#include <array>
#include <atomic>
#include <barrier>
#include <filesystem>
#include <fstream>
#include <new>
#include <semaphore>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "penstock/device/affinity.h"
#include "penstock/pipeline/capacity.h"
#include "penstock/pipeline/instance.h"
#include "penstock/pipeline/parker.h"
#include "tests/support/fake_backend.h"
#include "tests/support/no_more_threads.h"
#include "tests/support/sample.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/watched.h"

namespace penstock::pipeline::pipeline_test {
namespace {

using ::testing::HasSubstr;
using namespace penstock::testing;  // NOLINT(google-build-using-namespace): test support

using std::chrono::milliseconds;
constexpr std::chrono::nanoseconds kLong = std::chrono::seconds(60);

float plus_one(float x) {
  return x + 1;
}
float twice(float x) {
  return 2 * x;
}

// in -> (x+1) -> (2x) -> out
FakeNetwork chain() {
  FakeNetwork network;
  network.input("in")
      .stage("a", {"in"}, {"mid"}, unary(plus_one))
      .stage("b", {"mid"}, {"out"}, unary(twice))
      .output("out");
  return network;
}

std::unique_ptr<Pipeline> start(FakeNetwork& network, const plan::StreamOptions& stream = {},
                                const Options& options = {}) {
  auto pipeline = network.start(stream, options);
  EXPECT_TRUE(pipeline) << pipeline.error().message();
  return pipeline ? *std::move(pipeline) : nullptr;
}

void push_number(Pipeline& pipeline, float value) {
  const std::vector<Tensor> inputs{number(value)};
  const auto pushed = pipeline.push(inputs, kLong);
  ASSERT_TRUE(pushed) << pushed.error().message();
}

Output pop_one(Pipeline& pipeline) {
  auto popped = pipeline.pop(kLong);
  EXPECT_TRUE(popped) << popped.error().message();
  EXPECT_TRUE(*popped);
  return **std::move(popped);
}

// A gate holds the only stage at its first frame, so that what is pushed meanwhile piles up.
struct Gate {
  std::binary_semaphore entered{0}, open{0};
  std::atomic<bool> armed{false};
  Function function() {
    return [this](Inputs in, Outputs out) -> Status {
      if (armed.exchange(false)) {
        entered.release();
        open.acquire();
      }
      out[0]->as<float>()[0] = value_of(*in[0]);
      return {};
    };
  }
};

// Pushes and pops from one thread: as much as there is room, then one out, and so on.
std::vector<float> stream(Pipeline& pipeline, int frames) {
  std::vector<float> results;
  int pushed = 0;
  while (static_cast<int>(results.size()) < frames) {
    while (pushed < frames) {
      const std::vector<Tensor> inputs{number(static_cast<float>(pushed))};
      if (!pipeline.try_push(inputs)) break;
      ++pushed;
    }
    Output output = pop_one(pipeline);
    EXPECT_TRUE(output.ok()) << output.error().message();
    EXPECT_EQ(output.number(), results.size());
    results.push_back(value_of(output[0]));
  }
  return results;
}

class Capacities : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(OneToMany, Capacities, ::testing::Values(0, 1, 2, 3, 8));

TEST_P(Capacities, AChainKeepsOrderFromASingleThread) {
  auto network = chain();
  auto pipeline = start(network, {.capacity = GetParam()});
  const auto results = stream(*pipeline, 500);
  for (int i = 0; i < 500; ++i)
    ASSERT_EQ(results[static_cast<std::size_t>(i)], 2.0F * static_cast<float>(i + 1));
}

TEST_P(Capacities, ReplicasKeepOrder) {
  FakeNetwork network;
  network.input("in")
      .stage("a", {"in"}, {"mid"}, unary([](float x) {
               volatile float burn = 0;
               for (int i = 0; i < static_cast<int>(x) % 7 * 100; ++i) burn = burn + 1;
               return x + 1;
             }),
             3)
      .stage("b", {"mid"}, {"out"}, unary(twice), 2)
      .output("out");
  auto pipeline = start(network, {.capacity = GetParam()});
  const auto results = stream(*pipeline, 2000);
  for (int i = 0; i < 2000; ++i)
    ASSERT_EQ(results[static_cast<std::size_t>(i)], 2.0F * static_cast<float>(i + 1));
}

TEST_P(Capacities, DiamondsAndSkipsPairByFrameNumber) {
  FakeNetwork network;
  const Function sum = [](Inputs in, Outputs out) -> Status {
    out[0]->as<float>()[0] = value_of(*in[0]) + 1000 * value_of(*in[1]) + 100000 * value_of(*in[2]);
    return {};
  };
  network.input("in")
      .stage("a", {"in"}, {"x"}, unary(plus_one))
      .stage("left", {"x"}, {"l"}, unary(twice), 2)
      .stage("right", {"x"}, {"r"}, unary(plus_one))
      .stage("join", {"l", "r", "in"}, {"out"}, sum)
      .output("out")
      .output("x");  // produced early
  auto pipeline = start(network, {.capacity = GetParam()});
  const auto results = stream(*pipeline, 300);
  for (int i = 0; i < 300; ++i) {
    const auto n = static_cast<float>(i);
    ASSERT_EQ(results[static_cast<std::size_t>(i)], 2 * (n + 1) + 1000 * (n + 2) + 100000 * n);
  }
}

TEST(PipelineTest, OneOutputMayFeedTwoInputsOfAStage) {
  FakeNetwork network;
  network.input("in")
      .stage("a", {"in"}, {"x"}, unary(plus_one))
      .stage("b", {"x", "x"}, {"out"},
             [](Inputs in, Outputs out) -> Status {
               out[0]->as<float>()[0] = value_of(*in[0]) + value_of(*in[1]);
               return {};
             })
      .output("out");
  auto pipeline = start(network);
  push_number(*pipeline, 4);
  EXPECT_EQ(value_of(pop_one(*pipeline)[0]), 10.0F);
}

TEST(PipelineTest, OneInputMayFeedSeveralStagesAndInputsComeInAnyOrder) {
  FakeNetwork network;
  network.input("b")
      .input("a")
      .input("unused")
      .stage("first", {"a"}, {"x"}, unary(plus_one))
      .stage("second", {"x", "b", "a"}, {"out"},
             [](Inputs in, Outputs out) -> Status {
               out[0]->as<float>()[0] =
                   value_of(*in[0]) * 100 + value_of(*in[1]) * 10 + value_of(*in[2]);
               return {};
             })
      .output("out");
  auto pipeline = start(network);
  for (int i = 1; i < 4; ++i) {
    const auto n = static_cast<float>(i);
    ASSERT_TRUE(pipeline->push(Named{{"a", number(n)}, {"unused", number(0)}, {"b", number(n + 1)}},
                               kLong));
  }
  for (int i = 1; i < 4; ++i) {
    const auto n = static_cast<float>(i);
    EXPECT_EQ(value_of(pop_one(*pipeline)[0]), (n + 1) * 100 + (n + 1) * 10 + n);
  }
}

TEST(PipelineTest, AStageWithoutInputsRunsOncePerFrame) {
  FakeNetwork network;
  std::atomic<int> runs{0};
  network.input("in")
      .stage("constant", {}, {"c"},
             [&](Inputs, Outputs out) -> Status {
               out[0]->as<float>()[0] = 7;
               ++runs;
               return {};
             })
      .stage("b", {"c", "in"}, {"out"},
             [](Inputs in, Outputs out) -> Status {
               out[0]->as<float>()[0] = value_of(*in[0]) + value_of(*in[1]);
               return {};
             })
      .output("out");
  auto pipeline = start(network);
  const int warm_up = runs;
  EXPECT_EQ(stream(*pipeline, 20).back(), 26.0F);
  EXPECT_EQ(runs - warm_up, 20);
}

TEST(PipelineTest, AnInputMayBeAnOutput) {
  FakeNetwork network;
  network.input("in").stage("a", {"in"}, {"x"}, unary(plus_one)).output("x").output("in");
  auto pipeline = start(network);
  push_number(*pipeline, 5);
  Output output = pop_one(*pipeline);
  EXPECT_EQ(value_of(*output.find("x")), 6.0F);
  EXPECT_EQ(value_of(*output.find("in")), 5.0F);
  EXPECT_EQ(output.find("nowhere"), nullptr);
}

TEST(PipelineTest, HeldResultsStayValidWhileOthersComeOut) {
  auto network = chain();
  auto pipeline = start(network);
  for (int i = 0; i < 3; ++i) push_number(*pipeline, static_cast<float>(i));
  Output first = pop_one(*pipeline);
  Output second = pop_one(*pipeline);
  Output third = pop_one(*pipeline);
  pipeline.reset();  // Results outlive the pipeline.
  EXPECT_EQ(value_of(first[0]), 2.0F);
  EXPECT_EQ(value_of(second[0]), 4.0F);
  EXPECT_EQ(value_of(third.take(0)), 6.0F);
}

TEST(PipelineTest, AResultThatIsHeldKeepsItsValuesAndNothingOfTheStages) {
  auto network = chain();
  auto pipeline = start(network);
  push_number(*pipeline, 20);
  const Output held = pop_one(*pipeline);
  EXPECT_GT(network.backend->alive(), 0);
  pipeline.reset();
  EXPECT_EQ(network.backend->alive(), 0);
  EXPECT_EQ(value_of(held[0]), 42.0F);
  EXPECT_EQ(value_of(*held.find("out")), 42.0F);
}

TEST(PipelineTest, FramesInFlightHaveDistinctBuffers) {
  auto network = chain();
  auto pipeline = start(network);
  for (int i = 0; i < 4; ++i) push_number(*pipeline, static_cast<float>(i));
  std::vector<Output> held;
  for (int i = 0; i < 4; ++i) held.push_back(pop_one(*pipeline));
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(value_of(held[i][0]), 2.0F * static_cast<float>(i + 1));
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(held[i][0].data(), held[j][0].data());
  }
}

// Every stage in turn fails frame 3, by an error and by an exception.
TEST(PipelineTest, AFailingFrameIsBlamedRightAndOthersGoOn) {
  for (const bool throws : {false, true}) {
    for (const std::string failing : {"a", "b", "c"}) {
      FakeNetwork network;
      const auto stage = [&](const std::string& name) -> Function {
        return [=](Inputs in, Outputs out) -> Status {
          const float x = value_of(*in[0]);
          if (name == failing && x == 3) {
            if (throws) throw std::runtime_error("boom");
            return invalid_argument("boom");
          }
          out[0]->as<float>()[0] = x;
          return {};
        };
      };
      network.input("in")
          .stage("a", {"in"}, {"x"}, stage("a"))
          .stage("b", {"x"}, {"y"}, stage("b"), 2)
          .stage("c", {"y"}, {"out"}, stage("c"))
          .output("out");
      auto pipeline = start(network);
      for (int i = 0; i < 8; ++i) push_number(*pipeline, static_cast<float>(i));
      for (int i = 0; i < 8; ++i) {
        Output output = pop_one(*pipeline);
        EXPECT_EQ(output.number(), static_cast<FrameNumber>(i));
        if (i == 3) {
          EXPECT_EQ(output.outcome(), Outcome::kError);
          EXPECT_THAT(output.error().message(), HasSubstr("stage '" + failing + "': frame 3: "));
          EXPECT_THAT(output.error().message(), HasSubstr("boom"));
        } else {
          ASSERT_TRUE(output.ok());
          EXPECT_EQ(value_of(output[0]), static_cast<float>(i));
        }
      }
      EXPECT_EQ(pipeline->stats().errors, 1U);
    }
  }
}

// The k-th run of any backend fails, for every k until none does.
TEST(PipelineTest, TheKthBackendCallFailsForEveryK) {
  constexpr int kFrames = 6;
  for (const int capacity : {0, 1}) {
    for (int k = 0;; ++k) {
      FakeNetwork network;
      std::atomic<int> calls{-1'000'000};
      const auto counted = [&](std::size_t copies) -> Function {
        return [&, copies](Inputs in, Outputs out) -> Status {
          if (calls++ == k) return internal_error("call ", k);
          for (std::size_t i = 0; i < copies; ++i) out[i]->as<float>()[0] = value_of(*in[0]);
          return {};
        };
      };
      network.input("in")
          .stage("a", {"in"}, {"x"}, counted(1))
          .stage("b", {"x"}, {"y"}, counted(1), 2)
          .stage("c", {"x", "y"}, {"out"}, counted(1))
          .output("out");
      auto pipeline = start(network, {.capacity = capacity});
      calls = 0;
      int failed = 0;
      int pushed = 0;
      for (int popped = 0; popped < kFrames; ++popped) {
        while (pushed < kFrames) {
          const std::vector<Tensor> inputs{number(static_cast<float>(pushed))};
          if (!pipeline->try_push(inputs)) break;
          ++pushed;
        }
        Output output = pop_one(*pipeline);
        if (output.ok()) {
          ASSERT_EQ(value_of(output[0]), static_cast<float>(popped));
        } else {
          ++failed;
          ASSERT_THAT(output.error().message(), HasSubstr(concat("frame ", popped, ": call ", k)));
        }
      }
      ASSERT_EQ(failed, k < 3 * kFrames ? 1 : 0);
      if (failed == 0) break;
    }
  }
}

// A backend that keeps to nothing it declared, at one frame of several.
TEST(PipelineTest, OutputsThatAreNotAsDeclaredAreErrorsOfTheirFrame) {
  using Dims = std::vector<std::int64_t>;
  const Type declared = Type::tensor(DType::kF32, std::vector<Dim>{{Dim::kOpen, "n", 4}});
  const std::vector<std::pair<Tensor, std::string>> wrongs{
      {Tensor::allocate(DType::kF32, Dims{5}), "found f32[5]"},
      {Tensor::allocate(DType::kF32, Dims{1, 1}), "found f32[1,1]"},
      {Tensor::allocate(DType::kF32, Dims{}), "found f32[]"},
      {Tensor::allocate(DType::kI64, Dims{2}), "found i64[2]"},
      {Tensor(), "found ?"}};
  for (const auto& [wrong, found] : wrongs) {
    FakeNetwork network;
    network.input("in")
        .stage("a", {"in"}, {"mid"},
               [&, value = wrong](Inputs in, Outputs out) -> Status {
                 if (value_of(*in[0]) == 2) {
                   *out[0] = value;
                   return {};
                 }
                 if (!out[0]->set_dims(Dims{3})) return internal_error("no room");
                 out[0]->as<float>()[0] = value_of(*in[0]);
                 return {};
               },
               1, {declared})
        .stage("b", {"mid"}, {"out"}, unary(plus_one))
        .output("out");
    auto pipeline = start(network, {.capacity = 2});
    for (int i = 0; i < 6; ++i) {
      push_number(*pipeline, static_cast<float>(i));
      const Output output = pop_one(*pipeline);
      ASSERT_EQ(output.ok(), i != 2) << found;
      if (output.ok()) {
        EXPECT_EQ(value_of(output[0]), static_cast<float>(i + 1));
        continue;
      }
      EXPECT_THAT(output.error().message(),
                  HasSubstr("stage 'a': frame 2: backend 'fake': model 'stages/a.onnx': output "
                            "'mid': expected f32[n<=4], " +
                            found));
    }
  }
}

TEST(PipelineTest, OnErrorStopEndsWithThatError) {
  FakeNetwork network;
  network.input("in")
      .stage("a", {"in"}, {"out"},
             [](Inputs in, Outputs out) -> Status {
               if (value_of(*in[0]) == 2) return internal_error("broken");
               out[0]->as<float>()[0] = value_of(*in[0]);
               return {};
             })
      .output("out");
  auto pipeline = start(network, {.on_error = plan::OnError::kStop});
  for (int i = 0; i < 3; ++i) push_number(*pipeline, static_cast<float>(i));
  EXPECT_TRUE(pop_one(*pipeline).ok());
  EXPECT_TRUE(pop_one(*pipeline).ok());
  EXPECT_EQ(pop_one(*pipeline).outcome(), Outcome::kError);
  const auto end = pipeline->pop(kLong);
  ASSERT_TRUE(end);
  EXPECT_FALSE(*end);
  const std::vector<Tensor> inputs{number(9)};
  const auto refused = pipeline->push(inputs);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kCancelled);
  EXPECT_THAT(refused.error().message(), HasSubstr("stage 'a': frame 2: broken"));
}

TEST(PipelineTest, OnErrorStopCancelsTheFramesBehindTheFailingOne) {
  Gate gate;
  FakeNetwork network;
  network.input("in")
      .stage("a", {"in"}, {"out"},
             [&](Inputs in, Outputs out) -> Status {
               PENSTOCK_CHECK_OK(gate.function()(in, out));
               return value_of(*in[0]) == 2 ? Status(internal_error("broken")) : Status();
             })
      .output("out");
  auto pipeline = start(network, {.on_error = plan::OnError::kStop});
  gate.armed = true;
  push_number(*pipeline, 0);
  gate.entered.acquire();
  for (int i = 1; i < 6; ++i) push_number(*pipeline, static_cast<float>(i));
  gate.open.release();
  const std::vector expected{Outcome::kOk,        Outcome::kOk,        Outcome::kError,
                             Outcome::kCancelled, Outcome::kCancelled, Outcome::kCancelled};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Output output = pop_one(*pipeline);
    EXPECT_EQ(output.number(), i);
    EXPECT_EQ(output.outcome(), expected[i]) << "frame " << i;
  }
  EXPECT_FALSE(*pipeline->pop(kLong));
  const auto stats = pipeline->stats();
  EXPECT_EQ((std::array{stats.ok, stats.errors, stats.cancelled}),
            (std::array<std::uint64_t, 3>{2, 1, 3}));
}

TEST(PipelineTest, OnErrorStopLetsTheFramesBeforeTheFailingOneFinish) {
  Gate gate;
  FakeNetwork network;
  network.input("in")
      .stage("a", {"in"}, {"mid"},
             [](Inputs in, Outputs out) -> Status {
               out[0]->as<float>()[0] = value_of(*in[0]);
               return value_of(*in[0]) == 3 ? Status(internal_error("broken")) : Status();
             })
      .stage("b", {"mid"}, {"out"}, gate.function())
      .output("out");
  auto pipeline = start(network, {.capacity = 8, .on_error = plan::OnError::kStop});
  gate.armed = true;
  for (int i = 0; i < 6; ++i) {
    if (i == 1) gate.entered.acquire();
    const std::vector<Tensor> inputs{number(static_cast<float>(i))};
    if (!pipeline->push(inputs)) break;
  }
  while (pipeline->stats().stages[0].errors == 0) std::this_thread::yield();
  gate.open.release();
  std::vector<Outcome> outcomes;
  for (auto out = pipeline->pop(kLong); out && *out; out = pipeline->pop(kLong)) {
    outcomes.push_back((*out)->outcome());
  }
  ASSERT_GE(outcomes.size(), 4U);
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    EXPECT_EQ(outcomes[i], i < 3    ? Outcome::kOk
                           : i == 3 ? Outcome::kError
                                    : Outcome::kCancelled)
        << "frame " << i;
  }
}

TEST(PipelineTest, PushSaysWhyItHasNoRoomAndNothingIsLost) {
  auto network = chain();
  auto pipeline = start(network, {.capacity = 2});
  const std::vector<Tensor> inputs{number(1)};
  int accepted = 0;
  Result<FrameNumber> last = pipeline->try_push(inputs);
  while (last) {
    ++accepted;
    last = pipeline->push(inputs, milliseconds(1));
  }
  EXPECT_EQ(last.error().code, Code::kDeadlineExceeded);
  EXPECT_THAT(last.error().message(), HasSubstr("at most 2 frames may be in flight; pop one"));
  EXPECT_EQ(accepted, 2);
  for (int i = 0; i < accepted; ++i) EXPECT_TRUE(pop_one(*pipeline).ok());
}

TEST(PipelineTest, WhoWaitedToPushIsAskedOnceMoreBeforeTheFrameGoesIn) {
  auto network = chain();
  auto pipeline = start(network, {.capacity = 2});
  const std::vector<Tensor> inputs{number(1)};
  FrameNumber pushed = 0;
  for (; pipeline->try_push(inputs); ++pushed) ASSERT_TRUE(pushed < 2);
  bool asked = false;
  FrameOptions options;
  options.still_wanted = [&] {
    if (asked) return false;
    EXPECT_TRUE(pop_one(*pipeline).ok());  // Makes room.
    return asked = true;
  };
  const auto refused = pipeline->push(inputs, kLong, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(), "push: its caller has given it up");
  EXPECT_EQ(pipeline->stats().pushed, pushed);
  EXPECT_TRUE(pipeline->try_push(inputs));
}

TEST(PipelineTest, WhoAwaitsAnOutputTakesNone) {
  auto network = chain();
  auto pipeline = start(network);
  EXPECT_EQ(pipeline->await_output(milliseconds(1)).error().code, Code::kDeadlineExceeded);
  push_number(*pipeline, 1);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(pipeline->await_output(kLong));
  EXPECT_TRUE(*pipeline->try_pop());
  EXPECT_EQ(pipeline->await_output(kNoWait).error().code, Code::kDeadlineExceeded);
  pipeline->close();
  EXPECT_TRUE(pipeline->await_output(kLong));
  EXPECT_FALSE(*pipeline->try_pop());
}

TEST(PipelineTest, WrongInputsAreRefusedBySentence) {
  auto network = chain();
  auto pipeline = start(network);
  const auto message = [&](std::vector<Tensor> inputs) {
    const auto pushed = pipeline->push(inputs);
    EXPECT_FALSE(pushed);
    return pushed.error().message();
  };
  EXPECT_EQ(message({}), "push: expected 1 input, found 0");
  EXPECT_EQ(message({Tensor::allocate(DType::kI64, {1})}),
            "push: input 'in': expected f32[1], found i64[1]");
  EXPECT_EQ(message({Tensor::allocate(DType::kF32, {2})}),
            "push: input 'in': expected f32[1], found f32[2]");
  const auto unknown = pipeline->push(Named{{"im", number(1)}});
  EXPECT_EQ(unknown.error().message(), "push: no input 'im'; the inputs are 'in'");
  const auto missing = pipeline->push(Named{});
  EXPECT_EQ(missing.error().message(), "push: input 'in' is missing; the inputs are 'in'");
  EXPECT_EQ(pipeline->stats().pushed, 0U);
}

TEST(PipelineTest, ABoundInputMayBeSentAsItIs) {
  auto network = chain();
  network.plan.bound_inputs.push_back({"rate", number(0).type(), "16000", ""});
  auto pipeline = start(network);
  ASSERT_TRUE(pipeline->push(Named{{"rate", number(16000)}, {"in", number(1)}}, kLong));
  ASSERT_TRUE(pipeline->push(Named{{"in", number(1)}}, kLong));
  EXPECT_EQ(value_of(pop_one(*pipeline)[0]), value_of(pop_one(*pipeline)[0]));
  const auto other = pipeline->push(Named{{"rate", number(8000)}, {"in", number(1)}});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().message(),
            "push: input 'rate': bound when the model was split: expected 16000, found 8000; leave "
            "it out, or split the model again without binding it");
  EXPECT_EQ(pipeline->stats().pushed, 2U);
}

TEST(PipelineTest, TheFirstStageRunsBesideThePusher) {
  Gate gate;
  std::atomic<int> ran_on{0};
  const auto held = gate.function();
  FakeNetwork network;
  network.input("in")
      .stage("a", {"in"}, {"out"},
             [&](Inputs in, Outputs out) -> Status {
               ran_on = device::this_thread_id();
               return held(in, out);
             })
      .output("out");
  auto pipeline = start(network);
  gate.armed = true;
  push_number(*pipeline, 1);  // Returns though the stage cannot go on.
  push_number(*pipeline, 2);
  gate.entered.acquire();
  EXPECT_NE(ran_on, device::this_thread_id());
  gate.open.release();
  EXPECT_EQ(value_of(pop_one(*pipeline)[0]), 1.0F);
  EXPECT_EQ(value_of(pop_one(*pipeline)[0]), 2.0F);
}

TEST(PipelineTest, AnAcquiredSlotIsFilledInPlace) {
  auto network = chain();
  auto pipeline = start(network);
  for (int i = 0; i < 600; ++i) {
    auto slots = pipeline->acquire_input(kLong);
    ASSERT_TRUE(slots);
    (*slots)[0].as<float>()[0] = static_cast<float>(i);
    const auto again = pipeline->acquire_input(kNoWait);
    ASSERT_FALSE(again);
    ASSERT_TRUE(pipeline->push_acquired({.tag = 42}));
    Output output = pop_one(*pipeline);
    ASSERT_EQ(value_of(output[0]), 2 * static_cast<float>(i + 1));
    ASSERT_EQ(output.tag(), 42U);
  }
  EXPECT_EQ(pipeline->push_acquired().error().code, Code::kFailedPrecondition);
}

TEST(PipelineTest, AnAcquiredSlotArrivesAtItsBoundHoweverItWasUsedBefore) {
  using Dims = std::vector<std::int64_t>;
  const Type open = Type::tensor(DType::kF32, std::vector<Dim>{{Dim::kOpen, "n", 4}});
  FakeNetwork network;
  network.input("in", open)
      .stage("a", {"in"}, {"out"},
             [](Inputs in, Outputs out) -> Status {
               out[0]->as<float>()[0] = static_cast<float>(in[0]->dims()[0]);
               return {};
             })
      .output("out");
  auto pipeline = start(network, {.capacity = 1});
  for (const std::int64_t size : {1, 3, 4, 2}) {
    auto slots = pipeline->acquire_input(kLong);
    ASSERT_TRUE(slots);
    EXPECT_EQ((*slots)[0].dims(), Dims{4});
    ASSERT_TRUE((*slots)[0].set_dims(Dims{size}));
    ASSERT_TRUE(pipeline->push_acquired());
    EXPECT_EQ(value_of(pop_one(*pipeline)[0]), static_cast<float>(size));
  }
}

TEST(PipelineTest, AnAcquiredSlotThatIsGivenBackBlocksNobody) {
  for (const auto policy : {plan::FullPolicy::kBlock, plan::FullPolicy::kDropOldest}) {
    auto network = chain();
    network.finish().edges[0].policy = policy;
    auto pipeline = start(network, {.capacity = 1});
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(pipeline->acquire_input(kLong));
      pipeline->release_input();
    }
    pipeline->release_input();  // There is none: nothing happens.
    EXPECT_FALSE(pipeline->push_acquired());
    push_number(*pipeline, 1);
    EXPECT_EQ(pop_one(*pipeline).number(), 0U);
  }
}

TEST(PipelineTest, APusherThatWaitsForItsTurnWakesAtCloseAndAtCancel) {
  for (const bool cancels : {false, true}) {
    auto network = chain();
    auto pipeline = start(network);
    ASSERT_TRUE(pipeline->acquire_input(kLong));
    const auto push = [&] {
      const std::vector<Tensor> inputs{number(1)};
      const auto pushed = pipeline->push(inputs, kForever);
      EXPECT_EQ(pushed.error().code, Code::kCancelled);
    };
    Watched first(push);
    Watched second(push);
    first.wait_until_asleep();
    second.wait_until_asleep();
    cancels ? pipeline->cancel() : pipeline->close();
    first.thread.join();
    second.thread.join();
    pipeline->release_input();
  }
}

TEST(PipelineTest, AcquiredInputsInFlightKeepDistinctValues) {
  Gate gate;
  FakeNetwork network;
  network.input("in").stage("slow", {"in"}, {"out"}, gate.function()).output("out");
  auto pipeline = start(network, {.capacity = 4});
  gate.armed = true;
  std::set<const void*> buffers;
  for (int i = 0; i < 4; ++i) {
    auto slots = pipeline->acquire_input(kLong);
    ASSERT_TRUE(slots);
    buffers.insert((*slots)[0].data());
    (*slots)[0].as<float>()[0] = static_cast<float>(10 * i);
    ASSERT_TRUE(pipeline->push_acquired());
  }
  EXPECT_EQ(buffers.size(), 4U);
  gate.entered.acquire();
  gate.open.release();
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(value_of(pop_one(*pipeline)[0]), static_cast<float>(10 * i));
  }
}

TEST(PipelineTest, APushedTensorIsReadInPlaceAndReleasedAfterItsStage) {
  FakeNetwork network;
  std::atomic<const void*> seen{nullptr};
  network.input("in")
      .stage("a", {"in"}, {"out"},
             [&](Inputs in, Outputs out) -> Status {
               seen = in[0]->data();
               out[0]->as<float>()[0] = 0;
               return {};
             })
      .output("out");
  auto pipeline = start(network);
  auto owner = std::make_shared<float>(3.0F);
  std::weak_ptr<float> watch = owner;
  {
    const std::vector<Tensor> inputs{Tensor::view(DType::kF32, {1}, owner.get(), owner)};
    ASSERT_TRUE(pipeline->push(inputs));
  }
  const void* address = owner.get();
  owner.reset();
  const Output output = pop_one(*pipeline);
  EXPECT_EQ(seen.load(), address);
  EXPECT_TRUE(watch.expired());
}

TEST(PipelineTest, CloseLetsFramesFinishThenEnds) {
  auto network = chain();
  auto pipeline = start(network);
  for (int i = 0; i < 4; ++i) push_number(*pipeline, static_cast<float>(i));
  pipeline->close();
  const std::vector<Tensor> inputs{number(1)};
  EXPECT_EQ(pipeline->push(inputs).error().message(), "the pipeline is closed");
  EXPECT_TRUE(pipeline->drain(kLong));
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(pop_one(*pipeline).ok());
  EXPECT_FALSE(*pipeline->pop(kLong));
  EXPECT_FALSE(*pipeline->pop(kLong));
}

TEST(PipelineTest, DrainFromASingleThreadNeedsNoPop) {
  auto network = chain();
  auto pipeline = start(network);
  const std::vector<Tensor> inputs{number(1)};
  FrameNumber pushed = 0;
  while (pipeline->try_push(inputs)) ++pushed;
  EXPECT_TRUE(pipeline->drain(kLong));
  for (FrameNumber i = 0; i < pushed; ++i) EXPECT_TRUE(*pipeline->try_pop());
}

TEST(PipelineTest, DrainWaitsForTheFramesBeforeItsEndAlone) {
  Gate gate;
  FakeNetwork network;
  network.input("in").stage("slow", {"in"}, {"out"}, gate.function()).output("out");
  auto pipeline = start(network);
  gate.armed = true;
  push_number(*pipeline, 1);
  EXPECT_TRUE(pipeline->drain(kLong, 0));
  EXPECT_EQ(pipeline->drain(kNoWait, 1).error().code, Code::kDeadlineExceeded);
  gate.open.release();
  EXPECT_TRUE(pipeline->drain(kLong, 1));
  EXPECT_TRUE(pipeline->drain(kLong, 2));
}

TEST(PipelineTest, CancelBringsOutEveryFrame) {
  FakeNetwork network;
  std::binary_semaphore entered{0}, cancelled{0};
  std::atomic<bool> armed{false};
  network.input("in")
      .stage("a", {"in"}, {"out"},
             [&](Inputs, Outputs) -> Status {
               if (!armed) return {};
               entered.release();
               cancelled.acquire();
               return make_error(Code::kCancelled, "the engine was interrupted");
             })
      .output("out");
  network.backend->models["a.onnx"].cancel = [&] { cancelled.release(); };
  auto pipeline = start(network);
  armed = true;
  for (int i = 0; i < 5; ++i) push_number(*pipeline, 0);
  entered.acquire();
  armed = false;
  pipeline->cancel();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(pop_one(*pipeline).outcome(), Outcome::kCancelled);
  EXPECT_FALSE(*pipeline->pop(kLong));
  EXPECT_EQ(pipeline->stats().cancelled, 5U);
}

TEST(PipelineTest, DestructionWhileBusyFullAndUnpoppedJoinsEverything) {
  const auto threads = [] {
    namespace fs = std::filesystem;
    return std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator());
  };
  auto first = chain();
  start(first).reset();  // With the first thread a sanitizer may make one of its own.
  const auto before = threads();
  std::atomic<int> inside{0};
  for (int round = 0; round < 50; ++round) {
    FakeNetwork network;
    network.input("in")
        .stage("a", {"in"}, {"mid"}, unary(plus_one))
        .stage("b", {"mid"}, {"out"},
               [&](Inputs, Outputs) -> Status {
                 ++inside;
                 std::this_thread::yield();
                 --inside;
                 return {};
               })
        .output("out");
    auto pipeline = start(network, {.capacity = 1 + round % 3});
    const std::vector<Tensor> inputs{number(1)};
    for (int i = 0; i < round % 5; ++i) static_cast<void>(pipeline->try_push(inputs));
    pipeline.reset();
    EXPECT_EQ(inside, 0);
    while (threads() > before) std::this_thread::yield();  // A joined one stays a moment.
  }
}

TEST(PipelineTest, APusherBlockedByAFullPipelineWakesAtCancel) {
  auto network = chain();
  auto pipeline = start(network, {.capacity = 1});
  push_number(*pipeline, 1);
  Watched blocked([&] {
    const std::vector<Tensor> inputs{number(1)};
    const auto pushed = pipeline->push(inputs, kForever);
    EXPECT_EQ(pushed.error().code, Code::kCancelled);
  });
  blocked.wait_until_asleep();
  pipeline->cancel();
  blocked.thread.join();
}

TEST(PipelineTest, ABlockedPopWakesAtCloseAndAtCancel) {
  for (const bool cancels : {false, true}) {
    auto network = chain();
    auto pipeline = start(network);
    Watched popper([&] {
      const auto popped = pipeline->pop(kForever);
      ASSERT_TRUE(popped);
      EXPECT_FALSE(*popped);
    });
    popper.wait_until_asleep();
    cancels ? pipeline->cancel() : pipeline->close();
    popper.thread.join();
  }
}

TEST(PipelineTest, APusherHeldBackByAFullPipelineTakesNoProcessorTime) {
  const auto processor_ns = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1'000'000'000 + time.tv_nsec;
  };
  auto network = chain();
  auto pipeline = start(network, {.capacity = 1});
  static_cast<void>(stream(*pipeline, 20));
  push_number(*pipeline, 1);
  std::int64_t wall = 0;
  std::int64_t processor = 0;
  Watched pusher([&] {
    const auto wall_start = now_ns();
    const auto processor_start = processor_ns();
    push_number(*pipeline, 2);
    processor = processor_ns() - processor_start;
    wall = now_ns() - wall_start;
  });
  pusher.wait_until_asleep();
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_TRUE(pop_one(*pipeline).ok());
  pusher.thread.join();
  EXPECT_LT(processor, wall / 4);
}

TEST(PipelineTest, StartAndStopAThousandTimesLeavesNoThreads) {
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  };
  const auto once = [](bool pops) {
    auto network = chain();
    auto pipeline = start(network);
    push_number(*pipeline, 1);
    if (pops) {
      EXPECT_TRUE(pop_one(*pipeline).ok());
    }
  };
  once(true);  // A sanitizer starts a thread of its own beside the first.
  const auto before = threads();
  for (int i = 0; i < (kSanitized ? 100 : 1000); ++i) once(i % 2 == 0);
  // The kernel lists a joined thread until it has cleaned up after it.
  for (int i = 0; threads() > before && i < 1'000'000; ++i) std::this_thread::yield();
  EXPECT_LE(threads(), before);
}

TEST(PipelineTest, TheCallersAffinityIsUntouchedAndStagesArePinned) {
  const auto before = device::cpus_of_thread(device::this_thread_id());
  FakeNetwork network;
  std::vector<int> seen;
  network.input("in")
      .stage("a", {"in"}, {"out"},
             [&](Inputs, Outputs) -> Status {
               seen = device::cpus_of_thread(device::this_thread_id());
               return {};
             })
      .output("out");
  auto pipeline = start(network);
  push_number(*pipeline, 1);
  EXPECT_TRUE(pop_one(*pipeline).ok());
  EXPECT_EQ(seen, network.plan.stages[0].devices[0].cpus);
  EXPECT_EQ(device::cpus_of_thread(device::this_thread_id()), before);
}

TEST(PipelineTest, ABackendThreadOutsideTheStagesCoresIsAnError) {
  const auto all = device::inherited_cpus();
  if (all.size() < 2) GTEST_SKIP() << "needs two CPUs";
  FakeNetwork network;
  network.input("in").stage("a", {"in"}, {"out"}, unary(plus_one)).output("out");
  std::atomic<bool> stop{false};
  std::thread stray;
  network.backend->on_compile = [&](const backend::CompileRequest&) -> Status {
    std::binary_semaphore pinned{0};
    stray = std::thread([&] {
      EXPECT_TRUE(device::pin_this_thread(all));
      pinned.release();
      stop.wait(false);
    });
    pinned.acquire();
    return {};
  };
  const auto pipeline = network.start();
  stop = true;
  stop.notify_all();
  stray.join();
  ASSERT_FALSE(pipeline);
  EXPECT_EQ(pipeline.error().code, Code::kInternal);
  EXPECT_THAT(pipeline.error().message(), HasSubstr("outside the stage's cpu:"));
}

TEST(PipelineTest, ADeviceOutsideTheCpusetIsRefused) {
  auto network = chain();
  network.plan.stages[1].devices[0].cpus = {4000};
  const auto pipeline = network.start();
  ASSERT_FALSE(pipeline);
  EXPECT_EQ(pipeline.error().code, Code::kNotFound);
  EXPECT_THAT(pipeline.error().message(), HasSubstr("stage 'b': "));
  EXPECT_THAT(pipeline.error().message(), HasSubstr("4000"));
}

TEST(PipelineTest, AFailingCompileNamesTheStageAndEndsTheOthers) {
  auto network = chain();
  network.backend->models.erase("b.onnx");
  const auto pipeline = network.start();
  ASSERT_FALSE(pipeline);
  EXPECT_EQ(pipeline.error().message(), "stage 'b': no fake model 'b.onnx'");
}

TEST(PipelineTest, EdgesThatTakeMoreMemoryThanThereIsAreRefused) {
  const auto refusal = [](std::int64_t elements, const plan::StreamOptions& stream, int planned) {
    const auto large = Type::tensor(DType::kF32, std::vector<std::int64_t>{elements});
    FakeNetwork network;
    network.input("in")
        .stage("a", {"in"}, {"mid"}, unary(plus_one), 1, {large})
        .stage("b", {"mid"}, {"out"}, unary(twice))
        .output("out");
    network.finish().edges[1].capacity = planned;
    const auto pipeline = network.start(stream);
    EXPECT_FALSE(pipeline);
    return pipeline ? Error{} : pipeline.error();
  };
  for (const auto& error :
       {refusal(1 << 20, {.capacity = 2'000'000'000}, 0), refusal(1 << 20, {}, 2'000'000'000),
        refusal(std::int64_t{1} << 50, {.capacity = 2'000'000'000}, 0)}) {
    EXPECT_EQ(error.code, Code::kResourceExhausted);
    EXPECT_THAT(error.message(), HasSubstr("the largest is 'a -> b' with 2000000000 slots and "));
    EXPECT_THAT(error.message(), HasSubstr("give it a smaller capacity"));
  }
  // Small tensors take far more than their bytes.
  EXPECT_THAT(refusal(1, {.capacity = 2'147'483'647}, 0).message(),
              HasSubstr("with 2147483648 slots"));
}

TEST(PipelineTest, StatesThatTakeMoreMemoryThanThereIsAreRefused) {
  const auto large = Type::tensor(DType::kF32, std::vector<std::int64_t>{std::int64_t{1} << 50});
  FakeNetwork network;
  network.input("in")
      .state_input("last", large)
      .stage("a", {"in", "last"}, {"out", "next"}, unary(plus_one), 1, {scalar(), large})
      .output("out")
      .state("next", "last");
  const auto pipeline = network.start();
  ASSERT_FALSE(pipeline);
  EXPECT_EQ(pipeline.error().code, Code::kResourceExhausted);
  EXPECT_THAT(pipeline.error().message(), HasSubstr("the states alone take"));
}

TEST(PipelineTest, RunningOutOfMemoryIsAnError) {
  auto while_compiling = chain();
  while_compiling.backend->on_compile = [](const auto&) -> Status { throw std::bad_alloc(); };
  const auto compiled = while_compiling.start();
  ASSERT_FALSE(compiled);
  EXPECT_EQ(compiled.error().code, Code::kResourceExhausted);
  EXPECT_EQ(compiled.error().message(), "stage 'a': out of memory");

  FakeNetwork running;
  std::atomic<bool> armed{false};
  running.input("in")
      .stage("a", {"in"}, {"out"},
             [&](Inputs, Outputs) -> Status {
               if (armed) throw std::bad_alloc();
               return {};
             })
      .output("out");
  auto pipeline = start(running);
  armed = true;
  push_number(*pipeline, 1);
  EXPECT_EQ(pop_one(*pipeline).error().code, Code::kResourceExhausted);

  auto on_the_way = chain();
  on_the_way.plan.origin.engines["fake"] = "0";
  const auto started =
      on_the_way.start({}, {.warn = [](const std::string&) { throw std::bad_alloc(); }});
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, Code::kResourceExhausted);
  EXPECT_THAT(started.error().message(), HasSubstr("out of memory"));
}

TEST(PipelineTest, APlanThatContradictsItsModelsIsRefused) {
  using Dims = std::vector<std::int64_t>;
  const auto error_with = [](const Type& type) {
    auto network = chain();
    network.finish().tensors.at(0).type = type;
    const auto pipeline = network.start();
    EXPECT_FALSE(pipeline) << type;
    return pipeline ? Error{} : pipeline.error();
  };
  EXPECT_EQ(error_with(Type::tensor(DType::kF32, Dims{2})).message(),
            "stage 'a': tensor 'mid': the plan says f32[2], model 'stages/a.onnx' says f32[1]; "
            "split the model again, or give the stage to another backend than fake");
  EXPECT_EQ(error_with(Type::tensor(DType::kF32, Dims{2})).code, Code::kInvalidArgument);
  EXPECT_THAT(error_with(Type::tensor(DType::kI64, Dims{1})).message(), HasSubstr("says i64[1]"));
  EXPECT_THAT(error_with(Type::tensor(DType::kF32, Dims{1, 1})).message(), HasSubstr("f32[1,1]"));

  auto input = chain();
  input.backend->models["b.onnx"].inputs[0].type = Type::tensor(DType::kF32, Dims{3});
  EXPECT_EQ(input.start().error().message(),
            "stage 'b': tensor 'mid': the plan says f32[1], model 'stages/b.onnx' says f32[3]; "
            "split the model again, or give the stage to another backend than fake");
}

TEST(PipelineTest, WhatAModelLeavesOpenAgreesWithThePlan) {
  Type unranked = scalar();
  unranked.ranked = false;
  unranked.dims.clear();
  const auto open = Type::tensor(DType::kF32, std::vector<Dim>{{Dim::kOpen, "n", Dim::kOpen}});
  for (const auto& type : {Type(), unranked, open}) {
    auto network = chain();
    network.backend->models["a.onnx"].outputs[0].type = type;
    auto pipeline = start(network);
    push_number(*pipeline, 1);
    EXPECT_EQ(value_of(pop_one(*pipeline)[0]), 4.0F) << type;
  }
}

std::vector<Outcome> outcomes_behind_a_gate(plan::FullPolicy policy, int capacity,
                                            std::vector<std::string>* errors = nullptr) {
  Gate gate;
  FakeNetwork network;
  network.input("in").stage("slow", {"in"}, {"out"}, gate.function()).output("out");
  network.finish();
  for (auto& edge : network.plan.edges) {
    if (edge.from != plan::kPipelineInput) continue;
    edge.policy = policy;
    edge.capacity = capacity;
  }
  auto pipeline = start(network);
  gate.armed = true;
  push_number(*pipeline, 0);
  gate.entered.acquire();
  for (int i = 1; i < 6; ++i) push_number(*pipeline, static_cast<float>(i));
  gate.open.release();
  std::vector<Outcome> outcomes;
  for (int i = 0; i < 6; ++i) {
    Output output = pop_one(*pipeline);
    EXPECT_EQ(output.number(), static_cast<FrameNumber>(i));
    if (output.ok()) {
      EXPECT_EQ(value_of(output[0]), static_cast<float>(i));
    }
    if (!output.ok() && errors != nullptr) errors->push_back(output.error().message());
    outcomes.push_back(output.outcome());
  }
  const auto dropped = std::ranges::count(outcomes, Outcome::kDropped);
  EXPECT_EQ(pipeline->stats().drops, static_cast<std::uint64_t>(dropped));
  EXPECT_EQ(pipeline->stats().edges[0].drops, static_cast<std::uint64_t>(dropped));
  return outcomes;
}

constexpr auto kOk = Outcome::kOk;
constexpr auto kDropped = Outcome::kDropped;

TEST(FullPolicyTest, DropOldestKeepsTheNewest) {
  std::vector<std::string> errors;
  EXPECT_EQ(outcomes_behind_a_gate(plan::FullPolicy::kDropOldest, 2, &errors),
            (std::vector{kOk, kDropped, kDropped, kDropped, kOk, kOk}));
  EXPECT_EQ(errors.at(0),
            "frame 1: edge 'input -> slow' was full (2 frames), policy 'drop_oldest'");
}

TEST(FullPolicyTest, DropNewestKeepsTheOldest) {
  EXPECT_EQ(outcomes_behind_a_gate(plan::FullPolicy::kDropNewest, 2),
            (std::vector{kOk, kOk, kOk, kDropped, kDropped, kDropped}));
}

TEST(FullPolicyTest, LatestKeepsOne) {
  EXPECT_EQ(outcomes_behind_a_gate(plan::FullPolicy::kLatest, 0),
            (std::vector{kOk, kDropped, kDropped, kDropped, kDropped, kOk}));
}

TEST(FullPolicyTest, ErrorRefusesThePushAndTakesNothing) {
  Gate gate;
  FakeNetwork network;
  network.input("in").stage("slow", {"in"}, {"out"}, gate.function()).output("out");
  network.finish();
  for (auto& edge : network.plan.edges) {
    if (edge.from == plan::kPipelineInput)
      edge.policy = plan::FullPolicy::kError, edge.capacity = 1;
  }
  auto pipeline = start(network);
  gate.armed = true;
  push_number(*pipeline, 0);
  gate.entered.acquire();
  push_number(*pipeline, 1);
  const std::vector<Tensor> inputs{number(2)};
  const auto refused = pipeline->push(inputs);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_THAT(refused.error().message(), HasSubstr("edge 'input -> slow' is full (1 frame)"));
  ASSERT_NE(refused.error().find(Where::kInput), nullptr);
  EXPECT_EQ(refused.error().find(Where::kInput)->name, "in");
  gate.open.release();
  EXPECT_TRUE(pop_one(*pipeline).ok());
  EXPECT_TRUE(pop_one(*pipeline).ok());
}

TEST(FullPolicyTest, DropOldestKeepsTheNewestBesideResultsThatAreHeld) {
  auto network = chain();
  auto& edge = network.finish().edges.back();
  edge.policy = plan::FullPolicy::kDropOldest, edge.capacity = 2;
  auto pipeline = start(network, {}, {.max_held = 0});
  const int spare = spare_slots(network.plan, edge, memories_of(network.plan, network.registry));
  std::vector<Output> held;
  for (int i = 0; i < edge.capacity + spare - 2; ++i) {  // Two places are left.
    push_number(*pipeline, static_cast<float>(i));
    held.push_back(pop_one(*pipeline));
    ASSERT_TRUE(held.back().ok());
  }
  push_number(*pipeline, 100);
  push_number(*pipeline, 101);
  push_number(*pipeline, 102);
  const auto are_written = [&] {
    const auto edges = pipeline->stats().edges;
    return edges[0].depth == 0 && edges[1].depth == 0;
  };
  while (!are_written()) std::this_thread::yield();
  const Output oldest = pop_one(*pipeline), next = pop_one(*pipeline), newest = pop_one(*pipeline);
  EXPECT_EQ(oldest.outcome(), kDropped);
  EXPECT_TRUE(next.ok());
  ASSERT_TRUE(newest.ok());
  EXPECT_EQ(value_of(newest[0]), 206.0F);
}

// in -> a -> slow -> out, of whose inner edge the third frame finds no room
struct Refused {
  explicit Refused(plan::OnError on_error) {
    network.input("in")
        .stage("a", {"in"}, {"mid"}, unary(plus_one))
        .stage("slow", {"mid"}, {"out"}, gate.function())
        .output("out");
    auto& edge = network.finish().edges[1];
    edge.policy = plan::FullPolicy::kError, edge.capacity = 1;
    pipeline = start(network, {.on_error = on_error});
    gate.armed = true;
    push_number(*pipeline, 0);
    gate.entered.acquire();
    push_number(*pipeline, 1);
    push_number(*pipeline, 2);
    while (pipeline->stats().edges[0].depth > 0) std::this_thread::yield();
    gate.open.release();
  }
  Gate gate;
  FakeNetwork network;
  std::unique_ptr<Pipeline> pipeline;
};

TEST(FullPolicyTest, ErrorBetweenStagesIsOneOfTheStageThatWrites) {
  const Refused refused(plan::OnError::kDeliver);
  EXPECT_TRUE(pop_one(*refused.pipeline).ok());
  EXPECT_TRUE(pop_one(*refused.pipeline).ok());
  const Output output = pop_one(*refused.pipeline);
  ASSERT_EQ(output.outcome(), Outcome::kError);
  EXPECT_EQ(output.error().code, Code::kResourceExhausted);
  EXPECT_EQ(output.error().message(),
            "stage 'a': frame 2: edge 'a -> slow' was full (1 frame), policy 'error'");
  EXPECT_EQ(refused.pipeline->stats().stages[0].errors, 1U);
  EXPECT_EQ(refused.pipeline->stats().edges[1].drops, 1U);
  EXPECT_FALSE(refused.pipeline->closed_by());
}

TEST(FullPolicyTest, ErrorBetweenStagesStopsAPipelineThatStopsAtErrors) {
  const Refused refused(plan::OnError::kStop);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(pop_one(*refused.pipeline).ok(), i < 2);
  ASSERT_TRUE(refused.pipeline->closed_by());
  EXPECT_THAT(refused.pipeline->closed_by()->message(),
              HasSubstr("stage 'a': frame 2: edge 'a -> slow' was full"));
}

// Nobody is asked between the look at the frame and the wait.
TEST(InstanceTest, AWaitThatCancellingEndsSaysSo) {
  State state;
  state.records = std::vector<Record>(1);
  state.record(1).behind = 1;
  plan::Stage plan;
  plan.devices.resize(1);
  Stage stage;
  stage.plan = &plan;
  Progress reader;
  Instance instance(state, stage, 0);
  instance.rooms.push_back({.wait = {.progress = &reader}, .capacity = 1});
  instance.states.push_back({.progress = &reader});
  state.ending.advance(Life::kCancelled);
  EXPECT_TRUE(instance.wait_for_room(1));
  EXPECT_TRUE(instance.wait_for_states(1));
}

TEST(PipelineTest, RunTakesNoCallback) {
  auto network = chain();
  auto pipeline = start(network);
  const std::vector<Tensor> inputs{number(1)};
  const auto refused = pipeline->run(inputs, {.done = [](const Output&) {}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_THAT(refused.error().message(), HasSubstr("use push"));
  EXPECT_EQ(value_of(pipeline->run(inputs)->front()), 4.0F);
}

// While a push copies its callback, that closes the pipeline.
TEST(PipelineTest, APushThatAClosedPipelineRefusesKeepsNothing) {
  for (const auto policy : {plan::FullPolicy::kBlock, plan::FullPolicy::kDropOldest}) {
    auto network = chain();
    network.finish().edges[0].policy = policy;
    auto pipeline = start(network);
    struct Closer {
      Closer(Pipeline* of, bool* when) : closed(of), armed(when) {}
      Closer(const Closer& other) : closed(other.closed), armed(other.armed) {
        if (*armed) closed->close();
      }
      Closer(Closer&&) = default;
      Closer& operator=(const Closer&) = delete;
      Closer& operator=(Closer&&) = delete;
      ~Closer() = default;
      void operator()(const Output&) const {}
      Pipeline* closed;
      bool* armed;
    };
    bool armed = false;
    const FrameOptions options{.done = Closer(pipeline.get(), &armed)};
    std::vector<Tensor> inputs{number(1)};
    const std::weak_ptr<const void> storage = inputs[0].owner();
    armed = true;
    const auto refused = pipeline->push(inputs, kLong, options);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kCancelled);
    inputs.clear();
    EXPECT_TRUE(storage.expired()) << plan::to_string(policy);
  }
}

TEST(FullPolicyTest, DrainSaysThatResultsFillTheOutputEdge) {
  auto network = chain();
  network.finish().edges[1].policy = plan::FullPolicy::kDropOldest;
  auto pipeline = start(network, {.capacity = 2});
  for (int i = 0; i < 20; ++i) push_number(*pipeline, static_cast<float>(i));
  const Status drained = pipeline->drain();
  ASSERT_FALSE(drained);
  EXPECT_EQ(drained.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(drained.error().message(), HasSubstr("pop them, then drain"));
  for (int i = 0; i < 20; ++i) {
    const Output output = pop_one(*pipeline);
    EXPECT_TRUE(output.ok() || output.outcome() == Outcome::kDropped);
  }
  EXPECT_TRUE(pipeline->drain());
}

TEST(FullPolicyTest, DrainInShortSlicesSaysSoToo) {
  auto network = chain();
  network.finish().edges[1].policy = plan::FullPolicy::kDropOldest;
  auto pipeline = start(network, {.capacity = 2});
  for (int i = 0; i < 20; ++i) push_number(*pipeline, static_cast<float>(i));
  Code code = Code::kDeadlineExceeded;
  for (int slice = 0; slice < 3000 && code == Code::kDeadlineExceeded; ++slice) {
    const Status drained = pipeline->drain(std::chrono::milliseconds(10));
    ASSERT_FALSE(drained);
    code = drained.error().code;
  }
  EXPECT_EQ(code, Code::kFailedPrecondition);
}

TEST(FullPolicyTest, ADropOnOneBranchDropsTheFrameOnAll) {
  Gate gate;
  FakeNetwork network;
  network.input("in")
      .stage("fast", {"in"}, {"f"}, unary(plus_one))
      .stage("slow", {"f"}, {"s"}, gate.function())
      .stage("other", {"in"}, {"o"}, unary(plus_one))
      .stage("join", {"s", "o"}, {"out"},
             [](Inputs in, Outputs out) -> Status {
               out[0]->as<float>()[0] = value_of(*in[0]) * 100 + value_of(*in[1]);
               return {};
             })
      .output("out");
  network.finish();
  for (auto& edge : network.plan.edges) {
    if (edge.from == 0) edge.policy = plan::FullPolicy::kLatest;
  }
  auto pipeline = start(network);
  gate.armed = true;
  push_number(*pipeline, 0);
  gate.entered.acquire();
  for (int i = 1; i < 20; ++i) push_number(*pipeline, static_cast<float>(i));
  const auto drops = [&] {
    std::uint64_t all = 0;
    for (const auto& edge : pipeline->stats().edges) all += edge.drops;
    return all;
  };
  while (drops() < 18) std::this_thread::yield();
  gate.open.release();
  int dropped = 0;
  for (int i = 0; i < 20; ++i) {
    Output output = pop_one(*pipeline);
    if (output.ok()) {
      EXPECT_EQ(value_of(output[0]), static_cast<float>((i + 1) * 100 + i + 1));
    } else {
      EXPECT_EQ(output.outcome(), kDropped);
      ++dropped;
    }
  }
  EXPECT_EQ(dropped, 18);
}

// The frames in flight may be more than the input edge has slots, as lossy edges let them.
TEST(FullPolicyTest, AnInputThatIsAnOutputKeepsItsSlotUntilTheResultIsReleased) {
  FakeNetwork network;
  network.input("in")
      .stage("first", {"in"}, {"mid"}, unary(plus_one))
      .stage("second", {"mid"}, {"out"}, unary(twice))
      .output("in")
      .output("out");
  network.finish();
  for (auto& edge : network.plan.edges) {
    if (edge.from == plan::kPipelineInput) edge.capacity = 4;
    if (edge.from == 0) edge.policy = plan::FullPolicy::kLatest;
  }
  auto pipeline = start(network);
  FrameNumber pushed = 0;
  const auto push_what_fits = [&] {
    for (int i = 0; i < 6; ++i) {
      const std::vector<Tensor> inputs{number(static_cast<float>(pushed))};
      pushed += pipeline->push(inputs, milliseconds(20)) ? 1 : 0;
    }
  };
  for (FrameNumber popped = 0; popped < 12; ++popped) {
    if (popped % 4 == 0) push_what_fits();
    EXPECT_EQ(pushed, popped / 4 * 4 + 4);
    const Output output = pop_one(*pipeline);
    if (output.ok()) {
      EXPECT_EQ(value_of(output[0]), static_cast<float>(popped));
    }
  }
}

TEST(PipelineTest, ThreadsThatRunFramesAtOnceGetEachItsOwn) {
  FakeNetwork network = chain();
  auto pipeline = start(network);
  constexpr int kThreads = 4, kFrames = 500;
  std::atomic<int> wrong{0};
  std::barrier begin(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      begin.arrive_and_wait();
      for (int i = 0; i < kFrames; ++i) {
        const auto value = static_cast<float>(t * kFrames + i);
        const std::vector<Tensor> inputs{number(value)};
        const auto outputs = pipeline->run(inputs);
        wrong += outputs && value_of(outputs->front()) == 2 * (value + 1) ? 0 : 1;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(PipelineTest, AThreadThatTheSystemRefusesIsAnError) {
  FakeNetwork network = chain();
  network.finish();
  {
    const NoMoreThreads limited;
    const auto refused = network.start();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
    EXPECT_THAT(refused.error().message(), HasSubstr("no thread could be started"));
    EXPECT_THAT(refused.error().message(), HasSubstr("stage 'a'"));
  }
  EXPECT_TRUE(network.start());
}

TEST(PipelineTest, ItTellsWhyItTakesNoMoreFrames) {
  FakeNetwork network = chain();
  auto pipeline = start(network);
  EXPECT_FALSE(pipeline->closed_by());
  pipeline->close();
  ASSERT_TRUE(pipeline->closed_by());
  EXPECT_EQ(pipeline->closed_by()->message(), "the pipeline is closed");
  pipeline->cancel();
  EXPECT_EQ(pipeline->closed_by()->message(), "the pipeline was cancelled");
}

TEST(PipelineTest, AFrameOverItsDeadlineComesOutAsSuch) {
  Gate gate;
  FakeNetwork network;
  network.input("in").stage("slow", {"in"}, {"out"}, gate.function()).output("out");
  auto pipeline = start(network, {.max_age = milliseconds(20)});
  gate.armed = true;
  // Reaches the gate however busy the machine is.
  const FrameOptions patient{.deadline = std::chrono::steady_clock::now() + std::chrono::hours(1)};
  const std::vector<Tensor> first{number(0)};
  ASSERT_TRUE(pipeline->push(first, kLong, patient));
  gate.entered.acquire();
  push_number(*pipeline, 1);
  const auto pushed = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - pushed < milliseconds(25)) std::this_thread::yield();
  gate.open.release();
  EXPECT_TRUE(pop_one(*pipeline).ok());
  Output late = pop_one(*pipeline);
  EXPECT_EQ(late.outcome(), Outcome::kError);
  EXPECT_EQ(late.error().code, Code::kDeadlineExceeded);
  EXPECT_THAT(late.error().message(), HasSubstr("stage 'slow': frame 1: deadline_exceeded"));
}

TEST(PipelineTest, AFrameThatGrowsOldWhileItWaitsForRoomDoesNotStart) {
  Gate gate;
  FakeNetwork network;
  std::atomic<int> starts{0};
  network.input("in")
      .stage("a", {"in"}, {"mid"},
             [&](Inputs in, Outputs out) -> Status {
               ++starts;
               out[0]->as<float>()[0] = value_of(*in[0]);
               return {};
             })
      .stage("slow", {"mid"}, {"out"}, gate.function())
      .output("out");
  network.finish().edges[1].capacity = 1;
  constexpr milliseconds kAge{8};
  auto pipeline = start(network, {.max_age = kAge});
  gate.armed = true;
  int pushed = 0;
  do {  // Again, should the machine be so busy that the frame is too old for the gate.
    push_number(*pipeline, static_cast<float>(pushed++));
  } while (!gate.entered.try_acquire_for(milliseconds(500)));
  const int before = starts;
  push_number(*pipeline, static_cast<float>(pushed++));
  const auto since = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - since < kAge + milliseconds(1))
    std::this_thread::yield();
  gate.open.release();
  for (int i = 0; i + 1 < pushed; ++i) pop_one(*pipeline);
  const Output late = pop_one(*pipeline);
  EXPECT_EQ(late.error().code, Code::kDeadlineExceeded);
  EXPECT_THAT(late.error().message(),
              HasSubstr(concat("stage 'a': frame ", pushed - 1, ": deadline_exceeded")));
  EXPECT_EQ(starts, before);
}

class ParametersTest : public ::testing::Test {
 protected:
  // x = in * w in three replicas, out = w.
  FakeNetwork with_parameter() {
    FakeNetwork network;
    network.folder = folder_.path();
    network.input("in")
        .parameter("w", number(2))
        .stage(
            "scale", {"in", "w"}, {"x"},
            [](Inputs in, Outputs out) -> Status {
              out[0]->as<float>()[0] = value_of(*in[0]) * value_of(*in[1]);
              return {};
            },
            3)
        .stage("tell", {"x", "w"}, {"out"},
               [](Inputs in, Outputs out) -> Status {
                 out[0]->as<float>()[0] = value_of(*in[1]);
                 return {};
               })
        .output("x")
        .output("out");
    return network;
  }

  const TemporaryFolder folder_;
};

using Values = std::pair<float, float>;

Values pop_values(Pipeline& pipeline) {
  const Output output = pop_one(pipeline);
  EXPECT_TRUE(output.ok()) << output.error().message();
  return {value_of(*output.find("x")), value_of(*output.find("out"))};
}

TEST_F(ParametersTest, AChangeHoldsFromTheNextPushedFrameOnInAllReplicas) {
  auto network = with_parameter();
  auto pipeline = start(network, {.capacity = 32});
  for (int round = 0; round < 20; ++round) {
    const auto old = static_cast<float>(round + 2);
    for (int i = 0; i < 8; ++i) push_number(*pipeline, 10);
    ASSERT_TRUE(pipeline->set_parameters("", {{"w", number(old + 1)}}));
    for (int i = 0; i < 8; ++i) push_number(*pipeline, 10);
    for (int i = 0; i < 16; ++i) {
      const float expected = i < 8 ? old : old + 1;
      ASSERT_EQ(pop_values(*pipeline), (Values{10 * expected, expected})) << "frame " << i;
    }
  }
}

TEST_F(ParametersTest, AStagesNameChangesThatStageOnly) {
  auto network = with_parameter();
  auto pipeline = start(network);
  ASSERT_TRUE(pipeline->set_parameters("scale", {{"w", number(7)}}));
  push_number(*pipeline, 10);
  EXPECT_EQ(pop_values(*pipeline), (Values{70, 2}));
}

TEST_F(ParametersTest, AValueIsCopiedWhenItIsSet) {
  auto network = with_parameter();
  auto pipeline = start(network);
  Tensor value = number(3);
  ASSERT_TRUE(pipeline->set_parameters("", {{"w", value}}));
  value.as<float>()[0] = 99;
  push_number(*pipeline, 1);
  EXPECT_EQ(pop_values(*pipeline), (Values{3, 3}));
}

TEST_F(ParametersTest, WhatDoesNotFitIsRefusedAndChangesNothing) {
  auto network = with_parameter();
  auto pipeline = start(network);
  const auto error = [&](std::string_view stage, const Named& values) {
    const auto status = pipeline->set_parameters(stage, values);
    EXPECT_FALSE(status);
    return status ? Error{} : status.error();
  };
  const auto unknown_stage = error("scales", {{"w", number(9)}});
  EXPECT_EQ(unknown_stage.code, Code::kNotFound);
  EXPECT_EQ(unknown_stage.message(),
            "set_parameters: stage 'scales' does not exist or has no parameter 'w'; the parameters "
            "are 'w'");
  const auto unknown_name = error("", {{"w", number(9)}, {"v", number(9)}});
  EXPECT_EQ(unknown_name.code, Code::kNotFound);
  EXPECT_EQ(unknown_name.message(),
            "set_parameters: no stage has a parameter 'v'; the parameters are 'w'");
  EXPECT_EQ(error("", {{"w", Tensor::allocate(DType::kI64, {1})}}).message(),
            "set_parameters: 'w': expected f32[1], found i64[1]");
  EXPECT_EQ(error("", {{"w", Tensor::allocate(DType::kF32, {2})}}).message(),
            "set_parameters: 'w': expected f32[1], found f32[2]");
  EXPECT_EQ(error("", {}).code, Code::kInvalidArgument);
  push_number(*pipeline, 1);
  EXPECT_EQ(pop_values(*pipeline), (Values{2, 2}));
}

// What the heap holds; a sanitizer's own heap does not tell.
std::size_t heap_bytes() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST_F(ParametersTest, ValuesThatNoFrameReadsAreFreedWhileAReplicaIdles) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's heap does not tell what it holds";
#endif
  constexpr std::int64_t kElements = 1 << 18;
  FakeNetwork network;
  network.folder = folder_.path();
  network.input("in")
      .parameter("w", Tensor::allocate(DType::kF32, {kElements}))
      .stage(
          "a", {"in", "w"}, {"out"},
          [](Inputs in, Outputs out) -> Status {
            out[0]->as<float>()[0] = value_of(*in[1]);
            return {};
          },
          2)
      .output("out");
  auto pipeline = start(network);
  Tensor value = Tensor::allocate(DType::kF32, {kElements});
  const std::size_t before = heap_bytes();
  // One frame at a time: a replica that idles reads none of most values.
  for (int i = 0; i < 200; ++i) {
    value.as<float>()[0] = static_cast<float>(i);
    ASSERT_TRUE(pipeline->set_parameters("", {{"w", value}}));
    push_number(*pipeline, 1);
    EXPECT_EQ(value_of(pop_one(*pipeline)[0]), static_cast<float>(i));
  }
  EXPECT_LT(heap_bytes(), before + 8 * value.bytes());
}

TEST_F(ParametersTest, AFrameSeesOneValueInAllStagesWhileAnotherThreadSetsThem) {
  auto network = with_parameter();
  auto pipeline = start(network);
  std::atomic<bool> done{false};
  std::thread setter([&] {
    for (int value = 2; !done; ++value) {
      ASSERT_TRUE(pipeline->set_parameters("", {{"w", number(static_cast<float>(value))}}));
      std::this_thread::yield();
    }
  });
  std::thread pusher([&] {
    for (int i = 0; i < 2000; ++i) push_number(*pipeline, 1);
  });
  float last = 2;
  for (int i = 0; i < 2000; ++i) {
    const auto [x, w] = pop_values(*pipeline);
    EXPECT_EQ(x, w);
    EXPECT_GE(w, last);
    last = w;
  }
  done = true;
  pusher.join();
  setter.join();
}

TEST(PipelineTest, StatisticsSumWhatTheReplicasBackendsCount) {
  FakeNetwork network;
  std::atomic<std::uint64_t> counted{100};  // Of the warm-up: left out.
  network.input("in").stage("a", {"in"}, {"out"}, unary(plus_one), 2).output("out");
  network.backend->models["a.onnx"].counters = [&] {
    return backend::Context::Counters{counted, 2 * counted};
  };
  auto pipeline = start(network);
  EXPECT_EQ(pipeline->stats().stages[0].copies, 0U);
  counted += 5;
  EXPECT_EQ(pipeline->stats().stages[0].copies, 10U);
  EXPECT_EQ(pipeline->stats().stages[0].allocations, 20U);
}

TEST(PipelineTest, OutputsOfUnboundedShapeComeFromTheBackend) {
  FakeNetwork network;
  const auto any = Type::tensor(DType::kF32, std::vector<Dim>{{Dim::kOpen, "n", Dim::kOpen}});
  network.input("in")
      .stage("grow", {"in"}, {"x"},
             [](Inputs in, Outputs out) -> Status {
               *out[0] =
                   Tensor::allocate(DType::kF32, {static_cast<std::int64_t>(value_of(*in[0]))});
               return {};
             },
             1, {any})
      .stage("count", {"x"}, {"out"},
             [](Inputs in, Outputs out) -> Status {
               out[0]->as<float>()[0] = static_cast<float>(in[0]->count());
               return {};
             })
      .output("out");
  auto pipeline = start(network);
  for (int i = 0; i < 5; ++i) push_number(*pipeline, static_cast<float>(i));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(value_of(pop_one(*pipeline)[0]), static_cast<float>(i));
  EXPECT_TRUE(pipeline->stats().edges[1].backend_allocated);
  EXPECT_EQ(pipeline->memory_bytes(), std::nullopt);
  EXPECT_EQ(pipeline->stats().memory_bytes, std::nullopt);
}

TEST(PipelineTest, RunGivesCopiesAndRefusesBesideOthers) {
  auto network = chain();
  auto pipeline = start(network);
  const std::vector<Tensor> inputs{number(1)};
  const auto result = pipeline->run(inputs);
  ASSERT_TRUE(result);
  EXPECT_EQ(value_of((*result)[0]), 4.0F);
  push_number(*pipeline, 1);
  EXPECT_EQ(pipeline->run(inputs).error().code, Code::kFailedPrecondition);
}

TEST(PipelineTest, PushAndPopFromDifferentThreads) {
  auto network = chain();
  auto pipeline = start(network);
  constexpr int kFrames = 20'000;
  std::thread producer([&] {
    for (int i = 0; i < kFrames; ++i) push_number(*pipeline, static_cast<float>(i));
    pipeline->close();
  });
  FrameNumber expected = 0;
  for (;;) {
    auto output = pipeline->pop(kLong);
    ASSERT_TRUE(output);
    if (!*output) break;
    ASSERT_EQ((*output)->number(), expected);
    ASSERT_EQ(value_of((**output)[0]), 2 * static_cast<float>(expected + 1));
    ++expected;
  }
  producer.join();
  EXPECT_EQ(expected, static_cast<FrameNumber>(kFrames));
}

TEST(PipelineTest, AStartIsStoppedBetweenInstances) {
  FakeNetwork network;
  network.input("in").stage("a", {"in"}, {"out"}, unary(plus_one), 3).output("out");
  int asked = 0;
  const auto stopped = network.start({}, {.stopped = [&] { return ++asked == 3; }});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, Code::kCancelled);
  EXPECT_EQ(stopped.error().message(), "stage 'a': replica 2: stopped before it was started");
  EXPECT_TRUE(network.start({}, {.stopped = [] { return false; }}));
}

TEST(PipelineTest, AStageOnAnotherMachineNeedsTheBackendForThose) {
  FakeNetwork network;
  network.input("in").stage("a", {"in"}, {"out"}, unary(plus_one)).output("out");
  network.finish().stages[0].standby = {*device::parse_device("a:1/cpu:0")};
  const auto refused = network.start();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kNotFound);
  EXPECT_THAT(refused.error().message(), HasSubstr("stage 'a': backend 'remote': there is none"));
}

TEST(PipelineTest, ABackendIsAskedWhichDevicesItAccepts) {
  FakeNetwork network;
  network.input("in").stage("a", {"in"}, {"out"}, unary(plus_one)).output("out");
  const auto device = network.plan.stages[0].devices[0];
  network.backend->on_accepts = [&](const device::Device& asked) { return asked != device; };
  const auto refused = network.start();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnimplemented);
  EXPECT_EQ(refused.error().message(),
            "stage 'a': device '" + device::to_string(device) +
                "': backend 'fake' does not run there; use CPUs of this machine, such as 'cpu:0', "
                "or a backend that does");
}

TEST(PipelineTest, TheThreadOfAStageElsewhereHasCpusHere) {
  std::vector<int> mask;
  int threads = 0;
  FakeNetwork network;
  network.input("in")
      .stage("a", {"in"}, {"x"}, unary(plus_one))
      .stage("far", {"x"}, {"out"}, unary(plus_one))
      .output("out");
  network.backend->on_accepts = [](const auto&) { return true; };
  network.backend->on_compile = [&](const backend::CompileRequest& request) -> Status {
    mask = device::cpus_of_thread(device::this_thread_id());
    threads = request.threads;
    return {};
  };
  const auto cpus = device::inherited_cpus();
  auto& far = network.plan.stages[1];
  far.devices = {*device::parse_device("cuda:0")};
  far.host_cpus = {cpus.back()};
  ASSERT_TRUE(network.start());
  EXPECT_EQ(mask, std::vector<int>{cpus.back()});
  EXPECT_EQ(threads, 1);
  // Those that no stage owns; else any.
  far.host_cpus.clear();
  network.plan.stages[0].devices.front().cpus = {cpus.front()};
  ASSERT_TRUE(network.start());
  EXPECT_EQ(mask, cpus.size() == 1 ? cpus : std::vector<int>(cpus.begin() + 1, cpus.end()));
  network.plan.stages[0].devices.front().cpus = cpus;
  ASSERT_TRUE(network.start());
  EXPECT_EQ(mask, cpus);
}

TEST(PipelineTest, ARefusedModelIsNamedByItsPathInThePackage) {
  FakeNetwork network;
  network.input("in").stage("a", {"in"}, {"out"}, unary(plus_one)).output("out");
  network.backend->on_compile = [](const backend::CompileRequest& request) -> Status {
    return make_error(Code::kUnimplemented, "no Erf in ", request.file.filename().string())
        .within({Where::kModel, request.file.string()});
  };
  const auto refused = network.start();
  ASSERT_FALSE(refused);
  const auto model = network.plan.stages[0].partitions[0].model;
  const std::vector<Where> places{{Where::kStage, "a"}, {Where::kModel, model}};
  EXPECT_EQ(refused.error().places, places);
  EXPECT_THAT(refused.error().reason, HasSubstr("; try another version of the engine"));
}

TEST(PipelineTest, AModelThatContradictsItselfIsToBeRepaired) {
  FakeNetwork network;
  network.input("in").stage("a", {"in"}, {"out"}, unary(plus_one)).output("out");
  network.backend->on_compile = [](const backend::CompileRequest& request) -> Status {
    return invalid_argument("3 is not 4").within({Where::kModel, request.file.string()});
  };
  const auto refused = network.start();
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().reason,
              HasSubstr("3 is not 4; repair the model, or export it again"));
  EXPECT_THAT(refused.error().reason, ::testing::Not(HasSubstr("--custom-ops")));
}

TEST(PipelineTest, ATimeoutIsDataForWhoWaitsInSlices) {
  auto network = chain();
  auto pipeline = network.start();
  ASSERT_TRUE(pipeline) << pipeline.error().message();
  auto none = (*pipeline)->pop(milliseconds(2));
  ASSERT_FALSE(none);
  Error error = std::move(none).error();
  ASSERT_NE(error.find(Where::kTimeoutNs), nullptr);
  EXPECT_EQ(error.find(Where::kTimeoutNs)->number, 2'000'000U);
  error.find(Where::kTimeoutNs)->number = 60'000'000'000;
  EXPECT_EQ(error.message(), "pop: no frame came out within 60000 ms: 0 are in flight");
}

TEST(PipelineTest, LatenciesAndFailuresAreKeptFromTheFirstLookOn) {
  FakeNetwork network;
  network.input("in")
      .stage("only", {"in"}, {"out"},
             [](Inputs in, Outputs out) -> Status {
               if (value_of(*in[0]) < 0) return invalid_argument("negative");
               out[0]->as<float>()[0] = value_of(*in[0]);
               return {};
             })
      .output("out");
  auto pipeline = start(network);
  const auto run = [&](float value) {
    push_number(*pipeline, value);
    static_cast<void>(pop_one(*pipeline));
  };
  run(-1);  // Nobody looks yet.
  EXPECT_EQ(pipeline->observe().latencies.quantiles().count, 0U);
  run(1);
  const auto before = pipeline->observe();
  EXPECT_EQ(before.latencies.quantiles().count, 1U);
  for (std::size_t i = 0; i < kFailuresKept + 5; ++i) run(-1);
  run(2);
  const auto after = pipeline->observe();
  EXPECT_EQ(after.failed, kFailuresKept + 5);
  ASSERT_EQ(after.failures.size(), kFailuresKept);
  EXPECT_EQ(after.failures.front().frame, 7U);  // The first five of them are gone.
  EXPECT_THAT(after.failures.back().error.message(), HasSubstr("stage 'only'"));
  const auto between = after.latencies.since(before.latencies).quantiles();
  EXPECT_EQ(between.count, kFailuresKept + 6);
  EXPECT_GT(between.p50_ns, 0);
  EXPECT_LE(between.p50_ns, between.p99_ns);
  EXPECT_LE(between.p99_ns, between.max_ns);
  EXPECT_GT(pipeline->stats().stages[0].busy_ns, 0);
}

TEST(PipelineTest, CallsThatFailCountAsBusyAndAreInTheTrace) {
  FakeNetwork network;
  network.input("in")
      .stage("only", {"in"}, {"out"},
             [](Inputs, Outputs) -> Status {
               std::this_thread::sleep_for(milliseconds(2));
               return make_error(Code::kUnknown, "no");
             })
      .output("out");
  auto pipeline = start(network, {}, {.trace = true});
  for (int i = 0; i < 5; ++i) {
    push_number(*pipeline, 1);
    static_cast<void>(pop_one(*pipeline));
  }
  EXPECT_GE(pipeline->stats().stages[0].busy_ns, 5 * 2e6);
  const auto file = std::filesystem::path(::testing::TempDir()) / "failing.json";
  ASSERT_TRUE(pipeline->write_trace(file));
  std::ifstream in(file);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  EXPECT_THAT(text, HasSubstr("\"frame 4\""));
}

TEST(PipelineTest, TraceHasOneSpanPerStageAndFrame) {
  auto network = chain();
  auto pipeline = start(network, {}, {.trace = true});
  static_cast<void>(stream(*pipeline, 10));
  const auto file = std::filesystem::path(::testing::TempDir()) / "trace.json";
  ASSERT_TRUE(pipeline->write_trace(file));
  std::ifstream in(file);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  for (int i = 0; i < 10; ++i) EXPECT_THAT(text, HasSubstr(concat("\"frame ", i, "\"")));
  auto untraced = start(network);
  EXPECT_EQ(untraced->write_trace(file).error().code, Code::kFailedPrecondition);
}

TEST(PipelineTest, ATraceTellsWhichFramesWaitedForRoom) {
  Gate gate;
  FakeNetwork network;
  network.input("in")
      .stage("first", {"in"}, {"mid"}, unary([](float x) { return x; }))
      .stage("held", {"mid"}, {"out"}, gate.function())
      .output("out");
  network.finish().edges[1].capacity = 1;
  auto pipeline = start(network, {}, {.trace = true});
  gate.armed = true;
  push_number(*pipeline, 0);
  gate.entered.acquire();
  push_number(*pipeline, 1);  // Has no room behind the first stage until the gate opens.
  gate.open.release();
  static_cast<void>(pop_one(*pipeline));
  static_cast<void>(pop_one(*pipeline));
  const auto file = std::filesystem::path(::testing::TempDir()) / "trace_of_room.json";
  EXPECT_EQ(*pipeline->write_trace(file), 0U);
  std::ifstream in(file);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto waited = text.find("waits for room");
  ASSERT_NE(waited, std::string::npos);
  EXPECT_EQ(text.find("waits for room", waited + 1), std::string::npos);
}

TEST(PipelineTest, ATraceTellsHowManySpansItLost) {
  constexpr std::size_t kKept = 8;
  auto network = chain();
  auto pipeline = start(network, {}, {.trace = true, .spans_kept = kKept});
  const auto file = std::filesystem::path(::testing::TempDir()) / "lossy_trace.json";
  static_cast<void>(stream(*pipeline, static_cast<int>(kKept)));
  EXPECT_EQ(*pipeline->write_trace(file), 0U);
  for (std::uint64_t frame = 0; frame < 3; ++frame) {
    push_number(*pipeline, 0);
    static_cast<void>(pop_one(*pipeline));
  }
  EXPECT_EQ(*pipeline->write_trace(file), 6U);  // Of each of two stages.
}

TEST(PipelineTest, ATraceThatCannotBeWrittenToItsEndIsAnError) {
  auto network = chain();
  auto pipeline = start(network, {}, {.trace = true});
  static_cast<void>(stream(*pipeline, 1));
  const auto error = pipeline->write_trace("/dev/full").error();
  EXPECT_EQ(error.code, Code::kResourceExhausted);
  EXPECT_THAT(error.message(), HasSubstr("'/dev/full'"));
}

TEST(PipelineTest, TellsWhatAStageTakesBesideWhatItsPlanForetold) {
  FakeNetwork network;
  network.input("in")
      .stage("foretold", {"in"}, {"mid"}, unary([](float x) { return x + 1; }))
      .stage("not", {"mid"}, {"out"}, unary([](float x) { return x + 1; }))
      .output("out");
  constexpr double kForetold = 1e-9;  // Seconds: no frame is so fast.
  network.plan.stages[0].predicted_seconds = kForetold;
  auto pipeline = network.start();
  ASSERT_TRUE(pipeline) << pipeline.error().message();
  EXPECT_FALSE((*pipeline)->stats().stages[0].drift);
  const std::vector<Tensor> inputs{number(1)};
  for (int i = 0; i < 10; ++i) ASSERT_TRUE((*pipeline)->run(inputs));
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // A window is a second.
  const auto stats = (*pipeline)->stats();
  ASSERT_TRUE(stats.stages[0].drift);
  EXPECT_DOUBLE_EQ(stats.stages[0].drift->predicted_ns, 1);
  EXPECT_GT(stats.stages[0].drift->ratio, 1);
  EXPECT_FALSE(stats.stages[0].drift->beyond_noise) << "one window is too few";
  EXPECT_FALSE(stats.stages[1].drift);
  ASSERT_EQ(stats.stages[0].instances.size(), 1);
  EXPECT_EQ(stats.stages[0].instances[0].frames, 10);
  EXPECT_GT(stats.stages[0].instances[0].infer_ns, 0);
}

TEST(CapacityTest, StagesWaitForOneFrameAtATimeWhereAStateCrossesOrAnEdgeDrops) {
  auto plain = chain();
  EXPECT_GT(choose_wake_batch(plain.finish()), 1);
  EXPECT_EQ(choose_wake_batch(plain.with({.capacity = 8})), 4);
  EXPECT_EQ(choose_wake_batch(plain.with({.capacity = 1})), 1);
  plain.plan.edges[1].policy = plan::FullPolicy::kDropOldest;
  EXPECT_EQ(choose_wake_batch(plain.with({.capacity = 8})), 1);

  const auto with_state = [](const char* written) {
    FakeNetwork network;
    network.input("in")
        .state_input("last")
        .stage("a", {"in", "last"}, {"mid"}, unary(plus_one))
        .stage("b", {"mid"}, {"out"}, unary(twice))
        .output("out")
        .state(written, "last");
    return choose_wake_batch(network.with({.capacity = 8}));
  };
  EXPECT_EQ(with_state("mid"), 4);
  EXPECT_EQ(with_state("out"), 1);
}

TEST(CapacityTest, LargeFramesTakeASlotAWorkerAndOneMore) {
  const auto capacity = [](std::int64_t elements) {
    const auto type = Type::tensor(DType::kF32, std::vector<std::int64_t>{elements});
    FakeNetwork network;
    network.input("in", type);
    std::string last = "in";
    for (int i = 0; i < 64; ++i) {
      const auto name = i == 63 ? std::string("out") : concat("x", i);
      network.stage(concat("s", i), {last}, {name}, unary(plus_one), 1, {type});
      last = name;
    }
    network.output("out").finish();
    return choose_capacity(network.plan, network.plan.edges.back());
  };
  EXPECT_EQ(capacity(1), 512);
  EXPECT_EQ(capacity(25'000'000), 66);  // 64 stages and the caller.
}

TEST(CapacityTest, ATensorWithoutBoundCountsByItsKnownSizesUpToASixteenthOfTheEdgesBudget) {
  plan::Plan plan;
  plan.stages.resize(2);
  for (auto& stage : plan.stages) stage.devices.resize(1);
  const auto typed = [](std::vector<Dim> dims) {
    return Type::tensor(DType::kF32, std::move(dims));
  };
  const Dim open;
  plan.tensors = {{"open", Type{.kind = Type::Kind::kTensor, .dtype = DType::kF32}},
                  {"rows", typed({open, {.size = 10}})},
                  {"usually_long", typed({{.usual = 400}, {.size = 10}})},
                  {"picture", typed({{.size = 1}, {.size = 3}, open, open})},
                  {"huge", typed({open, {.size = INT64_MAX}})},
                  {"small", typed({{.size = 1}})}};
  const auto slots = [&](std::vector<std::string> tensors) {
    return choose_capacity(plan, {.from = 0, .to = {1}, .tensors = std::move(tensors)});
  };
  EXPECT_EQ(slots({"open"}), 16);
  EXPECT_EQ(slots({"open", "open"}), 8);
  EXPECT_EQ(slots({"rows"}), 256);         // An open size is taken for 64: 2,560 bytes.
  EXPECT_EQ(slots({"usually_long"}), 64);  // 16,000 bytes.
  EXPECT_EQ(slots({"picture"}), 16);
  EXPECT_EQ(slots({"huge"}), 16);
  EXPECT_EQ(slots({"small"}), 512);
  EXPECT_FALSE(slot_bytes(plan, {.from = 0, .to = {1}, .tensors = {"open"}}));
  EXPECT_EQ(slot_bytes(plan, {.from = 0, .to = {1}, .tensors = {"small"}}), 4);
}

}  // namespace
}  // namespace penstock::pipeline::pipeline_test
