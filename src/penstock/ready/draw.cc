// `draw_boxes` and `draw_points`: what was found, on the picture in which it was.
#include <algorithm>
#include <array>
#include <cmath>

#include "penstock/ready/families.h"
#include "penstock/ready/picture.h"
#include "penstock/ready/settings.h"
#include "penstock/ready/values.h"

namespace penstock::ready {
namespace {

constexpr float kFar = 1e6;  // Beyond every picture, within an int.

struct Pen {
  std::array<std::uint8_t, kMostChannels> colour;

  /// Rows and columns from the first to the last, as far as there are such.
  void rectangle(const Canvas& to, int top, int left, int bottom, int right) const {
    const int first = std::max(left, 0), last = std::min(right, to.width - 1);
    for (int y = std::max(top, 0); y <= std::min(bottom, to.height - 1); ++y) {
      for (int x = first; x <= last; ++x) {
        std::copy_n(colour.begin(), to.channels, to.pixel(y, x));
      }
    }
  }
};

/// Whether all are numbers; they are then within what an int holds.
bool nearest(std::span<const float> given, std::span<int> pixels) {
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (std::isnan(given[i])) return false;
    pixels[i] = static_cast<int>(std::lround(std::clamp(given[i], -kFar, kFar)));
  }
  return true;
}

/// A copy of the picture to draw on.
Result<Canvas> canvas_for(Inputs in, Outputs out) {
  PENSTOCK_TRY(const auto from, picture_of(*in[0]));
  PENSTOCK_CHECK_OK(shape(*out[0], {from.height, from.width, from.channels}));
  const auto to = canvas_of(*out[0]);
  copy(from, to);
  return to;
}

struct DrawBoxes {
  Pen pen;
  int thickness;

  Status run(Inputs in, Outputs out) const {
    PENSTOCK_TRY(const auto to, canvas_for(in, out));
    const auto boxes = in[1]->as<float>();
    for (std::size_t i = 0; i + 4 <= boxes.size(); i += 4) {
      std::array<int, 4> box{};
      if (nearest(boxes.subspan(i, 4), box)) frame(to, box);
    }
    return {};
  }

  /// Lines lie on the box's border, half of them within and half without.
  void frame(const Canvas& to, const std::array<int, 4>& box) const {
    const auto [left, top, right, bottom] = box;
    const int before = (thickness - 1) / 2, after = thickness / 2;
    pen.rectangle(to, top - before, left - before, top + after, right + after);
    pen.rectangle(to, bottom - before, left - before, bottom + after, right + after);
    pen.rectangle(to, top - before, left - before, bottom + after, left + after);
    pen.rectangle(to, top - before, right - before, bottom + after, right + after);
  }
};

struct DrawPoints {
  Pen pen;
  int radius;

  Status run(Inputs in, Outputs out) const {
    PENSTOCK_TRY(const auto to, canvas_for(in, out));
    const auto points = in[1]->as<float>();
    for (std::size_t i = 0; i + 2 <= points.size(); i += 2) {
      std::array<int, 2> at{};
      if (!nearest(points.subspan(i, 2), at)) continue;
      pen.rectangle(to, at[1] - radius, at[0] - radius, at[1] + radius, at[0] + radius);
    }
    return {};
  }
};

Result<Pen> pen_of(const Values& values) {
  const auto channels = static_cast<std::size_t>(values.integer("channels"));
  const auto given = values.numbers("colour");
  if (given.size() != 1 && given.size() < channels) {
    return invalid_argument("setting 'colour': expected one number, or one for each of the ",
                            channels, " channels, found ", given.size());
  }
  Pen pen{};
  for (std::size_t c = 0; c < channels; ++c) {
    pen.colour[c] = static_cast<std::uint8_t>(given.size() == 1 ? given[0] : given[c]);
  }
  return pen;
}

/// The picture, of at most the size that is set, and what is drawn: `wide` numbers each.
function::Function drawing(const Values& values, std::string name, std::string of, int wide,
                           auto kernel) {
  const auto [height, width] = values.size("most");
  const std::vector<Dim> dims{open("height", height), open("width", width),
                              sized(values.integer("channels"))};
  return made_of(std::move(name), {u8("image", dims), f32(std::move(of), {open("n"), sized(wide)})},
                 {u8("image", dims)}, kernel);
}

Result<function::Function> make_draw_boxes(const Values& values) {
  PENSTOCK_TRY(const auto pen, pen_of(values));
  return drawing(values, "draw_boxes", "boxes", 4,
                 DrawBoxes{pen, static_cast<int>(values.integer("thickness"))});
}

Result<function::Function> make_draw_points(const Values& values) {
  PENSTOCK_TRY(const auto pen, pen_of(values));
  return drawing(values, "draw_points", "points", 2,
                 DrawPoints{pen, static_cast<int>(values.integer("radius"))});
}

std::vector<Setting> settings_with(const Setting& own) {
  return {own, numbers("colour", "0,255,0", "By channel, or one number for all.", 0, 255),
          size_setting("most", "The largest picture, for which room is made.", "1080,1920"),
          channels_setting()};
}

}  // namespace

std::vector<Declaration> draw_functions() {
  return {{.name = "draw_boxes",
           .says = "The picture with boxes (left, top, right, bottom, in pixels) drawn on it, for "
                   "who looks at what a detector finds.",
           .settings = settings_with(whole("thickness", "2", "Of the lines, in pixels.", 100)),
           .make = &make_draw_boxes},
          {.name = "draw_points",
           .says = "The picture with points (x, y, in pixels) drawn on it as squares: landmarks "
                   "and joints.",
           .settings =
               settings_with(whole("radius", "2", "Pixels on each side of a point's own.", 100, 0)),
           .make = &make_draw_points}};
}

}  // namespace penstock::ready
