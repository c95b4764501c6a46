// `reshape`: the same numbers in another shape, which brings a tensor to the next one's input.
#include <algorithm>
#include <cstring>

#include "penstock/ready/convert.h"
#include "penstock/ready/families.h"
#include "penstock/ready/reshaped.h"
#include "penstock/ready/settings.h"
#include "penstock/ready/values.h"

namespace penstock::ready {
namespace {

struct Reshape {
  std::vector<std::int64_t> dims;  // -1 is the rest.

  Status run(Inputs in, Outputs out) const {
    auto to = dims;
    std::int64_t fixed = 1;
    for (const auto dim : dims) fixed *= dim < 0 ? 1 : dim;
    const auto count = static_cast<std::int64_t>(in[0]->count());
    std::ranges::replace(to, std::int64_t{-1}, count / fixed);
    if (count % fixed != 0) {
      return invalid_argument("expected a multiple of ", fixed, " elements, found ", in[0]->type());
    }
    PENSTOCK_CHECK_OK(shape(*out[0], to));
    if (count > 0) std::memcpy(out[0]->data(), in[0]->data(), in[0]->bytes());
    return {};
  }
};

Result<function::Function> make_reshape(const Values& values) {
  const auto dtype = *parse_dtype(values.word("type"));
  const auto from = Type::tensor(dtype, values.shape("shape"));
  const auto& to = values.shape("to");
  PENSTOCK_TRY(auto dims, reshaped("to", from, to));
  Reshape reshape;
  for (const auto& dim : to) reshape.dims.push_back(dim.size);
  return made_of("reshape", {{"tensor", from}}, {{"tensor", Type::tensor(dtype, std::move(dims))}},
                 std::move(reshape));
}

}  // namespace

std::vector<Declaration> reshape_functions() {
  return {{.name = "reshape",
           .says = "The same numbers in another shape: dimensions of 1 added or taken away, items "
                   "joined or cut, as the next network or function wants them.",
           .settings = {shown_as("n<=16,1,10", shape_of("Of what comes.")),
                        reshape_setting("to", "Of the result."),
                        type_setting("type", "f32", "Of the numbers.")},
           .make = &make_reshape}};
}

}  // namespace penstock::ready
