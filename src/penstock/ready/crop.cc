// `crop` cuts a fixed part out of a picture; `crop_boxes` the parts that boxes say, each resized.
#include <algorithm>
#include <cmath>

#include "penstock/ready/families.h"
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
  return made_of("crop", {any_picture("image", channels)},
                 {u8("image", {sized(height), sized(width), sized(channels)})},
                 Crop{values.flag("centre"), static_cast<int>(top), static_cast<int>(left),
                      static_cast<std::uint8_t>(values.integer("fill"))});
}

/// Where a box lies in whole pixels, at least in part: [first, end) of one side.
struct Span {
  int first, end;
};

struct CropBoxes {
  Resizer resizer;
  float grow;
  bool square;
  std::uint8_t value;

  static Span pixels(float middle, float length, int size) {
    const auto bounded = [size](float at) {
      return std::clamp(at, 0.0F, static_cast<float>(size));
    };
    return {static_cast<int>(std::floor(bounded(middle - length / 2))),
            static_cast<int>(std::ceil(bounded(middle + length / 2)))};
  }

  Status run(Inputs in, Outputs out) {
    PENSTOCK_TRY(const auto from, picture_of(*in[0]));
    const auto boxes = in[1]->as<float>();
    const auto& dims = out[0]->dims();
    const auto high = dims[1], wide = dims[2], channels = dims[3];
    PENSTOCK_CHECK_OK(shape(*out[0], {in[1]->dims()[0], high, wide, channels}));
    auto* data = out[0]->as<std::uint8_t>().data();
    const Canvas first{data, static_cast<int>(high), static_cast<int>(wide),
                       static_cast<int>(channels), static_cast<std::ptrdiff_t>(wide * channels)};
    for (std::size_t i = 0; i + 4 <= boxes.size(); i += 4) {
      auto to = first;
      to.data += static_cast<std::ptrdiff_t>(i / 4) * high * first.stride;
      cut(from, boxes.subspan(i, 4), to);
    }
    return {};
  }

  void cut(const Picture& from, std::span<const float> box, const Canvas& to) {
    const float wide = box[2] - box[0], high = box[3] - box[1];
    const float side = std::max(wide, high);
    const auto x = pixels((box[0] + box[2]) / 2, (square ? side : wide) * grow, from.width);
    const auto y = pixels((box[1] + box[3]) / 2, (square ? side : high) * grow, from.height);
    // Not a number, or beside the picture: there is nothing to be seen.
    if (!(wide > 0) || !(high > 0) || x.first >= x.end || y.first >= y.end) return fill(to, value);
    resizer.run(from.part(y.first, x.first, y.end - y.first, x.end - x.first), to);
  }
};

Result<function::Function> make_crop_boxes(const Values& values) {
  const auto channels = values.integer("channels");
  const auto [height, width] = values.size("size");
  const auto boxes = open("n", values.integer("most"));
  return made_of(
      "crop_boxes", {any_picture("image", channels), f32("boxes", {boxes, sized(4)})},
      {u8("images", {boxes, sized(height), sized(width), sized(channels)})},
      CropBoxes{Resizer(parse_how(values.word("how"))), static_cast<float>(values.number("grow")),
                values.flag("square"), static_cast<std::uint8_t>(values.integer("fill"))});
}

Setting fill_setting() {
  return whole("fill", "0", "What stands where the picture has no pixel.", 255, 0);
}

Declaration crop() {
  auto at = size_setting("at", "Its first row and column.", "0,0");
  at.lowest = 0;
  return {.name = "crop",
          .says =
              "A part of a fixed size, from the middle of a picture or from a fixed place: for "
              "classifiers of ImageNet behind `resize`.",
          .settings = {size_setting("size", "Height and width of the part."),
                       flag("centre", "true", "Whether it is the middle; else `at` says where."),
                       at, fill_setting(), channels_setting()},
          .make = &make_crop};
}

Declaration crop_boxes() {
  return {.name = "crop_boxes",
          .says =
              "What each box (left, top, right, bottom, in pixels) holds, resized: the items "
              "of networks for faces, plates and poses, which run for `each`.",
          .settings = {size_setting("size", "Height and width of each result."),
                       whole("most", "16", "How many boxes there may be.", 65536),
                       number("grow", "1", "By how much each box is made larger about its middle.",
                              0.01, 100),
                       flag("square", "false", "Whether a box's longer side is taken for both."),
                       how_setting(), fill_setting(), channels_setting()},
          .make = &make_crop_boxes};
}

}  // namespace

std::vector<Declaration> crop_functions() {
  return {crop(), crop_boxes()};
}

}  // namespace penstock::ready
