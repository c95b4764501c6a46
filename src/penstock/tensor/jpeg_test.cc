// JPEG files of a few pixels in several colours, and files that are cut off or damaged.
#include "penstock/tensor/jpeg.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <jpeglib.h>

namespace penstock {
namespace {

using ::testing::HasSubstr;

using Bytes = std::vector<unsigned char>;

struct Kind {
  J_COLOR_SPACE colours;
  int components;
  bool progressive = false;
};

/// A file of one colour, 20 x 30, by the library's own encoder.
Bytes file_of(const Kind& kind, const Bytes& colour) {
  jpeg_error_mgr errors{};
  jpeg_compress_struct info{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_width = 30;
  info.image_height = 20;
  info.input_components = kind.components;
  info.in_color_space = kind.colours;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 100, TRUE);
  if (kind.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  Bytes row;
  for (unsigned x = 0; x < info.image_width; ++x)
    row.insert(row.end(), colour.begin(), colour.end());
  for (auto* data = row.data(); info.next_scanline < info.image_height;) {
    jpeg_write_scanlines(&info, &data, 1);
  }
  jpeg_finish_compress(&info);
  Bytes file(memory, memory + size);
  jpeg_destroy_compress(&info);
  std::free(memory);
  return file;
}

const Kind kGrey{JCS_GRAYSCALE, 1}, kColours{JCS_RGB, 3}, kInks{JCS_CMYK, 4};

Status decoded(const Bytes& file, int channels, Bytes& pixels) {
  PENSTOCK_TRY(auto jpeg, Jpeg::open(file));
  EXPECT_EQ(jpeg.height(), 20);
  EXPECT_EQ(jpeg.width(), 30);
  pixels.assign(static_cast<std::size_t>(20 * 30 * channels), 7);
  return jpeg.read(channels, pixels);
}

/// That each pixel is of that colour, as near as the format has it.
void expect_colour(const Bytes& file, const Bytes& colour) {
  Bytes pixels;
  const auto done = decoded(file, static_cast<int>(colour.size()), pixels);
  ASSERT_TRUE(done) << done.error().message();
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    ASSERT_NEAR(pixels[i], colour[i % colour.size()], 3) << i;
  }
}

TEST(Jpeg, GreyIsAllColoursAlike) {
  const auto file = file_of(kGrey, {90});
  expect_colour(file, {90});
  expect_colour(file, {90, 255});
  expect_colour(file, {90, 90, 90});
  expect_colour(file, {90, 90, 90, 255});
}

TEST(Jpeg, ColoursMayBecomeGrey) {
  for (const bool progressive : {false, true}) {
    auto kind = kColours;
    kind.progressive = progressive;
    const auto file = file_of(kind, {200, 100, 50});
    expect_colour(file, {200, 100, 50});
    expect_colour(file, {200, 100, 50, 255});
    expect_colour(file, {124});  // 0.299 * 200 + 0.587 * 100 + 0.114 * 50
    expect_colour(file, {124, 255});
  }
}

TEST(Jpeg, InksAreColoursOnWhitePaper) {
  // The encoder marks such files as Adobe's, where 255 is no ink: cyan a fifth, and half of black.
  const auto file = file_of(kInks, {204, 255, 255, 128});
  expect_colour(file, {102, 128, 128});
  expect_colour(file, {102, 128, 128, 255});
  expect_colour(file, {120});
  expect_colour(file, {120, 255});
}

TEST(Jpeg, WhatIsCutOffAnywhereIsRefused) {
  for (const auto& kind : {kGrey, kColours, kInks, Kind{JCS_RGB, 3, true}}) {
    const auto whole = file_of(kind, Bytes(static_cast<std::size_t>(kind.components), 99));
    for (std::size_t size = 0; size + 2 < whole.size(); ++size) {  // The last two mark the end.
      Bytes pixels;
      const auto done = decoded(
          Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)), 3, pixels);
      ASSERT_FALSE(done) << size;
      ASSERT_EQ(done.error().code, Code::kDataLoss);
    }
  }
}

TEST(Jpeg, ADamagedByteIsRefusedOrChangesPixels) {
  const auto whole = file_of(kColours, {200, 100, 50});
  for (std::size_t at = 0; at < whole.size(); ++at) {
    auto damaged = whole;
    damaged[at] ^= 0xFFU;
    auto jpeg = Jpeg::open(damaged);
    if (!jpeg || jpeg->height() > 4096 || jpeg->width() > 4096) continue;
    Bytes pixels(static_cast<std::size_t>(jpeg->height()) *
                 static_cast<std::size_t>(jpeg->width()) * 3);
    const auto done = jpeg->read(3, pixels);
    if (!done) EXPECT_EQ(done.error().code, Code::kDataLoss);
  }
}

TEST(Jpeg, ARefusalIsOneSentence) {
  auto file = file_of(kGrey, {90});
  file.resize(file.size() / 2);
  Bytes pixels;
  const auto message = decoded(file, 1, pixels).error().message();
  EXPECT_THAT(message, HasSubstr("cannot be decoded ("));
  EXPECT_THAT(message, HasSubstr("expected a whole JPEG picture of 8 bits a channel"));
}

TEST(Jpeg, IsKnownByItsFirstBytes) {
  EXPECT_TRUE(is_jpeg(file_of(kGrey, {1})));
  EXPECT_FALSE(is_jpeg(Bytes{0xFF, 0xD8}));
  EXPECT_FALSE(is_jpeg(Bytes{0x89, 'P', 'N', 'G'}));
}

}  // namespace
}  // namespace penstock
