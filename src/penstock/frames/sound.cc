// Fits blocks of a WAV file to an input's shape: each channel's samples, or the channels' mean.
#include "penstock/frames/sound.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "penstock/base/option_name.h"
#include "penstock/base/words.h"

namespace penstock::frames {
namespace {

Result<std::vector<std::int64_t>> sound_sizes_of(const Type& type) {
  if (type.kind != Type::Kind::kTensor || !type.ranked || type.dtype != DType::kF32) {
    return invalid_argument("the input takes ", type, ", no sound: expected f32");
  }
  std::vector<std::int64_t> sizes;
  for (const auto& dim : type.dims) {
    const bool is_batch = sizes.empty() && type.dims.size() > 1;
    const auto open = is_batch ? 1 : dim.bound;
    sizes.push_back(dim.fixed() ? dim.size : open);
    if (sizes.back() > 0) continue;
    return invalid_argument("the input takes ", type,
                            ", which does not say how many samples; fix them (",
                            OptionName::kShapes, ", in an application 'inputs')");
  }
  return sizes;
}

}  // namespace

Result<Sound::Form> Sound::form_of(const Type& type, int channels) {
  Form form;
  PENSTOCK_TRY(form.dims, sound_sizes_of(type));
  std::vector<std::int64_t> wide;
  for (const auto size : form.dims) {
    if (size != 1) wide.push_back(size);
  }
  if (wide.size() < 2) {
    form.samples = wide.empty() ? 1 : static_cast<std::uint64_t>(wide.front());
    return form;
  }
  form.channels_first = wide[0] == channels;
  form.channels = channels;
  if (wide.size() == 2 && channels > 1 && (form.channels_first || wide[1] == channels)) {
    form.samples = static_cast<std::uint64_t>(wide[form.channels_first ? 1 : 0]);
    return form;
  }
  return invalid_argument(
      "the input takes ", type, ", the file has ", counted(channels, "channel"),
      ": expected [1,N] for N samples", channels == 1 ? "" : ", which are the channels' mean,",
      channels == 1 ? ""
                    : concat(" or [", channels, ",N] or [N,", channels, "] for each channel's"));
}

Result<Sound> Sound::open(const std::filesystem::path& file, const Type& type, std::uint64_t hop) {
  Sound sound;
  PENSTOCK_TRY(sound.wav_, WavFile::open(file));
  auto form = form_of(type, sound.wav_.channels());
  if (!form) return std::move(form).error().within({Where::kSound, file.string()});
  if (sound.wav_.length() == 0)
    return invalid_argument("expected samples, found none").within({Where::kSound, file.string()});
  sound.form_ = *std::move(form);
  sound.hop_ = hop > 0 ? hop : sound.form_.samples;
  return sound;
}

std::uint64_t Sound::count() const {
  const auto length = wav_.length();
  if (length <= form_.samples) return 1;
  const auto reaching = 1 + ((length - form_.samples + hop_ - 1) / hop_);
  const auto beginning = (length + hop_ - 1) / hop_;  // Fewer, where blocks leave gaps.
  return std::min(reaching, beginning);
}

Result<Tensor> Sound::block(std::uint64_t i) const {
  PENSTOCK_TRY(const auto samples, wav_.read(i * hop_, form_.samples));
  Tensor tensor = Tensor::allocate(DType::kF32, form_.dims);
  place(samples, tensor.as<float>());
  return tensor;
}

/// The samples of one instant lie together in `from`.
void Sound::place(const std::vector<float>& from, std::span<float> to) const {
  const auto channels = static_cast<std::size_t>(wav_.channels());
  for (std::size_t i = 0; i < form_.samples; ++i) {
    const std::span instant = std::span(from).subspan(i * channels, channels);
    if (form_.channels == 1) {
      to[i] = std::accumulate(instant.begin(), instant.end(), 0.0F) / static_cast<float>(channels);
      continue;
    }
    for (std::size_t channel = 0; channel < channels; ++channel) {
      to[form_.channels_first ? channel * form_.samples + i : i * channels + channel] =
          instant[channel];
    }
  }
}

namespace {

/// The blocks of a sound, all of one file.
struct Blocks final : Origin {
  Blocks(Sound opened, std::string file) : sound(std::move(opened)), name(std::move(file)) {}
  [[nodiscard]] Result<Tensor> read(std::size_t number) const override {
    return sound.block(number);
  }
  [[nodiscard]] std::string file(std::size_t /*number*/) const override { return name; }

  Sound sound;
  std::string name;
};

}  // namespace

Result<Values> sound_values(const std::filesystem::path& file, const Type& type,
                            const SoundOptions& options) {
  PENSTOCK_TRY(auto opened, Sound::open(file, type, options.hop));
  if (const auto rate = options.sample_rate; rate > 0 && rate != opened.rate()) {
    return invalid_argument("expected ", rate, " samples a second, found ", opened.rate(),
                            "; convert it, such as by 'ffmpeg -i ", file.string(), " -ar ", rate,
                            " converted.wav'")
        .within({Where::kSound, file.string()});
  }
  const auto blocks = std::make_shared<const Blocks>(std::move(opened), file.filename().string());
  Values values;
  for (std::size_t i = 0; i < blocks->sound.count(); ++i) values.emplace_back(blocks, i);
  return values;
}

}  // namespace penstock::frames
