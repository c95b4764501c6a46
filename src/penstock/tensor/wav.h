// Sounds in WAV files -> samples.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "penstock/base/result.h"

namespace penstock {

/// An uncompressed WAV file: PCM of 8, 16, 24 or 32 bits, or floats of 32 or 64. Only its header is
/// kept; samples are read when asked for. Copies are cheap; any thread may read.
class WavFile {
 public:
  /// \error kNotFound         no such file.
  /// \error kDataLoss         not a WAV file, or truncated.
  /// \error kInvalidArgument  its samples are compressed or of another width: says which.
  static Result<WavFile> open(const std::filesystem::path& file);

  [[nodiscard]] int channels() const { return channels_; }        ///< 1 or more.
  [[nodiscard]] std::uint32_t rate() const { return rate_; }      ///< Samples a second.
  [[nodiscard]] std::uint64_t length() const { return length_; }  ///< Samples of each channel.

  /// Samples `first` to `first + count` of all channels, those of one instant together: integers
  /// scaled to -1..1, floats as they are; zeros beyond the end. \error kDataLoss  cannot be read.
  [[nodiscard]] Result<std::vector<float>> read(std::uint64_t first, std::uint64_t count) const;

 private:
  static Result<WavFile> read_header(const std::filesystem::path& file);

  std::filesystem::path file_;
  int channels_ = 1;
  std::uint32_t rate_ = 0;
  std::uint64_t length_ = 0;
  std::uint64_t start_ = 0;  ///< Of the samples in the file, in bytes.
  int sample_bytes_ = 0;
  bool is_float_ = false;
};

/// Whether the name ends in .wav, in any case.
bool has_wav_suffix(const std::filesystem::path& file);

}  // namespace penstock
