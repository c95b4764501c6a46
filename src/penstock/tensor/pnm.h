// PGM and PPM files: their size, and their pixels.
#pragma once

#include <cstdint>
#include <span>

#include "penstock/base/result.h"

namespace penstock {

/// Whether `bytes` begin as a PGM or PPM file of binary numbers does (P5, P6).
bool is_pnm(std::span<const unsigned char> bytes);

/// Such a file. It borrows the bytes.
struct Pnm {
  /// \error kDataLoss  the header is damaged, or numbers are missing: says what.
  static Result<Pnm> open(std::span<const unsigned char> bytes);
  /// Scales its numbers, which are from 0 to `most`, to 0..255, and gives 1 (grey), 2 (grey,
  /// opacity), 3 (red, green, blue) or 4 channels (and opacity).
  /// \pre  `to` is of height x width x channels.
  void read(int channels, std::span<std::uint8_t> to) const;

  int height = 0, width = 0;
  int colours = 1;    ///< 1 (grey) or 3 of each pixel.
  unsigned most = 0;  ///< Up to 65535; over 255 a number has two bytes, the high one first.
  std::span<const unsigned char> numbers = {};
};

}  // namespace penstock
