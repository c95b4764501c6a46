// `colour`: from one order and kind of colours to another.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "penstock/ready/families.h"
#include "penstock/ready/picture.h"
#include "penstock/ready/settings.h"
#include "penstock/ready/values.h"
#include "penstock/ready/vectors.h"

namespace penstock::ready {
namespace {

/// Where a pixel has its red, green and blue.
struct Order {
  std::string_view name;
  int channels, red, green, blue;
};
constexpr std::array<Order, 5> kOrders{{{"rgb", 3, 0, 1, 2},
                                        {"bgr", 3, 2, 1, 0},
                                        {"grey", 1, 0, 0, 0},
                                        {"rgba", 4, 0, 1, 2},
                                        {"bgra", 4, 2, 1, 0}}};

std::optional<Order> order_of(std::string_view name) {
  const auto found = std::ranges::find(kOrders, name, &Order::name);
  return found == kOrders.end() ? std::nullopt : std::optional(*found);
}

/// Luma of ITU-R BT.601 in 1/2^15, of sum 1.
std::uint8_t luma(int red, int green, int blue) {
  return static_cast<std::uint8_t>((red * 9798 + green * 19235 + blue * 3735 + (1 << 14)) >> 15);
}

struct Reorder {
  Order from, to;

  Status run(Inputs in, Outputs out) const {
    PENSTOCK_TRY(const auto picture, picture_of(*in[0]));
    PENSTOCK_CHECK_OK(shape(*out[0], {picture.height, picture.width, to.channels}));
    const std::uint8_t* __restrict a = picture.data;
    std::uint8_t* __restrict b = out[0]->as<std::uint8_t>().data();
    const auto count = static_cast<std::ptrdiff_t>(picture.height) * picture.width;
    for (std::ptrdiff_t i = 0; i < count; ++i, a += from.channels, b += to.channels) {
      const std::uint8_t red = a[from.red], green = a[from.green], blue = a[from.blue];
      const std::uint8_t alpha = from.channels == 4 ? a[3] : 255;
      if (to.channels == 4) b[3] = alpha;
      if (to.channels == 1) {
        b[0] = from.channels == 1 ? red : luma(red, green, blue);
      } else {
        b[to.red] = red, b[to.green] = green, b[to.blue] = blue;
      }
    }
    return {};
  }
};

/// What U and V add to each colour of a row, twice over for its pairs of pixels, and a half to
/// round.
struct Tints {
  std::vector<std::int32_t> red, green, blue;
};

// BT.601 of limited range (Y from 16 to 235, U and V from 16 to 240 around 128), in 1/2^20. These
// are OpenCV's numbers, and so are the results to the bit.
constexpr int kShift = 20;
constexpr std::int32_t kY = 1220542, kRedV = 1673527, kGreenU = -409993, kGreenV = -852492,
                       kBlueU = 2116026;

/// What Y adds to all colours of a row.
PENSTOCK_VECTORISED void lighten(const std::uint8_t* __restrict y, std::int32_t* __restrict light,
                                 std::size_t width) {
  for (std::size_t x = 0; x < width; ++x) light[x] = std::max(0, y[x] - 16) * kY;
}

/// One colour of a row, which may lie outside of 0 to 255. Bounds are put to it where twice as many
/// numbers fit in a register.
PENSTOCK_VECTORISED void shade(const std::int32_t* __restrict light,
                               const std::int32_t* __restrict tint, std::int16_t* __restrict to,
                               std::size_t width) {
  for (std::size_t x = 0; x < width; ++x) {
    to[x] = static_cast<std::int16_t>((light[x] + tint[x]) >> kShift);
  }
}

PENSTOCK_VECTORISED void bound(const std::int16_t* __restrict shades, std::uint8_t* __restrict to,
                               std::size_t width) {
  for (std::size_t x = 0; x < width; ++x) {
    const auto least = std::max<std::int16_t>(0, shades[x]);
    to[x] = static_cast<std::uint8_t>(std::min<std::int16_t>(255, least));
  }
}

PENSTOCK_VECTORISED void part(const std::uint8_t* __restrict both, std::uint8_t* __restrict first,
                              std::uint8_t* __restrict second, std::size_t pairs) {
  for (std::size_t i = 0; i < pairs; ++i) {
    first[i] = both[2 * i];
    second[i] = both[2 * i + 1];
  }
}

PENSTOCK_VECTORISED void tint(const std::uint8_t* __restrict u, const std::uint8_t* __restrict v,
                              std::int32_t* __restrict red, std::int32_t* __restrict green,
                              std::int32_t* __restrict blue, std::size_t pairs) {
  constexpr std::int32_t kHalf = 1 << (kShift - 1);
  for (std::size_t i = 0; i < pairs; ++i) {
    const std::int32_t from_u = u[i] - 128, from_v = v[i] - 128;
    red[2 * i] = red[2 * i + 1] = kRedV * from_v + kHalf;
    green[2 * i] = green[2 * i + 1] = kGreenU * from_u + kGreenV * from_v + kHalf;
    blue[2 * i] = blue[2 * i + 1] = kBlueU * from_u + kHalf;
  }
}

PENSTOCK_VECTORISED void join_three(const std::uint8_t* __restrict first,
                                    const std::uint8_t* __restrict second,
                                    const std::uint8_t* __restrict third,
                                    std::uint8_t* __restrict to, std::size_t width) {
  for (std::size_t x = 0; x < width; ++x) {
    to[3 * x] = first[x];
    to[3 * x + 1] = second[x];
    to[3 * x + 2] = third[x];
  }
}

/// Frames of cameras and decoders, with one pair of U and V for four pixels.
struct FromYuv {
  Order to;
  bool planes;                                      // I420; else NV12, in which the two alternate.
  std::array<std::vector<std::uint8_t>, 2> parted;  // U and V of a row that has them in turn.
  Tints tints;
  std::vector<std::int32_t> light;
  std::vector<std::int16_t> shades;               // Of one colour.
  std::array<std::vector<std::uint8_t>, 3> line;  // Of the result, by place in a pixel.

  Status run(Inputs in, Outputs out) {
    const auto rows = in[0]->dims()[0], width = in[0]->dims()[1];
    if (rows < 3 || rows % 3 != 0 || width < 2 || width % 2 != 0) {
      return invalid_argument(
          "expected rows of Y and half as many of U and V, of an even width "
          "and height, found ",
          in[0]->type());
    }
    const auto height = rows / 3 * 2;
    PENSTOCK_CHECK_OK(shape(*out[0], {height, width, to.channels}));
    const auto* y = in[0]->as<std::uint8_t>().data();
    const auto canvas = canvas_of(*out[0]);
    const auto* colours = y + width * height;
    const auto quarter = height / 2 * (width / 2);
    for (int row = 0; row < canvas.height; ++row) {
      const auto* u = colours + row / 2 * (planes ? width / 2 : width);
      if (row % 2 == 0) mix(u, planes ? u + quarter : nullptr, static_cast<std::size_t>(width));
      paint(y + row * width, canvas.row(row), static_cast<std::size_t>(width));
    }
    return {};
  }

  /// `v`: null where `u` has both in turn.
  void mix(const std::uint8_t* u, const std::uint8_t* v, std::size_t width) {
    if (v == nullptr) {
      for (auto& half : parted) half.resize(width / 2);
      part(u, parted[0].data(), parted[1].data(), width / 2);
      u = parted[0].data();
      v = parted[1].data();
    }
    for (auto* colour : {&tints.red, &tints.green, &tints.blue}) colour->resize(width);
    tint(u, v, tints.red.data(), tints.green.data(), tints.blue.data(), width / 2);
  }

  void paint(const std::uint8_t* y, std::uint8_t* out, std::size_t width) {
    light.resize(width);
    shades.resize(width);
    lighten(y, light.data(), width);
    for (const auto& [tint, at] : {std::pair(&tints.red, to.red), std::pair(&tints.green, to.green),
                                   std::pair(&tints.blue, to.blue)}) {
      auto& colour = line[static_cast<std::size_t>(at)];
      colour.resize(width);
      shade(light.data(), tint->data(), shades.data(), width);
      bound(shades.data(), colour.data(), width);
    }
    if (to.channels == 3) {
      return join_three(line[0].data(), line[1].data(), line[2].data(), out, width);
    }
    for (std::size_t x = 0; x < width; ++x, out += 4) {
      for (std::size_t c = 0; c < 3; ++c) out[c] = line[c][x];
      out[3] = 255;
    }
  }
};

/// Of YUV the grey is the Y as it is.
struct GreyOfYuv {
  static Status run(Inputs in, Outputs out) {
    const auto rows = in[0]->dims()[0], width = in[0]->dims()[1];
    if (rows < 3 || rows % 3 != 0) {
      return invalid_argument("expected rows of Y and half as many of U and V, found ",
                              in[0]->type());
    }
    PENSTOCK_CHECK_OK(shape(*out[0], {rows / 3 * 2, width, 1}));
    const auto to = out[0]->as<std::uint8_t>();
    std::ranges::copy(in[0]->as<std::uint8_t>().first(to.size()), to.begin());
    return {};
  }
};

Result<function::Function> make_colour(const Values& values) {
  const auto [height, width] = values.size("most");
  const auto to = *order_of(values.word("to"));
  const std::vector<backend::Port> outputs{
      u8("image", {open("height", height), open("width", width), sized(to.channels)})};
  const auto& name = values.word("source");
  if (const auto from = order_of(name)) {
    return made_of("colour", {any_picture("image", from->channels)}, outputs, Reorder{*from, to});
  }
  const std::vector<backend::Port> inputs{u8("image", {open("rows"), open("width")})};
  if (to.channels == 1) return made_of("colour", inputs, outputs, GreyOfYuv{});
  return made_of("colour", inputs, outputs, FromYuv{to, name == "i420", {}, {}, {}, {}, {}});
}

}  // namespace

std::vector<Declaration> colour_functions() {
  return {{.name = "colour",
           .says = "A picture in other colours; NV12 and I420 (BT.601, as video has them) come as "
                   "rows of Y with half as many of U and V below.",
           .settings = {shown_as("nv12", word("source", "", "What comes.",
                                              "rgb|bgr|grey|rgba|bgra|nv12|i420")),
                        word("to", "rgb", "What it becomes.", "rgb|bgr|grey|rgba|bgra"),
                        size_setting("most", "The largest picture, for which room is made.",
                                     "1080,1920")},
           .make = &make_colour}};
}

}  // namespace penstock::ready
