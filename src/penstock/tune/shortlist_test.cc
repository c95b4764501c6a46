// What there is time to try, by an invented clock.
#include "penstock/tune/shortlist.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::tune {
namespace {

using testing::IsEmpty;

class ShortlistTest : public testing::Test {
 protected:
  [[nodiscard]] double seconds_until(Budget::Clock::time_point moment) const {
    return std::chrono::duration<double>(moment - budget_.at(second_)).count();
  }

  double second_ = 0;
  Budget budget_{
      100, Budget::Clock::time_point(), [this] {
        return Budget::Clock::time_point(std::chrono::duration_cast<Budget::Clock::duration>(
            std::chrono::duration<double>(second_)));
      }};
  Shortlist list_{budget_};
};

TEST_F(ShortlistTest, WhatIsNotKnownMayTakeWhatIsLeft) {
  second_ = 20;
  EXPECT_DOUBLE_EQ(seconds_until(list_.trial_until("slow", 50)), 30);
}

TEST_F(ShortlistTest, ATrialOfFewSecondsIsDoneWhateverTheBudgetSays) {
  second_ = 300;
  list_.tried("quick", 2);
  EXPECT_DOUBLE_EQ(seconds_until(list_.trial_until("quick", 50)), Shortlist::kCheapSeconds);
  EXPECT_TRUE(list_.has_room_for(Shortlist::kCheapSeconds, 50));
}

TEST_F(ShortlistTest, WhatTookLongerThanThereIsTimeForIsNotBegun) {
  second_ = 20;
  list_.tried("slow", 30);
  EXPECT_DOUBLE_EQ(seconds_until(list_.trial_until("slow", 50)), 30);
  second_ = 20.5;
  EXPECT_DOUBLE_EQ(seconds_until(list_.trial_until("slow", 50)), 0);
  EXPECT_DOUBLE_EQ(seconds_until(list_.trial_until("another", 50)), 29.5);
}

TEST_F(ShortlistTest, TheLongestTrialOfABackendCounts) {
  list_.tried("slow", 30);
  list_.tried("slow", 10);
  EXPECT_DOUBLE_EQ(list_.trial_seconds("slow"), 30);
  EXPECT_DOUBLE_EQ(list_.trial_seconds("another"), 0);
}

TEST_F(ShortlistTest, WhatCannotBeEndedNeedsRoom) {
  second_ = 40;
  EXPECT_TRUE(list_.has_room_for(20, 40));
  EXPECT_FALSE(list_.has_room_for(20, 41));
}

TEST_F(ShortlistTest, TellsOnceWhatWasLeftOut) {
  EXPECT_THAT(list_.sentence("the budget of 100 s"), IsEmpty());
  list_.leave_out("openvino on each device");
  list_.leave_out("the file as it is");
  list_.leave_out("openvino on each device");
  EXPECT_EQ(list_.sentence("the budget of 100 s"),
            "the budget of 100 s was too short for: openvino on each device, the file as it is");
}

}  // namespace
}  // namespace penstock::tune
