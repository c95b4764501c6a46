// Between the library's tensors and C's.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/c/penstock.h"
#include "penstock/tensor/tensor.h"

namespace penstock::c {

/// A tensor over the caller's memory, which `owner` keeps; without an owner, a copy. Texts are
/// copied always.
/// \error kInvalidArgument  its type, shape or memory makes no sense.
Result<Tensor> to_tensor(const penstock_tensor& given, const std::shared_ptr<const void>& owner);

/// As to_tensor(), of each; `owner` may be null. \error names the tensor's place, by `place_of` its
/// index.
Result<std::vector<Tensor>> to_tensors(const penstock_tensor* given, std::size_t count,
                                       const std::shared_ptr<const void>& owner,
                                       const std::function<Where(std::size_t)>& place_of);

/// The elements of a tensor of texts, in the tensor's own memory; of another: none.
std::vector<penstock_string> texts_of(const Tensor& tensor);

/// What C reads of a tensor, as long as that lives. `texts`: as texts_of().
/// \error kUnimplemented  it is no tensor.
Result<penstock_tensor> view_of(const Tensor& tensor, const std::vector<penstock_string>& texts);

}  // namespace penstock::c
