// Numbers from known seeds: their values, distributions and ranges, in every element type.
#include "penstock/tensor/random.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "penstock/tensor/number.h"

namespace penstock {
namespace {

Type type_of(DType dtype, const std::vector<std::int64_t>& dims) {
  return Type::tensor(dtype, std::span<const std::int64_t>(dims));
}

TEST(RandomTest, ASeedGivesTheSameNumbersOnEveryMachine) {
  Random random(1);
  const auto tensor = random_tensor(type_of(DType::kF32, {3}), random);
  ASSERT_TRUE(tensor);
  EXPECT_EQ(tensor->as<float>()[0], 0x1.21e6ea0000000p-4F);
  EXPECT_EQ(random.bits(), std::uint64_t{387828560950575246U});
}

TEST(RandomTest, NormalNumbersHaveMeanZeroAndDeviationOne) {
  Random random(0);
  double sum = 0, squares = 0;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) {
    const double x = random.normal();
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.01);
  EXPECT_NEAR(squares / kCount, 1, 0.01);
}

TEST(RandomTest, NumbersOfARangeAreWholeAndReachBothEnds) {
  using enum DType;
  for (const auto dtype : {kF32, kF16, kF64, kI8, kI16, kI32, kI64}) {
    Random random(0);
    const auto tensor = random_tensor(type_of(dtype, {300}), random, {.range = WholeRange{-2, 3}});
    ASSERT_TRUE(tensor);
    std::set<double> found;
    for (std::size_t i = 0; i < tensor->count(); ++i) {
      found.insert(number_from_bits(dtype, load_bits(dtype, tensor->data(), i)));
    }
    EXPECT_EQ(found, (std::set<double>{-2, -1, 0, 1, 2, 3})) << to_string(dtype);
  }
}

/// As pictures, some are dark and some are bright.
TEST(RandomTest, ScaledWholeNumbersAreFromPartsOfTheirRange) {
  Random random(3);
  int dark = 0, bright = 0;
  for (int i = 0; i < 32; ++i) {
    const auto picture = random_tensor(type_of(DType::kU8, {64}), random, {.scale = 8});
    const auto [least, most] = std::ranges::minmax(picture->as<std::uint8_t>());
    EXPECT_LE(most - least, 64);
    EXPECT_LT(least, most);
    dark += most < 128 ? 1 : 0;
    bright += least > 127 ? 1 : 0;
  }
  EXPECT_GT(dark, 4);
  EXPECT_GT(bright, 4);
  const RandomOptions narrow{.scale = 8, .range = WholeRange{0, 1}};
  const auto mask = random_tensor(type_of(DType::kI64, {64}), random, narrow);
  const auto values = mask->as<std::int64_t>();
  EXPECT_EQ(std::set<std::int64_t>(values.begin(), values.end()).size(), 2U);
}

TEST(RandomTest, IntegersStayUnderTheLimit) {
  Random random(0);
  const auto tensor = random_tensor(type_of(DType::kI64, {1000}), random, {.integer_limit = 5});
  ASSERT_TRUE(tensor);
  std::vector<int> seen(5);
  for (const auto x : tensor->as<std::int64_t>()) {
    ASSERT_GE(x, 0);
    ASSERT_LT(x, 5);
    ++seen[static_cast<std::size_t>(x)];
  }
  for (const int count : seen) EXPECT_GT(count, 100);
}

TEST(RandomTest, EveryTensorTypeHasValues) {
  Random random(0);
  for (int number = 1; number <= 26; ++number) {
    const auto dtype = static_cast<DType>(number);
    const auto tensor = random_tensor(type_of(dtype, {2, 3}), random);
    ASSERT_TRUE(tensor) << to_string(dtype);
    EXPECT_EQ(tensor->type(), type_of(dtype, {2, 3}));
  }
}

std::set<std::string> texts_of(std::span<const std::string> words) {
  Random random(0);
  const auto tensor = random_tensor(type_of(DType::kString, {400}), random, {.words = words});
  const auto texts = tensor->strings();
  return {texts.begin(), texts.end()};
}

TEST(RandomTest, TextsHaveCapitals) {
  int small = 0, first = 0, all = 0;
  for (const auto& text : texts_of({})) {
    const auto capitals = std::ranges::count_if(text, [](char c) { return c >= 'A' && c <= 'Z'; });
    if (text.size() < 2) continue;
    small += capitals == 0 ? 1 : 0;
    first += capitals == 1 && text[0] <= 'Z' ? 1 : 0;
    all += static_cast<std::size_t>(capitals) == text.size() ? 1 : 0;
  }
  EXPECT_GT(small, 100);
  EXPECT_GT(first, 40);
  EXPECT_GT(all, 40);
}

TEST(RandomTest, KnownTextsComeInCapitalsTooWhereOthersAreTaken) {
  const std::vector<std::string> open{"", "cat", "BIG"}, closed{"cat", "dog"};
  EXPECT_EQ(texts_of(open), (std::set<std::string>{"", "cat", "Cat", "CAT", "BIG", "big"}));
  EXPECT_EQ(texts_of(closed), (std::set<std::string>{"cat", "dog"}));
}

TEST(RandomTest, OpenDimensionsTakeTheirBoundOrOne) {
  Random random(0);
  const auto open = Type::tensor(DType::kBool, std::vector<Dim>{{-1, "n", 7}, {-1, "m", -1}});
  EXPECT_EQ(random_tensor(open, random)->dims(), (std::vector<std::int64_t>{7, 1}));
}

TEST(RandomTest, TypesWithoutARankAndHugeOnesAreRefused) {
  Random random(0);
  Type unranked = type_of(DType::kF32, {});
  unranked.ranked = false;
  EXPECT_EQ(random_tensor(unranked, random).error().message(),
            "cannot make random values of type f32: expected a tensor whose rank is known; give "
            "frames (--input)");
  EXPECT_FALSE(random_tensor(type_of(DType::kF32, {1LL << 40, 1LL << 40}), random));
}

}  // namespace
}  // namespace penstock
