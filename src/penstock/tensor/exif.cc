// Walks a JPEG's segments or a PNG's chunks to EXIF, and there its first directory to the tag.
#include "penstock/tensor/exif.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace penstock {
namespace {

using Bytes = std::span<const unsigned char>;

/// `count` bytes at `at` as a number; 0 beyond the end.
std::uint32_t number_at(Bytes bytes, std::size_t at, std::size_t count, bool little) {
  if (at > bytes.size() || count > bytes.size() - at) return 0;
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < count; ++i) {
    number = number << 8U | bytes[at + (little ? count - 1 - i : i)];
  }
  return number;
}

bool begins_with(Bytes bytes, std::string_view text) {
  return bytes.size() >= text.size() &&
         std::ranges::equal(bytes.first(text.size()), text, {}, {},
                            [](char c) { return static_cast<unsigned char>(c); });
}

/// `tiff`: what stands behind the segment's name.
int orientation_in(Bytes tiff) {
  constexpr std::size_t kEntry = 12;  // Bytes: tag, type, count, value.
  constexpr std::uint32_t kOrientation = 0x0112;
  const bool little = begins_with(tiff, "II");
  const std::size_t directory = number_at(tiff, 4, 4, little);
  const std::size_t entries = number_at(tiff, directory, 2, little);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + i * kEntry;
    if (number_at(tiff, entry, 2, little) != kOrientation) continue;
    const auto found = number_at(tiff, entry + 8, 2, little);
    return found >= 1 && found <= 8 ? static_cast<int>(found) : 1;
  }
  return 1;
}

int orientation_of_png(Bytes png) {
  constexpr std::size_t kBegin = 8, kAround = 12;  // Of a chunk: length, name and checksum.
  for (std::size_t at = kBegin; at + kAround <= png.size();) {
    const std::size_t length = number_at(png, at, 4, false);
    if (length > png.size() - at - kAround) return 1;
    if (begins_with(png.subspan(at + 4), "eXIf")) {
      return orientation_in(png.subspan(at + 8, length));
    }
    at += kAround + length;
  }
  return 1;
}

int orientation_of_jpeg(Bytes jpeg) {
  using namespace std::string_view_literals;
  constexpr unsigned char kMarker = 0xFF, kStart = 0xD8, kApp1 = 0xE1, kScan = 0xDA;
  if (jpeg.size() < 2 || jpeg[0] != kMarker || jpeg[1] != kStart) return 1;
  for (std::size_t at = 2; at + 4 <= jpeg.size() && jpeg[at] == kMarker && jpeg[at + 1] != kScan;) {
    const std::size_t length = number_at(jpeg, at + 2, 2, false);  // With its own two bytes.
    if (length < 2 || length > jpeg.size() - at - 2) return 1;
    const auto segment = jpeg.subspan(at + 4, length - 2);
    constexpr auto kName = "Exif\0\0"sv;
    if (jpeg[at + 1] == kApp1 && begins_with(segment, kName)) {
      return orientation_in(segment.subspan(kName.size()));
    }
    at += 2 + length;
  }
  return 1;
}

}  // namespace

int exif_orientation(std::span<const unsigned char> file) {
  return begins_with(file, "\x89PNG\r\n\x1A\n") ? orientation_of_png(file)
                                                : orientation_of_jpeg(file);
}

}  // namespace penstock
