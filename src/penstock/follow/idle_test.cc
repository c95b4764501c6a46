// What the probe tells of a CPU of this process and of one that it may not use.
#include "penstock/follow/idle.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "penstock/device/device.h"

namespace penstock::follow {
namespace {

TEST(IdleProbeTest, KnowsNothingOfACpuThatTheProcessMayNotUse) {
  constexpr int kNowhere = 5000;
  const int here = device::inherited_cpus().front();
  IdleProbe probe(0.01);
  ASSERT_TRUE(probe.start());
  probe.watch({kNowhere, here});
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!probe.idle().contains(here) && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(probe.idle().contains(here));
  EXPECT_FALSE(probe.idle().contains(kNowhere));
}

}  // namespace
}  // namespace penstock::follow
