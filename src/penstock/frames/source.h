// Frames to push, one after the other: from files, standard input, or seeded random values.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/frames/given.h"
#include "penstock/frames/random.h"
#include "penstock/frames/standard_input.h"
#include "penstock/plan/plan.h"

namespace penstock::frames {

/// The files of a frame: by the input's name, the file's in its folder.
using Files = std::vector<std::pair<std::string, std::string>>;

/// Frames of files are read when their turn comes, as there may be more than memory holds; what is
/// named file by file, and what serves all frames, at once.
class Source {
 public:
  /// What the options name. An input given once serves all frames; inputs that are not given are
  /// random. \error kNotFound, kDataLoss, kInvalidArgument  names the input and the file.
  static Result<Source> open(std::vector<plan::TensorInfo> inputs, const SourceOptions& options);

  /// The same, but that the first frame is read when its turn comes, as the others are.
  static Result<Source> open_unread(std::vector<plan::TensorInfo> inputs,
                                    const SourceOptions& options);

  /// Frames of several streams: each file that --input names of an input is one stream, stream 0
  /// first; their frames come in turn. A single file serves all streams.
  /// \error as open(); kInvalidArgument  more streams than `most`, or standard input for several.
  static Result<Source> open_streams(const std::vector<plan::TensorInfo>& inputs,
                                     const SourceOptions& options, int most);

  /// `count` random frames, made at once, of so many streams in turn. \error as random_frames()
  static Result<Source> random(const std::vector<plan::TensorInfo>& inputs,
                               const RandomValues& values, std::uint64_t count,
                               std::uint64_t streams = 1);

  /// Whether standard input feeds it: then only its end tells how many frames there are.
  [[nodiscard]] bool is_live() const { return live_.has_value(); }

  /// After so many, they repeat. \pre !is_live()
  [[nodiscard]] std::uint64_t count() const { return count_; }

  /// Frame `number`; where is_live(), the next one, or nothing where it does not come within
  /// `patience` or ended() becomes true. \error as open()
  Result<std::optional<Frame>> read(std::uint64_t number, std::chrono::milliseconds patience);
  [[nodiscard]] std::uint64_t stream_of(std::uint64_t number) const {
    return order_.empty() ? number % turns_ : order_[number % count_].first;
  }
  [[nodiscard]] bool ended() const { return live_ && live_->ended(); }
  /// The inputs that no file gives, where any is given.
  [[nodiscard]] std::vector<std::string> random_inputs() const;
  /// Which files the frame is read from; none where it is random or comes by standard input.
  [[nodiscard]] Files files(std::uint64_t number) const;

 private:
  /// What standard input gave last. It is taken once.
  struct Came final : Origin {
    [[nodiscard]] Result<Tensor> read(std::size_t /*number*/) const override {
      return std::move(value);
    }
    [[nodiscard]] std::string file(std::size_t /*number*/) const override { return {}; }
    mutable Tensor value;
  };
  [[nodiscard]] Result<Frame> make(std::uint64_t number) const;

  std::uint64_t count_ = 1;
  Columns columns_;
  std::vector<plan::TensorInfo> inputs_;
  std::optional<StandardInput> live_;
  std::shared_ptr<Came> came_;  ///< A value of `columns_`.
  RandomValues random_;         ///< Of the inputs that are not given.
  /// What is wrong with all frames is known before the first is asked for. Nothing: unread.
  std::optional<Frame> first_;
  std::vector<Source> streams_;                               ///< Where there are several.
  std::vector<std::pair<std::size_t, std::uint64_t>> order_;  ///< Stream and its frame, by number.
  std::uint64_t turns_ = 1;  ///< Streams that random frames are of.
  std::vector<Frame> ring_;  ///< Random frames, where nothing else is given.
};

/// Frames, and of each the files that it was read from, as a person reads them: "'5.npy' of 'x'".
struct NamedFrames {
  std::vector<Frame> frames;
  std::vector<std::string> names;     ///< Empty: nothing is read for that frame alone.
  std::vector<std::string> left_out;  ///< A sentence for each that cannot be read, or for several.
  std::vector<std::string> random;    ///< Inputs that no file gives.
};

/// read_frames() with names. \error as there
Result<NamedFrames> read_named_frames(const std::vector<plan::TensorInfo>& inputs,
                                      const SourceOptions& options);

/// The frames of Source::open(), as many as the options allow, without those that cannot be read:
/// what is asked to hear it hears of each. \error as there, where none can be read;
/// kInvalidArgument  standard input is to feed it
Result<std::vector<Frame>> read_frames(const std::vector<plan::TensorInfo>& inputs,
                                       const SourceOptions& options);

}  // namespace penstock::frames
