// Texts read as tensors of several types and shapes, refused ones, and tensors as texts again.
#include "penstock/tensor/literal.h"

#include <cmath>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/tensor/number.h"

namespace penstock {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Type typed(DType dtype, std::vector<std::int64_t> sizes) {
  std::vector<Dim> dims;
  for (const auto size : sizes) dims.push_back(Dim{.size = size});
  return Type::tensor(dtype, std::move(dims));
}

Tensor parsed(const std::string& text, const Type& type) {
  auto tensor = parse_literal(text, type);
  if (tensor) return *std::move(tensor);
  ADD_FAILURE() << text << ": " << tensor.error().message();
  return Tensor::allocate(type.dtype, {0});
}

std::string refusal(const std::string& text, const Type& type) {
  const auto tensor = parse_literal(text, type);
  return tensor ? "accepted" : tensor.error().message();
}

TEST(Literal, OneValueFillsAFixedShape) {
  const auto scalar = parsed("16000", typed(DType::kI64, {}));
  EXPECT_THAT(scalar.dims(), ElementsAre());
  EXPECT_THAT(scalar.as<std::int64_t>(), ElementsAre(16000));
  const auto filled = parsed("-0.5", typed(DType::kF32, {1, 3}));
  EXPECT_THAT(filled.dims(), ElementsAre(1, 3));
  EXPECT_THAT(filled.as<float>(), ElementsAre(-0.5F, -0.5F, -0.5F));
  EXPECT_EQ(parsed("x", typed(DType::kString, {2})).strings(),
            (std::vector<std::string>{"x", "x"}));
}

TEST(Literal, ListsTellTheShapeOrFillIt) {
  const auto open = Type::tensor(DType::kI32, std::vector<Dim>{Dim{}, Dim{.size = 2}});
  const auto nested = parsed("[[1, 2], [3,4],[5, 6]]", open);
  EXPECT_THAT(nested.dims(), ElementsAre(3, 2));
  EXPECT_THAT(nested.as<std::int32_t>(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(parsed("[1,2,3,4]", typed(DType::kI32, {2, 2})).dims(), ElementsAre(2, 2));
  EXPECT_THAT(parsed("[true, 0]", typed(DType::kBool, {2})).as<unsigned char>(), ElementsAre(1, 0));
  EXPECT_EQ(parsed(R"(["a, b", c])", typed(DType::kString, {2})).strings(),
            (std::vector<std::string>{"a, b", "c"}));
  EXPECT_EQ(parsed(R"(["a\"b\\", "é"])", typed(DType::kString, {2})).strings(),
            (std::vector<std::string>{"a\"b\\", "é"}));
  EXPECT_THAT(refusal(R"(["a\n"])", typed(DType::kString, {1})),
              HasSubstr(R"(expected '"' or '\' behind '\', found 'n"]' at character 5)"));
  EXPECT_THAT(refusal(R"(["a\)", typed(DType::kString, {1})), HasSubstr("found nothing"));
  EXPECT_EQ(parsed("[]", Type::tensor(DType::kF32, std::vector<Dim>{Dim{}})).count(), 0U);
}

TEST(Literal, SaysWhatIsWrong) {
  const auto i64 = typed(DType::kI64, {});
  EXPECT_THAT(refusal("1.5", i64), HasSubstr("expected an integer, as the input is i64"));
  EXPECT_THAT(refusal("9223372036854775808", i64), HasSubstr("outside what i64 can hold"));
  EXPECT_THAT(refusal("-1", typed(DType::kU64, {})), HasSubstr("outside what u64 can hold"));
  EXPECT_THAT(refusal("256", typed(DType::kU8, {})), HasSubstr("outside what u8 can hold"));
  EXPECT_THAT(refusal("nan", typed(DType::kF32, {})), HasSubstr("expected a finite number"));
  EXPECT_THAT(refusal("1e39", typed(DType::kF32, {})), HasSubstr("outside what f32 can hold"));
  for (const auto* value : {"449", "-449", "1e9"}) {  // The kind has no infinity.
    EXPECT_THAT(refusal(value, typed(DType::kF8E4M3FN, {})), HasSubstr("outside what f8e4m3fn"));
  }
  EXPECT_EQ(parsed("-448", typed(DType::kF8E4M3FN, {1})).count(), 1U);
  EXPECT_THAT(refusal("7", typed(DType::kF4E2M1, {})), HasSubstr("outside what f4e2m1 can hold"));
  EXPECT_THAT(refusal("1e400", typed(DType::kF64, {})), HasSubstr("expected a finite number"));
  EXPECT_THAT(refusal("yes", typed(DType::kBool, {})), HasSubstr("expected true or false"));
  EXPECT_THAT(refusal("", i64), HasSubstr("expected a value, found nothing"));
  EXPECT_THAT(refusal("[1, 2", typed(DType::kI64, {2})), HasSubstr("expected ',' or ']'"));
  EXPECT_THAT(refusal("[1] 2", typed(DType::kI64, {1})), HasSubstr("expected the end, found '2'"));
  EXPECT_THAT(refusal("[[1, 2], [3]]", typed(DType::kI64, {2, 2})), HasSubstr("equal length"));
  EXPECT_THAT(refusal("[1, [2]]", typed(DType::kI64, {2})), HasSubstr("one depth"));
  EXPECT_THAT(refusal("[[2], 1]", typed(DType::kI64, {2})), HasSubstr("one depth"));
  EXPECT_THAT(refusal("[1, 2, 3]", typed(DType::kI64, {2})),
              HasSubstr("expected i64[2], found 3 values of shape [3]"));
  EXPECT_THAT(refusal("1", Type::tensor(DType::kF32, std::vector<Dim>{Dim{}})),
              HasSubstr("one value does not tell the sizes of f32[?]"));
  EXPECT_THAT(refusal("1", typed(DType::kC64, {})), HasSubstr("has no value as a text"));
  EXPECT_THAT(refusal(std::string(100000, '['), i64), HasSubstr("lists in one another"));
}

TEST(Literal, WhatIsWrittenIsReadAgain) {
  for (const auto dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kI8,
                           DType::kU64, DType::kI64, DType::kBool, DType::kI4}) {
    Tensor tensor = Tensor::allocate(dtype, {3});
    for (std::size_t i = 0; i < 3; ++i) {
      store_bits(dtype, tensor.data(), i, bits_from_number(dtype, 0.1 + static_cast<double>(i)));
    }
    const auto text = literal_of(tensor);
    ASSERT_TRUE(text) << to_string(dtype);
    const auto again = parsed(*text, tensor.type());
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(load_bits(dtype, again.data(), i), load_bits(dtype, tensor.data(), i)) << *text;
    }
  }
}

TEST(Literal, IsShort) {
  EXPECT_EQ(literal_of(Tensor::allocate(DType::kF32, {2, 1, 128})), "0");
  Tensor many = Tensor::allocate(DType::kI64, {17});
  many.as<std::int64_t>()[16] = 1;
  EXPECT_EQ(literal_of(many), std::nullopt);
  Tensor infinite = Tensor::allocate(DType::kF32, {});
  infinite.as<float>()[0] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(literal_of(infinite), std::nullopt);
  Tensor tenth = Tensor::allocate(DType::kF32, {2});
  tenth.as<float>()[0] = 0.1F;
  EXPECT_EQ(literal_of(tenth), "[0.1, 0]");
}

}  // namespace
}  // namespace penstock
