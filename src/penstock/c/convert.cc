// Checks tensors that C gives, then copies or borrows their memory; results are shown in place.
#include "penstock/c/convert.h"

#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "penstock/base/words.h"
#include "penstock/c/ports.h"

namespace penstock::c {
namespace {

constexpr int kMostDims = 64;
constexpr int kLastDType = static_cast<int>(DType::kI2);

/// \error kInvalidArgument  a negative size, or more elements than can be counted.
Result<std::size_t> count_of(std::span<const std::int64_t> dims) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max() / 16;
  std::uint64_t count = 1;
  bool empty = false;
  for (const auto size : dims) {
    if (size < 0) return invalid_argument("expected sizes of 0 or more, found ", size);
    if (size == 0) {
      empty = true;
    } else if (static_cast<std::uint64_t>(size) > kMost / count) {
      return invalid_argument("more elements than can be counted: [",
                              join(dims, ",", [](auto dim) { return std::to_string(dim); }), "]");
    } else {
      count *= static_cast<std::uint64_t>(size);
    }
  }
  return empty ? std::size_t{0} : static_cast<std::size_t>(count);
}

Status check_memory(const penstock_tensor& given, std::size_t bytes) {
  if (bytes > 0 && given.data == nullptr) {
    return invalid_argument("no data: expected ", counted(bytes, "byte"), ", found NULL");
  }
  if (given.capacity_bytes < bytes) {
    return invalid_argument("expected ", counted(bytes, "byte"), ", found ", given.capacity_bytes,
                            " (capacity_bytes)");
  }
  return {};
}

Result<Tensor> to_strings(const penstock_tensor& given, std::vector<std::int64_t> dims,
                          std::size_t count) {
  PENSTOCK_CHECK_OK(check_memory(given, count * sizeof(penstock_string)));
  std::vector<std::string> values;
  values.reserve(count);
  for (const auto& text : std::span(static_cast<const penstock_string*>(given.data), count)) {
    if (text.data == nullptr && text.bytes > 0) {
      return invalid_argument("element ", values.size(), ": no text: expected ",
                              counted(text.bytes, "byte"), ", found NULL");
    }
    values.emplace_back(text.data == nullptr ? "" : text.data, text.bytes);
  }
  return Tensor::strings(std::move(dims), std::move(values));
}

bool is_dtype(std::int32_t number) {
  return number > 0 && number <= kLastDType;
}

/// A wrong length may come of a wrong type.
std::string about_types(std::int32_t found, std::int32_t taken) {
  if (found == taken || !is_dtype(found) || !is_dtype(taken)) return "";
  return concat("; it is of ", to_string(static_cast<DType>(found)), ", where ",
                to_string(static_cast<DType>(taken)), " is taken");
}

}  // namespace

Result<Tensor> to_tensor(const penstock_tensor& given, const std::shared_ptr<const void>& owner) {
  if (!is_dtype(given.dtype)) {
    return invalid_argument("expected an element type of 1 to ", kLastDType, ", found ",
                            given.dtype);
  }
  if (given.rank < 0 || given.rank > kMostDims || (given.rank > 0 && given.dims == nullptr)) {
    return invalid_argument("expected a rank of 0 to ", kMostDims, " with as many sizes, found ",
                            given.rank, given.dims == nullptr ? " and no sizes" : "");
  }
  const auto dtype = static_cast<DType>(given.dtype);
  const std::span<const std::int64_t> sizes(given.dims, static_cast<std::size_t>(given.rank));
  PENSTOCK_TRY(const auto count, count_of(sizes));
  std::vector<std::int64_t> dims(sizes.begin(), sizes.end());
  if (dtype == DType::kString) return to_strings(given, std::move(dims), count);
  const auto bytes = bytes_of(dtype, count);
  PENSTOCK_CHECK_OK(check_memory(given, bytes));
  if (owner) return Tensor::view(dtype, std::move(dims), given.data, owner);
  Tensor copy = Tensor::allocate(dtype, std::move(dims));
  if (bytes > 0) std::memcpy(copy.data(), given.data, bytes);
  return copy;
}

Result<std::vector<Tensor>> to_tensors(const penstock_tensor* given, std::size_t count,
                                       const std::shared_ptr<const void>& owner,
                                       const Places& places) {
  if (given == nullptr && count > 0) {
    return invalid_argument("expected ", counted(count, "tensor"), ", found NULL");
  }
  std::vector<Tensor> tensors;
  for (const auto& one : std::span(given, count)) {
    auto tensor = to_tensor(one, owner);
    if (!tensor) {
      const auto i = tensors.size();
      const auto about = places.dtype_of ? about_types(one.dtype, places.dtype_of(i)) : "";
      return std::move(tensor).error().adding(about).within(places.place_of(i));
    }
    tensors.push_back(*std::move(tensor));
  }
  return tensors;
}

std::vector<penstock_string> texts_of(const Tensor& tensor) {
  std::vector<penstock_string> texts;
  if (tensor.kind() != Tensor::Kind::kStrings) return texts;
  for (const auto& text : tensor.strings()) texts.push_back({text.c_str(), text.size()});
  return texts;
}

Result<penstock_tensor> view_of(const Tensor& tensor, const std::vector<penstock_string>& texts) {
  penstock_tensor view{};
  const bool strings = tensor.kind() == Tensor::Kind::kStrings;
  if (!strings && tensor.kind() != Tensor::Kind::kDense) {
    return make_error(Code::kUnimplemented,
                      "it is no tensor (a sequence, a map, or an optional that is absent), which C "
                      "cannot read");
  }
  if (!tensor.in_host_memory()) {
    return make_error(Code::kUnimplemented, "it lies in another memory than the host's");
  }
  view.dtype = static_cast<std::int32_t>(strings ? DType::kString : tensor.dtype());
  view.rank = static_cast<std::int32_t>(tensor.dims().size());
  // The structure is for tensors that are written too; this one is only read.
  view.dims = const_cast<std::int64_t*>(tensor.dims().data());  // NOLINT(*-const-cast)
  const void* data = strings ? static_cast<const void*>(texts.data()) : tensor.data();
  view.data = const_cast<void*>(data);  // NOLINT(*-const-cast)
  view.capacity_bytes = strings ? texts.size() * sizeof(penstock_string) : tensor.bytes();
  return view;
}

Ports::Ports(std::vector<plan::TensorInfo> infos) : infos_(std::move(infos)) {
  for (const auto& info : infos_) {
    auto& dims = dims_.emplace_back();
    for (const auto& dim : info.type.dims) {
      dims.push_back({dim.size, dim.symbol.empty() ? nullptr : dim.symbol.c_str(), dim.bound});
    }
    const auto rank = info.type.ranked ? static_cast<std::int32_t>(dims.size()) : -1;
    ports_.push_back(
        {info.name.c_str(), static_cast<std::int32_t>(info.type.dtype), rank, dims.data()});
  }
}

}  // namespace penstock::c
