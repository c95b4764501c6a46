// Pictures -> tensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/tensor/tensor.h"

namespace penstock {

/// Decodes a PNG, JPEG, BMP or PPM/PGM file into the form that an input of `type` takes.
///
/// `type` is u8 (0..255) or f32 (scaled to 0..1, no mean or deviation applied), of one picture:
/// [1,C,H,W] or [C,H,W] where C is 1 (grey) or 3 (red, green, blue), else [1,H,W,C] or [H,W,C].
/// It is turned as the EXIF orientation of a JPEG says, then resized to H x W without regard to its
/// proportions; an open H or W takes the picture's own, an open first dimension 1.
/// \error kNotFound         no such file.
/// \error kDataLoss         not a picture, truncated, or of another kind.
/// \error kInvalidArgument  `type` is no picture's, or its open dimensions are bounded too low.
Result<Tensor> read_image(const std::filesystem::path& file, const Type& type);

/// A picture of 8 bits a channel: rows of pixels, channels together.
struct Pixels {
  std::vector<std::uint8_t> bytes;
  int height = 0, width = 0;
};

/// Decodes the bytes of such a file to 1 (grey), 3 (red, green, blue) or 4 channels (and opacity),
/// turned as its EXIF orientation says. What would be over the bounds, as it is seen, is refused
/// before it is decoded.
/// \error kDataLoss         as read_image().
/// \error kInvalidArgument  its height or width is over the bound: says both.
Result<Pixels> decode_image(std::span<const std::uint8_t> bytes, int channels, int most_height,
                            int most_width);

/// Whether the name ends like a picture's: .png, .jpg, .jpeg, .bmp, .ppm, .pgm, in any case.
bool has_image_suffix(const std::filesystem::path& file);

}  // namespace penstock
