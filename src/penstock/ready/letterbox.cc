// `letterbox` puts a picture into a frame, its proportions kept; `unletterbox` takes boxes back.
#include <algorithm>
#include <array>
#include <cmath>

#include "penstock/ready/families.h"
#include "penstock/ready/placement.h"
#include "penstock/ready/resizer.h"
#include "penstock/ready/settings.h"
#include "penstock/ready/values.h"

namespace penstock::ready {
namespace {

struct Letterbox {
  Resizer resizer;
  std::uint8_t value;
  bool enlarge, centre, stretch;

  /// Of the picture inside, half to even as Python rounds.
  static int side(int from, double scale, int most) {
    return std::clamp(static_cast<int>(std::nearbyint(from * scale)), 1, most);
  }

  Status run(Inputs in, Outputs out) {
    PENSTOCK_TRY(const auto from, picture_of(*in[0]));
    const auto to = canvas_of(*out[0]);
    const double fits = std::min(static_cast<double>(to.height) / from.height,
                                 static_cast<double>(to.width) / from.width);
    const double scale = enlarge ? fits : std::min(fits, 1.0);
    const int height = stretch ? to.height : side(from.height, scale, to.height);
    const int width = stretch ? to.width : side(from.width, scale, to.width);
    const int top = centre ? (to.height - height) / 2 : 0;
    const int left = centre ? (to.width - width) / 2 : 0;
    surround(to, top, left, height, width);
    resizer.run(from, to.part(top, left, height, width));
    const auto placement = out[1]->as<float>();
    const auto of = [](auto a, auto b) { return static_cast<float>(static_cast<double>(a) / b); };
    std::ranges::copy(std::array{of(width, from.width), of(height, from.height), of(left, 1),
                                 of(top, 1), of(from.width, 1), of(from.height, 1)},
                      placement.begin());
    return {};
  }

  /// What the picture leaves free.
  void surround(const Canvas& to, int top, int left, int height, int width) const {
    const int bottom = top + height, right = left + width;
    fill(to.part(0, 0, top, to.width), value);
    fill(to.part(top, 0, height, left), value);
    if (right < to.width) fill(to.part(top, right, height, to.width - right), value);
    if (bottom < to.height) fill(to.part(bottom, 0, to.height - bottom, to.width), value);
  }
};

Result<function::Function> make_letterbox(const Values& values) {
  const auto channels = values.integer("channels");
  const auto [height, width] = values.size("size");
  return made_of(
      "letterbox", {any_picture("image", channels)},
      {u8("image", {sized(height), sized(width), sized(channels)}),
       f32("placement", {sized(kPlacement)})},
      Letterbox{Resizer(parse_how(values.word("how"))),
                static_cast<std::uint8_t>(values.integer("fill")), values.flag("enlarge"),
                values.word("at") == "centre", values.flag("stretch")});
}

struct Unletterbox {
  static Status run(Inputs in, Outputs out) {
    const auto boxes = in[0]->as<float>(), placement = in[1]->as<float>();
    PENSTOCK_CHECK_OK(shape(*out[0], {in[0]->dims()[0], 4}));
    PENSTOCK_CHECK_OK(check_placement(placement));
    const auto back = out[0]->as<float>();
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      const std::size_t axis = i % 2;  // x, then y.
      back[i] =
          std::clamp(placed(boxes[i], placement, axis), 0.0F, std::max(0.0F, placement[4 + axis]));
    }
    return {};
  }
};

Result<function::Function> make_unletterbox(const Values& values) {
  const auto boxes = open("n", values.integer("most"));
  return made_of("unletterbox",
                 {f32("boxes", {boxes, sized(4)}), f32("placement", {sized(kPlacement)})},
                 {f32("boxes", {boxes, sized(4)})}, Unletterbox{});
}

Declaration letterbox() {
  return {
      .name = "letterbox",
      .says =
          "A picture of any size into a fixed frame, its proportions kept and the rest "
          "filled: for detectors such as YOLO, and pose. `placement` is the scale across "
          "and down, left, top, and the picture's own width and height.",
      .settings = {size_setting("size", "Height and width of the frame."),
                   whole("fill", "114", "What the rest is filled with.", 255, 0),
                   flag("enlarge", "true",
                        "Whether a picture smaller than the frame is made larger."),
                   flag("stretch", "false",
                        "Whether the picture fills the frame, its proportions lost, as `resize` "
                        "makes it, with a placement."),
                   word("at", "centre", "Where in the frame the picture stands.", "centre|corner"),
                   how_setting(), channels_setting()},
      .make = &make_letterbox};
}

}  // namespace

std::vector<Declaration> letterbox_functions() {
  return {letterbox(),
          {.name = "unletterbox",
           .says = "Boxes (left, top, right, bottom) in a letterbox's frame, as pixels of the "
                   "picture that was put in, within its borders.",
           .settings = {whole("most", "300", "How many boxes there may be.", 1e6)},
           .make = &make_unletterbox}};
}

}  // namespace penstock::ready
