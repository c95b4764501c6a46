// WAV files written byte by byte: codings, extra chunks, reads past the end, and wrong files.
#include "penstock/tensor/wav.h"

#include <bit>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/temporary_folder.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

std::string bytes_of(std::uint64_t value, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFFU);
  return bytes;
}

std::string chunk(const std::string& name, const std::string& content) {
  return name + bytes_of(content.size(), 4) + content + std::string(content.size() % 2, '\0');
}

std::string format(int coding, int channels, int bits) {
  const int bytes = channels * bits / 8;
  return chunk("fmt ", bytes_of(static_cast<std::uint64_t>(coding), 2) +
                           bytes_of(static_cast<std::uint64_t>(channels), 2) + bytes_of(16000, 4) +
                           bytes_of(16000U * static_cast<unsigned>(bytes), 4) +
                           bytes_of(static_cast<std::uint64_t>(bytes), 2) +
                           bytes_of(static_cast<std::uint64_t>(bits), 2));
}

class WavTest : public testing::Test {
 protected:
  Result<WavFile> open(const std::string& chunks) {
    std::ofstream(file_, std::ios::binary)
        << "RIFF" << bytes_of(chunks.size() + 4, 4) << "WAVE" << chunks;
    return WavFile::open(file_);
  }
  std::vector<float> samples(const std::string& chunks) {
    const auto wav = open(chunks);
    if (!wav) return {};
    const auto read = wav->read(0, wav->length());
    return read ? *read : std::vector<float>();
  }
  /// What is wrong with the file.
  std::string problem(const std::string& chunks) {
    const auto wav = open(chunks);
    return wav ? "" : wav.error().message();
  }

  const TemporaryFolder temporary_;
  const fs::path file_ = temporary_.path() / "x.wav";
};

TEST_F(WavTest, IntegersAreScaledToOne) {
  EXPECT_EQ(samples(format(1, 1, 8) + chunk("data", std::string("\x00\x80\xC0", 3))),
            (std::vector<float>{-1, 0, 0.5}));
  EXPECT_EQ(samples(format(1, 1, 16) + chunk("data", bytes_of(0x8000, 2) + bytes_of(0x4000, 2))),
            (std::vector<float>{-1, 0.5}));
  EXPECT_EQ(
      samples(format(1, 1, 24) + chunk("data", bytes_of(0x800000, 3) + bytes_of(0x400000, 3))),
      (std::vector<float>{-1, 0.5}));
  EXPECT_EQ(samples(format(1, 1, 32) + chunk("data", bytes_of(0xC0000000, 4))),
            (std::vector<float>{-0.5}));
}

TEST_F(WavTest, FloatsStayAsTheyAre) {
  EXPECT_EQ(
      samples(format(3, 1, 32) + chunk("data", bytes_of(std::bit_cast<std::uint32_t>(1.5F), 4))),
      (std::vector<float>{1.5}));
  EXPECT_EQ(
      samples(format(3, 1, 64) + chunk("data", bytes_of(std::bit_cast<std::uint64_t>(-0.25), 8))),
      (std::vector<float>{-0.25}));
}

TEST_F(WavTest, OtherChunksAreSkippedAndChannelsStayTogether) {
  const auto wav = open(chunk("LIST", "odd") + format(1, 2, 16) +
                        chunk("data", bytes_of(0x4000, 2) + bytes_of(0xC000, 2)));
  ASSERT_TRUE(wav) << wav.error().message();
  EXPECT_EQ(wav->channels(), 2);
  EXPECT_EQ(wav->rate(), 16000U);
  EXPECT_EQ(wav->length(), 1U);
  EXPECT_EQ(*wav->read(0, 1), (std::vector<float>{0.5, -0.5}));
}

TEST_F(WavTest, BeyondTheEndIsSilence) {
  const auto wav = open(format(1, 1, 16) + chunk("data", bytes_of(0x4000, 2)));
  ASSERT_TRUE(wav) << wav.error().message();
  EXPECT_EQ(*wav->read(0, 3), (std::vector<float>{0.5, 0, 0}));
  EXPECT_EQ(*wav->read(7, 2), (std::vector<float>{0, 0}));
}

TEST_F(WavTest, AnExtensibleFormatNamesItsCodingLater) {
  std::string content = format(0xFFFE, 1, 16).substr(8);
  content +=
      bytes_of(22, 2) + bytes_of(16, 2) + bytes_of(0, 4) + bytes_of(1, 2) + std::string(14, 'g');
  EXPECT_EQ(samples(chunk("fmt ", content) + chunk("data", bytes_of(0x4000, 2))),
            (std::vector<float>{0.5}));
}

TEST_F(WavTest, AStreamedFileGoesToItsEnd) {
  EXPECT_EQ(samples(format(1, 1, 16) + "data" + bytes_of(0xFFFFFFFF, 4) + bytes_of(0x4000, 2)),
            (std::vector<float>{0.5}));
}

TEST_F(WavTest, WhatIsWrongIsSaid) {
  EXPECT_NE(WavFile::open("nowhere.wav").error().message().find("'nowhere.wav': no such file"),
            std::string::npos);
  const std::string data = chunk("data", "12");
  EXPECT_NE(problem(data).find("samples before their format"), std::string::npos);
  EXPECT_NE(problem(format(1, 1, 16)).find("has no samples"), std::string::npos);
  EXPECT_NE(problem("").find("has no format"), std::string::npos);
  EXPECT_NE(problem(format(2, 1, 4) + data).find("4 bits in coding 2"), std::string::npos);
  EXPECT_NE(problem(format(1, 1, 12) + data).find("12 bits in coding 1"), std::string::npos);
  EXPECT_NE(problem(format(1, 0, 16) + data).find("no channels"), std::string::npos);
  EXPECT_NE(problem(chunk("fmt ", "12")).find("truncated in its format"), std::string::npos);
  EXPECT_NE(problem(format(1, 1, 16) + "data" + bytes_of(10, 4) + "1234")
                .find("expected 10 bytes of samples, found 4"),
            std::string::npos);
  std::ofstream(file_, std::ios::binary) << "this is no sound";
  EXPECT_NE(WavFile::open(file_).error().message().find("does not begin as"), std::string::npos);
}

TEST(WavNameTest, EndsInAnyCase) {
  EXPECT_TRUE(has_wav_suffix("a/b.WAV"));
  EXPECT_FALSE(has_wav_suffix("wav"));
}

}  // namespace
}  // namespace penstock
