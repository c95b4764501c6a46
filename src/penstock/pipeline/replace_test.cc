// Frames, states, streams, parameters and failures while plans are replaced, also under load.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <latch>
#include <map>
#include <mutex>
#include <optional>
#include <semaphore>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/base/hash.h"
#include "penstock/device/affinity.h"
#include "penstock/pipeline/pipeline.h"
#include "tests/support/fake_backend.h"
#include "tests/support/no_more_threads.h"
#include "tests/support/sample.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/watched.h"

namespace penstock::pipeline::replace_test {
namespace {

using ::testing::HasSubstr;
using namespace penstock::testing;  // NOLINT(google-build-using-namespace): test support

constexpr std::chrono::nanoseconds kSoon = std::chrono::seconds(60);

// in -> (+1) -> (* factor) -> out
FakeNetwork times(float factor) {
  FakeNetwork network;
  network.input("in")
      .stage("a", {"in"}, {"mid"}, unary([](float x) { return x + 1; }))
      .stage("b", {"mid"}, {"out"}, unary([factor](float x) { return factor * x; }))
      .output("out");
  return network;
}

// The sum of all inputs so far, times the factor. `type`: of the state.
FakeNetwork sums(float factor, const std::string& state = "sum", const Type& type = scalar()) {
  FakeNetwork network;
  network.input("in")
      .state_input(state, type)
      .stage("add", {"in", state}, {"out", "new_" + state},
             [factor](Inputs in, Outputs out) -> Status {
               const float sum = value_of(*in[0]) + value_of(*in[1]);
               out[0]->as<float>()[0] = factor * sum;
               out[1]->as<float>()[0] = sum;
               return {};
             },
             1, {scalar(), type})
      .output("out")
      .state("new_" + state, state);
  return network;
}

// Holds a stage at a frame until it is opened.
struct Barrier {
  std::binary_semaphore entered{0}, open{0};
  std::atomic<bool> armed{true};
  Function function(float factor = 1) {
    return [this, factor](Inputs in, Outputs out) -> Status {
      if (value_of(*in[0]) != 0 && armed.exchange(false)) {  // Not for the zeros of the warm-up.
        entered.release();
        open.acquire();
      }
      out[0]->as<float>()[0] = factor * value_of(*in[0]);
      return {};
    };
  }
};

FakeNetwork single(const Function& function, int replicas = 1) {
  FakeNetwork network;
  network.input("in").stage("only", {"in"}, {"out"}, function, replicas).output("out");
  return network;
}

std::unique_ptr<Pipeline> started(FakeNetwork& network, const plan::StreamOptions& stream = {},
                                  const Options& options = {}) {
  auto pipeline = network.start(stream, options);
  EXPECT_TRUE(pipeline) << pipeline.error().message();
  return *std::move(pipeline);
}

Status replace(Pipeline& pipeline, FakeNetwork& network, const plan::StreamOptions& stream = {},
               Options options = {}, const Pipeline::MayGo& may_go = {}) {
  options.functions = network.functions;
  return pipeline.replace(network.with(stream), network.folder, network.registry, options, may_go);
}

void must_replace(Pipeline& pipeline, FakeNetwork& network,
                  const plan::StreamOptions& stream = {}) {
  const Status replaced = replace(pipeline, network, stream);
  ASSERT_TRUE(replaced) << replaced.error().message();
}

FrameNumber pushed(Pipeline& pipeline, float value) {
  const std::vector<Tensor> inputs{number(value)};
  const auto frame = pipeline.push(inputs, kSoon);
  EXPECT_TRUE(frame) << frame.error().message();
  return frame ? *frame : UINT64_MAX;
}

Output popped(Pipeline& pipeline) {
  auto output = pipeline.pop(kSoon);
  EXPECT_TRUE(output) << output.error().message();
  EXPECT_TRUE(*output);
  return **std::move(output);
}

float result_of(Pipeline& pipeline) {
  const Output output = popped(pipeline);
  EXPECT_TRUE(output.ok()) << output.error().message();
  return output.ok() ? value_of(output[0]) : -1;
}

void expect_works(Pipeline& pipeline, float factor) {
  pushed(pipeline, 5);
  EXPECT_EQ(result_of(pipeline), 6 * factor);
}

std::string refusal(const auto& refused, Code code) {
  EXPECT_FALSE(refused);
  if (refused) return "";
  EXPECT_EQ(refused.error().code, code) << refused.error().message();
  return refused.error().message();
}

// The new plan has no record of it.
TEST(Replace, AFrameThatCameOutOfTheOldPlanIsNotCancelledAnyMore) {
  auto old = times(2);
  auto fresh = times(3);
  auto pipeline = started(old);
  for (int i = 0; i < 3; ++i) expect_works(*pipeline, 2);
  must_replace(*pipeline, fresh);
  expect_works(*pipeline, 3);
  for (FrameNumber out = 0; out < 4; ++out) EXPECT_FALSE(pipeline->cancel(out)) << out;
}

TEST(Replace, FramesBeforeItAreTheOldOnesAndThoseAfterItTheNewOnes) {
  auto old = times(2);
  auto fresh = times(3);
  auto pipeline = started(old);
  EXPECT_EQ(pushed(*pipeline, 1), 0U);
  EXPECT_EQ(pushed(*pipeline, 2), 1U);
  must_replace(*pipeline, fresh);
  EXPECT_EQ(pushed(*pipeline, 1), 2U);
  for (FrameNumber i = 0; i < 3; ++i) {
    const Output output = popped(*pipeline);
    EXPECT_EQ(output.number(), i);
    ASSERT_TRUE(output.ok());
    EXPECT_EQ(value_of(output[0]), i == 0 ? 4 : 6);
  }
  const auto stats = pipeline->stats();
  EXPECT_EQ(stats.pushed, 3U);
  EXPECT_EQ(stats.popped, 3U);
  EXPECT_EQ(stats.ok, 3U);
  EXPECT_EQ(stats.stages.front().frames, 1U);  // Those of the new plan.
}

TEST(Replace, TheOldOneEndsWhileNobodyPops) {
  auto old = times(2);
  auto fresh = times(3);
  auto third = times(4);
  auto pipeline = started(old);
  pushed(*pipeline, 1);
  must_replace(*pipeline, fresh);
  pushed(*pipeline, 1);
  must_replace(*pipeline, third);  // The first one has ended before.
  EXPECT_EQ(old.backend->alive(), 0);
  EXPECT_GT(third.backend->alive(), 0);
  expect_works(*pipeline, 2 / 3.0F);
  EXPECT_EQ(result_of(*pipeline), 6);
  EXPECT_EQ(result_of(*pipeline), 24);
}

// Each would stay with its records and results.
TEST(Replace, PlansOfWhichNobodyPopsAFrameAreFreed) {
  auto network = times(2);
  auto pipeline = started(network);
  std::vector<std::weak_ptr<const plan::Plan>> plans;
  for (int i = 0; i < 4; ++i) {
    plans.emplace_back(pipeline->shared_plan());
    if (i > 0) {  // The first one has none at all.
      const std::vector<Tensor> inputs{number(1)};
      ASSERT_TRUE(pipeline->push(inputs, kSoon, {.done = [](const Output&) {}}));
    }
    must_replace(*pipeline, network);
  }
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(plans[i].expired()) << i;
  pushed(*pipeline, 1);
  must_replace(*pipeline, network);
  must_replace(*pipeline, network);  // What is still to be popped stays.
  EXPECT_EQ(popped(*pipeline).number(), 3U);
}

void wait_until_asleep(int thread) {
  for (std::string state; state != "S"; std::this_thread::yield()) {
    std::ifstream stat(concat("/proc/self/task/", thread, "/stat"));
    std::string number, name;
    stat >> number >> name >> state;
  }
}

// One replica takes the old plan's last frame. The other, which waits for it too, ends all the
// same: else the third plan would wait for it for ever.
TEST(Replace, AReplicaThatWaitsForTheLastFrameInVainEnds) {
  Barrier barrier;
  std::mutex mutex;
  std::set<int> replicas;
  FakeNetwork old;
  old.input("in")
      .stage("first", {"in"}, {"mid"}, barrier.function())
      .stage(
          "shared", {"mid"}, {"out"},
          [&](Inputs in, Outputs out) -> Status {
            const std::scoped_lock lock(mutex);
            replicas.insert(device::this_thread_id());  // Each warms up.
            out[0]->as<float>()[0] = value_of(*in[0]);
            return {};
          },
          2)
      .output("out");
  auto fresh = times(3);
  auto third = times(4);
  auto pipeline = started(old);
  ASSERT_EQ(replicas.size(), 2U);
  pushed(*pipeline, 7);
  barrier.entered.acquire();
  must_replace(*pipeline, fresh);
  for (const int replica : replicas) wait_until_asleep(replica);
  barrier.open.release();
  EXPECT_EQ(result_of(*pipeline), 7);
  expect_works(*pipeline, 3);
  must_replace(*pipeline, third);
  expect_works(*pipeline, 4);
}

TEST(Replace, RunGoesOn) {
  auto old = times(2);
  auto fresh = times(3);
  auto pipeline = started(old);
  const std::vector<Tensor> inputs{number(1)};
  EXPECT_EQ(value_of((*pipeline->run(inputs))[0]), 4);
  must_replace(*pipeline, fresh);
  EXPECT_EQ(value_of((*pipeline->run(inputs))[0]), 6);
  pushed(*pipeline, 1);
  must_replace(*pipeline, old);
  const auto refused = pipeline->run(inputs);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("run: expected no frames in flight, found 1;"));
  EXPECT_EQ(result_of(*pipeline), 6);
  EXPECT_EQ(value_of((*pipeline->run(inputs))[0]), 4);
}

TEST(Replace, OneThatFailsToStartChangesNothing) {
  auto old = times(2);
  auto pipeline = started(old);
  pushed(*pipeline, 5);
  auto fails = times(3);
  fails.backend->on_compile = [](const backend::CompileRequest& request) -> Status {
    if (request.file.filename() == "a.onnx") return {};
    return make_error(Code::kUnimplemented, "not this one");
  };
  const auto why = refusal(replace(*pipeline, fails), Code::kUnimplemented);
  EXPECT_THAT(why, HasSubstr("replace: stage 'b'"));
  EXPECT_THAT(why, HasSubstr("not this one"));
  EXPECT_EQ(fails.backend->alive(), 0);

  auto huge = times(3);
  huge.finish().edges.front().capacity = 2'000'000'000;
  EXPECT_THAT(refusal(replace(*pipeline, huge), Code::kResourceExhausted), HasSubstr("memory"));

  auto stopped = times(3);
  refusal(replace(*pipeline, stopped, {}, {.stopped = [] { return true; }}), Code::kCancelled);
  EXPECT_FALSE(pipeline->closed_by());

  auto invalid = times(3);
  invalid.finish().stages.front().devices.clear();
  refusal(replace(*pipeline, invalid), Code::kInvalidArgument);
  EXPECT_EQ(result_of(*pipeline), 12);
  expect_works(*pipeline, 2);
  EXPECT_EQ(pipeline->stats().pushed, 2U);
}

TEST(Replace, WithoutAThreadForTheNewOneNothingChanges) {
  auto old = times(2);
  auto fresh = times(3);
  auto pipeline = started(old);
  std::optional<NoMoreThreads> none;
  for (const std::string last_allowed : {"", "a.onnx", "b.onnx"}) {  // The old one's end needs one.
    fresh.backend->on_compile = [&](const backend::CompileRequest& request) -> Status {
      if (request.file.filename() == last_allowed) none.emplace();
      return {};
    };
    if (last_allowed.empty()) none.emplace();
    const Status replaced = replace(*pipeline, fresh);
    none.reset();
    EXPECT_THAT(refusal(replaced, Code::kResourceExhausted), HasSubstr("thread"));
    expect_works(*pipeline, 2);
    EXPECT_EQ(fresh.backend->alive(), 0);
  }
  fresh.backend->on_compile = [](const auto&) { return Status(); };
  must_replace(*pipeline, fresh);
  expect_works(*pipeline, 3);
}

TEST(Replace, ItsCallerHasTheLastWord) {
  auto old = times(2);
  auto fresh = times(3);
  auto pipeline = started(old);
  pushed(*pipeline, 5);
  const auto replaced = [&](Status answer) {
    return replace(*pipeline, fresh, {}, {}, [&] {
      EXPECT_GT(fresh.backend->alive(), 0);  // It stands, and what is pushed is not its own yet.
      pushed(*pipeline, 1);
      return answer;
    });
  };
  const auto why =
      refusal(replaced(invalid_argument("the other one fails")), Code::kInvalidArgument);
  EXPECT_THAT(why, HasSubstr("the other one fails"));
  EXPECT_EQ(fresh.backend->alive(), 0);
  EXPECT_TRUE(replaced({}));
  pushed(*pipeline, 1);
  for (const float expected : {12.F, 4.F, 4.F, 6.F}) EXPECT_EQ(result_of(*pipeline), expected);
}

TEST(Replace, OtherInputsOrOutputsAreRefusedByName) {
  auto old = times(2);
  auto pipeline = started(old);
  FakeNetwork other;
  other.input("x").stage("a", {"x"}, {"out"}, unary([](float x) { return x; })).output("out");
  EXPECT_THAT(refusal(replace(*pipeline, other), Code::kInvalidArgument),
              HasSubstr("replace: the inputs: expected 'in', as the pipeline has them, found 'x'"));
  FakeNetwork more;
  more.input("in")
      .stage("a", {"in"}, {"mid"}, unary([](float x) { return x; }))
      .stage("b", {"mid"}, {"out"}, unary([](float x) { return x; }))
      .output("out")
      .output("mid");
  EXPECT_THAT(
      refusal(replace(*pipeline, more), Code::kInvalidArgument),
      HasSubstr("the outputs: expected 'out', as the pipeline has them, found 'out', 'mid'"));
  FakeNetwork wider;
  wider.input("in", Type::tensor(DType::kF32, {{2, "", Dim::kOpen}}))
      .stage("a", {"in"}, {"out"}, unary([](float x) { return x; }))
      .output("out");
  EXPECT_THAT(refusal(replace(*pipeline, wider), Code::kInvalidArgument),
              HasSubstr("input 'in': expected f32[1], as the pipeline has it, found f32[2]"));
  EXPECT_EQ(other.backend->alive() + more.backend->alive() + wider.backend->alive(), 0);
  expect_works(*pipeline, 2);
}

TEST(Replace, OtherValuesOfBoundInputsAreRefused) {
  const Type scalar = Type::tensor(DType::kI64, std::vector<Dim>());
  auto old = times(2);
  old.plan.bound_inputs.push_back({"rate", scalar, "16000", ""});
  auto pipeline = started(old);
  auto other = times(3);
  other.plan.bound_inputs.push_back({"rate", scalar, "8000", ""});
  EXPECT_THAT(refusal(replace(*pipeline, other), Code::kInvalidArgument),
              HasSubstr("bound inputs: expected those of the plan that runs, rate=16000, found "
                        "rate=8000"));
  auto same = times(3);
  same.plan.bound_inputs = old.plan.bound_inputs;
  must_replace(*pipeline, same);
  expect_works(*pipeline, 3);
}

TEST(Replace, StatesGoOverWithTheirValues) {
  auto old = sums(1);
  auto fresh = sums(100);
  auto pipeline = started(old);
  for (int i = 1; i <= 20; ++i) pushed(*pipeline, static_cast<float>(i));
  must_replace(*pipeline, fresh);
  for (int i = 21; i <= 40; ++i) {
    pushed(*pipeline, static_cast<float>(i));
    const int frame = i - 20;
    EXPECT_EQ(result_of(*pipeline), static_cast<float>(frame * (frame + 1) / 2));
  }
  must_replace(*pipeline, old);
  pushed(*pipeline, 41);
  for (int i = 21; i <= 40; ++i)
    EXPECT_EQ(result_of(*pipeline), 100 * static_cast<float>(i * (i + 1) / 2));
  EXPECT_EQ(result_of(*pipeline), 41 * 42 / 2);
  ASSERT_TRUE(pipeline->reset_states());
  pushed(*pipeline, 7);
  EXPECT_EQ(result_of(*pipeline), 7);
}

TEST(Replace, StatesStartFromTheNewPlansValuesBeforeTheFirstFrame) {
  auto old = sums(1);
  auto fresh = sums(2);
  auto pipeline = started(old);
  must_replace(*pipeline, fresh);
  pushed(*pipeline, 3);
  EXPECT_EQ(result_of(*pipeline), 6);
}

// What the function makes of the frame, and a thousand times the frame before.
FakeNetwork adds_the_last(const Function& function) {
  FakeNetwork made;
  made.input("in")
      .state_input("last")
      .stage("a", {"in", "last"}, {"out", "new"},
             [function](Inputs in, Outputs out) -> Status {
               PENSTOCK_CHECK_OK(function(in.first(1), out.first(1)));
               out[0]->as<float>()[0] += 1000 * value_of(*in[1]);
               out[1]->as<float>()[0] = value_of(*in[0]);
               return {};
             })
      .output("out")
      .state("new", "last");
  return made;
}

TEST(Replace, WithStatesTheFirstFrameWaitsForTheLastOneOfTheOld) {
  Barrier barrier;
  std::atomic<bool> began{false};
  auto old = adds_the_last(barrier.function());
  auto fresh = adds_the_last([&](Inputs in, Outputs out) -> Status {
    if (value_of(*in[0]) != 0) began = true;
    out[0]->as<float>()[0] = value_of(*in[0]);
    return {};
  });
  auto pipeline = started(old);
  pushed(*pipeline, 3);
  barrier.entered.acquire();
  std::thread replacer([&] { must_replace(*pipeline, fresh); });
  // Until it has the turn, and waits for the frame.
  while (pipeline->reset_stream(1)) std::this_thread::yield();
  std::thread pusher([&] { pushed(*pipeline, 4); });
  EXPECT_EQ(pipeline->try_pop().error().code, Code::kDeadlineExceeded);
  EXPECT_FALSE(began);
  barrier.open.release();
  replacer.join();
  pusher.join();
  EXPECT_EQ(result_of(*pipeline), 3);
  EXPECT_EQ(result_of(*pipeline), 3004);
}

TEST(Replace, WhoMayNotPushMeanwhileIsToldThatItIsTheReason) {
  Barrier barrier;
  auto old = adds_the_last(barrier.function());
  auto fresh = adds_the_last(unary([](float x) { return x; }));
  auto pipeline = started(old);
  pushed(*pipeline, 3);
  barrier.entered.acquire();
  std::thread replacer([&] { must_replace(*pipeline, fresh); });
  // Until it has the turn, and waits for the frame.
  while (pipeline->reset_stream(1)) std::this_thread::yield();
  const std::vector<Tensor> inputs{number(4)};
  const std::string reason =
      "replace() changes the plan, and lets no frame in before that is done; give a longer "
      "timeout, or try again";
  EXPECT_EQ(refusal(pipeline->push(inputs, kNoWait), Code::kDeadlineExceeded),
            "push: no turn within 0 ms: " + reason);
  EXPECT_EQ(refusal(pipeline->push(inputs, std::chrono::milliseconds(1)), Code::kDeadlineExceeded),
            "push: no turn within 1 ms: " + reason);
  EXPECT_EQ(refusal(pipeline->acquire_input(kNoWait), Code::kDeadlineExceeded),
            "acquire_input: no turn within 0 ms: " + reason);
  barrier.open.release();
  replacer.join();
  ASSERT_TRUE(pipeline->acquire_input(kSoon));
  std::thread([&] {
    EXPECT_EQ(refusal(pipeline->push(inputs, kNoWait), Code::kDeadlineExceeded),
              "push: no turn within 0 ms: another thread was pushing");
  }).join();
  pipeline->release_input();
}

TEST(Replace, WithoutStatesBothRunAtOnce) {
  Barrier barrier;
  auto old = single(barrier.function());
  std::binary_semaphore computed{0};
  auto fresh = single([&](Inputs in, Outputs out) -> Status {
    out[0]->as<float>()[0] = 10 * value_of(*in[0]);
    if (value_of(*in[0]) != 0) computed.release();
    return {};
  });
  auto pipeline = started(old);
  pushed(*pipeline, 3);
  barrier.entered.acquire();
  must_replace(*pipeline, fresh);
  pushed(*pipeline, 4);
  computed.acquire();  // While the frame before is not.
  EXPECT_EQ(pipeline->try_pop().error().code, Code::kDeadlineExceeded);
  barrier.open.release();
  EXPECT_EQ(result_of(*pipeline), 3);
  EXPECT_EQ(result_of(*pipeline), 40);
}

// Notes the frames that a function sees, which both plans call.
struct Notes {
  function::Function function(bool stateful) {
    auto made = function::stateless("note", {{"in", scalar()}}, {{"out", scalar()}},
                                    [this](Inputs in, Outputs out) -> Status {
                                      out[0]->as<float>()[0] = value_of(*in[0]);
                                      const std::scoped_lock lock(mutex);
                                      seen.push_back(value_of(*in[0]));
                                      return {};
                                    });
    made.stateful = stateful;
    return made;
  }
  FakeNetwork behind(const Function& before, bool stateful) {
    FakeNetwork made;
    made.input("in")
        .stage("before", {"in"}, {"mid"}, before)
        .function("note", function(stateful), {"mid"}, {"out"})
        .output("out");
    return made;
  }
  std::mutex mutex;
  std::vector<float> seen;
};

TEST(Replace, AStatefulFunctionSeesTheNewPlansFramesBehindTheOldOnes) {
  for (const auto& [of_old, of_fresh] : {std::pair{true, true}, {true, false}, {false, true}}) {
    SCOPED_TRACE(concat(of_old, of_fresh));
    Barrier barrier;
    Notes notes;
    auto old = notes.behind(barrier.function(), of_old);
    auto fresh = notes.behind(unary([](float x) { return x; }), of_fresh);
    auto pipeline = started(old);
    pushed(*pipeline, 3);
    barrier.entered.acquire();
    std::atomic<bool> done{false};
    std::thread replacer([&] {
      must_replace(*pipeline, fresh);
      pushed(*pipeline, 4);
      done = true;
    });
    // Until it has the turn, and waits for the frame; or is done, as it must not be.
    while (pipeline->reset_stream(1) && !done) std::this_thread::yield();
    EXPECT_FALSE(done);
    barrier.open.release();
    replacer.join();
    EXPECT_EQ(result_of(*pipeline), 3);
    EXPECT_EQ(result_of(*pipeline), 4);
    EXPECT_THAT(notes.seen, ::testing::ElementsAre(3, 4));
  }
}

TEST(Replace, StatesThatDoNotFitAreRefusedByName) {
  auto old = sums(1);
  auto pipeline = started(old);
  pushed(*pipeline, 3);
  auto renamed = sums(2, "total");
  EXPECT_THAT(refusal(replace(*pipeline, renamed), Code::kInvalidArgument),
              HasSubstr("replace: state 'sum': expected f32[1], as its value is carried over, "
                        "found no state of that name; give it the same states (--state)"));
  auto wider = sums(2, "sum", Type::tensor(DType::kF32, {{2, "", Dim::kOpen}}));
  EXPECT_THAT(
      refusal(replace(*pipeline, wider), Code::kInvalidArgument),
      HasSubstr("state 'sum': expected f32[1], as its value is carried over, found f32[2]"));
  FakeNetwork as_input;  // As of a model that was split without its states.
  as_input.input("in").input("sum").stage("add", {"in", "sum"}, {"out"},
                                          [](Inputs, Outputs) { return Status(); });
  as_input.output("out");
  EXPECT_THAT(refusal(replace(*pipeline, as_input), Code::kInvalidArgument),
              HasSubstr("replace: the inputs: expected 'in', as the pipeline has them, found 'in', "
                        "'sum'; give it the same states (--state)"));
  pushed(*pipeline, 4);
  EXPECT_EQ(result_of(*pipeline), 3);
  EXPECT_EQ(result_of(*pipeline), 7);
}

TEST(Replace, StatesOfStreamsGoOver) {
  auto old = sums(1);
  auto fresh = sums(10);
  auto few = sums(10);
  old.finish().streams.most = fresh.finish().streams.most = 3;
  auto pipeline = started(old);
  const auto push_to = [&](std::uint64_t stream, float value) {
    const std::vector<Tensor> inputs{number(value)};
    const auto frame = pipeline->push(inputs, kSoon, {.stream = stream});
    ASSERT_TRUE(frame) << frame.error().message();
  };
  for (const std::uint64_t stream : {7, 0, 7, 9}) push_to(stream, static_cast<float>(stream + 1));
  EXPECT_THAT(refusal(replace(*pipeline, few), Code::kInvalidArgument),
              HasSubstr("replace: streams: expected at least 3, as the pipeline allows, whose "
                        "states are carried over, found 1; split it with --streams 3"));
  must_replace(*pipeline, fresh);
  EXPECT_EQ(pipeline->stats().streams, 3U);
  for (const std::uint64_t stream : {9, 7, 0}) push_to(stream, 1);
  for (const float expected : {8.F, 1.F, 16.F, 10.F, 110.F, 170.F, 20.F})
    EXPECT_EQ(result_of(*pipeline), expected);
  const auto saved = pipeline->save_stream(7);
  ASSERT_TRUE(saved) << saved.error().message();
  EXPECT_EQ(value_of(saved->front().second), 17);
}

TEST(Replace, StreamsThatWereEvictedBeforeAreCountedOn) {
  auto old = sums(1);
  auto fresh = sums(10);
  for (auto* network : {&old, &fresh}) network->finish().streams = {.most = 2, .evict = true};
  auto pipeline = started(old);
  const auto run_in = [&](std::uint64_t stream) {
    const std::vector<Tensor> inputs{number(1)};
    ASSERT_TRUE(pipeline->push(inputs, kSoon, {.stream = stream}));
    result_of(*pipeline);
  };
  for (const std::uint64_t stream : {5, 6, 7}) run_in(stream);
  EXPECT_EQ(pipeline->stats().streams_evicted, 2U);
  must_replace(*pipeline, fresh);
  EXPECT_EQ(pipeline->stats().streams_evicted, 2U);
  run_in(8);
  EXPECT_EQ(pipeline->stats().streams_evicted, 3U);
}

// The sum of all inputs so far, as sums() has it, plus the product of all, which begins at 5.
FakeNetwork sums_and_multiplies(const std::filesystem::path& folder) {
  FakeNetwork network;
  network.folder = folder;
  std::filesystem::create_directories(folder / "states");
  EXPECT_TRUE(write_npy(number(5), folder / "states" / "product.npy"));
  network.input("in")
      .state_input("product")
      .state_input("sum")
      .stage("both", {"in", "product", "sum"}, {"out", "new_product", "new_sum"},
             [](Inputs in, Outputs out) -> Status {
               const float product = value_of(*in[0]) * value_of(*in[1]);
               const float sum = value_of(*in[0]) + value_of(*in[2]);
               out[0]->as<float>()[0] = product + sum;
               out[1]->as<float>()[0] = product;
               out[2]->as<float>()[0] = sum;
               return {};
             })
      .output("out")
      .state("new_product", "product")
      .state("new_sum", "sum");
  network.plan.states.front().initial = "states/product.npy";
  return network;
}

TEST(Replace, AStateOfTheNewPlanAloneBeginsWithItsInitialValueInEveryStream) {
  const TemporaryFolder folder;
  auto old = sums(1);
  auto fresh = sums_and_multiplies(folder.path());
  old.finish().streams.most = fresh.finish().streams.most = 4;
  auto pipeline = started(old);
  const auto push_to = [&](std::uint64_t stream, float value) {
    const std::vector<Tensor> inputs{number(value)};
    const auto frame = pipeline->push(inputs, kSoon, {.stream = stream});
    ASSERT_TRUE(frame) << frame.error().message();
  };
  for (const std::uint64_t stream : {0, 1, 7}) push_to(stream, static_cast<float>(stream + 1));
  for (const float expected : {1.F, 2.F, 8.F}) EXPECT_EQ(result_of(*pipeline), expected);
  must_replace(*pipeline, fresh);
  for (const std::uint64_t stream : {0, 1, 7, 8}) push_to(stream, 2);
  for (const float expected : {13.F, 14.F, 20.F, 12.F}) EXPECT_EQ(result_of(*pipeline), expected);
}

TEST(Replace, FramesAreCountedByTheirPlansLabel) {
  auto old = single(unary([](float x) { return x; }));
  auto fresh = single(unary([](float x) { return 10 * x; }));
  auto pipeline = started(old);
  const auto replaced_as = [&](FakeNetwork& network, const std::string& label) {
    Options options;
    options.label = label;
    const Status done = replace(*pipeline, network, {}, options);
    EXPECT_TRUE(done) << done.error().message();
  };
  const auto counted = [&] {
    std::vector<std::pair<std::string, std::uint64_t>> counts;
    for (const auto& plan : pipeline->stats().plans) counts.emplace_back(plan.label, plan.frames);
    return counts;
  };
  using Counts = std::vector<std::pair<std::string, std::uint64_t>>;
  EXPECT_EQ(counted(), (Counts{{"", 0}}));
  for (int i = 0; i < 3; ++i) pushed(*pipeline, 1);
  EXPECT_EQ(counted(), (Counts{{"", 3}}));
  replaced_as(fresh, "second");
  EXPECT_EQ(counted(), (Counts{{"", 3}, {"second", 0}}));
  replaced_as(old, "third");
  pushed(*pipeline, 1);
  replaced_as(fresh, "third");
  pushed(*pipeline, 1);
  EXPECT_EQ(counted(), (Counts{{"", 3}, {"third", 2}}));
}

// The thread of a stage would wait for the frames that it is to compute.
void expect_no_brief_callback_may_call_it(FakeNetwork& old, FakeNetwork& fresh) {
  auto pipeline = started(old);
  std::promise<Status> replaced;
  const std::vector<Tensor> inputs{number(1)};
  ASSERT_TRUE(
      pipeline->push(inputs, kSoon,
                     {.done = [&](const Output&) { replaced.set_value(replace(*pipeline, fresh)); },
                      .brief = true}));
  auto came = replaced.get_future();
  ASSERT_EQ(came.wait_for(kSoon), std::future_status::ready);
  EXPECT_THAT(refusal(came.get(), Code::kFailedPrecondition),
              HasSubstr("replace: a brief callback of a frame calls it"));
  must_replace(*pipeline, fresh);
}

TEST(Replace, ABriefCallbackMayNotCallItWhereThereAreStates) {
  auto old = sums(1);
  auto fresh = sums(10);
  expect_no_brief_callback_may_call_it(old, fresh);
}

TEST(Replace, ABriefCallbackMayNotCallItWhereThereAreStatefulFunctions) {
  Notes notes;
  FakeNetwork old, fresh;
  for (auto* network : {&old, &fresh})
    network->input("in").function("note", notes.function(true), {"in"}, {"out"}).output("out");
  expect_no_brief_callback_may_call_it(old, fresh);
}

TEST(Replace, CallbacksOfTheOldOneComeFirst) {
  Barrier barrier;
  auto old = single(barrier.function());
  auto fresh = single(unary([](float x) { return 10 * x; }));
  auto pipeline = started(old);
  std::mutex mutex;
  std::vector<float> came;
  const auto push_called = [&](float value) {
    const std::vector<Tensor> inputs{number(value)};
    ASSERT_TRUE(pipeline->push(inputs, kSoon, {.done = [&](Output output) {
                                 const std::scoped_lock lock(mutex);
                                 came.push_back(value_of(output[0]));
                               }}));
  };
  push_called(1);
  barrier.entered.acquire();
  must_replace(*pipeline, fresh);
  push_called(2);
  barrier.open.release();
  pipeline->close();
  ASSERT_TRUE(pipeline->drain(kSoon));
  EXPECT_FALSE(*pipeline->pop(kSoon));
  pipeline.reset();
  EXPECT_THAT(came, ::testing::ElementsAre(1, 20));
}

// It may not come back: who ends a pipeline would wait for it after all.
TEST(Replace, CallbacksOfTheNewOneDoNotWaitForOneThatWasLeftBehind) {
  static std::binary_semaphore entered{0}, release{0};  // They outlive the thread left behind.
  static std::atomic<int> called;
  called = 0;
  auto old = single(unary([](float x) { return x; }));
  auto fresh = single(unary([](float x) { return 10 * x; }));
  auto pipeline = started(old);
  const std::vector<Tensor> inputs{number(1)};
  const auto hangs = [](const Output&) {
    entered.release();
    release.acquire();
    ++called;
  };
  ASSERT_TRUE(pipeline->push(inputs, kSoon, {.done = hangs}));
  ASSERT_TRUE(pipeline->push(inputs, kSoon, {.done = [](const Output&) { ++called; }}));
  entered.acquire();
  must_replace(*pipeline, fresh);
  std::promise<FrameNumber> of_new;
  ASSERT_TRUE(pipeline->push(
      inputs, kSoon, {.done = [&](const Output& output) { of_new.set_value(output.number()); }}));
  auto came = of_new.get_future();
  EXPECT_FALSE(pipeline->end(std::chrono::milliseconds(1)));
  EXPECT_THAT(pipeline->leave_behind().callbacks,
              ::testing::ElementsAre(HasSubstr("the callback of frame 0 goes on")));
  ASSERT_EQ(came.wait_for(kSoon), std::future_status::ready);
  EXPECT_EQ(came.get(), 2U);
  EXPECT_EQ(called, 0) << "those of the old plan, behind the one that hangs";
  pipeline.reset();
  release.release();
  while (called < 2 || old.backend->alive() > 0) std::this_thread::yield();
}

// Else it would wait for itself: a plan ends once its callbacks have returned.
TEST(Replace, ACallbackMayCallItUntilAPlanHasToEnd) {
  auto old = single(unary([](float x) { return x; }));
  auto fresh = single(unary([](float x) { return 10 * x; }));
  auto pipeline = started(old);
  std::promise<std::pair<Status, Status>> replaced;
  const std::vector<Tensor> inputs{number(1)};
  ASSERT_TRUE(pipeline->push(inputs, kSoon, {.done = [&](const Output&) {
                               Status first = replace(*pipeline, fresh);
                               replaced.set_value({std::move(first), replace(*pipeline, old)});
                             }}));
  auto came = replaced.get_future();
  ASSERT_EQ(came.wait_for(kSoon), std::future_status::ready);
  const auto [first, second] = came.get();
  EXPECT_TRUE(first) << first.error().message();
  EXPECT_THAT(refusal(second, Code::kFailedPrecondition),
              HasSubstr("replace: a callback of a frame calls it"));
  must_replace(*pipeline, old);
  pushed(*pipeline, 3);
  EXPECT_EQ(result_of(*pipeline), 3);
}

TEST(Replace, AFrameIsCancelledByItsNumberInEither) {
  Barrier barrier, behind;
  auto old = single(barrier.function());
  auto fresh = single(behind.function());
  auto pipeline = started(old);
  for (int i = 1; i <= 2; ++i) pushed(*pipeline, static_cast<float>(i));
  barrier.entered.acquire();
  must_replace(*pipeline, fresh);
  for (int i = 3; i <= 4; ++i) pushed(*pipeline, static_cast<float>(i));
  behind.entered.acquire();
  EXPECT_TRUE(pipeline->cancel(FrameNumber{1}));
  EXPECT_TRUE(pipeline->cancel(FrameNumber{3}));
  EXPECT_FALSE(pipeline->cancel(FrameNumber{4}));
  barrier.open.release();
  behind.open.release();
  for (FrameNumber i = 0; i < 4; ++i)
    EXPECT_EQ(popped(*pipeline).outcome(), i % 2 == 0 ? Outcome::kOk : Outcome::kCancelled);
}

class ReplaceParameters : public ::testing::Test {
 protected:
  // in * gain + offset
  FakeNetwork network(const std::string& name, float gain, float offset) {
    FakeNetwork made;
    made.folder = folder_.path() / name;
    made.input("in")
        .parameter("gain", number(gain))
        .parameter("offset", number(offset))
        .stage("a", {"in", "gain", "offset"}, {"out"},
               [](Inputs in, Outputs out) -> Status {
                 out[0]->as<float>()[0] = value_of(*in[0]) * value_of(*in[1]) + value_of(*in[2]);
                 return {};
               })
        .output("out");
    return made;
  }

  const TemporaryFolder folder_;
};

TEST_F(ReplaceParameters, ThoseThatWereSetGoOver) {
  auto old = network("old", 2, 10);
  auto fresh = network("fresh", 3, 20);
  auto pipeline = started(old);
  ASSERT_TRUE(pipeline->set_parameters("", {{"gain", number(7)}}));
  pushed(*pipeline, 1);
  must_replace(*pipeline, fresh);
  pushed(*pipeline, 1);
  must_replace(*pipeline, old);
  ASSERT_TRUE(pipeline->set_parameters("a", {{"offset", number(50)}}));
  pushed(*pipeline, 1);
  must_replace(*pipeline, fresh);
  pushed(*pipeline, 1);
  EXPECT_EQ(result_of(*pipeline), 17);
  EXPECT_EQ(result_of(*pipeline), 27);  // The gain that was set, the new plan's own offset.
  EXPECT_EQ(result_of(*pipeline), 57);
  EXPECT_EQ(result_of(*pipeline), 57);
}

// A stage of each name, which multiplies by `gain`.
FakeNetwork chain(const std::filesystem::path& folder, const std::vector<std::string>& names) {
  FakeNetwork made;
  made.folder = folder;
  made.input("in").parameter("gain", number(1));
  std::string last = "in";
  for (const auto& name : names) {
    const std::string next = name == names.back() ? "out" : concat("from_", name);
    made.stage(name, {last, "gain"}, {next}, [](Inputs in, Outputs out) -> Status {
      out[0]->as<float>()[0] = value_of(*in[0]) * value_of(*in[1]);
      return {};
    });
    last = next;
  }
  made.output("out");
  return made;
}

TEST_F(ReplaceParameters, AStageKeepsItsOwnAndTakesAnothersOnlyWhereItIsNew) {
  auto two = chain(folder_.path() / "two", {"a", "b"});
  auto other = chain(folder_.path() / "other", {"a", "c"});
  auto pipeline = started(two);
  ASSERT_TRUE(pipeline->set_parameters("a", {{"gain", number(3)}}));
  must_replace(*pipeline, two);
  pushed(*pipeline, 1);
  EXPECT_EQ(result_of(*pipeline), 3);
  ASSERT_TRUE(pipeline->set_parameters("b", {{"gain", number(5)}}));
  must_replace(*pipeline, two);
  pushed(*pipeline, 1);
  EXPECT_EQ(result_of(*pipeline), 15);
  must_replace(*pipeline, other);  // Stage c gets the value of the first one that has one.
  pushed(*pipeline, 1);
  EXPECT_EQ(result_of(*pipeline), 9);
}

TEST_F(ReplaceParameters, WhereTheStagesHaveOtherNamesOneThatWasSetForAllGoesToAll) {
  auto one = chain(folder_.path() / "one", {"whole"});
  auto two = chain(folder_.path() / "two", {"a", "b"});
  auto pipeline = started(one);
  ASSERT_TRUE(pipeline->set_parameters("", {{"gain", number(3)}}));
  must_replace(*pipeline, two);
  pushed(*pipeline, 1);
  EXPECT_EQ(result_of(*pipeline), 9);
}

TEST_F(ReplaceParameters, ThoseThatDoNotFitAreRefusedByName) {
  auto old = network("old", 2, 10);
  auto pipeline = started(old);
  auto without = single(unary([](float x) { return x; }));
  EXPECT_THAT(refusal(replace(*pipeline, without), Code::kInvalidArgument),
              HasSubstr("replace: parameter 'gain': expected f32[1], as its value is carried over, "
                        "found no parameter of that name; give it the same parameters "
                        "(--parameter)"));
  pushed(*pipeline, 1);
  EXPECT_EQ(result_of(*pipeline), 12);
}

TEST_F(ReplaceParameters, SetWhileItIsReplacedTheyAreNotLost) {
  auto old = network("old", 1, 0);
  auto fresh = network("fresh", 1, 0);
  auto pipeline = started(old);
  std::atomic<int> set{0};
  std::atomic<bool> done{false};
  std::thread setter([&] {
    for (int value = 1; !done; ++value) {
      EXPECT_TRUE(pipeline->set_parameters("", {{"offset", number(static_cast<float>(value))}}));
      set = value;
      std::this_thread::yield();
    }
  });
  for (int i = 0; i < 40; ++i) {
    must_replace(*pipeline, i % 2 == 0 ? fresh : old);
    const int least = set;
    pushed(*pipeline, 0);
    EXPECT_GE(result_of(*pipeline), static_cast<float>(least));
  }
  done = true;
  setter.join();
  pushed(*pipeline, 0);
  EXPECT_EQ(result_of(*pipeline), static_cast<float>(set));
}

TEST(Replace, WhoWaitsForRoomInTheOldOnePushesToTheNewOne) {
  Barrier barrier;
  auto old = single(barrier.function());
  auto fresh = single(unary([](float x) { return 10 * x; }));
  auto pipeline = started(old, {.capacity = 2});
  pushed(*pipeline, 1);
  barrier.entered.acquire();
  pushed(*pipeline, 2);
  std::latch waiting(3);
  std::vector<std::thread> pushers;
  for (int i = 3; i <= 5; ++i) {
    pushers.emplace_back([&, i] {
      waiting.count_down();
      pushed(*pipeline, static_cast<float>(i));
    });
  }
  waiting.wait();
  EXPECT_EQ(pipeline->stats().pushed, 2U);
  must_replace(*pipeline, fresh, {.capacity = 4});
  for (auto& pusher : pushers) pusher.join();  // Although the old one gives no room.
  barrier.open.release();
  EXPECT_EQ(result_of(*pipeline), 1);
  EXPECT_EQ(result_of(*pipeline), 2);
  std::set<float> rest{result_of(*pipeline), result_of(*pipeline), result_of(*pipeline)};
  EXPECT_EQ(rest, (std::set<float>{30, 40, 50}));
}

TEST(Replace, WhoWaitsForAResultGetsTheNewOnes) {
  auto old = times(2);
  auto fresh = times(3);
  auto pipeline = started(old);
  Watched popper([&] { EXPECT_EQ(result_of(*pipeline), 6); });
  popper.wait_until_asleep();
  must_replace(*pipeline, fresh);
  pushed(*pipeline, 1);
  popper.thread.join();
}

TEST(Replace, AnAcquiredInputIsTheOldOnes) {
  auto old = times(2);
  auto fresh = times(3);
  auto pipeline = started(old);
  auto slot = pipeline->acquire_input(kSoon);
  ASSERT_TRUE(slot);
  std::thread replacer([&] { must_replace(*pipeline, fresh); });
  (*slot)[0].as<float>()[0] = 1;
  EXPECT_EQ(*pipeline->push_acquired(), 0U);
  replacer.join();
  slot = pipeline->acquire_input(kSoon);
  ASSERT_TRUE(slot);
  (*slot)[0].as<float>()[0] = 1;
  EXPECT_EQ(*pipeline->push_acquired(), 1U);
  EXPECT_EQ(result_of(*pipeline), 4);
  EXPECT_EQ(result_of(*pipeline), 6);
}

TEST(Replace, IsRefusedToWhoHasAnInputToPush) {
  auto old = times(2);
  auto fresh = times(3);
  auto pipeline = started(old);
  ASSERT_TRUE(pipeline->acquire_input(kSoon));
  EXPECT_THAT(refusal(replace(*pipeline, fresh), Code::kFailedPrecondition),
              HasSubstr("an acquired input is not pushed yet"));
  pipeline->release_input();
  must_replace(*pipeline, fresh);
}

TEST(Replace, ClosedAndCancelledPipelinesRefuseIt) {
  auto old = times(2);
  auto fresh = times(3);
  auto pipeline = started(old);
  pushed(*pipeline, 1);
  pipeline->close();
  EXPECT_THAT(refusal(replace(*pipeline, fresh), Code::kCancelled), HasSubstr("closed"));
  EXPECT_EQ(result_of(*pipeline), 4);
  pipeline->cancel();
  EXPECT_THAT(refusal(replace(*pipeline, fresh), Code::kCancelled), HasSubstr("cancelled"));
  EXPECT_EQ(fresh.backend->alive(), 0);
}

TEST(Replace, ClosedWhileTheNewOneStartsItIsGivenUp) {
  for (const bool cancels : {false, true}) {
    auto old = times(2);
    auto fresh = times(3);
    auto pipeline = started(old);
    pushed(*pipeline, 1);
    fresh.backend->on_compile = [&](const backend::CompileRequest& request) -> Status {
      if (request.file.filename() != "b.onnx") return {};
      cancels ? pipeline->cancel() : pipeline->close();
      return {};
    };
    refusal(replace(*pipeline, fresh), Code::kCancelled);
    EXPECT_EQ(fresh.backend->alive(), 0);
    EXPECT_EQ(popped(*pipeline).number(), 0U);
    EXPECT_FALSE(*pipeline->pop(kSoon));
  }
}

TEST(Replace, CloseLetsFramesOfBothFinish) {
  Barrier barrier;
  auto old = single(barrier.function());
  auto fresh = single(unary([](float x) { return 10 * x; }));
  auto pipeline = started(old);
  pushed(*pipeline, 1);
  barrier.entered.acquire();
  must_replace(*pipeline, fresh);
  pushed(*pipeline, 2);
  pipeline->close();
  const std::vector<Tensor> inputs{number(3)};
  EXPECT_EQ(pipeline->push(inputs).error().code, Code::kCancelled);
  barrier.open.release();
  ASSERT_TRUE(pipeline->drain(kSoon));
  EXPECT_EQ(result_of(*pipeline), 1);
  EXPECT_EQ(result_of(*pipeline), 20);
  EXPECT_FALSE(*pipeline->pop(kSoon));
}

TEST(Replace, CancelIsForFramesOfBoth) {
  Barrier barrier;
  auto old = single(barrier.function());
  Barrier behind;
  auto fresh = single(behind.function());
  auto pipeline = started(old);
  for (int i = 1; i <= 3; ++i) pushed(*pipeline, static_cast<float>(i));
  barrier.entered.acquire();
  must_replace(*pipeline, fresh);
  for (int i = 4; i <= 6; ++i) pushed(*pipeline, static_cast<float>(i));
  behind.entered.acquire();
  pipeline->cancel();
  EXPECT_TRUE(pipeline->closed_by());
  barrier.open.release();
  behind.open.release();
  for (FrameNumber i = 0; i < 6; ++i) {
    const Output output = popped(*pipeline);
    EXPECT_EQ(output.number(), i);
    EXPECT_EQ(output.outcome(), i % 3 == 0 ? Outcome::kOk : Outcome::kCancelled);
  }
  EXPECT_FALSE(*pipeline->pop(kSoon));
}

TEST(Replace, AnErrorThatStopsTheOldOneStopsThePipeline) {
  std::binary_semaphore entered{0}, open{0};
  auto old = single([&](Inputs in, Outputs) -> Status {
    if (value_of(*in[0]) == 0) return {};
    entered.release();
    open.acquire();
    return make_error(Code::kUnknown, "broken");
  });
  Barrier behind;
  auto fresh = single(behind.function());
  auto pipeline = started(old, {.on_error = plan::OnError::kStop});
  pushed(*pipeline, 1);
  entered.acquire();
  must_replace(*pipeline, fresh, {.on_error = plan::OnError::kStop});
  pushed(*pipeline, 2);
  pushed(*pipeline, 3);
  behind.entered.acquire();
  open.release();
  EXPECT_EQ(popped(*pipeline).outcome(), Outcome::kError);
  ASSERT_TRUE(pipeline->closed_by());
  EXPECT_THAT(pipeline->closed_by()->message(), HasSubstr("broken"));
  behind.open.release();
  EXPECT_EQ(popped(*pipeline).outcome(), Outcome::kOk);
  EXPECT_EQ(popped(*pipeline).outcome(), Outcome::kCancelled);
}

/// Frame 0, of value 1, goes to "only" once the barrier is opened: a call that hangs there ends the
/// plan, and one that has ended cannot be replaced.
struct HangsBehindABarrier {
  explicit HangsBehindABarrier(const Function& only) {
    network.input("in")
        .stage("before", {"in"}, {"mid"}, barrier.function())
        .stage("only", {"mid"}, {"out"}, only)
        .output("out");
    network.finish().stages[1].max_run = std::chrono::milliseconds(200);
  }
  std::unique_ptr<Pipeline> start() {
    auto pipeline = started(network);
    pushed(*pipeline, 1);
    barrier.entered.acquire();
    return pipeline;
  }
  FakeNetwork network;
  Barrier barrier;
};

TEST(Replace, ACallOfTheOldOneThatHangsLeavesTheNewOneAlone) {
  static std::binary_semaphore release{0};  // It outlives the thread that is left behind.
  HangsBehindABarrier old([](Inputs in, Outputs) -> Status {
    if (value_of(*in[0]) == 1) release.acquire();
    return {};
  });
  auto fresh = single(unary([](float x) { return 10 * x; }));
  auto pipeline = old.start();
  must_replace(*pipeline, fresh);
  old.barrier.open.release();
  pushed(*pipeline, 2);
  EXPECT_EQ(popped(*pipeline).outcome(), Outcome::kError);
  EXPECT_EQ(result_of(*pipeline), 20);
  EXPECT_FALSE(pipeline->closed_by());
  pushed(*pipeline, 3);
  EXPECT_EQ(result_of(*pipeline), 30);
  pipeline.reset();
  EXPECT_EQ(fresh.backend->alive(), 0);
  release.release();
  while (old.network.backend->alive() > 0) std::this_thread::yield();
}

TEST(Replace, ACancelTellsTheNewOneItsOwnCauseAfterACallThatHung) {
  static std::binary_semaphore release{0};  // It outlives the thread that is left behind.
  HangsBehindABarrier old([](Inputs in, Outputs) -> Status {
    if (value_of(*in[0]) == 1) release.acquire();
    return {};
  });
  auto fresh = single(unary([](float x) { return 10 * x; }));
  auto pipeline = old.start();
  must_replace(*pipeline, fresh);
  old.barrier.open.release();
  EXPECT_EQ(popped(*pipeline).outcome(), Outcome::kError);
  pipeline->cancel();
  ASSERT_TRUE(pipeline->closed_by());
  EXPECT_EQ(pipeline->closed_by()->reason, "the pipeline was cancelled");
  pipeline.reset();
  release.release();
  while (old.network.backend->alive() > 0) std::this_thread::yield();
}

TEST(Replace, ACallOfTheOldOneCanBeLeftBehind) {
  static std::binary_semaphore entered{0}, release{0};  // They outlive the thread left behind.
  auto old = single([](Inputs in, Outputs) -> Status {
    if (value_of(*in[0]) == 0) return {};
    entered.release();
    release.acquire();
    return {};
  });
  auto fresh = single(unary([](float x) { return 10 * x; }));
  auto pipeline = started(old);
  pushed(*pipeline, 1);
  entered.acquire();
  must_replace(*pipeline, fresh);
  EXPECT_FALSE(pipeline->end(std::chrono::milliseconds(1)));
  EXPECT_THAT(pipeline->leave_behind().calls, ::testing::ElementsAre(HasSubstr("stage 'only'")));
  pipeline.reset();
  release.release();
  while (old.backend->alive() > 0) std::this_thread::yield();
}

TEST(Replace, TheDestructorEndsBoth) {
  Barrier barrier;
  auto old = sums(1);
  auto slow = sums(1);
  auto pipeline = started(old);
  for (int i = 0; i < 5; ++i) pushed(*pipeline, 1);
  must_replace(*pipeline, slow);
  for (int i = 0; i < 5; ++i) pushed(*pipeline, 1);
  const Output held = popped(*pipeline);
  pipeline.reset();
  EXPECT_EQ(value_of(held[0]), 1);
  EXPECT_EQ(old.backend->alive() + slow.backend->alive(), 0);
}

TEST(Replace, ResultsThatAreHeldOutliveTheirPlan) {
  auto old = times(2);
  auto pipeline = started(old);
  std::vector<Output> held;
  std::vector<FakeNetwork> networks;
  constexpr int kSwaps = 10;
  networks.reserve(kSwaps);
  for (int i = 0; i < kSwaps; ++i) {
    pushed(*pipeline, 1);
    held.push_back(popped(*pipeline));
    must_replace(*pipeline, networks.emplace_back(times(static_cast<float>(3 + i))));
  }
  pipeline.reset();
  for (int i = 0; i < kSwaps; ++i) {
    const auto& output = held[static_cast<std::size_t>(i)];
    EXPECT_EQ(output.number(), static_cast<FrameNumber>(i));
    EXPECT_EQ(value_of(output[0]), 2.0F * static_cast<float>(2 + i));
  }
}

TEST(Replace, TwoAtOnceComeOneAfterTheOther) {
  auto old = times(2);
  auto pipeline = started(old);
  constexpr int kEach = 10;
  auto a = times(3);
  auto b = times(4);
  const auto alternate = [&](FakeNetwork& network) {
    for (int i = 0; i < kEach; ++i) {
      must_replace(*pipeline, network);
      pushed(*pipeline, 0);
    }
  };
  a.finish();
  b.finish();
  std::thread first([&] { alternate(a); }), second([&] { alternate(b); });
  for (int i = 0; i < 2 * kEach; ++i) {
    const float result = result_of(*pipeline);
    EXPECT_TRUE(result == 3 || result == 4) << result;
  }
  first.join();
  second.join();
}

// The engine stands once in the process, as its compile says where there is another. Its models
// are files, with which what ended may start again.
class OneEngine : public ::testing::Test {
 protected:
  void share(const std::vector<FakeNetwork*>& networks, const FakeNetwork* broken = nullptr) {
    for (FakeNetwork* network : networks) {
      network->folder = folder_.path();
      std::filesystem::create_directories(folder_.path() / "stages");
      for (const auto& [name, model] : network->backend->models)
        std::ofstream(folder_.path() / "stages" / name) << "model";
      network->backend->on_compile = [=](const backend::CompileRequest&) -> Status {
        for (const FakeNetwork* other : networks) {
          if (other == network || other->backend->alive() == 0) continue;
          return make_error(Code::kFailedPrecondition, "not beside the other");
        }
        return network == broken ? make_error(Code::kUnknown, "broken") : Status();
      };
    }
  }

  const TemporaryFolder folder_;
};

TEST_F(OneEngine, TheOldOneEndsFirst) {
  auto old = sums(1);
  auto fresh = sums(10);
  share({&old, &fresh});
  auto pipeline = started(old);
  for (int i = 1; i <= 3; ++i) pushed(*pipeline, static_cast<float>(i));
  must_replace(*pipeline, fresh);
  EXPECT_EQ(old.backend->alive(), 0);
  pushed(*pipeline, 4);
  must_replace(*pipeline, old);
  pushed(*pipeline, 5);
  for (const float expected : {1.F, 3.F, 6.F, 100.F, 15.F})
    EXPECT_EQ(result_of(*pipeline), expected);
  EXPECT_EQ(pipeline->stats().popped, 5U);
}

TEST_F(OneEngine, TheOldOneComesBackIfTheNewOneFails) {
  auto old = sums(1);
  auto fresh = sums(10);
  share({&old, &fresh}, &fresh);
  auto pipeline = started(old);
  for (int i = 1; i <= 3; ++i) pushed(*pipeline, static_cast<float>(i));
  EXPECT_THAT(refusal(replace(*pipeline, fresh), Code::kUnknown), HasSubstr("broken"));
  EXPECT_FALSE(pipeline->closed_by());
  pushed(*pipeline, 4);
  for (const float expected : {1.F, 3.F, 6.F, 10.F}) EXPECT_EQ(result_of(*pipeline), expected);
}

TEST_F(OneEngine, TheOldOneComesBackIfTheCallerDoesNotWantTheNewOne) {
  auto old = sums(1);
  auto fresh = sums(10);
  share({&old, &fresh});
  auto pipeline = started(old);
  pushed(*pipeline, 1);
  const Status refused =
      replace(*pipeline, fresh, {}, {}, [] { return Status(invalid_argument("not wanted")); });
  EXPECT_THAT(refusal(refused, Code::kInvalidArgument), HasSubstr("not wanted"));
  EXPECT_EQ(fresh.backend->alive(), 0);
  pushed(*pipeline, 2);
  for (const float expected : {1.F, 3.F}) EXPECT_EQ(result_of(*pipeline), expected);
}

TEST_F(OneEngine, WhereNeitherStartsThePipelineEndsWithTheReason) {
  auto old = times(2);
  auto fresh = times(3);
  share({&old, &fresh}, &fresh);
  auto pipeline = started(old);
  old.backend->on_compile = [](const auto&) { return make_error(Code::kUnknown, "broken too"); };
  pushed(*pipeline, 1);
  EXPECT_THAT(refusal(replace(*pipeline, fresh), Code::kUnknown),
              HasSubstr("the plan before it did not start again: stage 'a': broken too"));
  EXPECT_EQ(result_of(*pipeline), 4);
  ASSERT_TRUE(pipeline->closed_by());
  EXPECT_THAT(pipeline->closed_by()->message(), HasSubstr("broken"));
  EXPECT_FALSE(*pipeline->pop(kSoon));
}

TEST_F(OneEngine, WithoutTheOldOnesFilesNothingChanges) {
  auto old = times(2);
  auto fresh = times(3);
  share({&old, &fresh});
  auto pipeline = started(old);
  pushed(*pipeline, 1);
  std::filesystem::remove(folder_.path() / "stages" / "b.onnx");
  EXPECT_THAT(refusal(replace(*pipeline, fresh), Code::kFailedPrecondition),
              HasSubstr("its model 'stages/b.onnx' is gone"));
  EXPECT_EQ(result_of(*pipeline), 4);
  expect_works(*pipeline, 2);
}

TEST_F(OneEngine, WithOtherFilesUnderTheOldOnesNamesNothingChanges) {
  auto old = times(2);
  auto fresh = times(3);
  share({&old, &fresh});
  for (const std::string file : {"stages/a.onnx", "stages/b.onnx"}) {
    const auto hash = sha256_of_file(folder_.path() / file);
    ASSERT_TRUE(hash) << hash.error().message();
    old.plan.files[file] = *hash;
  }
  auto pipeline = started(old);
  pushed(*pipeline, 1);
  const auto write = [&](const std::string& text) {
    std::ofstream(folder_.path() / "stages" / "b.onnx") << text;
  };
  write("another model");
  EXPECT_THAT(refusal(replace(*pipeline, fresh), Code::kFailedPrecondition),
              HasSubstr("its file 'stages/b.onnx' has changed since"));
  EXPECT_EQ(result_of(*pipeline), 4);
  expect_works(*pipeline, 2);
  write("model");
  must_replace(*pipeline, fresh);
  expect_works(*pipeline, 3);
}

// What a stage other than a model's says with the code of an engine that does not stand twice is
// no reason to end what runs, and to start it again: its functions would begin anew.
class OnePlan : public OneEngine {
 protected:
  // Its output: how many frames its function has seen since it was made. `made`: what that gives.
  FakeNetwork counts(const Status& made = {}) {
    function::Function count = function::stateless("count", {{"in", scalar()}}, {{"out", scalar()}},
                                                   [](Inputs, Outputs) { return Status(); });
    count.stateful = true;
    count.create = [made](const function::Settings&) -> Result<function::Call> {
      PENSTOCK_CHECK_OK(made);
      return function::Call([seen = 0](Inputs, Outputs out) mutable -> Status {
        out[0]->as<float>()[0] = static_cast<float>(++seen);
        return {};
      });
    };
    FakeNetwork network;
    network.input("in")
        .stage("a", {"in"}, {"mid"}, unary([](float x) { return x; }))
        .function("count", count, {"mid"}, {"out"})
        .output("out");
    return network;
  }

  static Status refused() { return make_error(Code::kFailedPrecondition, "a file is absent"); }

  void expect_goes_on_beside(FakeNetwork& old, FakeNetwork& fresh) {
    auto pipeline = started(old);
    for (int i = 0; i < 2; ++i) pushed(*pipeline, 1);
    EXPECT_THAT(refusal(replace(*pipeline, fresh), Code::kFailedPrecondition),
                HasSubstr("a file is absent"));
    pushed(*pipeline, 1);
    for (const float expected : {1.F, 2.F, 3.F}) EXPECT_EQ(result_of(*pipeline), expected);
  }
};

TEST_F(OnePlan, GoesOnWhereAFunctionCannotBeMade) {
  auto old = counts();
  auto fresh = counts(refused());
  share({&old});
  expect_goes_on_beside(old, fresh);
}

TEST_F(OnePlan, GoesOnWhereAWorkerRefusesAStage) {
  struct Remote : FakeBackend {
    [[nodiscard]] backend::Description describe() const override {
      return {std::string(plan::kRemoteBackend), "1", "", "", true};
    }
  };
  auto old = counts();
  auto fresh = counts();
  share({&old});
  const auto remote = std::make_shared<Remote>();
  remote->on_accepts = [](const device::Device&) { return true; };
  remote->on_compile = [](const backend::CompileRequest&) { return refused(); };
  fresh.registry.add(remote);
  fresh.finish().stages.front().devices = {*device::parse_device("10.0.0.2:8001/cpu:0")};
  expect_goes_on_beside(old, fresh);
}

// Several threads push and pop while plan after plan takes its turn; what a frame was multiplied by
// tells which one computed it.
TEST(Replace, UnderLoadNothingIsLostDoubledOrReordered) {
  constexpr int kSwaps = kSanitized ? 30 : 100;
  constexpr std::size_t kPushers = 3, kPoppers = 2;
  std::vector<FakeNetwork> networks;
  networks.reserve(kSwaps + 1);
  for (int i = 0; i <= kSwaps; ++i) networks.push_back(times(static_cast<float>(i + 1)));
  auto pipeline = started(networks[0], {.capacity = 4});

  std::mutex mutex;  // Guards the three below.
  std::map<FrameNumber, float> given;
  std::map<FrameNumber, float> results;
  std::vector<FrameNumber> swapped{0};
  std::atomic<bool> done{false};

  std::vector<std::thread> threads;
  for (std::size_t p = 0; p < kPushers; ++p) {
    threads.emplace_back([&, p] {
      for (std::size_t i = 0; !done; ++i) {
        const auto value = static_cast<float>((i * kPushers + p) % 1000);
        const std::vector<Tensor> inputs{number(value)};
        const auto frame = pipeline->push(inputs, kSoon);
        ASSERT_TRUE(frame) << frame.error().message();
        const std::scoped_lock lock(mutex);
        ASSERT_TRUE(given.emplace(*frame, value).second) << *frame;
      }
    });
  }
  for (std::size_t p = 0; p < kPoppers; ++p) {
    threads.emplace_back([&] {
      for (FrameNumber before = 0;;) {
        const auto output = pipeline->pop(kSoon);
        ASSERT_TRUE(output) << output.error().message();
        if (!*output) return;
        const auto frame = (*output)->number();
        ASSERT_TRUE((*output)->ok()) << (*output)->error().message();
        ASSERT_GE(frame, before);
        before = frame;
        const std::scoped_lock lock(mutex);
        ASSERT_TRUE(results.emplace(frame, value_of((**output)[0])).second) << frame;
      }
    });
  }
  for (int i = 1; i <= kSwaps; ++i) {
    const auto before = pipeline->stats().pushed;
    must_replace(*pipeline, networks[static_cast<std::size_t>(i)],
                 {.capacity = i % 5 == 0 ? 1 : 4});
    const auto after = pipeline->stats().pushed;
    while (pipeline->stats().pushed < after + kPushers) std::this_thread::yield();
    const std::scoped_lock lock(mutex);
    swapped.push_back(before);
    swapped.push_back(after);
  }
  done = true;
  for (std::size_t p = 0; p < kPushers; ++p) threads[p].join();
  pipeline->close();
  for (std::size_t p = 0; p < kPoppers; ++p) threads[kPushers + p].join();

  ASSERT_EQ(results.size(), given.size());
  int at_least = 0;
  std::set<int> plans;
  for (const auto& [frame, value] : given) {
    ASSERT_TRUE(results.contains(frame)) << frame;
    const auto factor = static_cast<int>(results[frame] / (value + 1));
    ASSERT_EQ(results[frame], static_cast<float>(factor) * (value + 1)) << frame;
    // Never back to a plan before, and each plan between the two counts taken around its swap.
    ASSERT_GE(factor - 1, at_least) << frame;
    at_least = factor - 1;
    plans.insert(factor);
    const auto swap = static_cast<std::size_t>(factor - 1);
    if (swap > 0) {
      ASSERT_GE(frame, swapped[2 * swap - 1]) << "plan " << swap;
    }
    if (swap < kSwaps) {
      ASSERT_LT(frame, swapped[2 * swap + 2]) << "plan " << swap;
    }
  }
  EXPECT_EQ(plans.size(), kSwaps + 1U);
  const auto stats = pipeline->stats();
  EXPECT_EQ(stats.pushed, given.size());
  EXPECT_EQ(stats.popped, given.size());
  EXPECT_EQ(stats.ok, given.size());
}

TEST(Replace, UnderLoadStatesCountEveryFrameOnce) {
  constexpr int kSwaps = 30;
  auto a = sums(1);
  auto b = sums(1);
  auto pipeline = started(a, {.capacity = 4});
  std::atomic<bool> done{false};
  std::thread pusher([&] {
    while (!done) pushed(*pipeline, 1);
    pipeline->close();
  });
  std::thread popper([&] {
    for (;;) {
      const auto output = pipeline->pop(kSoon);
      ASSERT_TRUE(output) << output.error().message();
      if (!*output) return;
      ASSERT_EQ(value_of((**output)[0]), static_cast<float>((*output)->number() % (1U << 24U) + 1));
    }
  });
  for (int i = 0; i < kSwaps; ++i) must_replace(*pipeline, i % 2 == 0 ? b : a);
  done = true;
  pusher.join();
  popper.join();
}

TEST(Replace, LossyEdgesGiveEveryFrameOnce) {
  auto a = times(2);
  auto b = times(2);
  for (auto* network : {&a, &b}) {
    for (auto& edge : network->finish().edges) {
      if (edge.from == plan::kPipelineInput) edge.policy = plan::FullPolicy::kDropOldest;
    }
  }
  auto pipeline = started(a, {.capacity = 2});
  std::atomic<bool> done{false};
  std::thread pusher([&] {
    while (!done) pushed(*pipeline, 1);
    pipeline->close();
  });
  FrameNumber next = 0;
  std::thread popper([&] {
    for (;; ++next) {
      const auto output = pipeline->pop(kSoon);
      ASSERT_TRUE(output) << output.error().message();
      if (!*output) return;
      ASSERT_EQ((*output)->number(), next);
      ASSERT_TRUE((*output)->ok() || (*output)->outcome() == Outcome::kDropped);
    }
  });
  for (int i = 0; i < 30; ++i) must_replace(*pipeline, i % 2 == 0 ? b : a, {.capacity = 2});
  done = true;
  pusher.join();
  popper.join();
  EXPECT_EQ(pipeline->stats().pushed, next);
}

TEST(Replace, EverythingElseMayBeCalledMeanwhile) {
  auto a = sums(1);
  auto b = sums(2);
  auto pipeline = started(a);
  std::atomic<bool> done{false};
  std::thread looker([&] {
    while (!done) {
      const auto stats = pipeline->stats();
      EXPECT_EQ(stats.stages.size(), 1U);
      EXPECT_EQ(stats.stages.front().lanes, 1);
      EXPECT_TRUE(pipeline->memory_bytes());
      EXPECT_GT(pipeline->in_flight_limit(), 0);
      EXPECT_FALSE(pipeline->closed_by());
      static_cast<void>(pipeline->reset_states());
      pipeline->give_up();
      EXPECT_TRUE(pipeline->drain(kSoon));
    }
  });
  std::thread pusher([&] {
    const std::vector<Tensor> inputs{number(1)};
    while (!done) {
      static_cast<void>(pipeline->try_push(inputs));
      while (pipeline->try_pop()) {
      }
    }
  });
  for (int i = 0; i < 30; ++i) must_replace(*pipeline, i % 2 == 0 ? b : a);
  done = true;
  looker.join();
  pusher.join();
}

TEST(Replace, LeavesNoThreads) {
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  };
  // The kernel lists a joined thread until it has cleaned up after it.
  const auto comes_true = [](const auto& condition) {
    for (int i = 0; i < 1'000'000 && !condition(); ++i) std::this_thread::yield();
    return condition();
  };
  auto a = times(2);
  auto b = times(3);
  {
    auto warm = started(a);  // A sanitizer starts a thread of its own beside the first.
  }
  const auto before = threads();
  for (int i = 0; i < (kSanitized ? 5 : 30); ++i) {
    auto pipeline = started(a);
    for (int swap = 0; swap < 3; ++swap) {
      pushed(*pipeline, 1);
      must_replace(*pipeline, swap % 2 == 0 ? b : a);
    }
    // The plan's, and the old one's with its ender.
    EXPECT_TRUE(comes_true([&] { return threads() <= before + 5; })) << threads();
  }
  EXPECT_TRUE(comes_true([&] { return threads() <= before; })) << threads();
}

/// How often the file holds the text.
std::size_t count_in(const std::filesystem::path& file, const std::string& text) {
  std::ifstream in(file);
  const std::string all((std::istreambuf_iterator<char>(in)), {});
  std::size_t count = 0;
  for (auto at = all.find(text); at != std::string::npos; at = all.find(text, at + 1)) ++count;
  return count;
}

TEST(ReplaceTest, ATraceHasWhatThePlansBeforeDid) {
  constexpr std::size_t kKept = 8;
  const TemporaryFolder folder;
  const auto file = folder.path() / "trace.json";
  const Options options{.trace = true, .spans_kept = kKept};
  auto network = times(2);
  auto pipeline = started(network, {}, options);
  const auto run = [&](int frames) {
    for (int i = 0; i < frames; ++i) {
      pushed(*pipeline, 1);
      EXPECT_EQ(result_of(*pipeline), 4);
    }
  };
  const auto replace_it = [&] {
    const Status done = replace(*pipeline, network, {}, options);
    ASSERT_TRUE(done) << done.error().message();
  };
  run(3);
  replace_it();
  EXPECT_EQ(*pipeline->write_trace(file), 0U);
  EXPECT_GE(count_in(file, "\"frame 2\""), 2U);  // At both stages.
  run(4);
  replace_it();  // Now the first plan's spans are copied.
  replace_it();  // A plan without a frame is none.
  run(1);
  EXPECT_EQ(*pipeline->write_trace(file), 0U);
  for (int frame = 0; frame < 8; ++frame) {
    EXPECT_GE(count_in(file, concat("\"frame ", frame, "\"")), 2U) << frame;
  }
  EXPECT_GE(count_in(file, "replaced plan 2 of 2"), 1U);
  EXPECT_EQ(count_in(file, "replaced plan 3"), 0U);
  run(7);
  replace_it();
  replace_it();  // Eight frames of the last one are as many as are kept.
  EXPECT_EQ(*pipeline->write_trace(file), 2U * 7U);
  EXPECT_EQ(count_in(file, "\"frame 6\""), 0U);
  EXPECT_GE(count_in(file, "\"frame 7\""), 2U);
}

}  // namespace
}  // namespace penstock::pipeline::replace_test
