// What control characters become, and that all else stays.
#include "penstock/base/printable.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(PrintableTest, WritesControlCharactersAsEscapes) {
  EXPECT_EQ(printable("a\nb\tc\rd"), "a\\nb\\tc\\rd");
  EXPECT_EQ(printable("\x1b[31mred\x07\x7f"), "\\x1b[31mred\\x07\\x7f");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\x9b31m");
}

TEST(PrintableTest, LeavesAllElse) {
  for (const auto* text : {"", "größe/конв:0", "a\\b c", "\xc2\xa0", "\xff\xc2"}) {
    EXPECT_EQ(printable(text), text);
  }
}

}  // namespace
}  // namespace penstock
