// Bytes become digits and come back; what is no digit, a capital one too, is not taken.
#include "penstock/base/hexadecimal.h"

#include <string>

#include <gtest/gtest.h>

#include "penstock/base/hash.h"

namespace penstock {
namespace {

TEST(HexadecimalTest, AllBytesComeBack) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  const auto digits = to_hexadecimal(bytes);
  EXPECT_EQ(digits.substr(0, 6), "000102");
  EXPECT_EQ(digits.substr(506), "fdfeff");
  EXPECT_EQ(from_hexadecimal(digits), bytes);
  EXPECT_EQ(from_hexadecimal(""), "");
}

TEST(HexadecimalTest, OtherTextIsNotTaken) {
  for (const auto* text : {"0", "0g", "g0", "0A", "0x", "0 "}) {
    EXPECT_FALSE(from_hexadecimal(text)) << text;
  }
}

TEST(HexadecimalTest, ADigestIsOfLowerCaseDigits) {
  auto digest = sha256_of("abc");
  EXPECT_EQ(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_TRUE(is_sha256(digest));
  EXPECT_FALSE(is_sha256(digest.substr(1)));
  digest.front() = 'B';
  EXPECT_FALSE(is_sha256(digest));
}

}  // namespace
}  // namespace penstock
