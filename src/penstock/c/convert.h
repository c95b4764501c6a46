// Between the library's tensors and C's.
#pragma once

#include <cstddef>
#include <cstdint>
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

/// What is known of a tensor by its index.
struct Places {
  std::function<Where(std::size_t)> place_of;
  std::function<std::int32_t(std::size_t)> dtype_of;  ///< Empty, or 0: any.
};

/// As to_tensor(), of each; `owner` may be null. \error names the tensor's place, and an element
/// type other than the one that is taken.
Result<std::vector<Tensor>> to_tensors(const penstock_tensor* given, std::size_t count,
                                       const std::shared_ptr<const void>& owner,
                                       const Places& places);

/// The elements of a tensor of texts, in the tensor's own memory; of another: none.
std::vector<penstock_string> texts_of(const Tensor& tensor);

/// What C reads of a tensor, as long as that lives. `texts`: as texts_of().
/// \error kUnimplemented  it is no tensor.
Result<penstock_tensor> view_of(const Tensor& tensor, const std::vector<penstock_string>& texts);

}  // namespace penstock::c
