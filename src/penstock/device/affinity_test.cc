// Threads made after a given one, with up to 300 of them; thread names; errors of absent CPUs.
#include "penstock/device/affinity.h"

#include <latch>
#include <thread>

#include <gmock/gmock.h>

namespace penstock::device {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAreArray;
using testing::Ne;

/// Threads that live until it ends, each made when the one before it ran.
class Threads {
 public:
  explicit Threads(std::size_t count) {
    while (threads_.size() < count) add();
  }
  ~Threads() { end_.count_down(); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  [[nodiscard]] const std::vector<int>& ids() const { return ids_; }

 private:
  void add() {
    std::latch named{1};
    threads_.emplace_back([&] {
      ids_.push_back(this_thread_id());
      named.count_down();
      end_.wait();
    });
    named.wait();
  }

  std::latch end_{1};
  std::vector<int> ids_;
  std::vector<std::jthread> threads_;
};

/// What an emulator or a sanitizer runs beside the test's own threads, then these.
std::vector<int> with(std::vector<int> others, const std::vector<int>& threads) {
  others.insert(others.end(), threads.begin(), threads.end());
  return others;
}

TEST(AffinityTest, ThreadsAfterOneAreThoseThatWereMadeLater) {
  const auto others = threads_after(this_thread_id());
  const Threads threads(3);
  const auto& ids = threads.ids();
  EXPECT_THAT(threads_after(ids[2]), testing::IsEmpty());
  EXPECT_THAT(threads_after(ids[0]), ElementsAreArray({ids[1], ids[2]}));
  EXPECT_THAT(threads_after(this_thread_id()), ElementsAreArray(with(others, ids)));
}

TEST(AffinityTest, ThreadsAfterOneAreFoundAmongMany) {
  const auto others = threads_after(this_thread_id());
  const Threads threads(300);
  const auto& ids = threads.ids();
  for (const std::size_t at : {0, 1, 100, 235, 236, 237, 298, 299}) {
    const std::vector<int> younger(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1, ids.end());
    EXPECT_EQ(threads_after(ids[at]), younger) << at;
  }
  EXPECT_EQ(threads_after(this_thread_id()), with(others, ids));
}

TEST(AffinityTest, ThreadsAfterOneThatHasEndedAreAll) {
  int ended = 0;
  std::jthread([&] { ended = this_thread_id(); }).join();
  const Threads threads(100);
  EXPECT_THAT(threads_after(ended), AllOf(Contains(this_thread_id()), Contains(threads.ids()[0]),
                                          Contains(threads.ids()[99]), Each(Ne(ended))));
}

TEST(AffinityTest, CpusThatAreNotThereAreNamedInShort) {
  std::vector<int> absent;
  for (int cpu = 4000; cpu < 4256; ++cpu) absent.push_back(cpu);
  absent.push_back(5000);
  const auto pinned = pin_this_thread(absent);
  ASSERT_FALSE(pinned);
  EXPECT_EQ(pinned.error().code, Code::kInvalidArgument);
  EXPECT_EQ(pinned.error().message(), "cannot run on cpu:4000-4255+5000: Invalid argument");
}

TEST(AffinityTest, AThreadHasTheNameThatItWasGivenOrItsMakers) {
  std::string named, inherited;
  std::jthread([&] {
    name_this_thread("a name of many letters");
    named = name_of_thread(this_thread_id());
    std::jthread([&] { inherited = name_of_thread(this_thread_id()); }).join();
  }).join();
  EXPECT_EQ(named, "a name of many ");
  EXPECT_EQ(inherited, named);
}

}  // namespace
}  // namespace penstock::device
