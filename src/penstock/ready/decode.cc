// `decode`: the bytes of a picture's file as a picture.
#include <algorithm>
#include <span>

#include "penstock/ready/families.h"
#include "penstock/ready/picture.h"
#include "penstock/ready/values.h"
#include "penstock/tensor/image.h"

namespace penstock::ready {
namespace {

struct Decode {
  int channels, most_height, most_width;

  Status run(Inputs in, Outputs out) const {
    return decode_image(in[0]->as<std::uint8_t>(), channels,
                        [&](int height, int width) { return room_in(*out[0], height, width); });
  }

  Result<std::span<std::uint8_t>> room_in(Tensor& image, int height, int width) const {
    if (height > most_height || width > most_width) {
      return invalid_argument("expected a picture of at most ", most_height, " rows and ",
                              most_width, " columns, found ", height, " and ", width,
                              "; allow more by its setting 'most', such as [",
                              std::max(height, most_height), ", ", std::max(width, most_width),
                              "]");
    }
    PENSTOCK_CHECK_OK(shape(image, {height, width, channels}));
    return image.as<std::uint8_t>();
  }
};

Result<function::Function> make_decode(const Values& values) {
  const auto [height, width] = values.size("most");
  const auto channels = values.integer("channels");
  return made_of(
      "decode", {u8("bytes", {open("n")})},
      {u8("image", {open("height", height), open("width", width), sized(channels)})},
      Decode{static_cast<int>(channels), static_cast<int>(height), static_cast<int>(width)});
}

}  // namespace

std::vector<Declaration> decode_functions() {
  return {{.name = "decode",
           .says =
               "The bytes of a JPEG, PNG, BMP or binary PPM file as a picture (red, green, blue), "
               "turned as its EXIF orientation says: for services and folders of pictures.",
           .settings = {size_setting("most",
                                     "The largest picture, for which room is made; a larger one "
                                     "fails its frame.",
                                     "1080,1920"),
                        channels_setting()},
           .make = &make_decode}};
}

}  // namespace penstock::ready
