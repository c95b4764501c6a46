// In steady state the runtime allocates nothing for a frame, and an engine nothing of a tensor's
// size. Counted by taking malloc's place in this program; the sanitizers do that themselves.
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include "penstock/device/topology.h"
#include "penstock/plan/plan_json.h"
#include "penstock/session/session.h"
#include "tests/support/fake_backend.h"
#include "tests/support/refused_memory.h"

namespace penstock {
namespace {

using namespace penstock::testing;  // NOLINT(google-build-using-namespace): test support

void stream(pipeline::Pipeline& pipeline, const std::vector<std::vector<Tensor>>& ring,
            int frames) {
  const int limit = pipeline.in_flight_limit();
  for (int pushed = 0, popped = 0; popped < frames; ++popped) {
    for (; pushed < frames && pushed - popped < limit; ++pushed) {
      ASSERT_TRUE(pipeline.push(ring[static_cast<std::size_t>(pushed) % ring.size()]));
    }
    const auto output = pipeline.pop();
    ASSERT_TRUE(output && *output && (*output)->ok());
  }
}

/// Allocations of at least `least_bytes` while `frames` frames pass, after a warm-up.
std::uint64_t allocations(pipeline::Pipeline& pipeline,
                          const std::vector<std::vector<Tensor>>& ring, int frames,
                          std::size_t least_bytes) {
  stream(pipeline, ring, 600);
  g_least = least_bytes;
  g_count = 0;
  g_counting = true;
  stream(pipeline, ring, frames);
  g_counting = false;
  return g_count;
}

class AllocationsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!PENSTOCK_COUNTS_ALLOCATIONS) GTEST_SKIP() << "a sanitizer counts allocations itself";
    t_spared = t_tester = false;
    g_others_spared = false;
    g_until_failure = -1;
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// Tests run beside one another, each in a process of its own.
  const std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / concat("penstock_allocations.", getpid());
};

constexpr const char* kTraceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST_F(AllocationsTest, TheCounterCounts) {
  g_least = 0;
  g_count = 0;
  g_counting = true;
  const Tensor tensor = Tensor::allocate(DType::kF32, {16});
  g_counting = false;
  EXPECT_GT(g_count, 0U);
}

TEST_F(AllocationsTest, TheRuntimeAllocatesAndCopiesNothingPerFrame) {
  const Function copy = [](Inputs in, Outputs out) -> Status {
    out[0]->as<float>()[0] = value_of(*in[0]);
    return {};
  };
  FakeNetwork network;
  network.input("in")
      .stage("a", {"in"}, {"x"}, copy)
      .stage("b", {"x"}, {"y"}, copy, 2)
      .stage("c", {"y", "in"}, {"out"}, copy)
      .output("out")
      .output("x");
  auto pipeline = network.start();
  ASSERT_TRUE(pipeline) << pipeline.error().message();
  std::vector<std::vector<Tensor>> ring;
  for (int i = 0; i < 16; ++i) ring.push_back({number(static_cast<float>(i))});
  EXPECT_EQ(allocations(**pipeline, ring, 5000, 0), 0U);
  for (const auto& stage : (*pipeline)->stats().stages) {
    EXPECT_EQ(stage.copies, 0U);
    EXPECT_EQ(stage.allocations, 0U);
  }
}

TEST_F(AllocationsTest, FunctionsAndStatesTakeNothingFromTheHeapEither) {
  const std::vector<backend::Port> in{{"x", scalar()}, {"s", scalar()}}, out{{"y", scalar()}};
  const auto add = function::stateless("add", in, out, [](Inputs from, Outputs to) -> Status {
    to[0]->as<float>()[0] = value_of(*from[0]) + value_of(*from[1]);
    return {};
  });
  FakeNetwork network;
  network.input("in")
      .state_input("last")
      .function("add", add, {"in", "last"}, {"sum"})
      .stage("copy", {"sum"}, {"out"}, unary([](float x) { return x; }), 2)
      .output("out")
      .state("sum", "last");
  auto pipeline = network.start({.max_run = std::chrono::seconds(60)});
  ASSERT_TRUE(pipeline) << pipeline.error().message();
  const std::vector<std::vector<Tensor>> ring{{number(1)}, {number(2)}};
  EXPECT_EQ(allocations(**pipeline, ring, 5000, 0), 0U);
  const auto stats = (*pipeline)->stats();
  EXPECT_EQ(stats.stages[0].copies, 5600U);  // The state is another stage's input too.
  EXPECT_EQ(stats.stages[0].allocations + stats.stages[1].copies, 0U);
}

TEST_F(AllocationsTest, StreamsBatchesAndCallsThatMayBeLeftBehindTakeNothingFromTheHeap) {
  const auto sum = [](Inputs in, Outputs out) -> Status {
    const auto x = in[0]->as<float>(), last = in[1]->as<float>();
    for (std::size_t i = 0; i < x.size(); ++i) out[0]->as<float>()[i] = x[i] + last[i];
    return {};
  };
  struct Variant {
    bool together, left, streams;
  };
  for (const auto& [together, left, streams] :
       {Variant{false, false, true}, Variant{true, false, true}, Variant{false, true, false},
        Variant{true, true, true}}) {
    SCOPED_TRACE(concat("together ", together, ", left ", left, ", streams ", streams));
    FakeNetwork network;
    network.input("in").state_input("last");
    network.stage("sum", {"in", "last"}, {"out"}, sum);
    if (together) network.together("sum", {2, 4});
    for (const int frames : {2, 4}) {  // The fake's own call takes the rows apart.
      if (together) network.backend->models.at(concat("sum.b", frames, ".onnx")).run = sum;
    }
    network.stage("b", {"out"}, {"end"}, unary([](float x) { return x; }));
    network.output("end").state("out", "last");
    network.plan.streams = {.most = 4};
    for (auto& stage : network.plan.stages) {
      if (left) stage.max_run = std::chrono::seconds(60);
      if (left) stage.max_left_behind = 2;
    }
    auto pipeline = network.start({.capacity = 8});
    ASSERT_TRUE(pipeline) << pipeline.error().message();
    const std::vector<Tensor> one{number(1)};
    const auto run = [&](int frames) {
      for (int i = 0; i < frames; ++i) {
        const pipeline::FrameOptions options{.stream =
                                                 static_cast<std::uint64_t>(streams ? i % 4 : 0)};
        ASSERT_TRUE((*pipeline)->push(one, std::chrono::seconds(60), options));
        if (i < 6) continue;
        const auto output = (*pipeline)->pop(std::chrono::seconds(60));
        ASSERT_TRUE(output && *output && (*output)->ok());
      }
      for (int i = 0; i < 6; ++i) {
        const auto output = (*pipeline)->pop(std::chrono::seconds(60));
        ASSERT_TRUE(output && *output && (*output)->ok());
      }
    };
    run(600);
    g_least = 0;
    g_count = 0;
    g_counting = true;
    run(2000);
    g_counting = false;
    EXPECT_EQ(g_count, 0U);
  }
}

TEST_F(AllocationsTest, ResultsThatAreHeldTakeNothingFromTheHeapOnceTheirSlotsAreThere) {
  FakeNetwork network;
  network.input("in").stage("a", {"in"}, {"x"}, unary([](float x) { return x; }));
  network.stage("b", {"x"}, {"y"}, unary([](float x) { return x; })).output("x").output("y");
  auto pipeline = network.start({.capacity = 2}, {.max_held = 6});
  ASSERT_TRUE(pipeline) << pipeline.error().message();
  const std::vector<Tensor> one{number(1)};
  std::array<std::optional<pipeline::Output>, 6> held;
  const auto run = [&](int frames) {
    for (int i = 0; i < frames; ++i) {
      ASSERT_TRUE((*pipeline)->push(one));
      auto output = (*pipeline)->pop(std::chrono::seconds(60));
      ASSERT_TRUE(output && *output && (*output)->ok());
      held[static_cast<std::size_t>(i) % held.size()] = **std::move(output);
    }
  };
  run(600);
  const auto made = (*pipeline)->stats().stages[1].allocations;
  EXPECT_GT(made, 0U);
  g_least = 0;
  g_count = 0;
  g_counting = true;
  run(2000);
  g_counting = false;
  EXPECT_EQ(g_count, 0U);
  EXPECT_EQ((*pipeline)->stats().stages[1].allocations, made);
}

// A pipeline in which stages allocate: states that cannot share, errors with their sentences,
// drops, shapes that nothing bounds.
FakeNetwork that_allocates(const std::filesystem::path& folder) {
  const Type unbounded = Type::tensor(DType::kF32, std::vector<Dim>{{Dim::kOpen, "n", Dim::kOpen}});
  FakeNetwork network;
  network.input("in")
      .state_input("last", unbounded)
      .stage("fails", {"in"}, {"x"},
             [](Inputs in, Outputs out) -> Status {
               const float value = value_of(*in[0]);
               if (static_cast<int>(value) % 3 == 1)
                 return invalid_argument("this one fails, and says so at some length: ", value);
               out[0]->as<float>()[0] = value;
               return {};
             })
      .stage("grows", {"x", "last"}, {"next"},
             [](Inputs in, Outputs out) -> Status {
               const auto size = static_cast<std::int64_t>(value_of(*in[0])) % 5 + 1;
               *out[0] = Tensor::allocate(DType::kF32, {size});
               return {};
             },
             1, {unbounded})
      .stage("b", {"next"}, {"out"}, unary([](float) { return 7.0F; }))
      .output("out")
      .state("next", "last");
  network.folder = folder;
  network.plan.states.front().initial = "initial.npy";
  EXPECT_TRUE(write_npy(number(0), network.folder / network.plan.states.front().initial));
  network.finish();
  return network;
}

/// Five frames, traced, come out of a pipeline that drops some, whichever allocation of its stages
/// fails. \returns whether there was a k-th one
bool stages_pass_frames_without_the_kth_allocation(std::int64_t k, FakeNetwork network) {
  const std::vector<Tensor> inputs{number(0), number(1), number(2), number(3), number(4)};
  network.plan.edges[1].policy = plan::FullPolicy::kDropOldest;
  auto pipeline = network.start({.capacity = 2, .max_age = std::chrono::seconds(60)});
  EXPECT_TRUE(pipeline) << pipeline.error().message();
  if (!pipeline) return false;
  std::uint64_t out = 0;
  const auto pop = [&] {
    const auto output = (*pipeline)->pop();
    const bool is_next = output && *output && (*output)->number() == out++;
    return is_next && ((*output)->ok() || !(*output)->error().message().empty());
  };
  g_until_failure = k;
  for (const auto& input : inputs) {
    EXPECT_TRUE(
        (*pipeline)->push(std::span(&input, 1), pipeline::kForever, {.traceparent = kTraceparent}));
    while (out + 1 < (*pipeline)->stats().pushed) EXPECT_TRUE(pop());
  }
  EXPECT_TRUE(pop());
  return g_until_failure.exchange(-1) < 0;
}

TEST_F(AllocationsTest, TheKthAllocationOfTheStagesFailsForEveryK) {
  t_spared = true;
  const auto run = [&](std::int64_t k) {
    return stages_pass_frames_without_the_kth_allocation(k, that_allocates(folder_));
  };
  EXPECT_GT(refused_one_by_one(run), 5);
}

TEST_F(AllocationsTest, TheKthAllocationOfThePopperFailsForEveryK) {
  t_tester = true;
  g_others_spared = true;
  const std::vector<Tensor> inputs{number(0), number(1), number(2)};
  const auto run = [&](std::int64_t k) {
    auto network = that_allocates(folder_);
    auto pipeline = network.start({.capacity = 4}, {.trace = true});
    EXPECT_TRUE(pipeline) << pipeline.error().message();
    static_cast<void>((*pipeline)->observe());  // From here on failures are kept.
    for (const auto& input : inputs) EXPECT_TRUE((*pipeline)->push(std::span(&input, 1)));
    g_until_failure = k;
    for (std::uint64_t frame = 0; frame < inputs.size(); ++frame) {
      const auto output = (*pipeline)->pop();
      EXPECT_TRUE(output && *output && (*output)->number() == frame);
    }
    const auto none = (*pipeline)->pop(std::chrono::nanoseconds(0));
    const bool came_about = g_until_failure.exchange(-1) < 0;
    EXPECT_TRUE(!none && !none.error().message().empty());
    EXPECT_EQ((*pipeline)->observe().failed, 1U);
    return came_about;
  };
  EXPECT_GT(refused_one_by_one(run), 2);
}

TEST_F(AllocationsTest, CallbacksAreCalledForEveryK) {
  t_spared = true;
  const std::vector<Tensor> inputs{number(0), number(1), number(2)};
  const auto run = [&](std::int64_t k) {
    auto network = that_allocates(folder_);
    auto pipeline = network.start({.capacity = 4}, {.trace = true});
    EXPECT_TRUE(pipeline) << pipeline.error().message();
    static_cast<void>((*pipeline)->observe());  // From here on failures are kept.
    std::atomic<int> called = 0;
    g_until_failure = k;
    for (const auto& input : inputs) {
      EXPECT_TRUE((*pipeline)->push(std::span(&input, 1), pipeline::kForever,
                                    {.done = [&](const pipeline::Output&) { ++called; }}));
    }
    EXPECT_TRUE((*pipeline)->drain());
    EXPECT_EQ(called, 3);
    return g_until_failure.exchange(-1) < 0;
  };
  EXPECT_GT(refused_one_by_one(run), 2);
}

/// Refuses the k-th allocation of who ends a pipeline whose call hangs and is left behind.
/// \returns whether there was a k-th one
bool ends_without_the_kth_allocation(std::int64_t k) {
  std::promise<void> begun, go_on;
  FakeNetwork network;
  network.input("in")
      .stage("waits", {"in"}, {"x"},
             [&, until = go_on.get_future().share()](Inputs in, Outputs) -> Status {
               if (value_of(*in[0]) == 0) return {};  // As it warms up.
               begun.set_value();
               until.wait();
               return {};
             })
      .stage("b", {"x"}, {"out"}, unary([](float x) { return x; }))
      .output("out");
  auto pipeline = network.start({.capacity = 4});
  EXPECT_TRUE(pipeline) << pipeline.error().message();
  const auto input = number(1);
  EXPECT_TRUE((*pipeline)->push(std::span(&input, 1)));
  EXPECT_TRUE((*pipeline)->push(std::span(&input, 1)));
  begun.get_future().wait();
  g_until_failure = k;
  (*pipeline)->cancel(1);
  (*pipeline)->give_up();
  const auto drained = (*pipeline)->drain(std::chrono::nanoseconds(0));
  EXPECT_FALSE((*pipeline)->end(std::chrono::nanoseconds(0)));
  while (!(*pipeline)->end(std::chrono::milliseconds(1))) (*pipeline)->leave_behind();
  for (const std::uint64_t frame : {0, 1}) {
    const auto output = (*pipeline)->pop();
    EXPECT_TRUE(output && *output && (*output)->number() == frame);
  }
  pipeline->reset();
  const bool came_about = g_until_failure.exchange(-1) < 0;
  EXPECT_FALSE(drained);
  go_on.set_value();
  while (network.backend->alive() > 0) std::this_thread::yield();
  return came_about;
}

TEST_F(AllocationsTest, TheKthAllocationOfTheEndFailsForEveryK) {
  t_tester = true;
  g_others_spared = true;
  EXPECT_GT(refused_one_by_one(ends_without_the_kth_allocation), 5);
}

/// Of five frames the second fails or hangs while the k-th allocation that is not the test's finds
/// no memory: every frame that was pushed comes out. \returns whether there was a k-th one.
bool frames_come_out_without_the_kth_allocation(std::int64_t k, const plan::StreamOptions& options,
                                                int left_behind) {
  FakeNetwork network;
  network.input("in")
      .stage("a", {"in"}, {"x"},
             [&](Inputs in, Outputs out) -> Status {
               const bool second = value_of(*in[0]) == 1;
               if (second && !options.max_run) return invalid_argument("frame of ", 1.0F, " fails");
               if (second) std::this_thread::sleep_for(std::chrono::milliseconds(80));
               out[0]->as<float>()[0] = value_of(*in[0]);
               return {};
             })
      .stage("b", {"x"}, {"out"}, unary([](float x) { return x; }))
      .output("out");
  network.finish();
  for (auto& stage : network.plan.stages) stage.max_left_behind = left_behind;
  auto pipeline = network.start(options);
  EXPECT_TRUE(pipeline) << pipeline.error().message();
  if (!pipeline) return false;
  const std::vector<Tensor> inputs{number(0), number(1), number(2), number(3), number(4)};
  std::uint64_t pushed = 0;
  g_until_failure = k;
  for (const auto& input : inputs) {
    if ((*pipeline)->push(std::span(&input, 1))) ++pushed;
  }
  for (std::uint64_t i = 0; i < pushed; ++i) {
    const auto output = (*pipeline)->pop();
    EXPECT_TRUE(output && *output && (*output)->number() == i) << "k " << k << ", frame " << i;
    if (!output || !*output) break;
    EXPECT_TRUE((*output)->ok() || !(*output)->error().message().empty());
  }
  return g_until_failure.exchange(-1) < 0;
}

TEST_F(AllocationsTest, TheKthAllocationFailsForEveryKWhereTheFirstErrorStopsAll) {
  t_spared = true;
  const auto run = [](std::int64_t k) {
    return frames_come_out_without_the_kth_allocation(
        k, {.capacity = 8, .on_error = plan::OnError::kStop}, 0);
  };
  EXPECT_GT(refused_one_by_one(run), 10);
}

TEST_F(AllocationsTest, TheKthAllocationFailsForEveryKWhereACallHangs) {
  t_spared = true;
  for (const int left_behind : {0, 2}) {
    SCOPED_TRACE(concat("left behind: ", left_behind));
    const auto run = [&](std::int64_t k) {
      return frames_come_out_without_the_kth_allocation(
          k, {.capacity = 8, .max_run = std::chrono::milliseconds(20)}, left_behind);
    };
    EXPECT_GT(refused_one_by_one(run), 5);
  }
}

TEST_F(AllocationsTest, TheKthAllocationOfTheCallerFailsForEveryK) {
  t_tester = true;
  t_spared = false;
  g_others_spared = true;
  const pipeline::Named inputs{{"in", number(0)}};
  const std::vector<Tensor> values{number(0)};
  const pipeline::Named states{{"last", number(1)}};
  const pipeline::FrameOptions traced{.traceparent = kTraceparent};
  std::int64_t failed = 0;
  for (std::int64_t k = 0; failed == k; ++k) {
    auto network = that_allocates(folder_);
    network.plan.edges[0].policy = plan::FullPolicy::kDropOldest;
    auto pipeline = network.start({.capacity = 2, .max_age = std::chrono::seconds(60)});
    ASSERT_TRUE(pipeline) << pipeline.error().message();
    auto& running = **pipeline;
    std::uint64_t out = 0;
    const auto pop_all = [&] {
      for (; out < running.stats().pushed; ++out) {
        const auto output = running.pop();
        ASSERT_TRUE(output && *output);
        ASSERT_EQ((*output)->number(), out);
      }
    };
    g_until_failure = k;
    const auto given = [&](const auto& result) {
      const std::int64_t left = g_until_failure.exchange(-1);
      EXPECT_TRUE(result || !result.error().message().empty());
      pop_all();
      g_until_failure = left;
    };
    given(running.push(inputs));
    given(running.push(values, pipeline::kForever, traced));
    const auto ran = running.run(values);
    const std::int64_t left = g_until_failure.exchange(-1);
    out = running.stats().pushed;  // It popped what it pushed.
    g_until_failure = left;
    given(ran);
    given(running.save_stream(0));
    given(running.restore_stream(0, states));
    given(running.set_parameters("", inputs));  // There is none of this name.
    given(running.reset_states());
    given(running.push(inputs));
    given(running.drain(std::chrono::nanoseconds(0)));
    const auto unwanted = running.push(values);
    running.cancel(out);
    running.give_up();
    given(unwanted);
    if (g_until_failure.exchange(-1) < 0) ++failed;
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(running.push(values));  // No slot was lost.
    pop_all();
  }
  g_others_spared = false;
  EXPECT_GT(failed, 5);
}

TEST_F(AllocationsTest, NoSeatOfAStreamIsLostForAnyK) {
  t_tester = true;
  t_spared = false;
  g_others_spared = true;
  const std::vector<Tensor> values{number(0)};
  std::int64_t failed = 0;
  for (std::int64_t k = 0; failed == k; ++k) {
    auto network = that_allocates(folder_);
    network.plan.streams = {.most = 2};
    auto pipeline = network.start({.capacity = 4});
    ASSERT_TRUE(pipeline) << pipeline.error().message();
    auto& running = **pipeline;
    g_until_failure = k;
    const auto pushed = running.push(values, pipeline::kForever, {.stream = 7});
    if (g_until_failure.exchange(-1) < 0) ++failed;
    ASSERT_TRUE(pushed || !pushed.error().message().empty());
    const auto again = running.push(values, pipeline::kForever, {.stream = 7});
    ASSERT_TRUE(again) << k << ": " << again.error().message();
  }
  g_others_spared = false;
  EXPECT_GT(failed, 0);
}

/// A plan whose start warns of the CPU. hwloc ends the process where memory is refused to it: it is
/// asked beforehand.
plan::Plan of_another_cpu(FakeNetwork& network) {
  plan::Plan plan = network.with({.capacity = 2});
  plan.origin.cpu = "another";
  EXPECT_TRUE(device::cpu_fingerprint());
  return plan;
}

TEST_F(AllocationsTest, TheKthAllocationOfTheStartFailsForEveryK) {
  int warnings = 0;
  const pipeline::Options options{.warn = [&](const std::string&) { ++warnings; }};
  const auto run = [&](std::int64_t k) {
    auto network = that_allocates(folder_);
    const auto plan = of_another_cpu(network);
    g_until_failure = k;
    auto pipeline = pipeline::Pipeline::start(plan, network.folder, network.registry, options);
    const bool failed = g_until_failure.exchange(-1) < 0;
    EXPECT_TRUE(pipeline || (failed && !pipeline.error().message().empty()));
    EXPECT_TRUE(pipeline || network.backend->alive() == 0);
    return failed;
  };
  EXPECT_GT(refused_one_by_one(run), 100);
  EXPECT_GT(warnings, 0);
}

/// replace() while the k-th allocation finds no memory, that of the thread that ends the old plan
/// too. `swapped`: what it returned. \returns whether there was a k-th one
bool swap_without_the_kth_allocation(std::int64_t k, pipeline::Pipeline& pipeline,
                                     const FakeNetwork& before, FakeNetwork& after,
                                     Status& swapped) {
  const auto plan = of_another_cpu(after);
  g_until_failure = k;
  swapped = pipeline.replace(plan, after.folder, after.registry, {});
  while (swapped && before.backend->alive() > 0) std::this_thread::yield();
  const bool failed = g_until_failure.exchange(-1) < 0;
  EXPECT_TRUE(swapped || (failed && !swapped.error().message().empty()));
  return failed;
}

TEST_F(AllocationsTest, TheKthAllocationOfASwapFailsForEveryK) {
  const auto first = number(0);
  const auto run = [&](std::int64_t k) {
    auto before = that_allocates(folder_), after = that_allocates(folder_);
    auto pipeline = before.start({.capacity = 2});
    EXPECT_TRUE(pipeline) << pipeline.error().message();
    Status swapped;
    const bool failed = swap_without_the_kth_allocation(k, **pipeline, before, after, swapped);
    EXPECT_EQ(swapped ? before.backend->alive() : after.backend->alive(), 0);
    // Whatever plan runs, it takes frames.
    EXPECT_TRUE((*pipeline)->push(std::span(&first, 1)));
    const auto output = (*pipeline)->pop();
    EXPECT_TRUE(output && *output && (*output)->ok());
    return failed;
  };
  EXPECT_GT(refused_one_by_one(run), 100);
}

/// Its engine does not stand beside `other`'s, which ends before a swap for it then: the old plan
/// starts again, from its files, where the new one cannot go on.
void stand_without(FakeNetwork& network, const FakeNetwork& other) {
  std::filesystem::create_directories(network.folder / "stages");
  for (const auto& [name, model] : network.backend->models)
    std::ofstream(network.folder / "stages" / name) << "model";
  network.backend->on_compile = [&other](const backend::CompileRequest&) -> Status {
    if (other.backend->alive() == 0) return {};
    return make_error(Code::kFailedPrecondition, "not beside the other");
  };
}

TEST_F(AllocationsTest, TheKthAllocationOfASwapOfAnEngineThatStandsOnceFailsForEveryK) {
  const auto first = number(0);
  const auto run = [&](std::int64_t k) {
    auto before = that_allocates(folder_), after = that_allocates(folder_);
    stand_without(before, after);
    stand_without(after, before);
    auto pipeline = before.start({.capacity = 2});
    EXPECT_TRUE(pipeline) << pipeline.error().message();
    std::atomic<int> called = 0;
    const auto push = [&] {
      return (*pipeline)->push(std::span(&first, 1), pipeline::kForever,
                               {.done = [&](pipeline::Output) { ++called; }});
    };
    EXPECT_TRUE(push());
    Status swapped;
    const bool failed = swap_without_the_kth_allocation(k, **pipeline, before, after, swapped);
    const bool goes_on = static_cast<bool>(push());
    EXPECT_EQ(goes_on, !(*pipeline)->closed_by());
    EXPECT_TRUE(goes_on || !swapped);
    pipeline->reset();
    EXPECT_EQ(called, goes_on ? 2 : 1);
    EXPECT_EQ(before.backend->alive() + after.backend->alive(), 0);
    return failed;
  };
  EXPECT_GT(refused_one_by_one(run), 100);
}

bool has_engine(const backend::Registry& backends) {
  const auto engine = backends.find("onnxruntime");
  return engine && (*engine)->describe().unavailable.empty();
}

void split_in_two(const std::filesystem::path& folder, const backend::Registry& backends) {
  auto graph = import_model(std::filesystem::path(PENSTOCK_TEST_NETWORKS) / "resnet_tiny.onnx", {},
                            backends);
  ASSERT_TRUE(graph) << graph.error().message();
  partition::SplitOptions split;
  split.by = partition::Cuts{{std::to_string(graph->nodes.size() / 2)}};
  const auto plan = split_model(*graph, split, {}, folder, backends);
  ASSERT_TRUE(plan) << plan.error().message();
}

TEST_F(AllocationsTest, TheKthAllocationOfLoadingAPackageFailsForEveryK) {
  const auto backends = backend::Registry::load();
  if (!has_engine(backends)) GTEST_SKIP() << "ONNX Runtime is not installed";
  const auto folder = folder_ / "model.penstock", zip = folder_ / "model.zip",
             misspelt = folder_ / "modell.penstock", temporary = folder_ / "temporary";
  split_in_two(folder, backends);
  split_in_two(zip, backends);
  std::filesystem::create_directory(temporary);
  setenv("TMPDIR", temporary.c_str(), 1);
  for (const auto& path : {folder, zip, misspelt}) {
    SCOPED_TRACE(path);
    const auto run = [&](std::int64_t k) {
      g_until_failure = k;
      const auto package = plan::load_package(path);
      const bool failed = g_until_failure.exchange(-1) < 0;
      EXPECT_TRUE(package || !package.error().message().empty());
      EXPECT_TRUE(package || failed || path == misspelt) << package.error().message();
      EXPECT_EQ(std::filesystem::is_empty(temporary), !package || path != zip);
      return failed;
    };
    EXPECT_GT(refused_one_by_one(run), path == misspelt ? 5 : 100);
  }
  unsetenv("TMPDIR");
}

TEST_F(AllocationsTest, TheKthAllocationOfReadingAPlanFailsForEveryK) {
  const std::string text = plan::to_json(that_allocates(folder_).plan);
  const auto read = [&]() -> Result<plan::Plan> {
    try {
      return plan::from_json(text);
    } catch (const std::bad_alloc&) {
      return Error{Code::kResourceExhausted, "out of memory"};
    }
  };
  std::int64_t k = 0;
  for (bool failed = true; failed; ++k) {
    g_until_failure = k;
    const auto plan = read();
    failed = g_until_failure.exchange(-1) < 0;
    ASSERT_TRUE(plan || failed) << plan.error().message();
  }
  EXPECT_GT(k, 100);
}

TEST_F(AllocationsTest, TheEngineAllocatesNothingOfATensorsSize) {
  const auto backends = backend::Registry::load();
  if (!has_engine(backends)) GTEST_SKIP() << "ONNX Runtime is not installed";
  const auto folder = folder_ / "model.penstock";
  split_in_two(folder, backends);
  auto opened = open_package(folder, {}, backends);
  ASSERT_TRUE(opened) << opened.error().message();
  std::vector<std::vector<Tensor>> ring;
  for (int i = 0; i < 16; ++i) ring.push_back({Tensor::allocate(DType::kF32, {1, 3, 32, 32})});
  // The network's smallest activation between layers is far larger than this.
  EXPECT_EQ(allocations(*opened->pipeline, ring, 500, 4096), 0U);
  for (const auto& stage : opened->pipeline->stats().stages) {
    EXPECT_EQ(stage.copies, 0U);
    EXPECT_EQ(stage.allocations, 0U);
  }
}

}  // namespace
}  // namespace penstock
