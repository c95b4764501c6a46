// Many pipelines, deep ones, large frames, long idleness.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <semaphore>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "penstock/pipeline/capacity.h"
#include "penstock/pipeline/progress.h"
#include "tests/support/fake_backend.h"
#include "tests/support/sample.h"

namespace penstock::pipeline::scale_test {
namespace {

using namespace penstock::testing;  // NOLINT(google-build-using-namespace): test support
using ::testing::Each;
using ::testing::ElementsAre;

#if defined(__SANITIZE_THREAD__)
constexpr bool kFewThreads = true;  // It has 8,128 at most, and takes long for each.
#else
constexpr bool kFewThreads = kSanitized;
#endif

Type floats(std::int64_t count) {
  return Type::tensor(DType::kF32, std::vector<std::int64_t>{count});
}

/// `stages` of them one behind the other, each of which adds one to the first element.
FakeNetwork adders(int stages, const Type& type = scalar(), int replicas = 1) {
  FakeNetwork network;
  network.input("t0", type);
  for (int i = 1; i <= stages; ++i) {
    network.stage(concat("s", i), {concat("t", i - 1)}, {concat("t", i)},
                  unary([](float x) { return x + 1; }), replicas, {type});
  }
  network.output(concat("t", stages));
  return network;
}

std::unique_ptr<Pipeline> started(FakeNetwork& network, const plan::StreamOptions& stream = {},
                                  const Options& options = {}) {
  auto pipeline = network.start(stream, options);
  EXPECT_TRUE(pipeline) << pipeline.error().message();
  return pipeline ? *std::move(pipeline) : nullptr;
}

float sent_through(Pipeline& pipeline, float value) {
  const auto outputs = pipeline.run(std::vector<Tensor>{number(value)});
  EXPECT_TRUE(outputs) << outputs.error().message();
  return outputs ? value_of(outputs->front()) : 0;
}

std::set<std::string> thread_ids() {
  std::set<std::string> ids;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    ids.insert(task.path().filename());
  }
  return ids;
}

/// As thread_ids(), before anything is started. The thread sanitizer starts a thread of its own
/// with the first one, which stays.
std::set<std::string> threads_at_first() {
  ::pid_t first = 0;
  std::thread([&] { first = ::gettid(); }).join();
  while (std::filesystem::exists("/proc/self/task/" + std::to_string(first))) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // It is listed for a moment more.
  }
  return thread_ids();
}

/// Whether the process has these threads alone. One that was joined is listed for a moment more.
bool comes_to_have(const std::set<std::string>& threads) {
  for (int tries = 0; tries < 1000; ++tries) {
    if (std::ranges::includes(threads, thread_ids())) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

/// While it lives the process gets no more than so much address space beside what it has.
class Scarcity {
 public:
  explicit Scarcity(std::uint64_t spare_bytes) {
    malloc_trim(0);  // What the heap kept of other tests would be given again.
    getrlimit(RLIMIT_AS, &before_);
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    auto scarce = before_;
    scarce.rlim_cur = pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) + spare_bytes;
    setrlimit(RLIMIT_AS, &scarce);
  }
  Scarcity(const Scarcity&) = delete;
  Scarcity& operator=(const Scarcity&) = delete;
  ~Scarcity() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

/// How often those threads went to sleep that the process had not before.
std::uint64_t sleeps_beside(const std::set<std::string>& before) {
  std::uint64_t sum = 0;
  for (const auto& id : thread_ids()) {
    if (before.contains(id)) continue;
    std::ifstream status("/proc/self/task/" + id + "/status");
    for (std::string word; status >> word;) {
      std::uint64_t count = 0;
      if (word == "voluntary_ctxt_switches:" && status >> count) sum += count;
    }
  }
  return sum;
}

TEST(ScaleTest, AnOutputForWhichThereIsNoOtherStorageIsNotTakenAndStaysWhole) {
  if (kFewThreads) GTEST_SKIP() << "a sanitizer reserves address space of its own";
  constexpr std::int64_t kFloats = 16 << 20;  // 64 MiB.
  FakeNetwork network = adders(1, floats(kFloats));
  auto pipeline = started(network, {.capacity = 1});
  ASSERT_TRUE(pipeline->push(std::vector{Tensor::allocate(DType::kF32, {kFloats})}));
  auto popped = pipeline->pop();
  ASSERT_TRUE(popped && *popped && (*popped)->ok());
  auto& output = **popped;
  {
    const Scarcity scarcity(16 << 20);
    EXPECT_THROW(static_cast<void>(output.take(0)), std::bad_alloc);
  }
  EXPECT_EQ(output[0].as<float>()[0], 1);
  EXPECT_EQ(output.take(0).as<float>()[0], 1);
}

// The edge has three slots: the stage keeps one, and whoever is refused another takes none.
TEST(ScaleTest, InputsForWhichThereIsNoMemoryTakeNoSlots) {
  if (kFewThreads) GTEST_SKIP() << "a sanitizer reserves address space of its own";
  constexpr std::int64_t kFloats = 16 << 20;  // 64 MiB.
  std::binary_semaphore entered{0}, open{0};
  FakeNetwork network;
  network.input("in", floats(kFloats))
      .stage("a", {"in"}, {"out"},
             [&](Inputs in, Outputs out) -> Status {
               out[0]->as<float>()[0] = value_of(*in[0]);
               if (value_of(*in[0]) == 0) return {};  // The warm-up.
               entered.release();
               open.acquire();
               return {};
             })
      .output("out");
  network.finish().edges.front().policy = plan::FullPolicy::kDropOldest;
  auto pipeline = started(network, {.capacity = 1});
  Tensor input = Tensor::allocate(DType::kF32, {kFloats});
  input.as<float>()[0] = 1;
  ASSERT_TRUE(pipeline->push(std::vector{input}));
  entered.acquire();
  {
    const Scarcity scarcity(16 << 20);
    for (int i = 0; i < 6; ++i) {
      const auto refused = pipeline->acquire_input();
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().message(), "out of memory");
    }
  }
  const auto acquired = pipeline->acquire_input();
  EXPECT_TRUE(acquired) << acquired.error().message();
  if (acquired) pipeline->release_input();
  open.release();
  const auto popped = pipeline->pop();
  ASSERT_TRUE(popped && *popped && (*popped)->ok());
}

TEST(ScaleTest, AThousandPipelinesRunAtATimeAndLeaveNoThread) {
  const int pipelines = kFewThreads ? 50 : 1000;
  const auto before = threads_at_first();
  FakeNetwork network = adders(2);
  network.finish();
  std::vector<std::unique_ptr<Pipeline>> running;
  for (int i = 0; i < pipelines; ++i) {
    running.push_back(started(network, {.capacity = 8}));
    ASSERT_NE(running.back(), nullptr) << i;
  }
  EXPECT_GE(thread_ids().size(), before.size() + 2 * running.size());
  std::vector<float> results, wanted;
  for (auto& pipeline : running) {
    wanted.push_back(static_cast<float>(results.size()) + 2);
    results.push_back(sent_through(*pipeline, static_cast<float>(results.size())));
  }
  EXPECT_EQ(results, wanted);
  for (const auto& pipeline : running) {
    const auto stats = pipeline->stats();
    EXPECT_EQ(stats.ok, 1U);
    EXPECT_EQ(stats.stages[1].frames, 1U);
  }
  running.clear();
  EXPECT_TRUE(comes_to_have(before));
  EXPECT_EQ(network.backend->alive(), 0);
}

TEST(ScaleTest, EveryOneOfSixtyFourStagesSeesAndCountsEveryFrame) {
  constexpr int kStages = 64, kFrames = 300;
  FakeNetwork network = adders(kStages, scalar(), 2);
  const auto pipeline = started(network);
  ASSERT_NE(pipeline, nullptr);
  std::thread pusher([&] {
    for (int i = 0; i < kFrames; ++i) {
      const std::vector<Tensor> inputs{number(static_cast<float>(i))};
      EXPECT_TRUE(pipeline->push(inputs));
    }
    pipeline->close();
  });
  FrameNumber frame = 0;
  for (auto output = pipeline->pop(); output && *output; output = pipeline->pop()) {
    EXPECT_EQ((*output)->number(), frame);
    ASSERT_TRUE((*output)->ok()) << (*output)->error().message();
    EXPECT_EQ(value_of((**output)[0]), static_cast<float>(frame++) + kStages);
  }
  pusher.join();
  EXPECT_EQ(frame, static_cast<FrameNumber>(kFrames));
  const auto stats = pipeline->stats();
  ASSERT_EQ(stats.stages.size(), static_cast<std::size_t>(kStages));
  for (const auto& stage : stats.stages) {
    EXPECT_EQ(stage.frames, static_cast<std::uint64_t>(kFrames)) << stage.name;
    EXPECT_THAT(stage.calls, ElementsAre(kFrames)) << stage.name;
    EXPECT_EQ(stage.queue.count, static_cast<std::uint64_t>(kFrames)) << stage.name;
    EXPECT_EQ(stage.copies + stage.errors + stage.drops + stage.surplus, 0U) << stage.name;
  }
}

// Calls of the stage that may take only so long are watched by a thread, which looks a few times in
// that time while there is something to see.
TEST(ScaleTest, NoThreadWakesWhileNoFrameIsInFlight) {
  const auto threads = threads_at_first();
  FakeNetwork network = adders(2);
  const auto pipeline = started(network, {.max_run = std::chrono::seconds(20)});
  ASSERT_NE(pipeline, nullptr);
  EXPECT_EQ(sent_through(*pipeline, 1), 3);
  bool asleep = false;
  for (int tries = 0; tries < 100 && !asleep; ++tries) {
    const auto before = sleeps_beside(threads);
    std::this_thread::sleep_for(
        std::chrono::milliseconds(600));  // It looks twice in that, if at all.
    asleep = sleeps_beside(threads) == before;
  }
  EXPECT_TRUE(asleep);
  EXPECT_EQ(sent_through(*pipeline, 2), 4);
}

/// For each page of the tensor, whether somebody has read or written it.
std::vector<bool> touched_pages(const Tensor& tensor) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(tensor.data()) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(tensor.data()) + tensor.bytes();
  std::vector<unsigned char> present((end - begin + page - 1) / page);
  auto* first = reinterpret_cast<void*>(begin);  // NOLINT(performance-no-int-to-ptr)
  EXPECT_EQ(mincore(first, end - begin, present.data()), 0);
  std::vector<bool> touched;
  for (const auto one : present) touched.push_back((one & 1U) != 0);
  return touched;
}

constexpr std::size_t kPage = 4096;  // Bytes, at least.

/// Memory that the heap gives again, as in a program that has run for a while.
void leave_used_memory_in_the_heap() {
  constexpr std::size_t kBlock = 100'000;
  std::vector<std::vector<char>> blocks;
  for (int i = 0; i < 200; ++i) blocks.emplace_back(kBlock, 'x');
}

// On machines of several memory nodes a page lies where the thread runs that touches it first.
TEST(ScaleTest, ASlotsMemoryIsFirstTouchedByTheStageThatWritesIt) {
  for (const std::int64_t count :
       {std::int64_t{1}, std::int64_t{8 * 1024}, std::int64_t{2 << 20}}) {
    leave_used_memory_in_the_heap();
    FakeNetwork network;
    std::array<std::set<std::uintptr_t>, 2> touched;  // By each stage: pages' numbers.
    std::array<std::size_t, 2> early{}, fresh{};
    const auto writer = [&](std::size_t stage) {
      return [&, stage](Inputs, Outputs out) -> Status {
        auto* data = static_cast<float*>(out[0]->data());
        const auto page = reinterpret_cast<std::uintptr_t>(data) / kPage;
        if (touched[stage].insert(page).second) {
          ++fresh[stage];
          // Half of them: the kernel may map large pages, over two slots.
          const auto pages = touched_pages(*out[0]);
          early[stage] += std::ranges::count(pages, true) * 2 >= std::ssize(pages) ? 1 : 0;
        }
        const std::size_t elements = out[0]->bytes() / sizeof(float);
        for (std::size_t i = 0; i < elements; i += kPage / sizeof(float)) data[i] = 1;
        return {};
      };
    };
    network.input("in", floats(1))
        .stage("a", {"in"}, {"mid"}, writer(0), 1, {floats(count)})
        .stage("b", {"mid"}, {"out"}, writer(1), 1, {floats(count)})
        .output("out");
    const auto pipeline = started(network);
    ASSERT_NE(pipeline, nullptr);
    early = {};  // The first slot: when a stage warms up, the one that reads it may be first.
    const std::vector<Tensor> inputs{number(0)};
    for (int frame = 0; frame < (count == 1 ? 200 : 10); ++frame) {
      ASSERT_TRUE(pipeline->push(inputs));
      const auto output = pipeline->pop();
      ASSERT_TRUE(output && *output && (*output)->ok());
    }
    EXPECT_THAT(early, Each(0U)) << count;
    EXPECT_THAT(fresh, Each(::testing::Ge(3U))) << count;
  }
}

/// Waiters of one part, none of which sleeps yet.
struct Waiters {
  explicit Waiters(std::size_t count) : parkers(count) {
    std::vector<Parker*> all;
    for (auto& parker : parkers) all.push_back(&parker);
    progress.configure(1, true);
    cells = progress.add_waiters(all);
  }
  void announce(std::size_t at, FrameNumber target) {
    parkers[at].prepare();
    cells[at]->await(target);
  }
  /// Those of the given that were woken since they announced themselves.
  std::vector<std::size_t> woken(const std::vector<std::size_t>& announced) {
    std::vector<std::size_t> found;
    for (const std::size_t at : announced) {
      if (parkers[at].sleep(0)) found.push_back(at);
    }
    return found;
  }
  std::vector<Parker> parkers;
  Progress progress;
  std::vector<Progress::Cell*> cells;
};

TEST(ProgressTest, AFrameWakesOneOfManyThatWaitForIt) {
  Waiters waiters(256);
  waiters.announce(3, 2);
  waiters.announce(64, 1);
  waiters.announce(255, 1);
  waiters.progress.complete(0);
  EXPECT_THAT(waiters.woken({3, 64, 255}), ElementsAre(64));
}

TEST(ProgressTest, EveryOneOfManyIsFoundWhereverItStands) {
  for (const std::size_t count : {2, 63, 64, 65, 256}) {
    Waiters waiters(count);
    for (std::size_t at = 0; at < count; ++at) {
      waiters.announce(at, at + 1);
      waiters.progress.complete(at);
      EXPECT_THAT(waiters.woken({at}), ElementsAre(at)) << count;
      waiters.cells[at]->withdraw();
    }
  }
}

TEST(ProgressTest, WhoHasWithdrawnIsNotWoken) {
  Waiters waiters(256);
  waiters.announce(100, 1);
  waiters.announce(200, 1);
  waiters.cells[100]->withdraw();
  waiters.progress.complete(0);
  EXPECT_THAT(waiters.woken({100, 200}), ElementsAre(200));
}

TEST(ProgressTest, AllAreWokenWhereThePipelineChanges) {
  Waiters waiters(70);
  waiters.announce(0, 5);
  waiters.announce(69, 9);
  waiters.progress.wake_all();
  EXPECT_THAT(waiters.woken({0, 69}), ElementsAre(0, 69));
}

std::vector<int> slots_of(FakeNetwork& network, const plan::StreamOptions& stream = {}) {
  std::vector<int> slots;
  const auto plan = network.with(stream);
  for (const auto& edge : plan.edges) slots.push_back(choose_capacity(plan, edge));
  return slots;
}

TEST(CapacityTest, SlotsAreChosenByTheBytesOfAFrame) {
  constexpr std::int64_t kKilo = 256, kMega = 262'144;  // Floats.
  const auto slots = [](std::int64_t count) {
    auto network = adders(3, floats(count));
    return slots_of(network);
  };
  EXPECT_THAT(slots(1), Each(512));
  EXPECT_THAT(slots(16 * kKilo), Each(64));
  // One at each end, and one ready; at the output one for each stage, and one that is held.
  EXPECT_THAT(slots(kMega), ElementsAre(4, 4, 4, 8));
  EXPECT_THAT(slots(16 * kMega), ElementsAre(4, 4, 4, 8));
  EXPECT_THAT(slots(100 * kMega), ElementsAre(2, 3, 3, 5));
}

TEST(CapacityTest, LargeFramesHaveASlotForEveryReplica) {
  auto network = adders(2, floats(25'000'000), 4);
  EXPECT_THAT(slots_of(network), ElementsAre(5, 9, 10));
}

TEST(CapacityTest, EdgesHoldAFrameForEveryLaneThatThePlanAsksFor) {
  auto network = adders(2, floats(1'000'000));
  EXPECT_THAT(slots_of(network), ElementsAre(4, 4, 8));
  network.plan.stages[1].lanes = 16;
  EXPECT_THAT(slots_of(network), ElementsAre(4, 64, 64));
}

TEST(CapacityTest, ThatIsGivenHoldsForLargeFramesToo) {
  auto network = adders(2, floats(25'000'000));
  EXPECT_THAT(slots_of(network, {.capacity = 7}), Each(7));
  network.plan.edges[1].capacity = 6;
  EXPECT_THAT(slots_of(network), ElementsAre(2, 6, 4));
}

TEST(CapacityTest, FewLargeFramesWaitWhereOthersAreDropped) {
  auto network = adders(1, floats(25'000'000));
  network.finish().edges[0].policy = plan::FullPolicy::kDropOldest;
  EXPECT_THAT(slots_of(network), ElementsAre(2, 3));
}

}  // namespace
}  // namespace penstock::pipeline::scale_test
