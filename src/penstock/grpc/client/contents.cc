// Reads the field of InferTensorContents that belongs to a type, and checks its number of elements.
#include "penstock/grpc/client/contents.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

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

/// The tensor that `contents` holds, as one row. \pre  the type has a field
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

/// The fields of the message, and how many elements each has.
struct ContentsField {
  std::string_view name;
  int size;
};
std::array<ContentsField, 8> fields_of(const inference::InferTensorContents& contents) {
  return {{{"bool_contents", contents.bool_contents_size()},
           {"int_contents", contents.int_contents_size()},
           {"int64_contents", contents.int64_contents_size()},
           {"uint_contents", contents.uint_contents_size()},
           {"uint64_contents", contents.uint64_contents_size()},
           {"fp32_contents", contents.fp32_contents_size()},
           {"fp64_contents", contents.fp64_contents_size()},
           {"bytes_contents", contents.bytes_contents_size()}}};
}

/// Empty: the type has none.
std::string_view field_for(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return "bool_contents";
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
      return "int_contents";
    case DType::kI64:
      return "int64_contents";
    case DType::kU8:
    case DType::kU16:
    case DType::kU32:
      return "uint_contents";
    case DType::kU64:
      return "uint64_contents";
    case DType::kF32:
      return "fp32_contents";
    case DType::kF64:
      return "fp64_contents";
    case DType::kString:
      return "bytes_contents";
    default:
      return {};
  }
}

/// Of elements in two fields nobody could say which are meant.
Status check_other_fields(const inference::InferTensorContents& contents, DType dtype) {
  const auto own = field_for(dtype);
  if (own.empty()) {
    return invalid_argument(datatype_of(dtype), " has no field in 'contents': send it raw");
  }
  for (const auto& [name, size] : fields_of(contents)) {
    if (size == 0 || name == own) continue;
    return invalid_argument("expected the elements of ", datatype_of(dtype), " in the field '", own,
                            "' of 'contents' alone, found ", size, " in '", name, "'");
  }
  return {};
}

}  // namespace

Result<Tensor> read_contents(const inference::InferTensorContents& contents, DType dtype,
                             const std::vector<std::int64_t>& dims) {
  PENSTOCK_TRY(const std::size_t count, count_elements(dims));
  PENSTOCK_CHECK_OK(check_other_fields(contents, dtype));
  Tensor tensor;
  std::size_t found = 0;
  if (dtype == DType::kString) {
    found = static_cast<std::size_t>(contents.bytes_contents_size());
    const auto& texts = contents.bytes_contents();
    if (found == count) tensor = Tensor::strings(dims, {texts.begin(), texts.end()});
  } else {
    tensor = row_of(contents, dtype);
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
