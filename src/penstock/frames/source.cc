// Joins given, live and random values into frames, of one stream or of several in turn.
#include "penstock/frames/source.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace penstock::frames {
namespace {

/// The number of frames, where each input has as many values or one.
Result<std::uint64_t> count_frames(const std::vector<plan::TensorInfo>& inputs,
                                   const Columns& columns) {
  std::size_t count = 1;
  for (const auto& [i, values] : columns) count = std::max(count, values.size());
  for (const auto& [i, values] : columns) {
    if (values.size() == 1 || values.size() == count) continue;
    return invalid_argument("expected 1 or ", count,
                            " values, as many as the other inputs have, found ", values.size())
        .within({Where::kInput, inputs[i].name});
  }
  return count;
}

/// What feeds each stream.
Result<std::vector<SourceOptions>> by_stream(const std::vector<plan::TensorInfo>& inputs,
                                             const SourceOptions& options, int most) {
  const auto known = nameable(inputs, options);
  std::map<std::size_t, std::vector<std::string>> files;
  std::size_t count = 1;
  for (const auto& text : options.files) {
    PENSTOCK_TRY(const auto input, input_of(known, text));
    files[input].push_back(text);
    count = std::max(count, files[input].size());
  }
  if (count > static_cast<std::size_t>(most)) {
    return invalid_argument("--input: ", count,
                            " files of an input are as many streams: expected at most ", most,
                            "; give --streams ", count, ", or frames of one stream as a folder");
  }
  std::vector<SourceOptions> streams(count, options);
  for (std::size_t s = 0; s < count; ++s) {
    streams[s].files.clear();
    streams[s].warn = [](const std::string&) {};  // Told of all together.
    for (const auto& [input, given] : files) {
      if (given.size() != 1 && given.size() != count) {
        return invalid_argument("expected 1 or ", count, " files, one for each stream, found ",
                                given.size())
            .within({Where::kInput, known[input].name});
      }
      streams[s].files.push_back(given[given.size() == 1 ? 0 : s]);
    }
  }
  return streams;
}

/// What a frame takes beside those before it: one value may serve all.
std::uint64_t bytes_beside(const Frame& frame, const std::vector<Frame>& before) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < frame.size(); ++i) {
    if (frame[i].kind() != Tensor::Kind::kDense) continue;
    const bool shared = !before.empty() && before.back()[i].kind() == Tensor::Kind::kDense &&
                        before.back()[i].data() == frame[i].data();
    if (!shared) bytes += frame[i].bytes();
  }
  return bytes;
}

}  // namespace

Result<Source> Source::open(std::vector<plan::TensorInfo> inputs, const SourceOptions& options) {
  PENSTOCK_TRY(Source source, open_unread(std::move(inputs), options));
  PENSTOCK_TRY(source.first_, source.make(0));
  return source;
}

Result<Source> Source::open_unread(std::vector<plan::TensorInfo> inputs,
                                   const SourceOptions& options) {
  Source source;
  PENSTOCK_TRY(auto given, read_given(inputs, options));
  source.columns_ = std::move(given.columns);
  PENSTOCK_TRY(source.count_, count_frames(inputs, source.columns_));
  if (given.live) {
    if (source.count_ > 1) {
      return invalid_argument(
          "expected one value of each other input beside standard input, found ", source.count_);
    }
    PENSTOCK_TRY(source.live_, StandardInput::open(inputs[*given.live]));
    source.came_ = std::make_shared<Came>();
    source.columns_[*given.live] = {Value(source.came_, 0)};
  }
  for (auto& [i, values] : source.columns_) {
    if (values.size() != 1 || i == given.live) continue;
    PENSTOCK_TRY(auto value, values.front()());
    values.front() = constant(std::move(value), values.front().file());
  }
  source.inputs_ = std::move(inputs);
  source.random_ = options.random;
  return source;
}

Result<Source> Source::open_streams(const std::vector<plan::TensorInfo>& inputs,
                                    const SourceOptions& options, int most) {
  PENSTOCK_TRY(const auto streams, by_stream(inputs, options, most));
  if (streams.size() == 1) return open(inputs, options);
  note_rates(inputs, options);
  Source source;
  std::uint64_t longest = 0;
  for (const auto& of_stream : streams) {
    auto made = open(inputs, of_stream);
    if (!made) return std::move(made).error().within({Where::kStream, source.streams_.size()});
    Source opened = *std::move(made);
    if (opened.is_live()) {
      return invalid_argument("--input: standard input ('-') feeds one stream; found ",
                              streams.size(), ": give files");
    }
    longest = std::max(longest, opened.count());
    source.streams_.push_back(std::move(opened));
  }
  for (std::uint64_t frame = 0; frame < longest; ++frame) {
    for (std::size_t s = 0; s < streams.size(); ++s) {
      if (frame < source.streams_[s].count()) source.order_.emplace_back(s, frame);
    }
  }
  source.count_ = source.order_.size();
  return source;
}

Result<Source> Source::random(const std::vector<plan::TensorInfo>& inputs,
                              const RandomValues& values, std::uint64_t count,
                              std::uint64_t streams) {
  Source source;
  source.count_ = count;
  source.turns_ = streams;
  PENSTOCK_TRY(source.ring_, random_frames(inputs, values, count));
  return source;
}

Result<std::optional<Frame>> Source::read(std::uint64_t number,
                                          std::chrono::milliseconds patience) {
  if (!streams_.empty()) {
    const auto [stream, frame] = order_[number % count_];
    return streams_[stream].read(frame, patience);
  }
  if (live_) {
    PENSTOCK_TRY(auto value, live_->read(patience));
    if (!value) return std::optional<Frame>();
    came_->value = *std::move(value);
  } else {
    number %= count_;
    if (!ring_.empty()) return std::optional(ring_[number]);
    if (number == 0 && first_) return first_;
  }
  PENSTOCK_TRY(auto frame, make(number));
  return std::optional(std::move(frame));
}

std::vector<std::string> Source::random_inputs() const {
  if (!streams_.empty()) return streams_.front().random_inputs();
  std::vector<std::string> names;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (!columns_.contains(i)) names.push_back(inputs_[i].name);
  }
  return names;
}

Files Source::files(std::uint64_t number) const {
  if (!streams_.empty()) {
    const auto [stream, frame] = order_[number % count_];
    return streams_[stream].files(frame);
  }
  Files files;
  for (const auto& [i, values] : columns_) {
    if (values.size() != count_) continue;  // One that serves all frames tells nothing of this one.
    auto file = values[number % count_].file();
    if (!file.empty()) files.emplace_back(inputs_[i].name, std::move(file));
  }
  return files;
}

Result<Frame> Source::make(std::uint64_t number) const {
  std::map<std::size_t, Tensor> given;
  for (const auto& [i, values] : columns_) {
    PENSTOCK_TRY(given[i], values[values.size() == 1 ? 0 : number]());
  }
  return completed_frame(inputs_, given, random_, number);
}

namespace {

/// Of a frame: "'5.npy' of 'x'".
std::string name_of_frame(const Source& source, std::uint64_t number) {
  return join(source.files(number), ", ",
              [](const auto& file) { return concat("'", file.second, "' of '", file.first, "'"); });
}

/// Frames that cannot be read, as a person hears of them.
class LeftOut {
 public:
  void add(const Source& source, std::uint64_t number, Error error) {
    if (++count_ <= kNamed) {
      const auto name = name_of_frame(source, number);
      notes_.push_back(concat("frame ", number, name.empty() ? "" : concat(" (", name, ")"),
                              " is left out, as it cannot be read: ", error.message()));
    }
    if (!first_) first_ = std::move(error);
  }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  /// \pre count() > 0
  [[nodiscard]] Error refusal() const {
    auto error = *first_;
    if (count_ == 1) return error;
    return std::move(error).adding(
        concat("; of the frames behind it, ", count_ - 1, " in all, none can be read either"));
  }
  [[nodiscard]] std::vector<std::string> notes() && {
    if (count_ > kNamed) {
      notes_.push_back(concat("so are ", count_ - kNamed, " further frames: ", count_, " in all"));
    }
    return std::move(notes_);
  }

 private:
  static constexpr std::uint64_t kNamed = 5;
  std::uint64_t count_ = 0;
  std::optional<Error> first_;
  std::vector<std::string> notes_;
};

}  // namespace

Result<NamedFrames> read_named_frames(const std::vector<plan::TensorInfo>& inputs,
                                      const SourceOptions& options) {
  PENSTOCK_TRY(auto source, Source::open_unread(inputs, options));
  if (source.is_live()) {
    return invalid_argument("--input: standard input ('-') is for 'penstock run': give files here");
  }
  const auto most = std::min(source.count(), options.wanted > 0 ? options.wanted : kUsualFrames);
  NamedFrames read;
  read.random = source.random_inputs();
  auto& frames = read.frames;
  LeftOut left_out;
  std::uint64_t bytes = 0, number = 0;
  for (; number < source.count() && frames.size() < most; ++number) {
    auto frame = source.read(number, std::chrono::milliseconds::zero());
    if (!frame && frame.error().code == Code::kResourceExhausted) return frame.error();
    if (!frame) {
      left_out.add(source, number, std::move(frame).error());
      continue;
    }
    bytes += bytes_beside(**frame, frames);
    if (!frames.empty() && bytes > options.most_bytes) break;
    read.names.push_back(name_of_frame(source, number));
    frames.push_back(**std::move(frame));
  }
  if (frames.empty()) return left_out.refusal();
  const auto wanted =
      options.wanted > 0 ? std::min(source.count(), options.wanted) : source.count();
  if (number < wanted) {
    options.warn(concat("of ", wanted, " frames the first ", number,
                        " are used, as all that are used are held in memory"));
  }
  read.left_out = std::move(left_out).notes();
  for (const auto& note : read.left_out) options.warn(note);
  return read;
}

Result<std::vector<Frame>> read_frames(const std::vector<plan::TensorInfo>& inputs,
                                       const SourceOptions& options) {
  PENSTOCK_TRY(auto read, read_named_frames(inputs, options));
  return std::move(read.frames);
}

}  // namespace penstock::frames
