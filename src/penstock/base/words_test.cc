// Names and numbers of one, several and no things, as messages have them.
#include "penstock/base/words.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace penstock {
namespace {

struct Thing {
  std::string name;
};

TEST(WordsTest, NamesAreQuotedInTheirOrder) {
  EXPECT_EQ(quoted_names(std::vector<Thing>{{"y"}, {"x y"}}), "'y', 'x y'");
  EXPECT_EQ(quoted_names(std::vector<Thing>{{"x"}}), "'x'");
  EXPECT_EQ(quoted_names(std::vector<Thing>{}), "");
  EXPECT_EQ(with_names("input", std::vector<Thing>{{"x"}}), "input 'x'");
  EXPECT_EQ(with_names("input", std::vector<Thing>{{"x"}, {"y"}}), "inputs 'x', 'y'");
}

TEST(WordsTest, ANounAgreesWithItsNumber) {
  EXPECT_EQ(counted(1, "array"), "1 array");
  EXPECT_EQ(counted(0U, "array"), "0 arrays");
  EXPECT_EQ(counted(std::uint64_t{21}, "CPU"), "21 CPUs");
}

TEST(WordsTest, WritesATimeToThreeDigits) {
  EXPECT_EQ(time_text(0), "0 ns");
  EXPECT_EQ(time_text(999), "999 ns");
  EXPECT_EQ(time_text(999.6e3), "1000 us");
  EXPECT_EQ(time_text(1000), "1 us");
  EXPECT_EQ(time_text(1'234'567), "1.23 ms");
  EXPECT_EQ(time_text(50'040'000), "50 ms");
  EXPECT_EQ(time_text(3.6e12), "3600 s");
}

}  // namespace
}  // namespace penstock
