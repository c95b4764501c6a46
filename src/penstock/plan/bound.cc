// Reads the bound values from the plan or its files and compares what is sent byte by byte.
#include "penstock/plan/bound.h"

#include <cstring>

#include "penstock/tensor/literal.h"
#include "penstock/tensor/npy.h"

namespace penstock::plan {
namespace {

Result<Tensor> value_of(const BoundInput& input, const std::filesystem::path& folder) {
  if (input.file.empty()) return parse_literal(input.value, input.type);
  PENSTOCK_TRY(Tensor value, read_npy(folder / input.file, input.type.dtype));
  PENSTOCK_CHECK_OK(check_matches(input.type, value));
  return value;
}

bool same(const Tensor& a, const Tensor& b) {
  if (a.kind() != b.kind() || a.dtype() != b.dtype() || a.dims() != b.dims()) return false;
  if (a.kind() == Tensor::Kind::kStrings) return a.strings() == b.strings();
  return a.kind() == Tensor::Kind::kDense && a.in_host_memory() && b.in_host_memory() &&
         (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

/// "16000", or "another i64[1,512]" where there is no short text of it.
std::string shown(const Tensor& value, std::string_view otherwise) {
  return literal_of(value).value_or(concat(otherwise, value.type()));
}

}  // namespace

Result<BoundValues> read_bound_values(const Plan& plan, const std::filesystem::path& folder) {
  BoundValues values;
  for (const auto& input : plan.bound_inputs) {
    auto value = value_of(input, folder);
    if (!value) return std::move(value).error().within({Where::kInput, input.name});
    values.emplace(input.name, *std::move(value));
  }
  return values;
}

Status check_bound(const BoundValues& bound, const std::string& name, const Tensor& sent) {
  const auto& value = bound.at(name);
  if (same(value, sent)) return {};
  const bool typed = value.dtype() == sent.dtype() && value.dims() == sent.dims();
  const auto expected = typed ? shown(value, "the value of ") : concat(value.type());
  const auto found = typed ? shown(sent, "another ") : concat(sent.type());
  return invalid_argument("bound when the model was split: expected ", expected, ", found ", found,
                          "; leave it out, or split the model again without binding it")
      .within({Where::kInput, name});
}

}  // namespace penstock::plan
