// How often lines of gRPC's are told, by a clock of the test's own.
#include "penstock/grpc/log_lines.h"

#include <gtest/gtest.h>

#include "penstock/base/words.h"

namespace penstock::grpc {
namespace {

using std::chrono::seconds;

class SeldomTest : public ::testing::Test {
 protected:
  std::string told(const std::string& line, seconds at) {
    return seldom_.admit(line, Seldom::Clock::time_point(at)).value_or("-");
  }

  Seldom seldom_;
};

TEST_F(SeldomTest, LinesThatTakeTurnsAreToldOnceAMinuteEach) {
  EXPECT_EQ(told("a", seconds(100)), "a");
  EXPECT_EQ(told("b", seconds(101)), "b");
  EXPECT_EQ(told("a", seconds(102)), "-");
  EXPECT_EQ(told("b", seconds(103)), "-");
  EXPECT_EQ(told("a", seconds(159)), "-");
  EXPECT_EQ(told("a", seconds(160)), "a (2 more times since it was last told)");
  EXPECT_EQ(told("a", seconds(161)), "-");
  EXPECT_EQ(told("b", seconds(300)), "b (1 more time since it was last told)");
  EXPECT_EQ(told("b", seconds(400)), "b");
}

TEST_F(SeldomTest, OfVeryManyLinesItIsSaidThatThereAreMore) {
  for (std::size_t i = 0; i < Seldom::kMost; ++i) {
    EXPECT_EQ(told(concat("line ", i), seconds(100)), concat("line ", i));
  }
  EXPECT_EQ(told("one more", seconds(101)),
            "gRPC: 64 different lines within a minute; others are left out");
  EXPECT_EQ(told("and another", seconds(101)), "-");
  EXPECT_EQ(told("line 0", seconds(102)), "-");
  EXPECT_EQ(told("one more", seconds(160)), "one more");
}

}  // namespace
}  // namespace penstock::grpc
