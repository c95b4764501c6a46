#include "workers.h"

#include <atomic>
#include <latch>
#include <thread>

#include <gtest/gtest.h>

#include "penstock/device/affinity.h"
#include "penstock/device/device.h"

namespace penstock::openvino {
namespace {

/// A thread that computes on `cpus` until it ends. It has its maker's name unless given one.
class BusyThread {
 public:
  explicit BusyThread(const std::vector<int>& cpus, const std::string& name = "") {
    std::latch started{1};
    thread_ = std::jthread([&] {
      if (!name.empty()) device::name_this_thread(name);
      EXPECT_TRUE(device::pin_this_thread(cpus));
      id_ = device::this_thread_id();
      started.count_down();
      while (!end_) continue;
    });
    started.wait();
  }
  ~BusyThread() { end_ = true; }
  BusyThread(const BusyThread&) = delete;
  BusyThread& operator=(const BusyThread&) = delete;

  [[nodiscard]] std::vector<int> cpus() const { return device::cpus_of_thread(id_); }

 private:
  std::atomic<bool> end_{false};
  int id_ = 0;
  std::jthread thread_;
};

TEST(WatchTest, MovesAThreadThatNeverSleeps) {
  const auto all = device::inherited_cpus();
  if (all.size() < 2) GTEST_SKIP() << "needs two CPUs";
  std::jthread([&] {
    ASSERT_TRUE(device::pin_this_thread({all.back()}));
    device::name_this_thread("stage");
    Watch watch(nullptr);
    const BusyThread worker(all);
    for (int run = 0; run < 16; ++run) watch.confine();
    EXPECT_EQ(worker.cpus(), std::vector{all.back()});
  }).join();
}

TEST(WatchTest, LeavesThreadsOfOthersAndThoseThatWereThereBefore) {
  const auto all = device::inherited_cpus();
  if (all.size() < 2) GTEST_SKIP() << "needs two CPUs";
  std::jthread([&] {
    ASSERT_TRUE(device::pin_this_thread({all.back()}));
    device::name_this_thread("stage");
    const BusyThread before(all);
    Watch watch(nullptr);
    const BusyThread other(all, "another");
    watch.confine();
    EXPECT_EQ(before.cpus(), all);
    EXPECT_EQ(other.cpus(), all);
  }).join();
}

}  // namespace
}  // namespace penstock::openvino
