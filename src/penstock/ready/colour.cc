// `colour`: from one order and kind of colours to another.
#include <algorithm>
#include <array>
#include <optional>

#include "penstock/ready/families.h"
#include "penstock/ready/picture.h"
#include "penstock/ready/settings.h"
#include "penstock/ready/values.h"

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

/// Frames of cameras and decoders: BT.601 of limited range, one pair of colours for four pixels.
struct FromYuv {
  Order to;
  bool planes;  // I420; else NV12, in which the two alternate.

  static std::uint8_t bounded(int value) {
    return static_cast<std::uint8_t>(std::clamp(value >> kShift, 0, 255));
  }

  Status run(Inputs in, Outputs out) const {
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
    for (int row = 0; row < canvas.height; ++row) {
      const auto* colours = y + width * height;
      const auto quarter = static_cast<std::ptrdiff_t>(height / 2) * (width / 2);
      const auto at = static_cast<std::ptrdiff_t>(row / 2) * (planes ? width / 2 : width);
      const auto* u = colours + at;
      line(y + row * width, u, planes ? u + quarter : u + 1, canvas.row(row), canvas.width);
    }
    return {};
  }

  static constexpr int kShift = 16;
  static constexpr int kHalf = 1 << (kShift - 1);
  // 255/219, and of BT.601: 1.596027, 0.391762, 0.812968, 2.017232, in 1/2^16.
  static constexpr int kY = 76309, kRedV = 104597, kGreenU = 25675, kGreenV = 53279,
                       kBlueU = 132201;

  void line(const std::uint8_t* __restrict y, const std::uint8_t* __restrict u,
            const std::uint8_t* __restrict v, std::uint8_t* __restrict out, int width) const {
    const int step = planes ? 1 : 2;
    for (int x = 0; x < width; ++x, out += to.channels) {
      const int at = x / 2 * step;
      const int light = std::max(0, y[x] - 16) * kY + kHalf;
      const int blue = u[at] - 128, red = v[at] - 128;
      out[to.red] = bounded(light + kRedV * red);
      out[to.green] = bounded(light - kGreenU * blue - kGreenV * red);
      out[to.blue] = bounded(light + kBlueU * blue);
      if (to.channels == 4) out[3] = 255;
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
  return made_of("colour", inputs, outputs, FromYuv{to, name == "i420"});
}

}  // namespace

std::vector<Declaration> colour_functions() {
  return {{.name = "colour",
           .says = "A picture in other colours; NV12 and I420 (BT.601, as video has them) come as "
                   "rows of Y with half as many of U and V below.",
           .settings = {word("source", "", "What comes.", "rgb|bgr|grey|rgba|bgra|nv12|i420"),
                        word("to", "rgb", "What it becomes.", "rgb|bgr|grey|rgba|bgra"),
                        size_setting("most", "The largest picture, for which room is made.",
                                     "1080,1920")},
           .make = &make_colour}};
}

}  // namespace penstock::ready
