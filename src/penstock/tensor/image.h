// Pictures -> tensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>

#include "penstock/base/result.h"
#include "penstock/tensor/tensor.h"

namespace penstock {

/// Decodes a PNG, JPEG, BMP or PPM/PGM file into the form that an input of `type` takes.
///
/// `type` is u8 (0..255) or f32 (scaled to 0..1, no mean or deviation applied), of one picture:
/// [1,C,H,W] or [C,H,W] where C is 1 (grey) or 3 (red, green, blue), else [1,H,W,C] or [H,W,C].
/// It is turned as the EXIF orientation of a JPEG or PNG says, then resized to H x W without regard
/// to its proportions; an open H or W takes the picture's own, an open first dimension 1.
/// \error kNotFound         no such file.
/// \error kDataLoss         not a picture, truncated, or of another kind.
/// \error kInvalidArgument  `type` is no picture's, or its open dimensions are bounded too low.
Result<Tensor> read_image(const std::filesystem::path& file, const Type& type);

/// Gives memory for a picture of `height` rows of `width` pixels, as it is seen, or refuses it.
/// \returns  as many bytes as it has pixels and channels.
using Room = std::function<Result<std::span<std::uint8_t>>(int height, int width)>;

/// Decodes the bytes of such a file to 1 (grey), 2 (and opacity), 3 (red, green, blue) or 4
/// channels (and opacity): rows of pixels, channels together, turned as its EXIF orientation says,
/// numbers of other than 8 bits scaled to 0..255.
/// `room` is asked once, before anything is decoded.
/// \error kDataLoss  as read_image(); and what `room` says.
Status decode_image(std::span<const std::uint8_t> bytes, int channels, const Room& room);

/// Whether the name ends like a picture's: .png, .jpg, .jpeg, .bmp, .ppm, .pgm, in any case.
bool has_image_suffix(const std::filesystem::path& file);

}  // namespace penstock
