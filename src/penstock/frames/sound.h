// A sound, cut into frames.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/frames/values.h"
#include "penstock/tensor/tensor.h"
#include "penstock/tensor/wav.h"

namespace penstock::frames {

/// Blocks of a WAV file, each of an input's shape; from one's start to the next's are `hop`
/// samples, where 0 is a block's length: one behind the other. The first block that reaches the end
/// is the last, and is filled with zeros. Samples are read when their block is asked for.
/// \threads  any thread may read.
class Sound {
 public:
  /// `type` is f32. [N], [1,N] and so on take N samples, the mean of the file's channels; [2,N] or
  /// [N,2] (beside dimensions of 1) N samples of each of a file's 2 channels. An open first
  /// dimension is 1, other open ones are at their bound.
  /// \error as WavFile::open(); kInvalidArgument  `type` is not like this, or the file is empty.
  static Result<Sound> open(const std::filesystem::path& file, const Type& type, std::uint64_t hop);

  [[nodiscard]] std::uint64_t count() const;                        ///< Of blocks: 1 or more.
  [[nodiscard]] std::uint32_t rate() const { return wav_.rate(); }  ///< Samples a second.

  /// Block `i`, 0 to count() - 1. \error kDataLoss  cannot be read.
  [[nodiscard]] Result<Tensor> block(std::uint64_t i) const;

 private:
  /// How an input takes a block.
  struct Form {
    std::vector<std::int64_t> dims;
    std::uint64_t samples = 0;  ///< Of each channel: 1 or more.
    int channels = 1;           ///< 1: the mean of all.
    bool channels_first = false;
  };
  static Result<Form> form_of(const Type& type, int channels);
  void place(const std::vector<float>& from, std::span<float> to) const;

  WavFile wav_;
  Form form_;
  std::uint64_t hop_ = 0;
};

/// The blocks of Sound::open(). \error as there; kInvalidArgument  the file has another rate.
Result<Values> sound_values(const std::filesystem::path& file, const Type& type,
                            const SoundOptions& options = {});

}  // namespace penstock::frames
