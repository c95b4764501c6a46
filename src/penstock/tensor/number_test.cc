// Small floats, integers and packed elements converted to doubles and back.
#include "penstock/tensor/number.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace penstock {
namespace {

constexpr DType kSmallFloats[] = {DType::kF16,        DType::kBF16,   DType::kF8E4M3FN,
                                  DType::kF8E4M3FNUZ, DType::kF8E5M2, DType::kF8E5M2FNUZ,
                                  DType::kF4E2M1,     DType::kF8E8M0};

TEST(NumberTest, EveryCodeOfTheSmallFloatsSurvivesTheWayThroughADouble) {
  for (const DType dtype : kSmallFloats) {
    for (std::uint64_t code = 0; code < 1ULL << bits_of(dtype); ++code) {
      const double number = number_from_bits(dtype, code);
      const auto back = bits_from_number(dtype, number);
      if (std::isnan(number)) {
        EXPECT_TRUE(std::isnan(number_from_bits(dtype, back))) << to_string(dtype) << " " << code;
      } else {
        EXPECT_EQ(back, code) << to_string(dtype) << " " << number;
      }
    }
  }
}

TEST(NumberTest, KnownCodesHaveTheirPublishedValues) {
  EXPECT_EQ(number_from_bits(DType::kF16, 0x3C00), 1.0);
  EXPECT_EQ(number_from_bits(DType::kF16, 0x7BFF), 65504.0);
  EXPECT_EQ(number_from_bits(DType::kF16, 0x7C00), std::numeric_limits<double>::infinity());
  EXPECT_EQ(number_from_bits(DType::kBF16, 0x3F80), 1.0);
  EXPECT_EQ(number_from_bits(DType::kF8E4M3FN, 0x7E), 448.0);
  EXPECT_TRUE(std::isnan(number_from_bits(DType::kF8E4M3FN, 0x7F)));
  EXPECT_EQ(number_from_bits(DType::kF8E4M3FNUZ, 0x7F), 240.0);
  EXPECT_TRUE(std::isnan(number_from_bits(DType::kF8E4M3FNUZ, 0x80)));
  EXPECT_EQ(number_from_bits(DType::kF8E5M2, 0x7B), 57344.0);
  EXPECT_EQ(number_from_bits(DType::kF4E2M1, 0x7), 6.0);
  EXPECT_EQ(number_from_bits(DType::kF8E8M0, 127), 1.0);
}

TEST(NumberTest, RoundsToTheNearestWithTiesToEven) {
  EXPECT_EQ(bits_from_number(DType::kBF16, 1.0 + 1.0 / 256), 0x3F80U);
  EXPECT_EQ(bits_from_number(DType::kBF16, 1.0 + 3.0 / 256), 0x3F82U);
  EXPECT_EQ(bits_from_number(DType::kF16, 65519.0), 0x7BFFU);
  EXPECT_EQ(bits_from_number(DType::kF16, 65520.0), 0x7C00U);
  EXPECT_EQ(bits_from_number(DType::kF8E4M3FN, 1e9), 0x7EU);
}

TEST(NumberTest, IntegersSaturateAndKeepTheirSign) {
  EXPECT_EQ(number_from_bits(DType::kI8, 0xFF), -1.0);
  EXPECT_EQ(number_from_bits(DType::kI4, 0x8), -8.0);
  EXPECT_EQ(bits_from_number(DType::kI4, 100), 7U);
  EXPECT_EQ(bits_from_number(DType::kU8, -3), 0U);
  EXPECT_EQ(bits_from_number(DType::kI64, 1e30), 0x7FFFFFFFFFFFFFFFU);
}

TEST(NumberTest, PackedElementsLieLowBitsFirst) {
  unsigned char bytes[2] = {0, 0};
  store_bits(DType::kU4, bytes, 0, 0x1);
  store_bits(DType::kU4, bytes, 1, 0x2);
  store_bits(DType::kU4, bytes, 2, 0x3);
  EXPECT_EQ(bytes[0], 0x21);
  EXPECT_EQ(bytes[1], 0x03);
  EXPECT_EQ(load_bits(DType::kU4, bytes, 1), 2U);
  EXPECT_EQ(load_bits(DType::kU2, bytes, 2), 2U);
}

}  // namespace
}  // namespace penstock
