// Types as text and in bytes, and tensors in aligned, too small and unreadable storage.
#include "penstock/tensor/tensor.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(TypeTest, PrintsFixedOpenAndBoundedDimensions) {
  EXPECT_EQ(to_string(Type::tensor(DType::kF32,
                                   std::vector<Dim>{{1, "", -1}, {-1, "n", 512}, {-1, "", -1}})),
            "f32[1,n<=512,?]");
}

TEST(TypeTest, MaxBytesUsesTheBoundAndIsUnknownWithoutOne) {
  EXPECT_EQ(Type::tensor(DType::kI64, std::vector<Dim>{{-1, "n", 512}}).max_bytes(), 4096U);
  EXPECT_EQ(Type::tensor(DType::kI64, std::vector<Dim>{{-1, "n", -1}}).max_bytes(), std::nullopt);
}

TEST(TensorTest, StorageIsAlignedAndZero) {
  Tensor tensor = Tensor::allocate(DType::kF32, {2, 3});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data()) % Tensor::kAlignment, 0U);
  for (const float x : tensor.as<float>()) EXPECT_EQ(x, 0.0F);
}

TEST(TensorTest, SetDimsRefusesWhatDoesNotFit) {
  Tensor tensor = Tensor::reserve(DType::kF32, 16);
  const std::vector<std::int64_t> fits{2, 2};
  const std::vector<std::int64_t> too_large{5};
  EXPECT_TRUE(tensor.set_dims(fits));
  EXPECT_FALSE(tensor.set_dims(too_large));
  EXPECT_EQ(tensor.dims(), fits);
}

TEST(TensorTest, StorageInAnotherMemoryIsNotTouched) {
  char byte = 0;
  auto* const unreadable = &byte - 4096;  // Nobody reads it.
  Tensor tensor =
      Tensor::reserve_in(MemoryDomain{1}, DType::kF32, 16, unreadable, std::make_shared<int>());
  EXPECT_EQ(tensor.bytes(), 0U);
  const std::vector<std::int64_t> dims{2, 2};
  ASSERT_TRUE(tensor.set_dims(dims));
  EXPECT_EQ(tensor.bytes(), 16U);
  EXPECT_EQ(tensor.data(), unreadable);
  const Tensor same = tensor;
  EXPECT_EQ(same.domain(), MemoryDomain{1});
  EXPECT_FALSE(same.in_host_memory());
  tensor.release();
  EXPECT_TRUE(tensor.in_host_memory());
}

TEST(CheckMatchesTest, SaysWhatWasExpectedAndFound) {
  const auto type = Type::tensor(DType::kF32, std::vector<Dim>{{1, "", -1}, {3, "", -1}});
  const auto status = check_matches(type, Tensor::allocate(DType::kU8, {1, 4}));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message(), "expected f32[1,3], found u8[1,4]");
}

}  // namespace
}  // namespace penstock
