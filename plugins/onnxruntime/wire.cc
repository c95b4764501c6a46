#include "wire.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace penstock::ort {
namespace {

// Field numbers of onnx.proto. TypeProto's five kinds:
constexpr int kTensorType = 1;
constexpr int kSequenceType = 4;
constexpr int kMapType = 5;
constexpr int kSparseTensorType = 8;
constexpr int kOptionalType = 9;

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

std::string number(int field, std::uint64_t value) {
  return varint(static_cast<std::uint64_t>(field) << 3) + varint(value);
}

std::string bytes(int field, std::string_view value) {
  return varint(static_cast<std::uint64_t>(field) << 3 | 2) + varint(value.size()) +
         std::string(value);
}

Result<std::string> type_proto(const Engine& engine, const OrtTypeInfo& info);

Result<std::string> element_type(const Engine& engine, const OrtTypeInfo& info, int field) {
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  PENSTOCK_CHECK_OK(engine.check(engine.api->CastTypeInfoToTensorInfo(&info, &tensor)));
  if (tensor != nullptr) {
    PENSTOCK_CHECK_OK(engine.check(engine.api->GetTensorElementType(tensor, &element)));
  }
  return bytes(field, number(1, static_cast<std::uint64_t>(from_engine(element))));
}

/// Takes over what `get` returned; the containers of ONNX Runtime's types hand out copies.
Result<std::string> contained(const Engine& engine, OrtStatus* outcome, OrtTypeInfo* inner) {
  const Handle<OrtTypeInfo> owned(inner, {engine.api->ReleaseTypeInfo});
  PENSTOCK_CHECK_OK(engine.check(outcome));
  return type_proto(engine, *owned);
}

Result<std::string> sequence_type(const Engine& engine, const OrtTypeInfo& info) {
  const OrtSequenceTypeInfo* sequence = nullptr;
  PENSTOCK_CHECK_OK(engine.check(engine.api->CastTypeInfoToSequenceTypeInfo(&info, &sequence)));
  OrtTypeInfo* inner = nullptr;
  OrtStatus* outcome = engine.api->GetSequenceElementType(sequence, &inner);
  PENSTOCK_TRY(const std::string element, contained(engine, outcome, inner));
  return bytes(kSequenceType, bytes(1, element));
}

Result<std::string> optional_type(const Engine& engine, const OrtTypeInfo& info) {
  const OrtOptionalTypeInfo* optional = nullptr;
  PENSTOCK_CHECK_OK(engine.check(engine.api->CastTypeInfoToOptionalTypeInfo(&info, &optional)));
  OrtTypeInfo* inner = nullptr;
  OrtStatus* outcome = engine.api->GetOptionalContainedTypeInfo(optional, &inner);
  PENSTOCK_TRY(const std::string element, contained(engine, outcome, inner));
  return bytes(kOptionalType, bytes(1, element));
}

Result<std::string> map_type(const Engine& engine, const OrtTypeInfo& info) {
  const OrtMapTypeInfo* map = nullptr;
  PENSTOCK_CHECK_OK(engine.check(engine.api->CastTypeInfoToMapTypeInfo(&info, &map)));
  ONNXTensorElementDataType key = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  PENSTOCK_CHECK_OK(engine.check(engine.api->GetMapKeyType(map, &key)));
  OrtTypeInfo* inner = nullptr;
  OrtStatus* outcome = engine.api->GetMapValueType(map, &inner);
  PENSTOCK_TRY(const std::string value, contained(engine, outcome, inner));
  return bytes(kMapType, number(1, static_cast<std::uint64_t>(from_engine(key))) + bytes(2, value));
}

Result<std::string> type_proto(const Engine& engine, const OrtTypeInfo& info) {
  ONNXType kind = ONNX_TYPE_UNKNOWN;
  PENSTOCK_CHECK_OK(engine.check(engine.api->GetOnnxTypeFromTypeInfo(&info, &kind)));
  switch (kind) {
    case ONNX_TYPE_TENSOR:
      return element_type(engine, info, kTensorType);
    case ONNX_TYPE_SPARSETENSOR:
      return element_type(engine, info, kSparseTensorType);
    case ONNX_TYPE_SEQUENCE:
      return sequence_type(engine, info);
    case ONNX_TYPE_MAP:
      return map_type(engine, info);
    case ONNX_TYPE_OPTIONAL:
      return optional_type(engine, info);
    default:
      return std::string();
  }
}

Result<Type> tensor_type(const Engine& engine, const OrtTypeInfo& info) {
  const OrtApi& api = *engine.api;
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  PENSTOCK_CHECK_OK(engine.check(api.CastTypeInfoToTensorInfo(&info, &tensor)));
  ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  PENSTOCK_CHECK_OK(engine.check(api.GetTensorElementType(tensor, &element)));
  std::size_t rank = 0;
  PENSTOCK_CHECK_OK(engine.check(api.GetDimensionsCount(tensor, &rank)));
  std::vector<std::int64_t> sizes(rank);
  std::vector<const char*> symbols(rank);
  PENSTOCK_CHECK_OK(engine.check(api.GetDimensions(tensor, sizes.data(), rank)));
  PENSTOCK_CHECK_OK(engine.check(api.GetSymbolicDimensions(tensor, symbols.data(), rank)));
  std::vector<Dim> dims;
  for (std::size_t i = 0; i < rank; ++i) {
    if (sizes[i] >= 0) {
      dims.push_back({sizes[i], {}, Dim::kOpen});
    } else {
      dims.push_back({Dim::kOpen, symbols[i] == nullptr ? "" : symbols[i], Dim::kOpen});
    }
  }
  Type type = Type::tensor(from_engine(element), std::move(dims));
  type.ranked = rank > 0;
  return type;
}

/// The payload of a message that holds one field only, `field`, and is shorter than 128 bytes;
/// empty if it is another.
std::string_view only_field(std::string_view message, int field) {
  if (message.size() < 2 || message[0] != static_cast<char>(field << 3 | 2)) return {};
  return message.substr(2);
}

}  // namespace

Result<Type> read_type(const Engine& engine, const OrtTypeInfo& info) {
  ONNXType kind = ONNX_TYPE_UNKNOWN;
  PENSTOCK_CHECK_OK(engine.check(engine.api->GetOnnxTypeFromTypeInfo(&info, &kind)));
  if (kind == ONNX_TYPE_TENSOR) return tensor_type(engine, info);
  Type type;
  type.kind = Type::Kind::kOther;
  PENSTOCK_TRY(type.onnx, type_proto(engine, info));
  return type;
}

bool is_optional(std::string_view onnx) {
  return !only_field(onnx, kOptionalType).empty();
}

std::string model_of_empty_sequence(std::string_view onnx) {
  constexpr std::uint64_t kInt = 2;  // AttributeProto.INT
  constexpr std::uint64_t kIrVersion = 8;
  constexpr std::uint64_t kOpset = 13;
  const auto type = is_optional(onnx) ? only_field(only_field(onnx, kOptionalType), 1) : onnx;
  const auto tensor = only_field(only_field(only_field(type, kSequenceType), 1), kTensorType);
  if (tensor.size() < 2) return {};
  const auto dtype = static_cast<unsigned char>(tensor[1]);
  const std::string attribute = bytes(1, "dtype") + number(3, dtype) + number(20, kInt);
  const std::string node = bytes(2, "value") + bytes(4, "SequenceEmpty") + bytes(5, attribute);
  const std::string output = bytes(1, "value") + bytes(2, type);
  const std::string graph = bytes(1, node) + bytes(2, "empty") + bytes(12, output);
  return number(1, kIrVersion) + bytes(7, graph) + bytes(8, number(2, kOpset));
}

}  // namespace penstock::ort
