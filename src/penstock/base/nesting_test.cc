// JSON texts nested up to a million brackets deep, some of them with brackets inside strings.
#include "penstock/base/nesting.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock {
namespace {

using ::testing::HasSubstr;

std::string nested(int depth) {
  return std::string(static_cast<std::size_t>(depth), '[');
}

TEST(NestingTest, AcceptsWhatIsNotTooDeep) {
  EXPECT_TRUE(check_nesting(""));
  EXPECT_TRUE(check_nesting(R"({"a": [1, {"b": "]}"}]})"));
  EXPECT_TRUE(check_nesting(nested(kMostNested)));
}

TEST(NestingTest, RefusesWhatIsTooDeepAndSaysWhere) {
  const auto refused = check_nesting("{\n  \"a\": " + nested(kMostNested));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kDataLoss);
  EXPECT_THAT(refused.error().message(),
              HasSubstr("at line 2, column 207: expected at most 200 brackets"));
  EXPECT_FALSE(check_nesting(nested(1'000'000)));
}

TEST(NestingTest, CountsNoBracketsOfStrings) {
  EXPECT_TRUE(check_nesting("\"" + nested(1000) + "\""));
  EXPECT_TRUE(check_nesting(R"("\")" + nested(1000) + "\""));
  EXPECT_FALSE(check_nesting(R"("\\")" + nested(1000)));
}

TEST(NestingTest, CountsOnlyThoseThatAreOpen) {
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "[]{}";
  EXPECT_TRUE(check_nesting(many));
}

}  // namespace
}  // namespace penstock
