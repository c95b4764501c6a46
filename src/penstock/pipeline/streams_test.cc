// Streams: many sequences through one pipeline, each with states of its own.
#include "penstock/pipeline/streams.h"

#include <array>
#include <atomic>
#include <map>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include "penstock/pipeline/pipeline.h"
#include "penstock/pipeline/record.h"
#include "tests/support/fake_backend.h"
#include "tests/support/watched.h"

namespace penstock::pipeline::streams_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace penstock::testing;  // NOLINT(google-build-using-namespace): test support

constexpr std::chrono::nanoseconds kAWhile = std::chrono::seconds(60);

/// Where the writer of the state stands, seen from its reader.
enum class Writes : std::uint8_t { kItself, kBehind, kBefore };

// out = x + 0.5 s; s' = out where the reader writes it or a stage behind it does, else s' = x.
// A frame whose x is negative fails in the writer.
FakeNetwork sequence(Writes where, int most, bool evict = false) {
  const Function step = [](Inputs in, Outputs out) -> Status {
    out[0]->as<float>()[0] = value_of(*in[0]) + 0.5F * value_of(*in[1]);
    return {};
  };
  const Function keep = [](Inputs in, Outputs out) -> Status {
    if (value_of(*in[0]) < 0) return internal_error("negative");
    out[0]->as<float>()[0] = value_of(*in[0]);
    return {};
  };
  FakeNetwork network;
  network.input("in").state_input("s");
  if (where == Writes::kBefore) {
    network.stage("keep", {"in"}, {"x"}, keep).stage("step", {"x", "s"}, {"y"}, step, 2);
    network.state("x", "s");
  } else if (where == Writes::kBehind) {
    network.stage("step", {"in", "s"}, {"x"}, step, 2).stage("keep", {"x"}, {"y"}, keep);
    network.state("y", "s");
  } else {
    network.stage("step", {"in", "s"}, {"y"}, [=](Inputs in, Outputs out) -> Status {
      PENSTOCK_CHECK_OK(keep(in, out));
      return step(in, out);
    });
    network.state("y", "s");
  }
  network.output("y");
  network.plan.streams = {most, evict};
  return network;
}

/// What a stream's frames bring out, one after the other.
class Reference {
 public:
  explicit Reference(Writes where) : where_(where) {}
  std::optional<float> next(float x) {
    const float out = x + 0.5F * state_;
    if ((where_ == Writes::kBehind ? out : x) < 0) return std::nullopt;
    state_ = where_ == Writes::kBefore ? x : out;
    return out;
  }

 private:
  Writes where_;
  float state_ = 0;
};

std::unique_ptr<Pipeline> started(FakeNetwork& network, const plan::StreamOptions& stream = {},
                                  const Options& options = {}) {
  auto pipeline = network.start(stream, options);
  EXPECT_TRUE(pipeline) << pipeline.error().message();
  return pipeline ? *std::move(pipeline) : nullptr;
}

/// One frame of a stream through the pipeline.
Result<float> one(Pipeline& pipeline, std::uint64_t stream, float x) {
  PENSTOCK_TRY(const auto outputs, pipeline.run(std::array{number(x)}, {.stream = stream}));
  return value_of(outputs.front());
}

Status put(Pipeline& pipeline, std::uint64_t stream, float x,
           std::chrono::nanoseconds timeout = kAWhile) {
  const auto pushed = pipeline.push(std::array{number(x)}, timeout, {.stream = stream});
  return pushed ? Status() : Status(pushed.error());
}

class ManyStreams : public ::testing::TestWithParam<Writes> {};
void PrintTo(Writes writes, std::ostream* out) {
  constexpr std::array<const char*, 3> kNames{"ItsReader", "Behind", "Before"};
  *out << kNames[static_cast<std::size_t>(writes)];
}
INSTANTIATE_TEST_SUITE_P(By, ManyStreams,
                         ::testing::Values(Writes::kItself, Writes::kBehind, Writes::kBefore),
                         ::testing::PrintToStringParamName());

// Frames in an order that looks at random, some of which fail; every stream is as if alone.
TEST_P(ManyStreams, EachIsAsIfItWereAlone) {
  constexpr std::array<std::uint64_t, 5> kIds{0, 7, 1'000'000'007, UINT64_MAX, 3};
  for (const int capacity : {0, 1, 3}) {
    auto network = sequence(GetParam(), 5);
    auto pipeline = started(network, {.capacity = capacity});
    std::map<std::uint64_t, Reference> alone;
    std::vector<std::uint64_t> ids;
    std::vector<std::optional<float>> expected;
    std::uint32_t random = 1;
    const auto pop = [&](std::size_t frame) {
      auto popped = pipeline->pop(kAWhile);
      ASSERT_TRUE(popped && *popped);
      const Output& output = **popped;
      ASSERT_EQ(output.number(), frame);
      ASSERT_EQ(output.stream(), ids[frame]);
      ASSERT_EQ(output.ok(), expected[frame].has_value()) << "frame " << frame;
      if (output.ok()) {
        ASSERT_EQ(value_of(output[0]), *expected[frame]) << "frame " << frame;
      }
    };
    std::size_t popped = 0;
    for (int i = 0; i < 1000; ++i) {
      random = random * 1664525 + 1013904223;
      const auto id = kIds[(random >> 24U) % kIds.size()];
      const bool fails = (random >> 16U) % 5 == 0;
      const float x = fails ? -1e6F : static_cast<float>((random >> 8U) % 64);
      ids.push_back(id);
      expected.push_back(alone.try_emplace(id, GetParam()).first->second.next(x));
      while (!put(*pipeline, id, x, kNoWait)) {
        pop(popped++);
        if (HasFatalFailure()) return;
      }
    }
    while (popped < expected.size()) {
      pop(popped++);
      if (HasFatalFailure()) return;
    }
    EXPECT_EQ(pipeline->stats().streams, 5U);
  }
}

// Threads that know nothing of each other, one for each stream.
TEST_P(ManyStreams, ComeFromThreadsOfTheirOwn) {
  static constexpr int kFrames = 200;
  auto network = sequence(GetParam(), 5);
  auto pipeline = started(network);
  const auto input = [](std::uint64_t id, int i) {
    return static_cast<float>(i % 7 == 3 ? -1'000'000 : i % 11 + static_cast<int>(id));
  };
  std::vector<std::thread> threads;
  for (std::uint64_t id = 0; id < 5; ++id) {
    threads.emplace_back([&, id] {
      for (int i = 0; i < kFrames; ++i) EXPECT_TRUE(put(*pipeline, id, input(id, i)));
    });
  }
  std::vector<Reference> alone(5, Reference(GetParam()));
  std::array<int, 5> seen{};
  for (int i = 0; i < 5 * kFrames; ++i) {
    auto popped = pipeline->pop(kAWhile);
    if (!popped || !*popped) {
      ADD_FAILURE() << "frame " << i << " did not come";
      pipeline->cancel();
      break;
    }
    const Output& output = **popped;
    const auto id = output.stream();
    const auto expected = alone[id].next(input(id, seen[id]++));
    EXPECT_EQ(output.ok(), expected.has_value());
    if (output.ok() && expected) {
      EXPECT_EQ(value_of(output[0]), *expected) << "frame " << i;
    }
  }
  for (auto& thread : threads) thread.join();
}

TEST(Streams, TheStatesOfSeveralLieSideBySideAndAreHandedOnWithoutACopy) {
  std::map<float, const void*> reads, writes;  // By input, which tells the stream.
  FakeNetwork network;
  network.input("in").state_input("s").stage(
      "sum", {"in", "s"}, {"out", "t"}, [&](Inputs in, Outputs out) -> Status {
        reads[value_of(*in[0])] = in[1]->data();
        writes[value_of(*in[0])] = out[1]->data();
        out[0]->as<float>()[0] = out[1]->as<float>()[0] = value_of(*in[0]) + value_of(*in[1]);
        return {};
      });
  network.output("out").state("t", "s");
  network.plan.streams.most = 4;
  auto pipeline = started(network);
  for (int round = 1; round < 10; ++round) {
    for (std::uint64_t id = 0; id < 4; ++id) {
      const auto x = static_cast<float>(id + 1);
      EXPECT_EQ(*one(*pipeline, id, x), x * static_cast<float>(round));
    }
    for (auto* addresses : {&reads, &writes}) {
      const auto* first = static_cast<const float*>((*addresses)[1]);
      for (int i = 1; i < 4; ++i) EXPECT_EQ((*addresses)[static_cast<float>(i + 1)], first + i);
    }
  }
  EXPECT_EQ(pipeline->stats().stages[0].copies, 0U);
}

// The writer of frame 0 is held up: a frame of another stream is through the reader all the same.
TEST(Streams, AStreamDoesNotWaitForTheStateOfAnother) {
  std::atomic<bool> open{true};
  std::atomic<int> read{0};
  FakeNetwork network;
  network.input("in")
      .state_input("s")
      .stage("read", {"in", "s"}, {"x"},
             [&](Inputs in, Outputs out) -> Status {
               out[0]->as<float>()[0] = value_of(*in[0]);
               read.fetch_add(1);
               return {};
             })
      .stage("write", {"x"}, {"y"},
             [&](Inputs in, Outputs out) -> Status {
               while (!open) std::this_thread::yield();
               out[0]->as<float>()[0] = value_of(*in[0]);
               return {};
             })
      .output("y")
      .state("y", "s");
  network.plan.streams.most = 2;
  auto pipeline = started(network);
  open = false;
  read = 0;
  ASSERT_TRUE(put(*pipeline, 0, 1));
  ASSERT_TRUE(put(*pipeline, 1, 2));
  while (read < 2) std::this_thread::yield();
  open = true;
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(pipeline->pop(kAWhile));
}

// The reader is held up with frame 0 while the writer passes on what failed before it.
TEST(Streams, AReaderMayBeBehindTheWriterByManyFramesThatFailed) {
  constexpr int kFails = 100;
  std::atomic<int> failed{kFails};
  FakeNetwork network;
  network.input("in")
      .state_input("s")
      .stage("check", {"in"}, {"good"},
             [&](Inputs in, Outputs out) -> Status {
               out[0]->as<float>()[0] = value_of(*in[0]);
               if (value_of(*in[0]) >= 0) return {};
               failed.fetch_add(1);
               return internal_error("negative");
             })
      .stage("write", {"good"}, {"x"}, unary([](float x) { return x; }))
      .stage("read", {"x", "s"}, {"y"},
             [&](Inputs in, Outputs out) -> Status {
               while (failed < kFails) std::this_thread::yield();
               out[0]->as<float>()[0] = value_of(*in[1]);
               return {};
             })
      .output("y")
      .state("x", "s");
  auto pipeline = started(network);
  failed = 0;
  for (const float x : {7.F, 8.F}) EXPECT_TRUE(put(*pipeline, 0, x));
  for (int i = 0; i < kFails; ++i) EXPECT_TRUE(put(*pipeline, 0, -1));
  EXPECT_TRUE(put(*pipeline, 0, 9));
  std::vector<float> read;
  for (int i = 0; i < kFails + 3; ++i) {
    auto popped = pipeline->pop(kAWhile);
    ASSERT_TRUE(popped && *popped);
    if ((*popped)->ok()) read.push_back(value_of((**popped)[0]));
  }
  EXPECT_THAT(read, ElementsAre(0, 7, 8));
}

TEST(Streams, OneMoreThanThePlanAllowsIsRefused) {
  auto network = sequence(Writes::kItself, 3);
  auto pipeline = started(network);
  for (const std::uint64_t id : {5, 6}) EXPECT_EQ(*one(*pipeline, id, 4), 4);
  const auto refused = one(*pipeline, 7, 4);
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_EQ(refused.error().message(),
            "push: stream 7: it is not known, and the plan allows 3 streams, which are all in use; "
            "end one (end_stream), or allow more, or that one is evicted, in the plan (streams: "
            "most, evict)");
  ASSERT_TRUE(pipeline->acquire_input());
  EXPECT_EQ(pipeline->push_acquired({.stream = 7}).error().code, Code::kResourceExhausted);
  EXPECT_EQ(pipeline->stats().pushed, 2U);
  EXPECT_EQ(*one(*pipeline, 0, 4), 4);
  EXPECT_EQ(*one(*pipeline, 5, 4), 6);
  ASSERT_TRUE(pipeline->end_stream(5));
  EXPECT_EQ(*one(*pipeline, 7, 4), 4);  // In the seat of 5, and without its state.
  EXPECT_EQ(one(*pipeline, 5, 4).error().code, Code::kResourceExhausted);
  EXPECT_EQ(pipeline->stats().streams, 3U);
  EXPECT_EQ(pipeline->stats().streams_evicted, 0U);
}

TEST(Streams, APlanOfOneKnowsStreamZeroAlone) {
  auto network = sequence(Writes::kItself, 1);
  auto pipeline = started(network);
  EXPECT_THAT(one(*pipeline, 1, 4).error().message(),
              HasSubstr("the plan allows 1 stream, which is stream 0; allow more in the plan"));
  EXPECT_EQ(*one(*pipeline, 0, 4), 4);
  EXPECT_EQ(value_of(pipeline->save_stream(0)->at(0).second), 4);
  ASSERT_TRUE(pipeline->restore_stream(0, {{"s", number(10)}}));
  EXPECT_EQ(*one(*pipeline, 0, 4), 9);
  ASSERT_TRUE(pipeline->reset_stream(0));
  EXPECT_EQ(*one(*pipeline, 0, 4), 4);
  ASSERT_TRUE(pipeline->end_stream(0));
  EXPECT_EQ(*one(*pipeline, 0, 4), 4);
  ASSERT_TRUE(put(*pipeline, 0, 4));
  EXPECT_EQ(pipeline->reset_stream(0).error().message(),
            "reset_stream: stream 0: expected no frames in flight, found 1; pop them first");
}

TEST(Streams, TheOneUsedLastLongestAgoGivesItsPlace) {
  auto network = sequence(Writes::kItself, 3, true);
  auto pipeline = started(network);
  EXPECT_EQ(*one(*pipeline, 5, 4), 4);
  EXPECT_EQ(*one(*pipeline, 6, 4), 4);
  EXPECT_EQ(*one(*pipeline, 5, 4), 6);
  EXPECT_EQ(*one(*pipeline, 7, 2), 2);  // In the place of 6; stream 0 keeps its own.
  EXPECT_EQ(*one(*pipeline, 5, 4), 7);
  EXPECT_EQ(*one(*pipeline, 6, 4), 4);  // In the place of 7, as if it were new.
  EXPECT_EQ(pipeline->stats().streams, 3U);
  EXPECT_EQ(pipeline->stats().streams_evicted, 2U);
  EXPECT_EQ(
      pipeline->save_stream(7).error().message(),
      "save_stream: stream 7: it is not known: it had no frame yet, has ended or was evicted");
}

TEST(Streams, OneThatWasRestoredWasUsedLast) {
  auto network = sequence(Writes::kItself, 3, true);
  auto pipeline = started(network);
  EXPECT_EQ(*one(*pipeline, 5, 4), 4);
  ASSERT_TRUE(pipeline->restore_stream(6, {{"s", number(10)}}));
  EXPECT_EQ(*one(*pipeline, 7, 4), 4);  // In the place of 5.
  ASSERT_TRUE(pipeline->restore_stream(6, {{"s", number(10)}}));
  EXPECT_EQ(*one(*pipeline, 8, 4), 4);  // In the place of 7.
  EXPECT_EQ(*one(*pipeline, 6, 4), 9);
  EXPECT_EQ(pipeline->stats().streams_evicted, 2U);
}

TEST(Streams, OnlyAnIdleOneGivesItsPlace) {
  auto network = sequence(Writes::kItself, 3, true);
  auto pipeline = started(network);
  ASSERT_TRUE(put(*pipeline, 5, 4));
  ASSERT_TRUE(put(*pipeline, 6, 4));
  const auto refused = put(*pipeline, 7, 4, std::chrono::milliseconds(1));
  EXPECT_EQ(refused.error().code, Code::kDeadlineExceeded);
  EXPECT_EQ(refused.error().message(),
            "push: no room within 1 ms: stream 7: all 3 streams are in use, and those that may be "
            "evicted have frames in flight; pop them");
  // It waits until a frame comes out.
  std::thread pusher([&] { EXPECT_TRUE(put(*pipeline, 7, 2)); });
  std::vector<std::uint64_t> came;
  for (int i = 0; i < 3; ++i) {
    auto popped = pipeline->pop(kAWhile);
    ASSERT_TRUE(popped && *popped);
    came.push_back((*popped)->stream());
    EXPECT_EQ(value_of((**popped)[0]), i == 2 ? 2 : 4);
  }
  EXPECT_THAT(came, ElementsAre(5, 6, 7));
  pusher.join();
}

TEST(Streams, WhoWaitsForAPlaceIsWokenByTheEnd) {
  auto network = sequence(Writes::kItself, 2, true);
  auto pipeline = started(network);
  ASSERT_TRUE(put(*pipeline, 5, 4));
  Watched pusher([&] { EXPECT_EQ(put(*pipeline, 6, 2, kForever).error().code, Code::kCancelled); });
  pusher.wait_until_asleep();
  pipeline->cancel();
  pusher.thread.join();
}

TEST(Streams, OthersGoOnWhileOneWaitsForAPlace) {
  auto network = sequence(Writes::kItself, 3, true);
  auto pipeline = started(network);
  ASSERT_TRUE(put(*pipeline, 5, 4));
  ASSERT_TRUE(put(*pipeline, 6, 4));
  std::atomic<int> asked{0};
  std::thread pusher([&] {
    FrameOptions options{.stream = 7, .still_wanted = [&] { return ++asked > 0; }};
    EXPECT_TRUE(pipeline->push({{number(2)}}, kForever, options));
  });
  while (asked < 2) std::this_thread::yield();  // It waits in line.
  EXPECT_TRUE(put(*pipeline, 0, 4, kNoWait));
  EXPECT_TRUE(put(*pipeline, 6, 4, kNoWait));  // Of these, 5 was used last longest ago.
  EXPECT_EQ(put(*pipeline, 5, 4, kNoWait).error().code, Code::kDeadlineExceeded);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(pipeline->pop(kAWhile));
  pusher.join();
}

TEST(Streams, NoneStarvesWhereMoreWaitThanHavePlaces) {
  constexpr int kStreams = 5, kFrames = 40;
  auto network = sequence(Writes::kItself, 3, true);
  auto pipeline = started(network);
  std::vector<std::thread> pushers;
  std::atomic<int> left{kStreams};
  for (std::uint64_t stream = 1; stream <= kStreams; ++stream) {
    pushers.emplace_back([&, stream] {
      // The last one ends the others: until then all go on.
      for (int i = 0; i < kFrames || left > 0; ++i) {
        ASSERT_TRUE(put(*pipeline, stream, 4, kAWhile));
        if (i + 1 == kFrames) --left;
      }
    });
  }
  std::thread popper([&] {
    for (auto popped = pipeline->pop(kForever); popped && *popped; popped = pipeline->pop(kForever))
      EXPECT_TRUE((*popped)->ok());
  });
  for (auto& pusher : pushers) pusher.join();
  pipeline->close();
  popper.join();
}

TEST(Streams, WhoGivesUpLeavesTheLineToOthers) {
  auto network = sequence(Writes::kItself, 2, true);
  auto pipeline = started(network);
  ASSERT_TRUE(put(*pipeline, 5, 4));
  int asked = 0;
  const FrameOptions options{.stream = 6, .still_wanted = [&] { return ++asked < 3; }};
  const auto given_up = pipeline->push({{number(2)}}, kForever, options);
  EXPECT_EQ(given_up.error().code, Code::kCancelled);
  EXPECT_EQ(given_up.error().message(), "push: its caller has given it up");
  EXPECT_EQ(asked, 3);
  EXPECT_TRUE(put(*pipeline, 5, 4, kNoWait));
}

// Two known streams in line are promised each other's seats: one keeps its own, and so does the
// other.
TEST(Streams, WhoIsPromisedTheSeatOfOneInLineGetsAnotherWhereThatOneKeepsIts) {
  const auto streams = std::make_shared<pipeline::Streams>(plan::Streams{3, true});
  const auto begin = [](pipeline::Streams::Seat, FrameNumber) -> Status { return {}; };
  std::array<Record, 2> records;
  for (const std::uint64_t stream : {1, 2}) {
    const auto seat = streams->admit(stream, begin);
    ASSERT_TRUE(seat) << seat.error().message();
    records[stream - 1].seat = *seat;
    streams->push(stream, records[stream - 1]);
  }
  std::optional<pipeline::Streams::Queued> third(std::in_place, streams, 3);
  std::optional<pipeline::Streams::Queued> fourth(std::in_place, streams, 4);
  pipeline::Streams::Queued first(streams, 1), second(streams, 2);
  third.reset();  // Both give up: those in line get what they were promised.
  fourth.reset();
  for (const auto& record : records) streams->pop(record);
  for (const std::uint64_t stream : {1, 2}) {
    const auto seat = streams->admit(stream, begin);
    ASSERT_TRUE(seat) << "stream " << stream << ": " << seat.error().message();
    EXPECT_EQ(*seat, records[stream - 1].seat);
  }
  EXPECT_EQ(streams->evicted(), 0);
}

// Many threads that push frames of more streams than there are, whoever waits for whom.
TEST(Streams, ThreadsThatShareStreamsGoOnWhereMoreAreUsedThanThereAre) {
  auto network = sequence(Writes::kItself, 4, true);
  auto pipeline = started(network);
  constexpr int kThreads = 8, kFrames = 60;
  std::vector<std::thread> pushers;
  for (std::uint64_t thread = 0; thread < kThreads; ++thread) {
    pushers.emplace_back([&, thread] {
      for (std::uint64_t i = 0; i < kFrames; ++i) {
        const std::uint64_t stream = (thread * 31 + i * 7) % 9;
        const auto pushed = put(*pipeline, stream, 4, kAWhile);
        EXPECT_TRUE(pushed) << pushed.error().message();
      }
    });
  }
  for (int i = 0; i < kThreads * kFrames; ++i) {
    const auto popped = pipeline->pop(kAWhile);
    if (!popped) ADD_FAILURE() << popped.error().message();
    if (!popped) break;
  }
  for (auto& pusher : pushers) pusher.join();
}

TEST(Streams, OneIsResetSavedRestoredAndEndedBesideOthersInFlight) {
  auto network = sequence(Writes::kItself, 3);
  auto pipeline = started(network);
  EXPECT_EQ(*one(*pipeline, 1, 4), 4);
  EXPECT_EQ(*one(*pipeline, 2, 8), 8);
  ASSERT_TRUE(put(*pipeline, 2, 8));
  EXPECT_EQ(pipeline->reset_stream(2).error().message(),
            "reset_stream: stream 2: expected no frames in flight, found 1; pop them first");
  EXPECT_EQ(pipeline->end_stream(2).error().code, Code::kFailedPrecondition);
  EXPECT_EQ(pipeline->save_stream(2).error().code, Code::kFailedPrecondition);
  EXPECT_EQ(pipeline->restore_stream(2, {{"s", number(1)}}).error().code,
            Code::kFailedPrecondition);

  const auto saved = pipeline->save_stream(1);
  ASSERT_TRUE(saved) << saved.error().message();
  ASSERT_EQ(saved->size(), 1U);
  EXPECT_EQ(saved->front().first, "s");
  ASSERT_TRUE(pipeline->reset_stream(1));
  ASSERT_TRUE(pipeline->end_stream(9));  // Unknown: there is nothing to do.
  ASSERT_TRUE(pipeline->reset_stream(9));
  ASSERT_TRUE(pipeline->pop(kAWhile));
  EXPECT_EQ(*one(*pipeline, 1, 4), 4);
  EXPECT_EQ(value_of(saved->front().second), 4);  // A copy.
  ASSERT_TRUE(pipeline->restore_stream(1, *saved));
  EXPECT_EQ(*one(*pipeline, 1, 4), 6);
  ASSERT_TRUE(pipeline->end_stream(1));
  ASSERT_TRUE(pipeline->restore_stream(4, *saved));  // It need not be known.
  EXPECT_EQ(*one(*pipeline, 4, 4), 6);
  EXPECT_EQ(pipeline->restore_stream(1, *saved).error().code, Code::kResourceExhausted);
  EXPECT_EQ(*one(*pipeline, 2, 8), 14);  // 8 + (8 + 8 / 2) / 2
  EXPECT_EQ(*one(*pipeline, 0, 4), 4);
  ASSERT_TRUE(pipeline->reset_states());
  for (const std::uint64_t id : {0, 2, 4}) EXPECT_EQ(*one(*pipeline, id, 4), 4);

  ASSERT_TRUE(pipeline->acquire_input());
  EXPECT_EQ(pipeline->save_stream(4).error().message(),
            "save_stream: an acquired input is not pushed yet; call push_acquired first");
}

TEST(Streams, OneIsResetSavedRestoredAndEndedWhileAnotherIsPushed) {
  auto network = sequence(Writes::kItself, 3);
  auto pipeline = started(network);
  EXPECT_EQ(*one(*pipeline, 1, 4), 4);
  while (put(*pipeline, 2, 8, kNoWait)) {  // Until it is full.
  }
  std::thread pusher([&] { EXPECT_TRUE(put(*pipeline, 2, 8, kForever)); });
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // The pusher has the turn by then.
    const auto saved = pipeline->save_stream(1);
    ASSERT_TRUE(saved) << saved.error().message();
    ASSERT_TRUE(pipeline->reset_stream(1));
    ASSERT_TRUE(pipeline->restore_stream(1, *saved));
    ASSERT_TRUE(pipeline->end_stream(3));
  }
  ASSERT_TRUE(pipeline->pop(kAWhile));
  pusher.join();
}

TEST(Streams, WhatIsNoStateIsRefusedAndChangesNothing) {
  auto network = sequence(Writes::kItself, 3);
  auto pipeline = started(network);
  EXPECT_EQ(*one(*pipeline, 1, 4), 4);
  const auto message = [&](const Named& states) {
    return pipeline->restore_stream(1, states).error().message();
  };
  EXPECT_EQ(message({{"t", number(1)}}),
            "restore_stream: stream 1: no state 't'; the states are 's'");
  EXPECT_EQ(message({}), "restore_stream: stream 1: state 's' is missing; the states are 's'");
  EXPECT_EQ(message({{"s", number(1)}, {"s", number(1)}}),
            "restore_stream: stream 1: state 's' is given twice");
  EXPECT_THAT(message({{"s", Tensor::allocate(DType::kF32, {2})}}),
              HasSubstr("restore_stream: stream 1: state 's': expected f32[1], found f32[2]"));
  EXPECT_EQ(*one(*pipeline, 1, 4), 6);
}

TEST(Streams, ErrorsOfTheirFramesNameThem) {
  auto network = sequence(Writes::kItself, 2);
  const std::vector<Where> in_stage{{Where::kStage, "step"}, {Where::kFrame, 1}},
      named{{Where::kStream, 7}, {Where::kStage, "step"}, {Where::kFrame, 1}};
  for (const auto stream : {std::uint64_t{0}, std::uint64_t{7}}) {
    auto pipeline = started(network);
    ASSERT_TRUE(put(*pipeline, 7, 1));
    ASSERT_TRUE(put(*pipeline, stream, -1));  // Fails in its stage.
    FrameOptions late{.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1),
                      .stream = stream};
    ASSERT_TRUE(pipeline->push(std::array{number(1)}, kAWhile, late));
    EXPECT_TRUE((*pipeline->pop(kAWhile))->ok());
    const auto failed = pipeline->pop(kAWhile);
    EXPECT_EQ((*failed)->error().places, stream == 0 ? in_stage : named);
    const auto expired = pipeline->pop(kAWhile);
    EXPECT_EQ((*expired)->error().find(Where::kStream) != nullptr, stream == 7);
  }
  auto pipeline = started(network, {.on_error = plan::OnError::kStop});
  ASSERT_TRUE(put(*pipeline, 7, -1));
  const auto failed = pipeline->pop(kAWhile);
  EXPECT_THAT((*failed)->error().message(), HasSubstr("stream 7: stage 'step': frame 0: "));
  while (!pipeline->closed_by()) std::this_thread::yield();
  EXPECT_THAT(pipeline->closed_by()->message(), HasSubstr("stream 7: stage 'step': frame 0: "));
}

TEST(Streams, WhatEdgesDropNamesThem) {
  auto network = sequence(Writes::kItself, 2);
  network.finish().edges.back().policy = plan::FullPolicy::kDropOldest;
  auto pipeline = started(network, {.capacity = 1}, {.in_flight = 8});
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(put(*pipeline, 7, 1));
  ASSERT_TRUE(pipeline->drain());
  const auto dropped = pipeline->pop(kAWhile);
  ASSERT_EQ((*dropped)->outcome(), Outcome::kDropped);
  const std::vector<Where> places{{Where::kStream, 7}, {Where::kFrame, 0}};
  EXPECT_EQ((*dropped)->error().places, places);
}

std::uint64_t heap_in_use() {
  const auto heap = mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

// What the heap holds more once a pipeline of so many streams runs.
std::uint64_t heap_of(Writes where, int most) {
  auto network = sequence(where, most);
  const auto before = heap_in_use();
  const auto pipeline = started(network);
  return heap_in_use() - before;
}

// Of a small state the bytes are the least: what keeps it is counted with them.
TEST(Streams, TheMemoryOfTheirStatesIsThatWhichTheyTake) {
  const auto before = heap_in_use();
  const std::vector<std::byte> probe(1U << 20U);
  if (heap_in_use() - before < probe.size()) GTEST_SKIP() << "the heap in use tells no figures";
  constexpr int kMany = 10'000;
  for (const auto where : {Writes::kItself, Writes::kBefore}) {
    auto network = sequence(where, kMany);
    const auto ceiling = *memory_ceiling(network.finish());
    const auto taken = heap_of(where, kMany) - heap_of(where, 1);
    EXPECT_LE(taken, ceiling + (64U << 10U));  // Large blocks are whole pages.
    EXPECT_GE(taken, ceiling / 2);
  }
}

// Of large ones the values are all: two versions for each stream, and the initial one.
TEST(Streams, TheirStatesCountInTheMemory) {
  constexpr std::uint64_t kValue = 4'000'000;
  const auto values = [&](Writes where, int most) {
    auto network = sequence(where, most);
    network.finish();
    for (auto& tensor : network.plan.tensors) tensor.type.dims[0].size = kValue / sizeof(float);
    const auto all = *memory_ceiling(network.plan);
    network.plan.states.clear();
    return (all - *memory_ceiling(network.plan)) / kValue;
  };
  EXPECT_EQ(values(Writes::kItself, 1), 3U);
  EXPECT_EQ(values(Writes::kItself, 100), 201U);
  EXPECT_EQ(values(Writes::kBehind, 100), 201U);
  EXPECT_EQ(values(Writes::kBefore, 100), 801U);
  auto network = sequence(Writes::kItself, 2'000'000'000);
  network.finish();
  for (auto* list : {&network.plan.tensors, &network.plan.inputs, &network.plan.outputs}) {
    for (auto& tensor : *list) tensor.type.dims[0].size = 1'000'000;
  }
  const auto message = network.start().error().message();
  EXPECT_THAT(message, HasSubstr("the states alone take "));
  EXPECT_THAT(message, HasSubstr(" bytes for 2000000000 streams; allow fewer"));
}

}  // namespace
}  // namespace penstock::pipeline::streams_test
