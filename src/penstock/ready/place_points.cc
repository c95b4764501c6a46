// `place_points`: points of a crop or a letterbox's frame, on the picture that it was cut from.
#include <array>
#include <cmath>

#include "penstock/ready/families.h"
#include "penstock/ready/picture.h"
#include "penstock/ready/placement.h"
#include "penstock/ready/reshaped.h"
#include "penstock/ready/settings.h"
#include "penstock/ready/values.h"

namespace penstock::ready {
namespace {

struct PlacePoints {
  std::size_t numbers, per_crop;  // Of a point, and points of a crop; 0: there is one placement.
  std::array<float, 2> scale;     // Across, down.

  Status run(Inputs in, Outputs out) const {
    const auto points = in[0]->as<float>();
    const auto count = points.size() / numbers;
    PENSTOCK_CHECK_OK(shape(*out[0], {static_cast<std::int64_t>(count), 2}));
    const auto to = out[0]->as<float>();
    for (std::size_t i = 0; i < count; ++i) {
      const auto crop = per_crop == 0 ? 0 : i / per_crop;
      const auto placement = in[1]->as<float>().subspan(crop * kPlacement, kPlacement);
      const bool is_nothing = per_crop > 0 && std::isnan(placement[0]);  // What that crop shows.
      if (!is_nothing) PENSTOCK_CHECK_OK(check_placement(placement));
      for (std::size_t axis = 0; axis < 2; ++axis) {
        to[2 * i + axis] = placed(points[numbers * i + axis] * scale[axis], placement, axis);
      }
    }
    return {};
  }
};

/// How many numbers each item of the first dimension has. A shape of one dimension is one item.
Result<std::int64_t> numbers_of_item(std::vector<Dim> dims, bool is_crops, std::int64_t numbers) {
  if (is_crops && dims.size() < 2) {
    return invalid_argument("setting 'shape': expected a first dimension of crops, and more");
  }
  if (dims.size() > 1) dims.erase(dims.begin());
  const auto each = Type::tensor(DType::kF32, dims);
  if (!each.fixed()) {
    return invalid_argument("setting 'shape': expected behind the first dimension fixed sizes");
  }
  const auto count = elements_of(dims);
  if (count % numbers == 0) return count;
  return invalid_argument("setting 'shape': expected behind the first dimension a multiple of ",
                          numbers, " ('numbers'), found ", count);
}

Result<function::Function> make_place_points(const Values& values) {
  const auto& dims = values.shape("shape");
  const auto numbers = values.integer("numbers");
  const bool is_crops = values.word("of") == "crop_boxes";
  const auto [height, width] = values.size("scale");
  PENSTOCK_TRY(const auto item, numbers_of_item(dims, is_crops, numbers));
  const auto most = elements_of(dims) / numbers;
  const bool fixed = Type::tensor(DType::kF32, dims).fixed();
  const auto placement = is_crops ? f32("placements", {dims.front(), sized(kPlacement)})
                                  : f32("placement", {sized(kPlacement)});
  return made_of(
      "place_points", {f32("points", dims), placement},
      {f32("points", {fixed ? sized(most) : open(unused(dims, "points"), most), sized(2)})},
      PlacePoints{static_cast<std::size_t>(numbers),
                  static_cast<std::size_t>(is_crops ? item / numbers : 0),
                  {static_cast<float>(width), static_cast<float>(height)}});
}

}  // namespace

std::vector<Declaration> place_points_functions() {
  return {
      {.name = "place_points",
       .says = "Points that a network found in each crop of `crop_boxes`, or in a letterbox's "
               "frame, as x and y in pixels of the whole picture: landmarks and joints, before "
               "`draw_points`. Those of a crop that shows nothing are not a number.",
       .settings = {shown_as("n<=16,1,10",
                             shape_of("Of what the network gives, which runs for `each`: first the "
                                      "crops. Of a letterbox: first a batch or the points.")),
                    whole("numbers", "2", "How many a point has, of which x and y are the first.",
                          100, 2),
                    size_setting(
                        "scale",
                        "Where the network gives shares of its picture, 0 to 1: the height "
                        "and width of that.",
                        "1"),
                    word("of", "crop_boxes",
                         "What made the network's picture. Of a letterbox the second input is its "
                         "`placement` alone.",
                         "crop_boxes|letterbox")},
       .make = &make_place_points}};
}

}  // namespace penstock::ready
