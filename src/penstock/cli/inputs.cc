// Declares --input, --hop and other options of inputs, and words advice for frames that failed.
#include "penstock/cli/inputs.h"

#include <algorithm>
#include <cstdint>

#include <spdlog/spdlog.h>

#include "penstock/cli/command.h"
#include "penstock/cli/numbers.h"

namespace penstock::cli {

void add_random_options(CLI::App* command, frames::SourceOptions& options) {
  command->add_option("--seed", options.random.seed, "Of random inputs")
      ->capture_default_str()
      ->check(whole_number(0, UINT64_MAX));
  command
      ->add_option("--integer-limit", options.random.integer_limit,
                   "Random integers of 16 bits and more stay under this")
      ->capture_default_str()
      ->check(positive_count());
}

void add_input_options(CLI::App* command, frames::SourceOptions& options) {
  auto* input =
      add_list(
          command, "--input", options.files,
          "NAME=FILE (.npy, .pb, .png, .jpg, .bmp, .ppm; any file for an input of bytes, "
          "u8[n<=N]), "
          "NAME=FOLDER of such files, one a frame, "
          "NAME=FILE.wav, cut into frames, or, for 'run', NAME=- (standard input); repeat for more "
          "inputs, and for more frames")
          ->type_name("NAME=FILE");
  command->add_option(
      "--inputs", options.all,
      "A folder of <name>.npy (.pb, pictures), or of such folders or of .npz, one a "
      "frame; or a .npz");
  command
      ->add_option("--hop", options.sound.hop,
                   "Samples from the start of a .wav's frame to the next one's (default: a frame's "
                   "length; less: they overlap)")
      ->check(positive_count())
      ->needs(input);
  command
      ->add_option("--sample-rate", options.sound.sample_rate,
                   "Samples a second that a .wav must have (default: any); what has others is "
                   "refused")
      ->check(positive_count())
      ->needs(input);
  add_random_options(command, options);
  options.warn = [](const std::string& text) { spdlog::warn("--input: {}", text); };
}

bool is_malformed_input(const std::string& text) {
  const auto equals = text.find('=', 1);  // A name has a character, which may be '='.
  return equals == std::string::npos || equals + 1 == text.size();
}

std::string advice_on_frame(const Error& error, const frames::SourceOptions& options,
                            const std::vector<plan::TensorInfo>& inputs,
                            const frames::NotGiven& others, const frames::Frame* failed) {
  if (!frames::has_files(options)) {
    return frames::advice_on_random(error, inputs, "give frames that come out (--input)",
                                    others.bound);
  }
  const auto* const option = options.all.empty()     ? "--input"
                             : options.files.empty() ? "--inputs"
                                                     : "--input, --inputs";
  return frames::advice_on_given(error, inputs, failed, option, others);
}

const frames::Frame* frame_like_all(const std::vector<frames::Frame>& frames) {
  const auto differs = [&](const frames::Frame& frame) {
    return !std::ranges::equal(frame, frames.front(), {}, &Tensor::type, &Tensor::type);
  };
  return frames.empty() || std::ranges::any_of(frames, differs) ? nullptr : &frames.front();
}

}  // namespace penstock::cli
