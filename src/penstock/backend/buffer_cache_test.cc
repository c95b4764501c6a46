// Every buffer that was added is found again after the table has grown to hold 60 of them.
#include "penstock/backend/buffer_cache.h"

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include <gmock/gmock.h>

namespace penstock::backend {
namespace {

// Places in the table depend on addresses, which are the same in each run. Nothing reads there.
Tensor buffer_at(std::uintptr_t address) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a made-up address
  return Tensor::view(DType::kF32, {2, 3}, reinterpret_cast<void*>(address));
}

TEST(BufferCacheTest, ForgetsNoBufferAsItGrows) {
  // NOLINTNEXTLINE(bugprone-random-generator-seed): the same addresses in each run
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
