// A pace by invented times.
#include "penstock/serve/pace.h"

#include <thread>

#include <gtest/gtest.h>

namespace penstock::serve {
namespace {

using std::chrono::milliseconds;
constexpr std::chrono::nanoseconds kNow{0};

/// Lets in as many as may be. \returns how many these are.
int fill(Pace& pace) {
  int inside = 0;
  while (inside < 100'000 && pace.enter(kNow)) ++inside;
  return inside;
}

TEST(PaceTest, LetsInWhatKeepsAPipelineBusy) {
  Pace pace;
  pace.let_in_at_least(6);
  EXPECT_EQ(fill(pace), 6);
  pace.leave(Pace::Clock::now());
  EXPECT_TRUE(pace.enter(kNow));
  EXPECT_FALSE(pace.enter(milliseconds(1)));
}

TEST(PaceTest, LetsInMoreOfSmallFramesAndFewerWhenTheyCease) {
  Pace pace;
  pace.let_in_at_least(4);
  auto now = Pace::Clock::now();
  pace.enter(kNow);
  pace.leave(now);  // The first window begins.
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(pace.enter(kNow));
    pace.leave(now += std::chrono::microseconds(100));
  }
  EXPECT_EQ(fill(pace), 200) << "10,000 a second, for 20 ms";
  for (int i = 0; i < 200; ++i) pace.leave(now);
  now += std::chrono::seconds(60);
  pace.enter(kNow);
  pace.leave(now);
  EXPECT_EQ(fill(pace), 4);
}

TEST(PaceTest, WhatWasNotComputedSaysNothingOfThePipeline) {
  Pace pace;
  pace.let_in_at_least(4);
  auto now = Pace::Clock::now();
  for (int i = 0; i < 5000; ++i) {
    ASSERT_TRUE(pace.enter(kNow));
    pace.leave(now += std::chrono::microseconds(100), false);
  }
  EXPECT_EQ(fill(pace), 4);
}

TEST(PaceTest, WhoWaitsIsLetInWhenOneLeaves) {
  Pace pace;
  pace.let_in_at_least(1);
  ASSERT_TRUE(pace.enter(kNow));
  std::thread leaves([&] { pace.leave(Pace::Clock::now()); });
  EXPECT_TRUE(pace.enter(std::chrono::minutes(1)));
  leaves.join();
}

TEST(PaceTest, AnotherPlanMayWantMore) {
  Pace pace;
  pace.let_in_at_least(1);
  EXPECT_EQ(fill(pace), 1);
  pace.let_in_at_least(3);
  EXPECT_EQ(fill(pace), 2);
}

}  // namespace
}  // namespace penstock::serve
