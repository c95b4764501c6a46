// Reads the field of InferTensorContents that belongs to a type, and checks its number of elements.
#include "penstock/grpc/client/contents.h"

#include <algorithm>
#include <cstdint>

#include "penstock/base/words.h"
#include "penstock/tensor/datatype.h"

namespace penstock::grpc {
namespace {

template <typename To, typename Values>
Tensor tensor_of(DType dtype, const Values& values) {
  Tensor tensor = Tensor::allocate(dtype, {static_cast<std::int64_t>(values.size())});
  std::ranges::transform(values, tensor.as<To>().begin(),
                         [](auto value) { return static_cast<To>(value); });
  return tensor;
}

/// The tensor that `contents` holds, as one row; kNone: its field for the type is empty.
Tensor row_of(const inference::InferTensorContents& contents, DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return tensor_of<bool>(dtype, contents.bool_contents());
    case DType::kI8:
      return tensor_of<std::int8_t>(dtype, contents.int_contents());
    case DType::kI16:
      return tensor_of<std::int16_t>(dtype, contents.int_contents());
    case DType::kI32:
      return tensor_of<std::int32_t>(dtype, contents.int_contents());
    case DType::kI64:
      return tensor_of<std::int64_t>(dtype, contents.int64_contents());
    case DType::kU8:
      return tensor_of<std::uint8_t>(dtype, contents.uint_contents());
    case DType::kU16:
      return tensor_of<std::uint16_t>(dtype, contents.uint_contents());
    case DType::kU32:
      return tensor_of<std::uint32_t>(dtype, contents.uint_contents());
    case DType::kU64:
      return tensor_of<std::uint64_t>(dtype, contents.uint64_contents());
    case DType::kF32:
      return tensor_of<float>(dtype, contents.fp32_contents());
    case DType::kF64:
      return tensor_of<double>(dtype, contents.fp64_contents());
    default:
      return {};
  }
}

}  // namespace

Result<Tensor> read_contents(const inference::InferTensorContents& contents, DType dtype,
                             const std::vector<std::int64_t>& dims) {
  PENSTOCK_TRY(const std::size_t count, count_elements(dims));
  Tensor tensor;
  std::size_t found = 0;
  if (dtype == DType::kString) {
    found = static_cast<std::size_t>(contents.bytes_contents_size());
    const auto& texts = contents.bytes_contents();
    if (found == count) tensor = Tensor::strings(dims, {texts.begin(), texts.end()});
  } else {
    tensor = row_of(contents, dtype);
    if (tensor.kind() == Tensor::Kind::kNone) {
      return invalid_argument(datatype_of(dtype), " has no field in 'contents': send it raw");
    }
    found = tensor.count();
  }
  if (found != count) {
    return invalid_argument("expected ", counted(count, "element"),
                            " in the field of 'contents' for ", datatype_of(dtype), ", found ",
                            found);
  }
  if (dtype != DType::kString && !tensor.set_dims(dims)) return internal_error("no room for dims");
  return tensor;
}

}  // namespace penstock::grpc
