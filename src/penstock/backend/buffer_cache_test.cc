#include "penstock/backend/buffer_cache.h"

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include <gmock/gmock.h>

namespace penstock::backend {
namespace {

// A place in the table depends on the address, which must be the same in each run. Nothing reads
// it.
Tensor buffer_at(std::uintptr_t address) {
  auto* data =
      reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): a made-up one
  return Tensor::view(DType::kF32, {2, 3}, data);
}

TEST(BufferCacheTest, ForgetsNoBufferAsItGrows) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 100; ++round) {
    BufferCache<std::unique_ptr<int>> cache;
    std::vector<Tensor> buffers;
    for (int i = 0; i < 60; ++i) {
      buffers.push_back(buffer_at((random() >> 20) * 64));
      cache.add(buffers.back(), std::make_unique<int>(i));
    }
    for (int i = 0; i < 60; ++i) {
      const int* found = cache.find(buffers[static_cast<std::size_t>(i)]);
      ASSERT_TRUE(found != nullptr && *found == i) << "round " << round << ", buffer " << i;
    }
  }
}

}  // namespace
}  // namespace penstock::backend
