#include "penstock/frames/sound.h"

#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>

#include "penstock/tensor/wav.h"

namespace penstock::frames {
namespace {

/// How an input takes a block.
struct Form {
  std::vector<std::int64_t> dims;
  std::uint64_t samples = 0;  ///< Of each channel.
  int channels = 1;           ///< 1: the mean of all.
  bool channels_first = false;
};

struct Sound {
  WavFile wav;
  Form form;
};

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
                            ", which does not say how many samples; fix them with --shape");
  }
  return sizes;
}

Result<Form> form_of(const Type& type, int channels) {
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
      "the input takes ", type, ", the file has ", channels,
      channels == 1 ? " channel" : " channels", ": expected [1,N] for N samples",
      channels == 1 ? "" : ", which are the channels' mean,",
      channels == 1 ? ""
                    : concat(" or [", channels, ",N] or [N,", channels, "] for each channel's"));
}

/// The samples of one instant lie together in `from`.
void place(const std::vector<float>& from, int file_channels, const Form& form,
           std::span<float> to) {
  const auto channels = static_cast<std::size_t>(file_channels);
  for (std::size_t i = 0; i < form.samples; ++i) {
    const std::span instant = std::span(from).subspan(i * channels, channels);
    if (form.channels == 1) {
      to[i] = std::accumulate(instant.begin(), instant.end(), 0.0F) / static_cast<float>(channels);
      continue;
    }
    for (std::size_t channel = 0; channel < channels; ++channel) {
      to[form.channels_first ? channel * form.samples + i : i * channels + channel] =
          instant[channel];
    }
  }
}

Result<Tensor> block(const Sound& sound, std::uint64_t start) {
  PENSTOCK_TRY(const auto samples, sound.wav.read(start, sound.form.samples));
  Tensor tensor = Tensor::allocate(DType::kF32, sound.form.dims);
  place(samples, sound.wav.channels(), sound.form, tensor.as<float>());
  return tensor;
}

}  // namespace

Result<Values> sound_values(const std::filesystem::path& file, const Type& type,
                            std::uint64_t hop) {
  PENSTOCK_TRY(auto wav, WavFile::open(file));
  auto form = form_of(type, wav.channels());
  if (!form) return std::move(form).error().within({Where::kSound, file.string()});
  if (wav.length() == 0)
    return invalid_argument("holds no samples").within({Where::kSound, file.string()});
  const auto sound = std::make_shared<const Sound>(Sound{std::move(wav), *std::move(form)});
  Values values;
  const std::uint64_t step = hop > 0 ? hop : sound->form.samples;
  for (std::uint64_t start = 0; start < sound->wav.length(); start += step) {
    values.emplace_back([sound, start] { return block(*sound, start); });
  }
  return values;
}

}  // namespace penstock::frames
