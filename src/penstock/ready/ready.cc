// Finds a ready-made function by its name, and makes it.
#include "penstock/ready/ready.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "penstock/base/near_names.h"
#include "penstock/ready/families.h"
#include "penstock/ready/kernel.h"
#include "penstock/ready/values.h"

namespace penstock::ready {
namespace {

std::vector<Declaration> all_declarations() {
  std::vector<Declaration> all;
  for (auto* family :
       {&decode_functions, &resize_functions, &letterbox_functions, &crop_functions,
        &normalise_functions, &colour_functions, &reshape_functions, &convert_functions,
        &place_points_functions, &draw_functions, &softmax_functions, &top_k_functions,
        &nms_functions, &window_functions, &resample_functions, &mel_functions}) {
    std::ranges::move(family(), std::back_inserter(all));
  }
  return all;
}

}  // namespace

std::span<const Declaration> declarations() {
  static const auto all = all_declarations();
  return all;
}

Result<const Declaration*> declared(std::string_view name) {
  const auto all = declarations();
  const auto found = std::ranges::find(all, name, &Declaration::name);
  if (found != all.end()) return &*found;
  std::vector<std::string> names;
  for (const auto& declaration : all) names.emplace_back(declaration.name);
  return not_found("no ready-made function '", name, "'", did_you_mean(name, names),
                   "; there are: ", join(names, ", "));
}

Result<function::Function> make(std::string_view name, const function::Settings& settings) {
  PENSTOCK_TRY(const auto* found, declared(name));
  const Where place{Where::kFunction, std::string(name)};
  const auto values = Values::read(*found, settings);
  if (!values) return Error(values.error()).within(place);
  auto function = found->make(*values);
  if (!function) return std::move(function).error().within(place);
  return function;
}

Status shape(Tensor& output, std::span<const std::int64_t> dims) {
  if (output.set_dims(dims)) return {};
  return make_error(Code::kOutOfRange, "expected room for [",
                    join(dims, ",", [](auto d) { return std::to_string(d); }), "], found ",
                    output.capacity_bytes(), " bytes; raise the setting that bounds it");
}

}  // namespace penstock::ready
