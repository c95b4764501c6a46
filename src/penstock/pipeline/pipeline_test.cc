#include "penstock/pipeline/pipeline.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <semaphore>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include "penstock/pipeline/affinity.h"
#include "tests/support/fake_backend.h"

namespace penstock::pipeline {
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

std::unique_ptr<Pipeline> start(FakeNetwork& network, const Options& options = {}) {
  auto pipeline = network.start(options);
  EXPECT_TRUE(pipeline) << pipeline.error().message;
  return pipeline ? *std::move(pipeline) : nullptr;
}

void push_number(Pipeline& pipeline, float value) {
  const std::vector<Tensor> inputs{number(value)};
  const auto pushed = pipeline.push(inputs, kLong);
  ASSERT_TRUE(pushed) << pushed.error().message;
}

Output pop_one(Pipeline& pipeline) {
  auto popped = pipeline.pop(kLong);
  EXPECT_TRUE(popped) << popped.error().message;
  EXPECT_TRUE(*popped);
  return **std::move(popped);
}

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
    EXPECT_TRUE(output.ok()) << output.error().message;
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
          EXPECT_THAT(output.error().message, HasSubstr("stage '" + failing + "': frame 3: "));
          EXPECT_THAT(output.error().message, HasSubstr("boom"));
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
          ASSERT_THAT(output.error().message, HasSubstr(concat("frame ", popped, ": call ", k)));
        }
      }
      ASSERT_EQ(failed, k < 3 * kFrames ? 1 : 0);
      if (failed == 0) break;
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
  EXPECT_THAT(refused.error().message, HasSubstr("stage 'a': frame 2: broken"));
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
  EXPECT_THAT(last.error().message, HasSubstr("2 frames are in flight, the most allowed; pop one"));
  EXPECT_EQ(accepted, 2);
  for (int i = 0; i < accepted; ++i) EXPECT_TRUE(pop_one(*pipeline).ok());
}

TEST(PipelineTest, WrongInputsAreRefusedBySentence) {
  auto network = chain();
  auto pipeline = start(network);
  const auto message = [&](std::vector<Tensor> inputs) {
    const auto pushed = pipeline->push(inputs);
    EXPECT_FALSE(pushed);
    return pushed.error().message;
  };
  EXPECT_EQ(message({}), "push: expected 1 inputs, found 0");
  EXPECT_EQ(message({Tensor::allocate(DType::kI64, {1})}),
            "push: input 'in': expected f32[1], found i64[1]");
  EXPECT_EQ(message({Tensor::allocate(DType::kF32, {2})}),
            "push: input 'in': expected f32[1], found f32[2]");
  const auto unknown = pipeline->push(Named{{"im", number(1)}});
  EXPECT_EQ(unknown.error().message, "push: no input 'im'; the inputs are 'in'");
  const auto missing = pipeline->push(Named{});
  EXPECT_EQ(missing.error().message, "push: input 'in' is missing; the inputs are 'in'");
  EXPECT_EQ(pipeline->stats().pushed, 0U);
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
    ASSERT_TRUE(pipeline->push_acquired(42));
    Output output = pop_one(*pipeline);
    ASSERT_EQ(value_of(output[0]), 2 * static_cast<float>(i + 1));
    ASSERT_EQ(output.tag(), 42U);
  }
  EXPECT_EQ(pipeline->push_acquired().error().code, Code::kFailedPrecondition);
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
  EXPECT_EQ(pipeline->push(inputs).error().message, "the pipeline is closed");
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
  for (int round = 0; round < 50; ++round) {
    auto network = chain();
    auto pipeline = start(network, {.capacity = 1 + round % 3});
    const std::vector<Tensor> inputs{number(1)};
    for (int i = 0; i < round % 5; ++i) static_cast<void>(pipeline->try_push(inputs));
  }
}

TEST(PipelineTest, APusherBlockedByAFullPipelineWakesAtCancel) {
  auto network = chain();
  auto pipeline = start(network, {.capacity = 1});
  push_number(*pipeline, 1);
  std::thread blocked([&] {
    const std::vector<Tensor> inputs{number(1)};
    const auto pushed = pipeline->push(inputs, kForever);
    EXPECT_EQ(pushed.error().code, Code::kCancelled);
  });
  pipeline->cancel();
  blocked.join();
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
  for (int i = 0; i < 1000; ++i) once(i % 2 == 0);
  // The kernel lists a joined thread until it has cleaned up after it.
  for (int i = 0; threads() != before && i < 1'000'000; ++i) std::this_thread::yield();
  EXPECT_EQ(threads(), before);
}

TEST(PipelineTest, TheCallersAffinityIsUntouchedAndStagesArePinned) {
  const auto before = cpus_of_thread(this_thread_id());
  FakeNetwork network;
  std::vector<int> seen;
  network.input("in")
      .stage("a", {"in"}, {"out"},
             [&](Inputs, Outputs) -> Status {
               seen = cpus_of_thread(this_thread_id());
               return {};
             })
      .output("out");
  auto pipeline = start(network);
  push_number(*pipeline, 1);
  EXPECT_TRUE(pop_one(*pipeline).ok());
  EXPECT_EQ(seen, network.plan.stages[0].devices[0].cpus);
  EXPECT_EQ(cpus_of_thread(this_thread_id()), before);
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
      EXPECT_TRUE(pin_this_thread(all));
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
  EXPECT_THAT(pipeline.error().message, HasSubstr("outside the stage's cpu:"));
}

TEST(PipelineTest, ADeviceOutsideTheCpusetIsRefused) {
  auto network = chain();
  network.plan.stages[1].devices[0].cpus = {4000};
  const auto pipeline = network.start();
  ASSERT_FALSE(pipeline);
  EXPECT_EQ(pipeline.error().code, Code::kNotFound);
  EXPECT_THAT(pipeline.error().message, HasSubstr("stage 'b': "));
  EXPECT_THAT(pipeline.error().message, HasSubstr("4000"));
}

TEST(PipelineTest, AFailingCompileNamesTheStageAndEndsTheOthers) {
  auto network = chain();
  network.backend->models.erase("b.onnx");
  const auto pipeline = network.start();
  ASSERT_FALSE(pipeline);
  EXPECT_EQ(pipeline.error().message, "stage 'b': no fake model 'b.onnx'");
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
    if (!output.ok() && errors != nullptr) errors->push_back(output.error().message);
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
  EXPECT_THAT(refused.error().message, HasSubstr("edge 'input -> slow' is full (1 frames)"));
  gate.open.release();
  EXPECT_TRUE(pop_one(*pipeline).ok());
  EXPECT_TRUE(pop_one(*pipeline).ok());
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
  while (pipeline->stats().stages[0].frames < 20) std::this_thread::yield();
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

TEST(PipelineTest, AFrameOverItsDeadlineComesOutAsSuch) {
  Gate gate;
  FakeNetwork network;
  network.input("in").stage("slow", {"in"}, {"out"}, gate.function()).output("out");
  auto pipeline = start(network, {.max_age = milliseconds(20)});
  gate.armed = true;
  push_number(*pipeline, 0);
  gate.entered.acquire();
  push_number(*pipeline, 1);
  const auto pushed = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - pushed < milliseconds(25)) std::this_thread::yield();
  gate.open.release();
  EXPECT_TRUE(pop_one(*pipeline).ok());  // A running call is not interrupted.
  Output late = pop_one(*pipeline);
  EXPECT_EQ(late.outcome(), Outcome::kError);
  EXPECT_EQ(late.error().code, Code::kDeadlineExceeded);
  EXPECT_THAT(late.error().message, HasSubstr("stage 'slow': frame 1: deadline_exceeded"));
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

TEST(CollectorTest, FuturesAndCallbacksGetTheirOwnFrames) {
  auto network = chain();
  auto pipeline = start(network);
  std::vector<std::future<Output>> futures;
  std::atomic<int> called{0};
  {
    Collector collector(*pipeline);
    for (int i = 0; i < 50; ++i) {
      const std::vector<Tensor> inputs{number(static_cast<float>(i))};
      auto future = collector.submit(inputs);
      ASSERT_TRUE(future);
      futures.push_back(*std::move(future));
      ASSERT_TRUE(
          collector.submit(inputs, [&called](Output output) { called += output.ok() ? 1 : 0; }));
      Output output = futures.back().get();
      EXPECT_EQ(value_of(output[0]), 2 * static_cast<float>(i + 1));
    }
  }
  EXPECT_EQ(called, 50);
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

TEST(PipelineTest, TraceHasOneSpanPerStageAndFrame) {
  auto network = chain();
  auto pipeline = start(network, {.trace = true});
  static_cast<void>(stream(*pipeline, 10));
  const auto file = std::filesystem::path(::testing::TempDir()) / "trace.json";
  ASSERT_TRUE(pipeline->write_trace(file));
  std::ifstream in(file);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  for (int i = 0; i < 10; ++i) EXPECT_THAT(text, HasSubstr(concat("\"frame ", i, "\"")));
  auto untraced = start(network);
  EXPECT_EQ(untraced->write_trace(file).error().code, Code::kFailedPrecondition);
}

}  // namespace
}  // namespace penstock::pipeline
