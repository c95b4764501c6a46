// Functions as stages, items, states and calls that hang.
#include <array>
#include <atomic>
#include <numeric>
#include <semaphore>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/pipeline/paused_clock.h"
#include "penstock/pipeline/pipeline.h"
#include "tests/support/fake_backend.h"

namespace penstock::pipeline::functions_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using namespace penstock::testing;  // NOLINT(google-build-using-namespace): test support
using Made = penstock::function::Function;

constexpr std::chrono::nanoseconds kLong = std::chrono::seconds(60);

std::vector<backend::Port> ports(const std::vector<std::string>& names, const Type& type) {
  std::vector<backend::Port> made;
  for (const auto& name : names) made.push_back({name, type});
  return made;
}

Made simple(const std::string& name, std::function<Status(Inputs, Outputs)> call) {
  return function::stateless(name, ports({"x"}, scalar()), ports({"y"}, scalar()), std::move(call));
}

std::unique_ptr<Pipeline> start(FakeNetwork& network, const plan::StreamOptions& stream = {},
                                const Options& options = {}) {
  auto pipeline = network.start(stream, options);
  EXPECT_TRUE(pipeline) << pipeline.error().message();
  return pipeline ? *std::move(pipeline) : nullptr;
}

/// What came out of a frame.
struct Came {
  Outcome outcome;
  std::vector<float> values;
  std::string message;
  std::vector<Where> places;
};

/// Frames 0, 1, 2, ... through the pipeline from one thread.
std::vector<Came> stream(Pipeline& pipeline, int frames) {
  std::vector<Came> results;
  int pushed = 0;
  while (static_cast<int>(results.size()) < frames) {
    while (pushed < frames) {
      const std::vector<Tensor> inputs{number(static_cast<float>(pushed))};
      if (!pipeline.try_push(inputs)) break;
      ++pushed;
    }
    auto popped = pipeline.pop(kLong);
    if (!popped || !*popped) {
      ADD_FAILURE() << (popped ? "ended" : popped.error().message());
      return results;
    }
    const Output& output = **popped;
    EXPECT_EQ(output.number(), results.size());
    Came result{output.outcome(),
                {},
                output.ok() ? "" : output.error().message(),
                output.ok() ? std::vector<Where>() : output.error().places};
    for (std::size_t i = 0; i < output.size(); ++i) {
      const auto values = output[i].as<float>();
      result.values.insert(result.values.end(), values.begin(), values.end());
    }
    results.push_back(std::move(result));
  }
  return results;
}

TEST(FunctionStage, AnswersDropsAndFailuresComeOutInTheirPlaces) {
  FakeNetwork network;
  network.input("in")
      .function("pick",
                simple("pick",
                       [](Inputs in, Outputs out) -> Status {
                         const float x = value_of(*in[0]);
                         if (x == 2) return function::drop("no face");
                         if (x == 3) return invalid_argument("blurred");
                         if (x == 4) throw std::runtime_error("boom");
                         if (x == 5) throw 5;  // NOLINT(*-exception-*): others' code may.
                         out[0]->as<float>()[0] = 10 * x;
                         return {};
                       }),
                {"in"}, {"mid"}, 2)
      .stage("net", {"mid"}, {"out"}, unary([](float x) { return x + 1; }))
      .output("out");
  auto pipeline = start(network);
  const auto results = stream(*pipeline, 8);
  for (const std::size_t i : {0, 1, 6, 7}) {
    EXPECT_EQ(results[i].outcome, Outcome::kOk);
    EXPECT_EQ(results[i].values.at(0), 10 * static_cast<float>(i) + 1);
  }
  EXPECT_EQ(results[2].outcome, Outcome::kDropped);
  EXPECT_EQ(results[2].message, "stage 'pick': frame 2: dropped: no face");
  EXPECT_EQ(results[3].outcome, Outcome::kError);
  EXPECT_EQ(results[3].message, "stage 'pick': frame 3: blurred");
  EXPECT_EQ(results[4].message, "stage 'pick': frame 4: function 'pick': exception: boom");
  EXPECT_EQ(results[5].message,
            "stage 'pick': frame 5: function 'pick': exception of unknown type");
  const auto stats = pipeline->stats();
  EXPECT_EQ(stats.stages[0].backend, "function");
  EXPECT_EQ((std::array{stats.ok, stats.errors, stats.drops, stats.stages[0].frames,
                        stats.stages[0].errors, stats.stages[0].drops}),
            (std::array<std::uint64_t, 6>{4, 3, 1, 4, 3, 1}));
  EXPECT_EQ(stats.stages[0].copies + stats.stages[0].allocations, 0U);
}

TEST(FunctionStage, ADropEndsNoPipelineThatStopsAtErrors) {
  FakeNetwork network;
  network.input("in")
      .function("half",
                simple("half",
                       [](Inputs in, Outputs out) -> Status {
                         const float x = value_of(*in[0]);
                         if (static_cast<int>(x) % 2 == 1) return function::drop("odd");
                         out[0]->as<float>()[0] = x;
                         return {};
                       }),
                {"in"}, {"out"})
      .output("out");
  auto pipeline = start(network, {.on_error = plan::OnError::kStop});
  int dropped = 0;
  for (const auto& result : stream(*pipeline, 20)) dropped += result.outcome == Outcome::kDropped;
  EXPECT_EQ(dropped, 10);
}

// Counts what it sees: not the warm-up, no frame that failed before, all others in order.
TEST(FunctionStage, AStatefulFunctionSeesTheFramesInOrderAndIsMadeOnItsThread) {
  FakeNetwork network;
  std::thread::id made_on;
  Made counter{"counter", ports({"x"}, scalar()), ports({"y"}, scalar()), true, {}};
  counter.create = [&](const function::Settings& settings) -> Result<function::Call> {
    EXPECT_TRUE(settings.empty());
    made_on = std::this_thread::get_id();
    return function::Call([&, seen = 0](Inputs in, Outputs out) mutable -> Status {
      EXPECT_EQ(std::this_thread::get_id(), made_on);
      out[0]->as<float>()[0] = 1000 * static_cast<float>(seen++) + value_of(*in[0]);
      return {};
    });
  };
  network.input("in")
      .stage(
          "fails", {"in"}, {"mid"},
          [](Inputs in, Outputs out) -> Status {
            if (value_of(*in[0]) == 5) return internal_error("five");
            out[0]->as<float>()[0] = value_of(*in[0]);
            return {};
          },
          3)
      .function("counter", counter, {"mid"}, {"out"})
      .output("out");
  auto pipeline = start(network);
  const auto results = stream(*pipeline, 50);
  for (std::size_t i = 0; i < 50; ++i) {
    if (i == 5) continue;
    const auto seen = static_cast<float>(i < 5 ? i : i - 1);
    ASSERT_EQ(results[i].values.at(0), 1000 * seen + static_cast<float>(i));
  }
  EXPECT_EQ(results[5].outcome, Outcome::kError);
}

TEST(FunctionStage, WhatCannotRunIsRefusedBySentence) {
  const auto identity = [](Inputs, Outputs) -> Status { return {}; };
  const auto message = [&](const std::function<void(FakeNetwork&)>& spoil, Options options = {}) {
    FakeNetwork network;
    network.input("in").function("f", simple("f", identity), {"in"}, {"out"}).output("out");
    network.finish();
    spoil(network);
    const auto pipeline = network.start({}, options);
    EXPECT_FALSE(pipeline);
    return pipeline ? "" : pipeline.error().message();
  };
  EXPECT_EQ(message([](auto& n) { n.plan.stages[0].partitions[0].options["function"] = "g"; }),
            "stage 'f': no function 'g'; there are: 'f'; the program that runs the pipeline "
            "registers them");
  EXPECT_THAT(message([](auto& n) { n.plan.stages[0].partitions[0].options.clear(); }),
              HasSubstr("expected its name as the option 'function'"));
  EXPECT_EQ(message([](auto& n) { n.functions[0].inputs[0].type.dtype = DType::kU8; }),
            "stage 'f': tensor 'in': the plan says f32[1], function 'f' says u8[1]; change one of "
            "them");
  EXPECT_EQ(message([](auto& n) { n.functions[0].outputs[0].type.dims[0] = {}; }),
            "stage 'f': function 'f': output 'y': expected a type of known rank with a bound for "
            "every open dimension, found f32[?]");
  const auto replicate = [](auto& n) {
    n.plan.stages[0].devices.push_back(n.plan.stages[0].devices[0]);
  };
  EXPECT_EQ(message([&](auto& n) { replicate(n), n.functions[0].stateful = true; }),
            "stage 'f': function 'f' is stateful and sees the frames in order: expected one "
            "replica, found 2");
  EXPECT_EQ(message([&](auto& n) { replicate(n), n.plan.stages[0].stateful = true; }),
            "plan: stage 'f': is stateful and sees the frames in order: expected one replica, "
            "found 2");
  EXPECT_EQ(
      message([](auto& n) { n.plan.stages[0].partitions[0].model = "functions/libf.so"; },
              {.native_code = false}),
      "stage 'f': function library 'functions/libf.so': native code is not "
      "allowed here; if you trust it, leave out --no-native-code, and for what a server is sent "
      "give --allow-native-code");
  EXPECT_THAT(message([](auto& n) { n.plan.stages[0].partitions[0].model = "functions/libf.so"; }),
              HasSubstr("function library 'libf.so': no such file"));
}

// 0 to 7 items a frame: the frame's number modulo 8, item k being 10 frame + k.
Made scatter(std::int64_t bound) {
  return function::stateless(
      "scatter", ports({"x"}, scalar()),
      {{"items", Type::tensor(DType::kF32,
                              std::vector<Dim>{{Dim::kOpen, "n", bound}, {2, "", Dim::kOpen}})}},
      [bound](Inputs in, Outputs out) -> Status {
        const auto frame = static_cast<std::int64_t>(value_of(*in[0]));
        const std::int64_t count = frame % (bound + 1);
        EXPECT_TRUE(out[0]->set_dims(std::array<std::int64_t, 2>{count, 2}));
        const auto values = out[0]->as<float>();
        for (std::size_t k = 0; k < values.size(); ++k) {
          values[k] = static_cast<float>(10 * frame) + static_cast<float>(k / 2);
        }
        return {};
      });
}

Made gather(std::int64_t bound) {
  const Dim items{Dim::kOpen, "n", bound};
  return function::stateless(
      "gather",
      {{"items", Type::tensor(DType::kF32, std::vector<Dim>{items, {1, "", Dim::kOpen}})}},
      {{"all", Type::tensor(DType::kF32, std::vector<Dim>{items})}},
      [](Inputs in, Outputs out) -> Status {
        EXPECT_TRUE(out[0]->set_dims(std::array{in[0]->dims()[0]}));
        std::ranges::copy(in[0]->as<float>(), out[0]->as<float>().begin());
        return {};
      });
}

// One item: the sum of its two numbers, and a value that is the same for all items of the frame.
Made per_item(const std::function<Status(float)>& check = {}) {
  const Type pair = Type::tensor(DType::kF32, std::vector<Dim>{{2, "", Dim::kOpen}});
  return function::stateless("per_item", {{"item", pair}, {"whole", scalar()}}, {{"sum", scalar()}},
                             [check](Inputs in, Outputs out) -> Status {
                               const auto item = in[0]->as<float>();
                               if (check) PENSTOCK_CHECK_OK(check(item[0]));
                               out[0]->as<float>()[0] = item[0] + item[1] + value_of(*in[1]);
                               return {};
                             });
}

TEST(Items, ThatDoNotBeginAtWholeBytesAreRefused) {
  const auto start_with = [](std::int64_t of_an_item) {
    const Dim count{Dim::kOpen, "n", 4}, size{of_an_item, "", Dim::kOpen};
    FakeNetwork network;
    network.input("items", Type::tensor(DType::kU4, std::vector<Dim>{count, size}))
        .function("each",
                  function::stateless("count",
                                      {{"item", Type::tensor(DType::kU4, std::vector<Dim>{size})}},
                                      {{"y", scalar()}}, [](Inputs, Outputs) { return Status(); }),
                  {"items"}, {"counts"}, 1, {"items"})
        .output("counts");
    return network.start();
  };
  const auto refused = start_with(3);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_THAT(refused.error().message(),
              HasSubstr("tensor 'items': items of u4[3] are not of whole"));
  EXPECT_TRUE(start_with(4));
}

TEST(Items, ZeroToTheBoundOfItemsComeBackInOrderBehindReplicas) {
  for (const std::int64_t bound : {1, 7, 11}) {
    FakeNetwork network;
    network.input("in")
        .function("scatter", scatter(bound), {"in"}, {"items"}, 2)
        .function("each", per_item(), {"items", "in"}, {"sums"}, 3, {"items"})
        .function("gather", gather(bound), {"sums"}, {"all"})
        .output("all");
    auto pipeline = start(network);
    const auto results = stream(*pipeline, 200);
    for (std::size_t frame = 0; frame < 200; ++frame) {
      const auto n = static_cast<float>(frame);
      std::vector<float> expected;
      for (std::size_t k = 0; k < frame % static_cast<std::size_t>(bound + 1); ++k) {
        expected.push_back(2 * (10 * n + static_cast<float>(k)) + n);
      }
      ASSERT_EQ(results[frame].values, expected) << "bound " << bound << ", frame " << frame;
    }
  }
}

TEST(Items, ANetworkOfTwoPartitionsRunsForEachItemToo) {
  FakeNetwork network;
  network.input("in")
      .function("scatter", scatter(7), {"in"}, {"items"})
      .function("each", per_item(), {"items", "in"}, {"sums"}, 2, {"items"});
  // A second partition of a backend reads what the first wrote, item by item.
  network.finish();
  auto& stage = network.plan.stages[1];
  const Type sums = network.plan.find_tensor("sums")->type;
  network.backend->models["twice.onnx"] = {
      {{"sums", scalar()}}, {{"twice", scalar()}}, unary([](float x) { return 2 * x; })};
  stage.partitions.push_back({"fake", "stages/twice.onnx", {"sums"}, {"twice"}, {}});
  stage.outputs.push_back("twice");
  network.plan.outputs = {{"twice", sums}};
  plan::connect(network.plan);
  auto pipeline = start(network);
  const auto results = stream(*pipeline, 50);
  EXPECT_EQ(results[7].values.size(), 7U);
  EXPECT_EQ(results[7].values.at(6), 2 * (2 * 76 + 7));
  EXPECT_TRUE(results[8].values.empty());
}

TEST(Items, AnItemThatFailsIsNamed) {
  FakeNetwork network;
  const auto check = [](float x) { return x == 33 ? Status(internal_error("bad")) : Status(); };
  network.input("in")
      .function("scatter", scatter(7), {"in"}, {"items"})
      .function("each", per_item(check), {"items", "in"}, {"sums"}, 1, {"items"})
      .output("sums");
  // Frame 3 has items 30, 31, 32; frame 11 has 110, 111, 112: only the fourth of frame 3 is bad.
  auto pipeline = start(network);
  auto results = stream(*pipeline, 12);
  for (const auto& result : results) EXPECT_EQ(result.outcome, Outcome::kOk);
  FakeNetwork again;
  const auto third = [](float x) { return x == 32 ? Status(internal_error("bad")) : Status(); };
  again.input("in")
      .function("scatter", scatter(7), {"in"}, {"items"})
      .function("each", per_item(third), {"items", "in"}, {"sums"}, 1, {"items"})
      .output("sums");
  pipeline = start(again);
  results = stream(*pipeline, 12);
  EXPECT_EQ(results[3].message, "stage 'each': frame 3: item 2: bad");
  const std::vector<Where> places{{Where::kStage, "each"}, {Where::kFrame, 3}, {Where::kItem, 2}};
  EXPECT_EQ(results[3].places, places);
  EXPECT_EQ(results[4].outcome, Outcome::kOk);
}

TEST(Items, MoreItemsThanTheBoundAreRefused) {
  FakeNetwork network;
  Made greedy = scatter(3);
  greedy.create = [](const auto&) -> Result<function::Call> {
    return function::Call([](Inputs in, Outputs out) -> Status {
      const auto wanted = static_cast<std::int64_t>(value_of(*in[0]));
      if (!out[0]->set_dims(std::array<std::int64_t, 2>{wanted, 2}))
        *out[0] = Tensor::allocate(DType::kF32, {wanted, 2});
      return {};
    });
  };
  network.input("in").function("scatter", greedy, {"in"}, {"items"}).output("items");
  auto pipeline = start(network);
  const auto results = stream(*pipeline, 5);
  EXPECT_EQ(results[3].outcome, Outcome::kOk);
  EXPECT_EQ(results[4].message,
            "stage 'scatter': frame 4: function 'scatter': output 'items': expected f32[n<=3,2], "
            "found f32[4,2]");
}

// y = x + 0.5 s, s' = y: by one stage, and by two with others before, between and behind.
class StateLoops : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(OneStageOrThree, StateLoops, ::testing::Bool());

FakeNetwork loop(bool one, const std::function<Status(float)>& check = {}) {
  const Function step = [check](Inputs in, Outputs out) -> Status {
    if (check) PENSTOCK_CHECK_OK(check(value_of(*in[0])));
    out[0]->as<float>()[0] = value_of(*in[0]) + 0.5F * value_of(*in[1]);
    return {};
  };
  FakeNetwork network;
  network.input("in").state_input("s").stage("before", {"in"}, {"x"},
                                             unary([](float x) { return x; }), 2);
  if (one) {
    network.stage("step", {"x", "s"}, {"y"}, step);
  } else {
    network.stage("step", {"x", "s"}, {"m"}, step)
        .stage("between", {"m"}, {"n"}, unary([](float x) { return x; }), 2)
        .stage("end", {"n"}, {"y"}, unary([](float x) { return x; }));
  }
  network.stage("behind", {"y"}, {"out"}, unary([](float x) { return 3 * x; }), 2)
      .output("out")
      .state("y", "s");
  return network;
}

TEST_P(StateLoops, AThousandFramesEqualTheReferenceExactly) {
  for (const int capacity : {0, 1, 3}) {
    auto network = loop(GetParam());
    auto pipeline = start(network, {.capacity = capacity});
    const auto results = stream(*pipeline, 1000);
    float state = 0;
    for (std::size_t i = 0; i < 1000; ++i) {
      state = static_cast<float>(i) + 0.5F * state;
      ASSERT_EQ(results[i].values.at(0), 3 * state) << "frame " << i;
    }
  }
}

TEST_P(StateLoops, AFrameThatFailsLeavesTheStateOfTheLastGoodOne) {
  const auto bad = [](std::size_t i) { return i == 0 || (i > 20 && i < 60) || i % 7 == 3; };
  const auto check = [bad](float x) {
    return bad(static_cast<std::size_t>(x)) ? Status(internal_error("bad")) : Status();
  };
  auto network = loop(GetParam(), check);
  auto pipeline = start(network);
  const auto results = stream(*pipeline, 300);
  float state = 0;
  for (std::size_t i = 0; i < 300; ++i) {
    ASSERT_EQ(results[i].outcome, bad(i) ? Outcome::kError : Outcome::kOk);
    if (bad(i)) continue;
    state = static_cast<float>(i) + 0.5F * state;
    ASSERT_EQ(results[i].values.at(0), 3 * state) << "frame " << i;
  }
}

TEST_P(StateLoops, AResetBeginsAnotherSequence) {
  for (const int capacity : {0, 1, 3}) {
    auto network = loop(GetParam());
    auto pipeline = start(network, {.capacity = capacity});
    for (const int frames : {0, 1, 3, 30}) {
      ASSERT_TRUE(pipeline->reset_states());
      float state = 0;
      for (int i = 1; i <= frames; ++i) {
        const auto outputs = pipeline->run(std::array{number(static_cast<float>(i))});
        ASSERT_TRUE(outputs) << outputs.error().message();
        state = static_cast<float>(i) + 0.5F * state;
        ASSERT_EQ(value_of(outputs->front()), 3 * state) << "frame " << i << " of " << frames;
      }
    }
  }
}

// A branch beside the state's writer fails every other frame, always before the writer begins it.
TEST(States, AFrameThatFailsBesideTheWriterAdvancesTheState) {
  static constexpr int kFrames = 20;
  std::atomic<int> begun = kFrames;  // Warming up waits for nothing.
  FakeNetwork network;
  network.input("in")
      .state_input("s")
      .stage("beside", {"in"}, {"b"},
             [&begun](Inputs in, Outputs out) -> Status {
               begun.fetch_add(1);
               out[0]->as<float>()[0] = value_of(*in[0]);
               return static_cast<int>(value_of(*in[0])) % 2 == 1 ? Status(internal_error("odd"))
                                                                  : Status();
             })
      .stage("before", {"in"}, {"x"},
             [&begun](Inputs in, Outputs out) -> Status {
               const float x = out[0]->as<float>()[0] = value_of(*in[0]);
               while (begun < std::min(static_cast<int>(x) + 2, kFrames)) std::this_thread::yield();
               return {};
             })
      .stage("sum", {"x", "s"}, {"y"},
             [](Inputs in, Outputs out) -> Status {
               out[0]->as<float>()[0] = value_of(*in[0]) + value_of(*in[1]);
               return {};
             })
      .stage("join", {"b", "y"}, {"out"},
             [](Inputs in, Outputs out) -> Status {
               out[0]->as<float>()[0] = value_of(*in[1]);
               return {};
             })
      .output("out")
      .state("y", "s");
  auto pipeline = start(network);
  begun = 0;
  const auto results = stream(*pipeline, kFrames);
  float sum = 0;
  for (std::size_t i = 0; i < kFrames; ++i) {
    sum += static_cast<float>(i);
    ASSERT_EQ(results[i].outcome, i % 2 == 1 ? Outcome::kError : Outcome::kOk);
    if (i % 2 == 0) {
      ASSERT_EQ(results[i].values.at(0), sum) << "frame " << i;
    }
  }
}

// Its writer runs for a frame that a branch beside it has dropped, and fails.
TEST(States, AnErrorThatNoFrameTellsStopsNothing) {
  std::atomic<int> begun = 4;  // Warming up waits for nothing.
  FakeNetwork network;
  network.input("in")
      .state_input("s")
      .function("drops",
                simple("drops",
                       [&begun](Inputs in, Outputs out) -> Status {
                         begun.fetch_add(1);
                         out[0]->as<float>()[0] = value_of(*in[0]);
                         return value_of(*in[0]) == 1 ? function::drop("odd") : Status();
                       }),
                {"in"}, {"b"})
      .stage("before", {"in"}, {"x"},
             [&begun](Inputs in, Outputs out) -> Status {
               const float x = out[0]->as<float>()[0] = value_of(*in[0]);
               while (begun < std::min(static_cast<int>(x) + 2, 4)) std::this_thread::yield();
               return {};
             })
      .stage("fails", {"x", "s"}, {"y"},
             [](Inputs in, Outputs out) -> Status {
               out[0]->as<float>()[0] = value_of(*in[0]);
               return value_of(*in[0]) == 1 ? Status(internal_error("one")) : Status();
             })
      .stage("join", {"b", "y"}, {"out"},
             [](Inputs in, Outputs out) -> Status {
               out[0]->as<float>()[0] = value_of(*in[1]);
               return {};
             })
      .output("out")
      .state("y", "s");
  auto pipeline = start(network, {.on_error = plan::OnError::kStop});
  begun = 0;
  const auto results = stream(*pipeline, 4);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(results[i].outcome, i == 1 ? Outcome::kDropped : Outcome::kOk) << "frame " << i;
  }
}

TEST(States, AreResetBetweenFramesOnly) {
  auto network = loop(true);
  auto pipeline = start(network);
  ASSERT_TRUE(pipeline->push(std::array{number(1)}));
  const auto refused = pipeline->reset_states();
  EXPECT_EQ(refused.error().code, Code::kFailedPrecondition);
  EXPECT_EQ(refused.error().message(),
            "reset_states: expected no frames in flight, found 1; pop them first");
  ASSERT_TRUE(pipeline->pop());
  ASSERT_TRUE(pipeline->acquire_input());
  EXPECT_EQ(pipeline->reset_states().error().message(),
            "reset_states: an acquired input is not pushed yet; call push_acquired first");
  ASSERT_TRUE(pipeline->push_acquired());
  ASSERT_TRUE(pipeline->pop());
  EXPECT_TRUE(pipeline->reset_states());
  pipeline->close();
  EXPECT_EQ(pipeline->reset_states().error().code, Code::kCancelled);
}

TEST(States, AStateThatIsNoOutputIsHandedOnWithoutACopy) {
  FakeNetwork network;
  const Function sum = [](Inputs in, Outputs out) -> Status {
    out[0]->as<float>()[0] = out[1]->as<float>()[0] = value_of(*in[0]) + value_of(*in[1]);
    return {};
  };
  network.input("in")
      .state_input("s")
      .stage("sum", {"in", "s"}, {"out", "t"}, sum)
      .output("out")
      .state("t", "s");
  auto pipeline = start(network);
  EXPECT_EQ(stream(*pipeline, 100).back().values.at(0), 99 * 50.0F);
  EXPECT_EQ(pipeline->stats().stages[0].copies, 0U);
}

// A delay: the reader stands behind the writer, or beside it, and loses no frame.
TEST(States, WhatAStageBeforeWroteForTheLastFrameMayBeReadByAnother) {
  FakeNetwork network;
  network.input("in")
      .state_input("last")
      .stage("fast", {"in"}, {"x"}, unary([](float x) { return x; }))
      .stage(
          "slow", {"in", "last"}, {"out"},
          [](Inputs in, Outputs out) -> Status {
            out[0]->as<float>()[0] = value_of(*in[0]) - value_of(*in[1]);
            return {};
          },
          2)
      .output("out")
      .state("x", "last");
  auto pipeline = start(network);
  const auto results = stream(*pipeline, 500);
  for (std::size_t i = 0; i < 500; ++i) ASSERT_EQ(results[i].values.at(0), i == 0 ? 0 : 1);
}

TEST(States, WhatCannotBeAStateIsRefused) {
  const auto message = [](const std::function<void(plan::Plan&)>& spoil) {
    auto network = loop(true);
    network.finish();
    spoil(network.plan);
    return plan::validate(network.plan).error().message();
  };
  const auto tensor = [](plan::Plan& plan, const std::string& name) {
    return std::ranges::find(plan.tensors, name, &plan::TensorInfo::name);
  };
  EXPECT_THAT(
      message([](auto& plan) { plan.stages[1].devices.push_back(plan.stages[1].devices[0]); }),
      HasSubstr("state 'y' -> 's': stage 'step' writes it: expected one replica, found 2"));
  EXPECT_THAT(message([&](auto& plan) { tensor(plan, "s")->type.dtype = DType::kI64; }),
              HasSubstr("state 'y' -> 's': writes f32[1], reads i64[1]"));
  EXPECT_THAT(message([&](auto& plan) { tensor(plan, "s")->type.dims[0] = {}; }),
              HasSubstr("the first frame reads zeros of f32[?]: expected a fixed shape"));
  EXPECT_THAT(message([](auto& plan) { plan.states[0].from = "z"; }),
              HasSubstr("no stage writes 'z'"));
  EXPECT_THAT(message([](auto& plan) { plan.states.clear(); }),
              HasSubstr("stage 'step': reads 's', which no stage and no pipeline input writes"));
}

// The call blocks until the test is over, whatever the pipeline does meanwhile.
struct Stuck {
  std::counting_semaphore<4> entered{0}, open{0};
};

void expect_behind(const Output& output, const char* stage, FrameNumber frame) {
  const std::vector<Where> places{{Where::kFrame, output.number()},
                                  {Where::kText, "behind a call that hangs"},
                                  {Where::kStage, stage},
                                  {Where::kFrame, frame}};
  EXPECT_EQ(output.error().places, places) << output.error().message();
  EXPECT_THAT(output.error().reason, StartsWith("the call hangs: it has run for "));
}

TEST(MaxRun, ACallThatHangsIsNamedAndThoseBehindItFail) {
  static Stuck stuck;  // Outlives the thread that the pipeline leaves behind.
  FakeNetwork network;
  network.input("in")
      .stage("a", {"in"}, {"x"}, unary([](float x) { return x; }))
      .function("hangs",
                simple("hangs",
                       [](Inputs in, Outputs out) -> Status {
                         if (value_of(*in[0]) == 3) {
                           stuck.entered.release();
                           stuck.open.acquire();
                         }
                         out[0]->as<float>()[0] = value_of(*in[0]);
                         return {};
                       }),
                {"x"}, {"y"})
      .stage("b", {"y"}, {"out"}, unary([](float x) { return x + 1; }))
      .output("out");
  network.finish();
  network.plan.stages[1].max_run = std::chrono::seconds(5);
  auto pipeline = start(network, {.capacity = 16});
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(pipeline->push(std::vector{number(static_cast<float>(i))}, kLong));
  }
  stuck.entered.acquire();
  for (std::size_t i = 0; i < 10; ++i) {
    auto popped = pipeline->pop(kLong);
    ASSERT_TRUE(popped && *popped);
    const Output& output = **popped;
    EXPECT_EQ(output.ok(), i < 3) << "frame " << i;
    if (i < 3) continue;
    EXPECT_EQ(output.outcome(), Outcome::kError);
    EXPECT_THAT(output.error().message(), HasSubstr("stage 'hangs': frame 3: the call hangs"));
    EXPECT_EQ(output.error().code, Code::kDeadlineExceeded);
    if (i > 3) expect_behind(output, "hangs", 3);
  }
  EXPECT_FALSE(*pipeline->pop(kLong));
  const auto refused = pipeline->push(std::vector{number(0)}, kLong);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kCancelled);
  EXPECT_THAT(refused.error().message(),
              StartsWith("the pipeline stopped at a call that hangs: stage 'hangs': frame 3: the "
                         "call hangs: it has run for "));
  pipeline.reset();
  EXPECT_GT(network.backend->alive(), 0);
  stuck.open.release();  // The thread comes back to a pipeline that is gone, frees it and ends.
  while (network.backend->alive() > 0) std::this_thread::yield();
}

// Though that call was found hanging later, of a stage whose calls may take longer.
TEST(MaxRun, OfTwoCallsThatHangAFrameTellsOfTheOneBeforeIt) {
  static Stuck stuck;  // Outlives the threads that the pipeline leaves behind.
  const auto hangs_at = [](const char* name, float value) {
    return simple(name, [value](Inputs in, Outputs out) -> Status {
      if (value_of(*in[0]) == value) stuck.open.acquire();
      out[0]->as<float>()[0] = value_of(*in[0]);
      return {};
    });
  };
  FakeNetwork network;
  network.input("in")
      .function("before", hangs_at("before", 6), {"in"}, {"x"})
      .function("behind", hangs_at("behind", 3), {"x"}, {"out"})
      .output("out");
  network.finish();
  network.plan.stages[0].max_run = std::chrono::milliseconds(1500);
  network.plan.stages[1].max_run = std::chrono::milliseconds(4000);
  auto pipeline = start(network, {.capacity = 16});
  for (int i = 0; i < 7; ++i) {
    ASSERT_TRUE(pipeline->push(std::vector{number(static_cast<float>(i))}, kLong));
  }
  for (std::size_t i = 0; i < 7; ++i) {
    auto popped = pipeline->pop(kLong);
    ASSERT_TRUE(popped && *popped);
    EXPECT_EQ((*popped)->ok(), i < 3) << "frame " << i;
    if (i == 4 || i == 5) expect_behind(**popped, "behind", 3);
  }
  pipeline.reset();
  stuck.open.release(2);
}

TEST(MaxRun, TheDestructorWaitsNoLongerThanThat) {
  static Stuck stuck;
  FakeNetwork network;
  network.input("in")
      .stage(
          "hangs", {"in"}, {"out"},
          [](Inputs in, Outputs) -> Status {
            if (value_of(*in[0]) == 0) return {};  // The warm-up.
            stuck.entered.release();
            stuck.open.acquire();
            return {};
          },
          2)
      .output("out");
  auto pipeline = start(network, {.max_run = std::chrono::milliseconds(20)});
  ASSERT_TRUE(pipeline->push(std::vector{number(1)}, kLong));
  ASSERT_TRUE(pipeline->push(std::vector{number(2)}, kLong));
  stuck.entered.acquire();
  pipeline.reset();
  stuck.open.release();
  stuck.open.release();
}

TEST(MaxRun, CallsThatKeepToItAreLeftAlone) {
  FakeNetwork network;
  network.input("in")
      .stage("a", {"in"}, {"out"}, unary([](float x) { return x; }), 2)
      .output("out");
  auto pipeline = start(network, {.max_run = std::chrono::seconds(60)});
  for (const auto& result : stream(*pipeline, 2000)) ASSERT_EQ(result.outcome, Outcome::kOk);
}

/// Waits with its clock paused until it is let go.
function::Function waits_for(const char* name, Stuck& stuck) {
  return simple(name, [&stuck](Inputs in, Outputs out) -> Status {
    const PausedClock paused;
    stuck.entered.release();
    stuck.open.acquire();
    out[0]->as<float>()[0] = value_of(*in[0]);
    return {};
  });
}

/// Never answers by itself.
function::Function hangs_on(const char* name, Stuck& stuck) {
  return simple(name, [&stuck](Inputs, Outputs) -> Status {
    stuck.open.acquire();
    return {};
  });
}

TEST(MaxRun, WhatACallWaitsForWithItsClockPausedIsNotItsOwn) {
  static Stuck innocent, guilty;  // They outlive the thread that the second pipeline leaves behind.
  FakeNetwork waiting, hanging;
  waiting.input("in")
      .function("waits", waits_for("waits", innocent), {"in"}, {"out"})
      .output("out");
  hanging.input("in").function("hangs", hangs_on("hangs", guilty), {"in"}, {"out"}).output("out");
  const plan::StreamOptions options{.max_run = std::chrono::milliseconds(200)};
  auto first = start(waiting, options);
  ASSERT_TRUE(first->push(std::vector{number(3)}, kLong));
  innocent.entered.acquire();
  for (int i = 0; i < 2; ++i) {  // By then it has waited for longer than any call may take.
    auto second = start(hanging, options);
    ASSERT_TRUE(second->push(std::vector{number(1)}, kLong));
    auto popped = second->pop(kLong);
    ASSERT_TRUE(popped && *popped);
    EXPECT_THAT((*popped)->error().message(), HasSubstr("the call hangs"));
  }
  innocent.open.release();
  auto popped = first->pop(kLong);
  ASSERT_TRUE(popped && *popped);
  EXPECT_TRUE((*popped)->ok()) << (*popped)->error().message();
  guilty.open.release(2);
}

TEST(MaxRun, ACallThatWaitsForOneThatHangsIsGivenUpWithIt) {
  static Stuck hangs, waits;  // They outlive the threads that the pipeline leaves behind.
  FakeNetwork network;
  network.input("in")
      .function("hangs", hangs_on("hangs", hangs), {"in"}, {"y"})
      .function("waits", waits_for("waits", waits), {"in"}, {"z"})
      .output("y")
      .output("z");
  auto pipeline = start(network, {.max_run = std::chrono::milliseconds(20)});
  ASSERT_TRUE(pipeline->push(std::vector{number(1)}, kLong));
  auto popped = pipeline->pop(kLong);
  ASSERT_TRUE(popped && *popped);
  EXPECT_THAT((*popped)->error().message(), HasSubstr("the call hangs"));
  popped->reset();
  pipeline.reset();
  hangs.open.release();
  waits.open.release();
}

TEST(Ending, LeavesACallBehindWhoseClockIsPaused) {
  static Stuck stuck;
  FakeNetwork network;
  network.input("in").function("waits", waits_for("waits", stuck), {"in"}, {"out"}).output("out");
  auto pipeline = start(network);
  ASSERT_TRUE(pipeline->push(std::vector{number(1)}, kLong));
  stuck.entered.acquire();
  EXPECT_FALSE(pipeline->end(std::chrono::milliseconds(1)));
  EXPECT_THAT(pipeline->leave_behind().calls, ElementsAre(HasSubstr("stage 'waits': frame 0")));
  pipeline.reset();
  stuck.open.release();
}

TEST(Ending, LeavesACallThatHangsBehind) {
  static Stuck stuck;  // Outlives the thread that the pipeline leaves behind.
  FakeNetwork network;
  network.input("in")
      .function("hangs",
                simple("hangs",
                       [](Inputs, Outputs) -> Status {
                         stuck.entered.release();
                         stuck.open.acquire();
                         return {};
                       }),
                {"in"}, {"y"})
      .stage("b", {"y"}, {"out"}, unary([](float x) { return x + 1; }))
      .output("out");
  network.finish();
  auto pipeline = start(network, {.capacity = 16});
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(pipeline->push(std::vector{number(static_cast<float>(i))}, kLong));
  }
  stuck.entered.acquire();
  EXPECT_FALSE(pipeline->end(kNoWait));
  EXPECT_THAT(pipeline->leave_behind().calls,
              ElementsAre(HasSubstr("stage 'hangs': frame 0: the call has run for")));
  EXPECT_TRUE(pipeline->end(kForever));
  EXPECT_THAT(pipeline->leave_behind().calls, IsEmpty());
  for (int i = 0; i < 3; ++i) {
    auto popped = pipeline->pop(kLong);
    ASSERT_TRUE(popped && *popped);
    EXPECT_EQ((*popped)->outcome(), Outcome::kCancelled) << "frame " << i;
  }
  EXPECT_FALSE(*pipeline->pop(kLong));
  pipeline.reset();
  stuck.open.release();  // The thread comes back to a pipeline that is gone, and ends.
}

TEST(Ending, LeavesNothingBehindWhereNoCallIsInProgress) {
  FakeNetwork network;
  network.input("in").stage("a", {"in"}, {"out"}, unary([](float x) { return x; })).output("out");
  auto pipeline = start(network);
  ASSERT_TRUE(pipeline->push(std::vector{number(1)}, kLong));
  ASSERT_TRUE(pipeline->drain());
  EXPECT_TRUE(pipeline->end(kForever));
  EXPECT_THAT(pipeline->leave_behind().calls, IsEmpty());
}

TEST(Ending, FramesThatAreGivenUpAreNotComputedAndThoseBehindAre) {
  static Stuck stuck;
  std::atomic<int> behind = 0;
  FakeNetwork network;
  network.input("in")
      .function("first",
                simple("first",
                       [](Inputs in, Outputs out) -> Status {
                         stuck.entered.release();
                         stuck.open.acquire();
                         out[0]->as<float>()[0] = value_of(*in[0]);
                         return {};
                       }),
                {"in"}, {"y"})
      .function("second",
                simple("second",
                       [&](Inputs in, Outputs out) -> Status {
                         ++behind;
                         out[0]->as<float>()[0] = value_of(*in[0]);
                         return {};
                       }),
                {"y"}, {"out"})
      .output("out");
  network.finish();
  auto pipeline = start(network, {.capacity = 16});
  for (int i = 0; i < 6; ++i) {
    if (i == 5) pipeline->give_up();
    ASSERT_TRUE(pipeline->push(std::vector{number(static_cast<float>(i))}, kLong));
    if (i == 0) stuck.entered.acquire();
  }
  stuck.open.release(2);  // Frame 0, which is in work, and frame 5.
  for (int i = 0; i < 6; ++i) {
    auto popped = pipeline->pop(kLong);
    ASSERT_TRUE(popped && *popped);
    EXPECT_EQ((*popped)->outcome(), i < 5 ? Outcome::kCancelled : Outcome::kOk) << "frame " << i;
  }
  EXPECT_EQ(behind, 1);
}

}  // namespace
}  // namespace penstock::pipeline::functions_test
