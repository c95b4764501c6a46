// `normalise`: the numbers of a picture as a network wants them, in one pass.
#include <algorithm>
#include <array>

#include "penstock/ready/convert.h"
#include "penstock/ready/families.h"
#include "penstock/ready/picture.h"
#include "penstock/ready/settings.h"
#include "penstock/ready/values.h"
#include "penstock/ready/vectors.h"

namespace penstock::ready {
namespace {

/// Three channels of a row, each by itself.
PENSTOCK_VECTORISED void part(const std::uint8_t* __restrict from, std::uint8_t* __restrict first,
                              std::uint8_t* __restrict second, std::uint8_t* __restrict third,
                              std::size_t width) {
  for (std::size_t x = 0; x < width; ++x) {
    first[x] = from[3 * x];
    second[x] = from[3 * x + 1];
    third[x] = from[3 * x + 2];
  }
}

PENSTOCK_VECTORISED void scale(const std::uint8_t* __restrict from, float factor, float offset,
                               float* __restrict to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]) * factor + offset;
}

/// to = from * factor + offset, by channel of the result.
struct Normalise {
  std::array<float, kMostChannels> factor, offset;
  bool planes, swapped;
  DType type;
  std::vector<std::uint8_t> row;  // One row, each channel by itself.
  std::vector<float> whole;       // The picture, where another type is made of it.

  Status run(Inputs in, Outputs out) {
    PENSTOCK_TRY(const auto from, picture_of(*in[0]));
    if (type == DType::kF32) return numbers(from, out[0]->as<float>().data());
    whole.resize(in[0]->count());
    PENSTOCK_CHECK_OK(numbers(from, whole.data()));
    convert({whole.data(), DType::kF32}, {out[0]->data(), type}, whole.size(), {});
    return {};
  }

  Status numbers(const Picture& from, float* to) {
    for (int y = 0; y < from.height; ++y) {
      planes ? apart(from, y, to) : together(from, y, to);
    }
    return {};
  }

  [[nodiscard]] int source(int channel, int channels) const {
    return swapped && channel < 3 ? 2 - channel : channel % channels;
  }

  void apart(const Picture& from, int y, float* to) {
    const auto width = static_cast<std::size_t>(from.width);
    const auto plane = width * static_cast<std::size_t>(from.height);
    const auto channels = static_cast<std::size_t>(from.channels);
    row.resize(width * channels);
    part_all(from.row(y), width, channels);
    for (std::size_t c = 0; c < channels; ++c) {
      const auto source_of = static_cast<std::size_t>(source(static_cast<int>(c), from.channels));
      scale(row.data() + source_of * width, factor[c], offset[c],
            to + c * plane + static_cast<std::size_t>(y) * width, width);
    }
  }

  void part_all(const std::uint8_t* from, std::size_t width, std::size_t channels) {
    auto* to = row.data();
    if (channels == 3) return part(from, to, to + width, to + 2 * width, width);
    for (std::size_t x = 0; x < width; ++x) {
      for (std::size_t c = 0; c < channels; ++c) to[c * width + x] = from[x * channels + c];
    }
  }

  void together(const Picture& from, int y, float* to) const {
    const auto count = static_cast<std::ptrdiff_t>(from.width) * from.channels;
    float* __restrict numbers = to + y * count;
    const std::uint8_t* __restrict bytes = from.row(y);
    for (int x = 0; x < from.width; ++x) {
      for (int c = 0; c < from.channels; ++c) {
        const auto channel = static_cast<std::size_t>(c);
        numbers[x * from.channels + c] =
            static_cast<float>(bytes[x * from.channels + source(c, from.channels)]) *
                factor[channel] +
            offset[channel];
      }
    }
  }
};

/// One number for all channels, or one for each.
Result<std::array<float, kMostChannels>> by_channel(const Values& values, std::string_view name) {
  const auto channels = static_cast<std::size_t>(values.integer("channels"));
  const auto given = values.numbers(name);
  std::array<float, kMostChannels> all{};
  all.fill(given.front());
  if (given.size() != 1 && given.size() != channels) {
    return invalid_argument("setting '", name, "': expected one number, or one for each of the ",
                            channels, " channels, found ", given.size());
  }
  std::ranges::copy(given, all.begin());
  return all;
}

Result<function::Function> make_normalise(const Values& values) {
  const auto channels = values.integer("channels");
  const auto [height, width] = values.size("size");
  const auto scale = static_cast<float>(values.number("scale"));
  PENSTOCK_TRY(const auto mean, by_channel(values, "mean"));
  PENSTOCK_TRY(const auto std, by_channel(values, "std"));
  Normalise normalise{{},
                      {},
                      values.word("layout") == "chw",
                      values.flag("swap"),
                      *parse_dtype(values.word("type")),
                      {},
                      {}};
  if (normalise.swapped && channels < 3) {
    return invalid_argument("setting 'swap': expected 3 or 4 channels to swap, found ", channels);
  }
  for (std::size_t c = 0; c < kMostChannels; ++c) {
    normalise.factor[c] = scale / std[c];
    normalise.offset[c] = -mean[c] / std[c];
  }
  std::vector<Dim> dims{sized(height), sized(width), sized(channels)};
  const auto image = u8("image", dims);
  if (normalise.planes) std::ranges::rotate(dims, dims.end() - 1);
  if (values.flag("batch")) dims.insert(dims.begin(), sized(1));
  return made_of("normalise", {image}, {{"tensor", Type::tensor(normalise.type, std::move(dims))}},
                 std::move(normalise));
}

}  // namespace

std::vector<Declaration> normalise_functions() {
  return {
      {.name = "normalise",
       .says = "A picture as the numbers that a network takes, (value * scale - mean) / std, by "
               "channels: for every network of pictures, of any `type`.",
       .settings =
           {size_setting("size", "Height and width of the picture."),
            number("scale", "0.00392156862745098",
                   "By what each value is multiplied first; 1/255 makes 0 to 1.", -1e6, 1e6),
            numbers("mean", "0", "What is taken away, for all channels or for each.", -1e6, 1e6),
            numbers("std", "1", "By what is divided then, for all channels or for each.", 1e-6,
                    1e6),
            word("layout", "chw", "Whether channels stand first, as in most ONNX files, or last.",
                 "chw|hwc"),
            flag("swap", "false",
                 "Whether the first and the third channel change places, before mean and std: RGB "
                 "for BGR."),
            flag("batch", "true", "Whether the result has a first dimension of 1."),
            word("type", "f32",
                 "Of the result, as the network's input has it. Whole numbers are the nearest, "
                 "within their limits: of pixels as they are, with scale 1.",
                 "f32|f16|u8|i8"),
            channels_setting()},
       .make = &make_normalise}};
}

}  // namespace penstock::ready
