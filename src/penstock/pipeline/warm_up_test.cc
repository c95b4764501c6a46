// Runs on zeros that do not end by themselves.
#include "penstock/pipeline/warm_up.h"

#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

namespace penstock::pipeline {
namespace {

/// Its run ends when it is cancelled; one of a number below `short_runs` by itself. A cancel while
/// none runs ends the next one.
class Looping : public backend::Context {
 public:
  explicit Looping(int short_runs) : short_runs_(short_runs) {}

  Status run(const backend::Call& /*call*/, std::span<const Tensor* const> /*inputs*/,
             std::span<Tensor* const> /*outputs*/) override {
    const bool ends = runs_++ < short_runs_;
    while (!ends && !cancelled_) std::this_thread::yield();
    return cancelled_.exchange(false) ? make_error(Code::kCancelled, "cancelled") : Status();
  }
  void cancel() noexcept override { cancelled_ = true; }

  [[nodiscard]] int runs() const { return runs_; }

 private:
  const int short_runs_;
  int runs_ = 0;
  std::atomic<bool> cancelled_{false};
};

bool run(WarmUp& warm_up, Looping& context) {
  return warm_up.run(context, [&] { return context.run({}, {}, {}); });
}

TEST(WarmUpTest, ARunThatDoesNotEndIsEndedAndNoOtherBegins) {
  WarmUp warm_up({}, std::chrono::nanoseconds(1));
  Looping loops(0), other(1);
  std::atomic<bool> back{false};
  std::thread looker([&] {
    while (!back) warm_up.look();
  });
  EXPECT_FALSE(run(warm_up, loops));
  back = true;
  looker.join();
  EXPECT_FALSE(run(warm_up, other));
  EXPECT_EQ(other.runs(), 0);
}

TEST(WarmUpTest, WhatHadToBeEndedOnceIsNotRunAgain) {
  Looping late(1);
  WarmUp first("loops", std::chrono::nanoseconds(0));
  first.run(late, [&] {
    first.look();
    return late.run({}, {}, {});
  });
  Looping again(1), other(1);
  WarmUp second("loops"), of_another("ends");
  EXPECT_FALSE(run(second, again));
  EXPECT_EQ(again.runs(), 0);
  EXPECT_TRUE(run(of_another, other));
}

TEST(WarmUpTest, ARunThatEndsInTimeIsLeftAlone) {
  WarmUp warm_up({}, std::chrono::hours(1));
  Looping ends(2);
  warm_up.look();
  EXPECT_TRUE(run(warm_up, ends));
  EXPECT_TRUE(run(warm_up, ends));
}

TEST(WarmUpTest, WhatWasAskedToEndTooLateDoesNotEndAFrame) {
  WarmUp warm_up({}, std::chrono::nanoseconds(0));
  Looping late(3);
  EXPECT_TRUE(warm_up.run(late, [&] {
    Status status = late.run({}, {}, {});
    if (late.runs() == 1) warm_up.look();  // The run has just ended.
    return status;
  }));
  EXPECT_TRUE(late.run({}, {}, {}));
}

}  // namespace
}  // namespace penstock::pipeline
