// JPEG files: their size, and their pixels.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "penstock/base/result.h"

namespace penstock {

/// Whether `bytes` begin as a JPEG file does.
bool is_jpeg(std::span<const unsigned char> bytes);

/// A JPEG file of which the header is read: baseline or progressive, of grey, colours, or inks
/// (CMYK). It borrows the bytes. One thread at a time.
class Jpeg {
 public:
  struct Decoder;  ///< The library's state.

  /// \error kDataLoss  the header is damaged, or of a kind that is not supported: says what.
  static Result<Jpeg> open(std::span<const unsigned char> bytes);
  Jpeg(Jpeg&&) noexcept;
  Jpeg& operator=(Jpeg&&) noexcept;
  ~Jpeg();

  /// As it is stored; EXIF may say that it is seen turned (exif.h).
  [[nodiscard]] int height() const;
  [[nodiscard]] int width() const;

  /// Decodes to 1 (grey), 2 (grey, opacity), 3 (red, green, blue) or 4 channels (and opacity). Inks
  /// become colours as they multiply on white paper, without a profile.
  /// Once only. \pre  `to` is of height x width x channels.
  /// \error kDataLoss  pixels are missing or damaged: what it had written is of no use.
  Status read(int channels, std::span<std::uint8_t> to);

 private:
  explicit Jpeg(std::unique_ptr<Decoder> decoder);
  std::unique_ptr<Decoder> decoder_;
};

}  // namespace penstock
