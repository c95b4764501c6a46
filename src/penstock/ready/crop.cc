// `crop` cuts a fixed part out of a picture; `crop_boxes` the parts that boxes say, each resized.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "penstock/ready/families.h"
#include "penstock/ready/placement.h"
#include "penstock/ready/resizer.h"
#include "penstock/ready/settings.h"
#include "penstock/ready/values.h"

namespace penstock::ready {
namespace {

struct Crop {
  bool centre;
  int top, left;
  std::uint8_t value;

  Status run(Inputs in, Outputs out) const {
    PENSTOCK_TRY(const auto from, picture_of(*in[0]));
    const auto to = canvas_of(*out[0]);
    // Half a pixel too much goes to the right and to the bottom, outside of a picture too.
    const auto middle = [](int whole, int part) {
      return static_cast<int>(std::floor((whole - part) / 2.0));
    };
    const int y = centre ? middle(from.height, to.height) : top;
    const int x = centre ? middle(from.width, to.width) : left;
    const int first_y = std::max(y, 0), end_y = std::min(y + to.height, from.height);
    const int first_x = std::max(x, 0), end_x = std::min(x + to.width, from.width);
    const bool is_whole = end_y - first_y == to.height && end_x - first_x == to.width;
    if (!is_whole) fill(to, value);
    if (first_y >= end_y || first_x >= end_x) return {};
    const int height = end_y - first_y, width = end_x - first_x;
    copy(from.part(first_y, first_x, height, width),
         to.part(first_y - y, first_x - x, height, width));
    return {};
  }
};

Result<function::Function> make_crop(const Values& values) {
  const auto channels = values.integer("channels");
  const auto [height, width] = values.size("size");
  const auto [top, left] = values.size("at");
  const bool placed = values.given("at");
  if (placed && values.given("centre") && values.flag("centre")) {
    return invalid_argument(
        "settings 'centre' and 'at': expected one of them, found a part from the middle that has a "
        "place of its own; leave 'centre' out, or 'at'");
  }
  return made_of("crop", {any_picture("image", channels)},
                 {u8("image", {sized(height), sized(width), sized(channels)})},
                 Crop{values.flag("centre") && !placed, static_cast<int>(top),
                      static_cast<int>(left), static_cast<std::uint8_t>(values.integer("fill"))});
}

/// The whole pixels in which a box lies, at least in part, of one side.
struct Span {
  int first, length;
};

/// \pre  both are finite.
Span pixels(double middle, double length) {
  constexpr double kMost = 2 * kLargestSide;  // Beyond every picture.
  constexpr double kRounding = 1e-3;          // A box in f32 may be as far off a border it means.
  const double begin = std::clamp(middle - length / 2 + kRounding, -kMost, kMost);
  const double end = std::clamp(middle + length / 2 - kRounding, -kMost, kMost);
  const int first = static_cast<int>(std::floor(begin));
  return {first, std::max(static_cast<int>(std::ceil(end)) - first, 1)};
}

struct CropBoxes {
  Resizer resizer;
  double grow;
  bool square;
  std::uint8_t value;

  Status run(Inputs in, Outputs out) {
    PENSTOCK_TRY(const auto from, picture_of(*in[0]));
    const auto boxes = in[1]->as<float>();
    const auto& dims = out[0]->dims();
    const auto high = dims[1], wide = dims[2], channels = dims[3];
    const auto count = in[1]->dims()[0];
    PENSTOCK_CHECK_OK(shape(*out[0], {count, high, wide, channels}));
    if (out.size() > 1) PENSTOCK_CHECK_OK(shape(*out[1], {count, kPlacement}));
    auto* data = out[0]->as<std::uint8_t>().data();
    const Canvas first{data, static_cast<int>(high), static_cast<int>(wide),
                       static_cast<int>(channels), static_cast<std::ptrdiff_t>(wide * channels)};
    for (std::size_t i = 0; i + 4 <= boxes.size(); i += 4) {
      auto to = first;
      to.data += static_cast<std::ptrdiff_t>(i / 4) * high * first.stride;
      const auto part = part_of(boxes.subspan(i, 4));
      part.height > 0 ? resizer.run(from, part, value, to) : fill(to, value);
      if (out.size() > 1) place(from, part, to, out[1]->as<float>().subspan(i / 4 * kPlacement));
    }
    return {};
  }

  /// Of no pixels where the box is empty or not of numbers.
  [[nodiscard]] Part part_of(std::span<const float> box) const {
    const std::array<double, 4> at{box[0], box[1], box[2], box[3]};
    const double wide = at[2] - at[0], high = at[3] - at[1], side = std::max(wide, high);
    if (!std::isfinite(wide + high) || wide <= 0 || high <= 0) return {};
    const auto x = pixels((at[0] + at[2]) / 2, (square ? side : wide) * grow);
    const auto y = pixels((at[1] + at[3]) / 2, (square ? side : high) * grow);
    return {y.first, x.first, y.length, x.length};
  }

  static void place(const Picture& from, const Part& part, const Canvas& to,
                    std::span<float> placement) {
    const auto share = [](int a, int b) {
      return b > 0 ? static_cast<float>(static_cast<double>(a) / b)
                   : std::numeric_limits<float>::quiet_NaN();
    };
    const float across = share(to.width, part.width), down = share(to.height, part.height);
    std::ranges::copy(std::array{across, down, -static_cast<float>(part.left) * across,
                                 -static_cast<float>(part.top) * down,
                                 static_cast<float>(from.width), static_cast<float>(from.height)},
                      placement.begin());
  }
};

Result<function::Function> make_crop_boxes(const Values& values) {
  const auto channels = values.integer("channels");
  const auto [height, width] = values.size("size");
  const auto boxes = open("n", values.integer("most"));
  std::vector outputs{u8("images", {boxes, sized(height), sized(width), sized(channels)})};
  if (values.flag("placements")) {
    outputs.push_back(f32("placements", {boxes, sized(kPlacement)}));
  }
  return made_of(
      "crop_boxes", {any_picture("image", channels), f32("boxes", {boxes, sized(4)})},
      std::move(outputs),
      CropBoxes{Resizer(parse_how(values.word("how"))), values.number("grow"),
                values.flag("square"), static_cast<std::uint8_t>(values.integer("fill"))});
}

Setting fill_setting() {
  return whole("fill", "0", "What stands where the picture has no pixel.", 255, 0);
}

Declaration crop() {
  auto at = size_setting("at", "Its first row and column.", "0,0");
  at.lowest = 0;
  return {
      .name = "crop",
      .says =
          "A part of a fixed size, from the middle of a picture or from a fixed place: for "
          "classifiers of ImageNet behind `resize`.",
      .settings = {size_setting("size", "Height and width of the part."),
                   flag("centre", "true", "Whether it is the middle, which `at` ends by itself."),
                   at, fill_setting(), channels_setting()},
      .make = &make_crop};
}

Declaration crop_boxes() {
  return {.name = "crop_boxes",
          .says =
              "What each box (left, top, right, bottom, in pixels) holds, in the whole pixels that "
              "it touches, resized: the items of networks for faces, plates and poses, which run "
              "for `each`.",
          .settings = {size_setting("size", "Height and width of each result."),
                       whole("most", "16", "How many boxes there may be.", 65536),
                       number("grow", "1", "By how much each box is made larger about its middle.",
                              0.01, 100),
                       flag("square", "false", "Whether a box's longer side is taken for both."),
                       flag("placements", "false",
                            "Whether an output `placements` says where each crop lies, for "
                            "`place_points`."),
                       how_setting(), fill_setting(), channels_setting()},
          .make = &make_crop_boxes};
}

}  // namespace

std::vector<Declaration> crop_functions() {
  return {crop(), crop_boxes()};
}

}  // namespace penstock::ready
