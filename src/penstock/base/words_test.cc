// Names of one, several and no things as messages list them.
#include "penstock/base/words.h"

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
}

}  // namespace
}  // namespace penstock
