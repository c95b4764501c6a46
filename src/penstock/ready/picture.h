// Pictures as the ready-made functions see them: u8, rows of pixels, channels together.
#pragma once

#include <cstddef>
#include <cstdint>

#include "penstock/base/result.h"
#include "penstock/ready/kernel.h"
#include "penstock/ready/ready.h"

namespace penstock::ready {

/// Borrowed rows of pixels, perhaps a part of a larger picture: `stride` bytes from row to row.
template <typename Byte>
struct Rows {
  Byte* data = nullptr;
  int height = 0, width = 0, channels = 0;
  std::ptrdiff_t stride = 0;

  [[nodiscard]] Byte* row(int y) const { return data + y * stride; }
  [[nodiscard]] Byte* pixel(int y, int x) const { return row(y) + x * channels; }
  [[nodiscard]] Rows part(int top, int left, int high, int wide) const {
    return {pixel(top, left), high, wide, channels, stride};
  }
};
using Picture = Rows<const std::uint8_t>;
using Canvas = Rows<std::uint8_t>;

inline constexpr std::size_t kMostChannels = 4;
/// The largest side that a picture may have.
inline constexpr double kLargestSide = 32768;

/// The setting `channels`, which all functions of pictures share.
Setting channels_setting();
/// A setting that is a picture's size. `usual` empty: it has to be given.
Setting size_setting(std::string_view name, std::string_view says, std::string_view usual = {});

/// A picture of any size.
backend::Port any_picture(std::string name, std::int64_t channels);

/// The memory of u8 [H,W,C]. \error kInvalidArgument  it has no pixel, or a side over kLargestSide.
Result<Picture> picture_of(const Tensor& tensor);
/// \pre  u8 [H,W,C]
Canvas canvas_of(Tensor& tensor);

/// All pixels of one value.
void fill(const Canvas& canvas, std::uint8_t value);
/// \pre  both are of one size, and do not overlap.
void copy(const Picture& from, const Canvas& to);

}  // namespace penstock::ready
