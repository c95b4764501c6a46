// Down first, over whole rows at a time, then across: both loops without a branch inside.
#include "penstock/ready/resizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "penstock/ready/settings.h"
#include "penstock/ready/vectors.h"

namespace penstock::ready {
namespace {

void set_nearest(Taps& taps) {
  for (int i = 0; i < taps.to; ++i) {
    const auto centre = (2 * static_cast<std::int64_t>(i) + 1) * taps.from;
    taps.first[static_cast<std::size_t>(i)] = static_cast<int>(centre / (2 * taps.to));
  }
  std::ranges::fill(taps.weights, 1.0F);
}

void set_linear(Taps& taps) {
  const double scale = static_cast<double>(taps.from) / taps.to;
  for (int i = 0; i < taps.to; ++i) {
    const double last = taps.from - 1;
    const double at = std::clamp((i + 0.5) * scale - 0.5, 0.0, last);
    const int first = std::min(static_cast<int>(at), taps.from - 2);
    const auto right = static_cast<float>(at - first);
    taps.first[static_cast<std::size_t>(i)] = first;
    taps.weights[static_cast<std::size_t>(2 * i)] = 1 - right;
    taps.weights[static_cast<std::size_t>(2 * i + 1)] = right;
  }
}

void set_area(Taps& taps) {
  const double scale = static_cast<double>(taps.from) / taps.to;
  for (int i = 0; i < taps.to; ++i) {
    const double begin = i * scale, end = (i + 1) * scale;
    const int first = std::min(static_cast<int>(begin), taps.from - taps.most);
    taps.first[static_cast<std::size_t>(i)] = first;
    for (int k = 0; k < taps.most; ++k) {
      const double covered = std::min(end, first + k + 1.0) - std::max(begin, first + k + 0.0);
      taps.weights[static_cast<std::size_t>(i * taps.most + k)] =
          static_cast<float>(std::max(0.0, covered) / scale);
    }
  }
}

int most_taps(How how, int from, int to) {
  if (how == How::kNearest || from == 1 || from == to) return 1;
  if (how == How::kLinear) return 2;
  return std::min(from, (from + to - 1) / to + 1);
}

/// Taps of a part that begins at `offset` of a side of `size` places. Of those that lie wholly
/// beyond the side, the nearest are taken: all are of one value there.
Taps shifted(Taps taps, int offset, int size) {
  for (int& first : taps.first) first = std::clamp(first + offset, -taps.most, size);
  taps.from = 0;  // Of no picture as a whole: the next one makes its own.
  return taps;
}

using Bytes = const std::uint8_t* __restrict;

PENSTOCK_VECTORISED void blend(Bytes a, Bytes b, float of_a, float of_b, float* __restrict to,
                               std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = static_cast<float>(a[i]) * of_a + static_cast<float>(b[i]) * of_b;
  }
}

PENSTOCK_VECTORISED void add(Bytes a, float of_a, float* __restrict to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] += static_cast<float>(a[i]) * of_a;
}

PENSTOCK_VECTORISED void take(Bytes a, float of_a, float* __restrict to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<float>(a[i]) * of_a;
}

/// Weights are of one sum, so that half more never passes 255.
std::uint8_t rounded(float value) {
  return static_cast<std::uint8_t>(static_cast<int>(value + 0.5F));
}

template <int kChannels>
void across_two(const float* __restrict row, const Taps& taps, std::uint8_t* __restrict to) {
  const int* first = taps.first.data();
  const float* weights = taps.weights.data();
  for (int x = 0; x < taps.to; ++x) {
    const float* a = row + first[x] * kChannels;
    const float left = weights[2 * x], right = weights[2 * x + 1];
    for (int c = 0; c < kChannels; ++c) {
      to[x * kChannels + c] = rounded(a[c] * left + a[c + kChannels] * right);
    }
  }
}

template <int kChannels>
void across_many(const float* __restrict row, const Taps& taps, std::uint8_t* __restrict to) {
  const float* weights = taps.weights.data();
  for (int x = 0; x < taps.to; ++x, weights += taps.most) {
    const float* a = row + taps.first[static_cast<std::size_t>(x)] * kChannels;
    float sums[kChannels] = {};
    for (int k = 0; k < taps.most; ++k, a += kChannels) {
      for (int c = 0; c < kChannels; ++c) sums[c] += a[c] * weights[k];
    }
    for (int c = 0; c < kChannels; ++c) to[x * kChannels + c] = rounded(sums[c]);
  }
}

using Four = float __attribute__((vector_size(16)));

Four four_at(const float* from) {
  Four numbers;
  std::memcpy(&numbers, from, sizeof(numbers));
  return numbers;
}

/// As across_two, a pixel at a time: what is read and written beyond a pixel of 3 channels is the
/// next one's. \pre  a number more behind the row.
template <int kChannels>
void across_fours(const float* __restrict row, const Taps& taps, std::uint8_t* __restrict to) {
  using FourWhole = std::int32_t __attribute__((vector_size(16)));
  using FourBytes = std::uint8_t __attribute__((vector_size(4)));
  const int* first = taps.first.data();
  const float* weights = taps.weights.data();
  for (int x = 0; x < taps.to; ++x) {
    const float* a = row + first[x] * kChannels;
    const Four sum = four_at(a) * weights[2 * x] + four_at(a + kChannels) * weights[2 * x + 1];
    const auto whole = __builtin_convertvector(sum + 0.5F, FourWhole);
    const auto bytes = __builtin_convertvector(whole, FourBytes);
    std::memcpy(to + x * kChannels, &bytes, x + 1 < taps.to ? sizeof(bytes) : kChannels);
  }
}

template <int kChannels>
void across(const float* row, const Taps& taps, std::uint8_t* to) {
  if (taps.most == 2) {
    if constexpr (kChannels >= 3) {
      across_fours<kChannels>(row, taps, to);
    } else {
      across_two<kChannels>(row, taps, to);
    }
  } else {
    across_many<kChannels>(row, taps, to);
  }
}

void across(const float* row, const Taps& taps, std::uint8_t* to, int channels) {
  if (channels == 1) across<1>(row, taps, to);
  if (channels == 2) across<2>(row, taps, to);
  if (channels == 3) across<3>(row, taps, to);
  if (channels == 4) across<4>(row, taps, to);
}

template <int kChannels>
void pick(const std::uint8_t* __restrict row, const Taps& taps, std::uint8_t* __restrict to) {
  const int* first = taps.first.data();
  for (int x = 0; x < taps.to; ++x) {
    std::memcpy(to + x * kChannels, row + first[x] * kChannels, kChannels);
  }
}

void pick(const std::uint8_t* row, const Taps& taps, std::uint8_t* to, int channels) {
  if (channels == 1) pick<1>(row, taps, to);
  if (channels == 2) pick<2>(row, taps, to);
  if (channels == 3) pick<3>(row, taps, to);
  if (channels == 4) pick<4>(row, taps, to);
}

}  // namespace

Setting how_setting() {
  return word(
      "how", "linear",
      "The nearest pixel, a blend of the nearest four, or the mean of the area that a pixel "
      "covers, which is best for making pictures small.",
      "nearest|linear|area");
}

How parse_how(std::string_view word) {
  if (word == "nearest") return How::kNearest;
  return word == "area" ? How::kArea : How::kLinear;
}

Taps taps_of(How how, int from, int to) {
  Taps taps{from, to, most_taps(how, from, to), {}, {}};
  taps.first.resize(static_cast<std::size_t>(to));
  taps.weights.resize(static_cast<std::size_t>(to) * static_cast<std::size_t>(taps.most));
  if (taps.most == 1) {
    set_nearest(taps);
  } else if (how == How::kLinear) {
    set_linear(taps);
  } else {
    set_area(taps);
  }
  return taps;
}

void Resizer::blend_rows(const Picture& from, int y, float* to, std::size_t count) {
  const int first = down_.first[static_cast<std::size_t>(y)];
  const float* weights = down_.weights.data() + static_cast<std::ptrdiff_t>(y) * down_.most;
  const auto row = [&](int at) {
    return at >= 0 && at < from.height ? from.row(at) : blank_.data();
  };
  if (down_.most == 1) return take(row(first), 1, to, count);
  blend(row(first), row(first + 1), weights[0], weights[1], to, count);
  float beyond = 0;
  for (int k = 2; k < down_.most; ++k) {
    const auto* values = row(first + k);
    if (values == blank_.data()) {
      beyond += weights[k];
    } else if (weights[k] > 0) {
      add(values, weights[k], to, count);
    }
  }
  if (beyond > 0) add(blank_.data(), beyond, to, count);
}

void Resizer::run(const Picture& from, const Part& part, std::uint8_t value, const Canvas& to) {
  const bool within = part.top >= 0 && part.left >= 0 && part.top + part.height <= from.height &&
                      part.left + part.width <= from.width;
  if (within) return run(from.part(part.top, part.left, part.height, part.width), to);
  down_ = shifted(taps_of(how_, part.height, to.height), part.top, from.height);
  across_ = shifted(taps_of(how_, part.width, to.width), part.left, from.width);
  for (int& first : across_.first) first += across_.most;
  const auto count = static_cast<std::size_t>(from.width) * static_cast<std::size_t>(from.channels);
  const auto margin =
      static_cast<std::size_t>(across_.most) * static_cast<std::size_t>(from.channels);
  blank_.assign(count, value);
  row_.assign(margin + count + margin + 1, value);
  for (int y = 0; y < to.height; ++y) {
    blend_rows(from, y, row_.data() + margin, count);
    across(row_.data(), across_, to.row(y), to.channels);
  }
}

void Resizer::run(const Picture& from, const Canvas& to) {
  if (from.height == to.height && from.width == to.width) return copy(from, to);
  if (down_.from != from.height || down_.to != to.height) {
    down_ = taps_of(how_, from.height, to.height);
  }
  if (across_.from != from.width || across_.to != to.width) {
    across_ = taps_of(how_, from.width, to.width);
  }
  if (how_ == How::kNearest) {
    for (int y = 0; y < to.height; ++y) {
      pick(from.row(down_.first[static_cast<std::size_t>(y)]), across_, to.row(y), to.channels);
    }
    return;
  }
  // A vector of four reads one number beyond a last pixel of three.
  row_.resize(static_cast<std::size_t>(from.width) * static_cast<std::size_t>(from.channels) + 1);
  for (int y = 0; y < to.height; ++y) {
    blend_rows(from, y, row_.data(), row_.size() - 1);
    across(row_.data(), across_, to.row(y), to.channels);
  }
}

}  // namespace penstock::ready
