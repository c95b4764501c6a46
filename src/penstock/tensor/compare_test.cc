// Comparisons of small tensors: tolerances, NaN, infinities, integers, texts and sequences.
#include "penstock/tensor/compare.h"

#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace penstock {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <typename T>
Tensor tensor(DType dtype, std::vector<std::int64_t> dims, const std::vector<T>& values) {
  Tensor result = Tensor::allocate(dtype, std::move(dims));
  std::copy(values.begin(), values.end(), result.as<T>().begin());
  return result;
}

Tensor floats(const std::vector<float>& values) {
  return tensor(DType::kF32, {static_cast<std::int64_t>(values.size())}, values);
}

TEST(CompareTest, EqualTensorsAreEqual) {
  const auto result = compare(floats({1, 2}), floats({1, 2}));
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.count, 2U);
  EXPECT_EQ(to_string(result), "equal");
}

TEST(CompareTest, TheToleranceIsRelativeToTheValueAndToTheLargestOne) {
  EXPECT_TRUE(compare(floats({1000.9F, 0}), floats({1000, 0})).ok());
  EXPECT_FALSE(compare(floats({1001.1F, 0}), floats({1000, 0})).ok());
  EXPECT_TRUE(compare(floats({1000, 0.009F}), floats({1000, 0})).ok());
  EXPECT_FALSE(compare(floats({1000, 0.011F}), floats({1000, 0})).ok());
}

TEST(CompareTest, TheReportNamesTheWorstPlace) {
  const auto expected = tensor<float>(DType::kF32, {2, 3}, {1, 1, 1, 1, 1, 1});
  const auto actual = tensor<float>(DType::kF32, {2, 3}, {1, 1.25F, 1, 1, 1.5F, 1});
  const auto result = compare(actual, expected);
  EXPECT_EQ(result.mismatches, 2U);
  EXPECT_EQ(result.largest_error, 0.5);
  EXPECT_EQ(result.where, "[1,1]");
  EXPECT_EQ(to_string(result),
            "2 of 6 values outside the tolerance, largest error 0.5, worst at [1,1] (495.05 times "
            "the tolerance)");
}

TEST(CompareTest, NanMatchesNanAndInfinityItself) {
  EXPECT_TRUE(compare(floats({kNan, kInf, -kInf, 1}), floats({kNan, kInf, -kInf, 1})).ok());
  EXPECT_FALSE(compare(floats({kInf}), floats({-kInf})).ok());
  EXPECT_FALSE(compare(floats({1e30F}), floats({kInf})).ok());
  EXPECT_FALSE(compare(floats({kNan, 1}), floats({1, 1})).ok());
  EXPECT_FALSE(compare(floats({1, 1}), floats({kNan, 1})).ok());
}

TEST(CompareTest, AnInfinityDoesNotWidenTheTolerance) {
  EXPECT_FALSE(compare(floats({kInf, 2}), floats({kInf, 1})).ok());
}

TEST(CompareTest, BytesMayDifferByOneStepAndOtherIntegersNotAtAll) {
  const auto bytes = [](std::uint8_t x) { return tensor<std::uint8_t>(DType::kU8, {1}, {x}); };
  EXPECT_TRUE(compare(bytes(7), bytes(8)).ok());
  EXPECT_FALSE(compare(bytes(6), bytes(8)).ok());
  const auto words = [](std::int64_t x) { return tensor<std::int64_t>(DType::kI64, {1}, {x}); };
  EXPECT_TRUE(compare(words(8), words(8)).ok());
  EXPECT_FALSE(compare(words(7), words(8)).ok());
  EXPECT_FALSE(compare(words((1LL << 60) + 1), words(1LL << 60)).ok());
}

TEST(CompareTest, HalfPrecisionAndComplexNumbersAreComparedAsNumbers) {
  const auto halves = [](std::uint16_t x) { return tensor<std::uint16_t>(DType::kF16, {1}, {x}); };
  EXPECT_TRUE(compare(halves(0x3C01), halves(0x3C00)).ok());
  EXPECT_FALSE(compare(halves(0x3C03), halves(0x3C00)).ok());
  const auto complex = [](float re, float im) { return tensor<float>(DType::kC64, {1}, {re, im}); };
  EXPECT_TRUE(compare(complex(1, 2), complex(1, 2)).ok());
  const auto result = compare(complex(1, 3), complex(1, 2));
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.where, "[0]");
}

TEST(CompareTest, TextsAndSequencesAreComparedPartByPart) {
  EXPECT_TRUE(compare(Tensor::strings({1}, {"a"}), Tensor::strings({1}, {"a"})).ok());
  EXPECT_FALSE(compare(Tensor::strings({1}, {"b"}), Tensor::strings({1}, {"a"})).ok());
  const auto one = Tensor::sequence({floats({1}), floats({1, 2})});
  const auto other = Tensor::sequence({floats({1}), floats({1, 3})});
  EXPECT_TRUE(compare(one, one).ok());
  EXPECT_EQ(compare(other, one).where, "element 1 [1]");
  EXPECT_EQ(compare(Tensor::sequence({}), one).problem, "expected a sequence of 2, found one of 0");
}

TEST(CompareTest, OtherTypesAndShapesAreAProblem) {
  EXPECT_EQ(compare(floats({1}), floats({1, 2})).problem, "expected f32[2], found f32[1]");
  EXPECT_EQ(compare(Tensor(), floats({1})).problem, "expected a tensor, found no value");
  EXPECT_TRUE(compare(Tensor(), Tensor()).ok());
}

TEST(CompareTest, AFloorAllowsAsMuchEverywhere) {
  EXPECT_FALSE(compare(floats({1, 1e-3F}), floats({1, 0})).ok());
  EXPECT_TRUE(compare(floats({1, 1e-3F}), floats({1, 0}), {.floor = 1e-3}).ok());
  EXPECT_FALSE(compare(floats({1, 2e-3F}), floats({1, 0}), {.floor = 1e-3}).ok());
}

TEST(CompareTest, TheLargestErrorIsTheLargestWithinALimit) {
  const auto actual = floats({1, 2.5F, 10, kNan, kInf});
  const auto expected = floats({1, 2, 3, 3, 3});
  EXPECT_EQ(largest_error(actual, expected, 100), 7);
  EXPECT_EQ(largest_error(actual, expected, 1), 0.5);
  EXPECT_EQ(largest_error(actual, floats({1}), 100), 0);
  EXPECT_EQ(largest_error(Tensor::sequence({actual}), Tensor::sequence({expected}), 1), 0.5);
}

}  // namespace
}  // namespace penstock
