#include "penstock/frames/random.h"

#include <utility>

#include "penstock/tensor/random.h"

namespace penstock::frames {

Result<Frame> random_frame(const std::vector<plan::TensorInfo>& inputs, const RandomValues& values,
                           std::uint64_t number) {
  Random seeds(values.seed);
  const std::uint64_t base = seeds.bits() + number * 0x9E3779B97F4A7C15U;
  Random random(base);
  Frame frame;
  for (const auto& info : inputs) {
    auto value = random_tensor(info.type, random, {values.integer_limit, 1});
    if (!value) return std::move(value).error().within({Where::kInput, info.name});
    frame.push_back(*std::move(value));
  }
  return frame;
}

Result<std::vector<Frame>> random_frames(const std::vector<plan::TensorInfo>& inputs,
                                         const RandomValues& values, std::uint64_t count) {
  std::vector<Frame> frames;
  for (std::uint64_t number = 0; number < count; ++number) {
    PENSTOCK_TRY(auto frame, random_frame(inputs, values, number));
    frames.push_back(std::move(frame));
  }
  return frames;
}

}  // namespace penstock::frames
