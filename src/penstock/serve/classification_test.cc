// Tests that the highest values are found exactly, whichever type they have.
#include "penstock/serve/classification.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::serve {
namespace {

using ::testing::ElementsAre;

template <typename T>
std::vector<std::string> highest(DType dtype, const std::vector<T>& values, std::uint64_t most) {
  Tensor tensor = Tensor::allocate(dtype, {static_cast<std::int64_t>(values.size())});
  std::ranges::copy(values, tensor.as<T>().begin());
  const auto classes = classify(tensor, most);
  EXPECT_TRUE(classes);
  if (!classes) return {};
  const auto texts = classes->strings();
  return {texts.begin(), texts.end()};
}

TEST(ClassificationTest, IntegersAreComparedExactly) {
  constexpr std::int64_t kBig = std::int64_t{1} << 53;
  EXPECT_THAT(highest<std::int64_t>(DType::kI64, {kBig, kBig + 1, -kBig - 1, -kBig}, 4),
              ElementsAre("9007199254740993:1", "9007199254740992:0", "-9007199254740992:3",
                          "-9007199254740993:2"));
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  EXPECT_THAT(highest<std::uint64_t>(DType::kU64, {kMost - 1, 1, kMost}, 2),
              ElementsAre("18446744073709551615:2", "18446744073709551614:0"));
  EXPECT_THAT(highest<std::int32_t>(DType::kI32, {-100000, 100000, 0}, 9),
              ElementsAre("100000:1", "0:2", "-100000:0"));
}

TEST(ClassificationTest, OfEqualOnesTheFirstComesFirst) {
  EXPECT_THAT(highest<float>(DType::kF32, {0.0F, -0.0F, 0.5F, 0.0F}, 3),
              ElementsAre("0.5:2", "0:0", "-0:1"));
}

TEST(ClassificationTest, NaNIsHigherThanEveryNumberAsInNumpysOrder) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(highest<float>(DType::kF32, {-infinity, nan, infinity, -nan, 0.1F}, 5),
              ElementsAre("nan:1", "nan:3", "inf:2", "0.1:4", "-inf:0"));
  EXPECT_THAT(highest<double>(DType::kF64, {0.1, 1.0 / 3}, 2),
              ElementsAre("0.3333333333333333:1", "0.1:0"));
}

}  // namespace
}  // namespace penstock::serve
