// The function `resize`: a picture of any size to one of a fixed size.
#include "penstock/ready/families.h"
#include "penstock/ready/resizer.h"
#include "penstock/ready/values.h"

namespace penstock::ready {
namespace {

struct Resize {
  Resizer resizer;

  Status run(Inputs in, Outputs out) {
    PENSTOCK_TRY(const auto from, picture_of(*in[0]));
    resizer.run(from, canvas_of(*out[0]));
    return {};
  }
};

Result<function::Function> make_resize(const Values& values) {
  const auto channels = values.integer("channels");
  const auto [height, width] = values.size("size");
  return made_of("resize", {any_picture("image", channels)},
                 {u8("image", {sized(height), sized(width), sized(channels)})},
                 Resize{Resizer(parse_how(values.word("how")))});
}

}  // namespace

std::vector<Declaration> resize_functions() {
  return {{.name = "resize",
           .says = "A picture of any size to a fixed one, without regard to its proportions: for "
                   "classifiers, depth and segmentation.",
           .settings = {size_setting("size", "Height and width of the result."), how_setting(),
                        channels_setting()},
           .make = &make_resize}};
}

}  // namespace penstock::ready
