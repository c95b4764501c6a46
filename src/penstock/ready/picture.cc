// What all functions of pictures share.
#include "penstock/ready/picture.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace penstock::ready {
namespace {

template <typename Byte>
Rows<Byte> rows_of(const std::vector<std::int64_t>& dims, Byte* data) {
  const auto width = static_cast<int>(dims[1]), channels = static_cast<int>(dims[2]);
  return {data, static_cast<int>(dims[0]), width, channels,
          static_cast<std::ptrdiff_t>(width) * channels};
}

}  // namespace

Setting channels_setting() {
  return {.name = "channels",
          .usual = "3",
          .says = "How many the picture has.",
          .lowest = 1,
          .highest = 4};
}

Setting size_setting(std::string_view name, std::string_view says, std::string_view usual) {
  return {.name = name,
          .kind = Setting::Kind::kSize,
          .usual = usual,
          .says = says,
          .lowest = 1,
          .highest = kLargestSide,
          .shown = "480,640"};
}

backend::Port any_picture(std::string name, std::int64_t channels) {
  return u8(std::move(name), {open("height"), open("width"), sized(channels)});
}

Result<Picture> picture_of(const Tensor& tensor) {
  const auto& dims = tensor.dims();
  constexpr auto kMost = static_cast<std::int64_t>(kLargestSide);
  if (dims[0] < 1 || dims[1] < 1 || dims[0] > kMost || dims[1] > kMost) {
    return invalid_argument("expected a picture of 1 to ", kMost, " rows and columns, found ",
                            tensor.type());
  }
  return rows_of(dims, static_cast<const std::uint8_t*>(tensor.data()));
}

Canvas canvas_of(Tensor& tensor) {
  return rows_of(tensor.dims(), static_cast<std::uint8_t*>(tensor.data()));
}

void fill(const Canvas& canvas, std::uint8_t value) {
  const auto bytes =
      static_cast<std::size_t>(canvas.width) * static_cast<std::size_t>(canvas.channels);
  for (int y = 0; y < canvas.height; ++y) std::memset(canvas.row(y), value, bytes);
}

void copy(const Picture& from, const Canvas& to) {
  const auto bytes = static_cast<std::size_t>(to.width) * static_cast<std::size_t>(to.channels);
  for (int y = 0; y < to.height; ++y) std::memcpy(to.row(y), from.row(y), bytes);
}

}  // namespace penstock::ready
