#include "kernels.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace penstock::onednn {
namespace {

template <typename T>
Kernel copy_of(Walk walk) {
  return map_kernel<T, T>(std::move(walk), [](T value) { return value; });
}

}  // namespace

Walk walk_of(const Dims& dims, std::vector<Dims> strides) {
  std::vector<std::size_t> order(dims.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const Dims& written = strides.back();
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return written[a] > written[b]; });
  Walk walk{.dims = {}, .strides = std::vector<Dims>(strides.size())};
  for (const std::size_t axis : order) {
    if (dims[axis] == 1) continue;
    bool joins = !walk.dims.empty();
    for (std::size_t o = 0; joins && o < strides.size(); ++o) {
      joins = walk.strides[o].back() == strides[o][axis] * dims[axis];
    }
    if (joins) {
      walk.dims.back() *= dims[axis];
      for (std::size_t o = 0; o < strides.size(); ++o) walk.strides[o].back() = strides[o][axis];
      continue;
    }
    walk.dims.push_back(dims[axis]);
    for (std::size_t o = 0; o < strides.size(); ++o) walk.strides[o].push_back(strides[o][axis]);
  }
  if (walk.dims.empty()) {
    walk.dims = {1};
    for (Dims& one : walk.strides) one = {1};
  }
  return walk;
}

Dims broadcast_strides(const Layout& layout, const Dims& dims) {
  Dims strides(dims.size(), 0);
  const std::size_t left_out = dims.size() - layout.rank();
  for (std::size_t i = 0; i < layout.rank(); ++i) {
    if (layout.dims()[i] == dims[left_out + i]) strides[left_out + i] = layout.strides()[i];
  }
  return strides;
}

Kernel copy_kernel(Walk walk, std::size_t element_bytes) {
  switch (element_bytes) {
    case 1:
      return copy_of<std::uint8_t>(std::move(walk));
    case 4:
      return copy_of<std::uint32_t>(std::move(walk));
    default:
      return copy_of<std::uint64_t>(std::move(walk));
  }
}

Kernel table_kernel(std::vector<Dims> offsets) {
  return [offsets = std::move(offsets)](std::span<std::byte* const> data) {
    const float* const from = as<const float>(data[0]);
    float* to = as<float>(data[1]);
    std::array<std::size_t, DNNL_MAX_NDIMS> index{};
    const std::size_t last = offsets.size() - 1;
    while (true) {
      std::int64_t row = 0;
      for (std::size_t i = 0; i < last; ++i) row += offsets[i][index[i]];
      for (const auto offset : offsets[last]) *to++ = from[row + offset];
      std::size_t i = last;
      while (i > 0 && ++index[i - 1] == offsets[i - 1].size()) index[--i] = 0;
      if (i == 0) return Status();
    }
  };
}

}  // namespace penstock::onednn
