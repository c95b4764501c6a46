#include "values.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace penstock::ort {
namespace {

struct OpaqueValue {
  std::shared_ptr<const void> session;
  Value value;
};

Value own(const Engine& engine, OrtValue* value) {
  return {value, {engine.api->ReleaseValue}};
}

Result<Value> string_value(const Engine& engine, const Tensor& tensor) {
  const OrtApi& api = *engine.api;
  OrtValue* raw = nullptr;
  PENSTOCK_CHECK_OK(engine.check(
      api.CreateTensorAsOrtValue(engine.allocator, tensor.dims().data(), tensor.dims().size(),
                                 ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, &raw)));
  Value value = own(engine, raw);
  for (std::size_t i = 0; i < tensor.strings().size(); ++i) {
    const std::string& text = tensor.strings()[i];
    char* buffer = nullptr;
    PENSTOCK_CHECK_OK(
        engine.check(api.GetResizedStringTensorElementBuffer(raw, i, text.size(), &buffer)));
    std::ranges::copy(text, buffer);
  }
  return value;
}

Result<Value> sequence_value(const Engine& engine, const Tensor& tensor) {
  std::vector<Value> elements;
  std::vector<const OrtValue*> pointers;
  for (const Tensor& element : tensor.elements()) {
    PENSTOCK_TRY(Value value, to_value(engine, element));
    pointers.push_back(value.get());
    elements.push_back(std::move(value));
  }
  OrtValue* raw = nullptr;
  PENSTOCK_CHECK_OK(engine.check(
      engine.api->CreateValue(pointers.data(), pointers.size(), ONNX_TYPE_SEQUENCE, &raw)));
  return own(engine, raw);
}

struct Shape {
  DType dtype;
  std::vector<std::int64_t> dims;
};

Result<Shape> shape_of(const Engine& engine, const OrtValue& value) {
  const OrtApi& api = *engine.api;
  OrtTensorTypeAndShapeInfo* raw = nullptr;
  PENSTOCK_CHECK_OK(engine.check(api.GetTensorTypeAndShape(&value, &raw)));
  const Handle<OrtTensorTypeAndShapeInfo> info(raw, {api.ReleaseTensorTypeAndShapeInfo});
  ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  std::size_t rank = 0;
  PENSTOCK_CHECK_OK(engine.check(api.GetTensorElementType(raw, &element)));
  PENSTOCK_CHECK_OK(engine.check(api.GetDimensionsCount(raw, &rank)));
  Shape shape{from_engine(element), std::vector<std::int64_t>(rank)};
  PENSTOCK_CHECK_OK(engine.check(api.GetDimensions(raw, shape.dims.data(), rank)));
  return shape;
}

Result<Tensor> string_tensor(const Engine& engine, const OrtValue& value, Shape shape) {
  const OrtApi& api = *engine.api;
  std::size_t count = 1;
  for (const auto dim : shape.dims) count *= static_cast<std::size_t>(dim);
  std::size_t length = 0;
  PENSTOCK_CHECK_OK(engine.check(api.GetStringTensorDataLength(&value, &length)));
  std::string text(length, '\0');
  std::vector<std::size_t> begins(count + 1, length);
  if (count > 0) {
    PENSTOCK_CHECK_OK(engine.check(
        api.GetStringTensorContent(&value, text.data(), length, begins.data(), count)));
  }
  std::vector<std::string> strings;
  strings.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    strings.push_back(text.substr(begins[i], begins[i + 1] - begins[i]));
  }
  return Tensor::strings(std::move(shape.dims), std::move(strings));
}

Result<Tensor> plain_tensor(const Engine& engine, Value value,
                            std::shared_ptr<const void> session) {
  PENSTOCK_TRY(Shape shape, shape_of(engine, *value));
  if (shape.dtype == DType::kString) return string_tensor(engine, *value, std::move(shape));
  void* data = nullptr;
  PENSTOCK_CHECK_OK(engine.check(engine.api->GetTensorMutableData(value.get(), &data)));
  auto owner = std::make_shared<OpaqueValue>(OpaqueValue{std::move(session), std::move(value)});
  return Tensor::view(shape.dtype, std::move(shape.dims), data, std::move(owner));
}

Result<ONNXType> kind_of(const Engine& engine, const OrtValue& value) {
  ONNXType kind = ONNX_TYPE_UNKNOWN;
  PENSTOCK_CHECK_OK(engine.check(engine.api->GetValueType(&value, &kind)));
  return kind;
}

/// Of a sequence its elements, of a map its keys and its values. A map inside is one of these two.
Result<Tensor> parts_tensor(const Engine& engine, const OrtValue& value,
                            const std::shared_ptr<const void>& session) {
  std::size_t count = 0;
  PENSTOCK_CHECK_OK(engine.check(engine.api->GetValueCount(&value, &count)));
  std::vector<Tensor> elements;
  for (std::size_t i = 0; i < count; ++i) {
    OrtValue* raw = nullptr;
    PENSTOCK_CHECK_OK(
        engine.check(engine.api->GetValue(&value, static_cast<int>(i), engine.allocator, &raw)));
    Value part = own(engine, raw);
    PENSTOCK_TRY(const ONNXType kind, kind_of(engine, *part));
    PENSTOCK_TRY(const Tensor element, kind == ONNX_TYPE_MAP
                                           ? parts_tensor(engine, *part, session)
                                           : to_tensor(engine, std::move(part), session));
    elements.push_back(element.clone());  // An element may lie inside the sequence's memory.
  }
  return Tensor::sequence(std::move(elements));
}

}  // namespace

Result<Value> borrow(const Engine& engine, DType dtype, std::span<const std::int64_t> dims,
                     void* data, std::size_t size_bytes) {
  static char nothing = 0;  // A tensor without elements may have no address.
  OrtValue* raw = nullptr;
  PENSTOCK_CHECK_OK(engine.check(engine.api->CreateTensorWithDataAsOrtValue(
      engine.host.get(), data == nullptr ? &nothing : data, size_bytes, dims.data(), dims.size(),
      to_engine(dtype), &raw)));
  return own(engine, raw);
}

Result<Value> to_value(const Engine& engine, const Tensor& tensor) {
  switch (tensor.kind()) {
    case Tensor::Kind::kDense:
      // ONNX Runtime does not write into inputs; its interface only lacks the const.
      // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
      return borrow(engine, tensor.dtype(), tensor.dims(), const_cast<void*>(tensor.data()),
                    tensor.bytes());
    case Tensor::Kind::kStrings:
      return string_value(engine, tensor);
    case Tensor::Kind::kSequence:
      return sequence_value(engine, tensor);
    case Tensor::Kind::kNone:
    case Tensor::Kind::kOpaque:
      break;
  }
  return invalid_argument("expected a tensor, strings or a sequence of them");
}

Result<Tensor> to_tensor(const Engine& engine, Value value, std::shared_ptr<const void> session) {
  if (value == nullptr) return Tensor();
  int present = 0;
  PENSTOCK_CHECK_OK(engine.check(engine.api->HasValue(value.get(), &present)));
  if (present == 0) return Tensor();
  PENSTOCK_TRY(const ONNXType kind, kind_of(engine, *value));
  switch (kind) {
    case ONNX_TYPE_TENSOR:
      return plain_tensor(engine, std::move(value), std::move(session));
    case ONNX_TYPE_SEQUENCE: {
      auto sequence = parts_tensor(engine, *value, session);
      if (sequence) return sequence;
      break;  // Of what has no parts, such as sparse tensors.
    }
    default:
      break;
  }
  return Tensor::opaque(
      std::make_shared<OpaqueValue>(OpaqueValue{std::move(session), std::move(value)}));
}

const OrtValue* opaque_value(const Tensor& tensor) {
  return static_cast<const OpaqueValue*>(tensor.owner().get())->value.get();
}

}  // namespace penstock::ort
