// Converts tensors, types and attributes both ways, and checks sizes before it takes memory.
#include "penstock/graph/proto.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <unordered_set>

#include "penstock/base/words.h"

namespace penstock::graph {
namespace {

template <typename Proto>
std::vector<std::int64_t> dims_of(const Proto& proto) {
  return {proto.dims().begin(), proto.dims().end()};
}

Error too_short(const onnx::TensorProto& proto, std::size_t expected, std::size_t found) {
  return make_error(Code::kDataLoss, "its shape needs ", counted(expected, "byte"), ", found ",
                    found, "; the file is damaged: export or copy it again")
      .within({Where::kTensor, proto.name()});
}

/// Sub-byte and 16-bit kinds stand in the low bits of int32_data; packed bytes one per entry.
template <typename To, typename List>
void narrow(const List& list, std::size_t count, void* out) {
  auto* to = static_cast<To*>(out);
  for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<To>(list[static_cast<int>(i)]);
}

/// Copies a typed field of `proto` into `tensor`. The count of entries is checked first.
template <typename To, typename List>
Status copy_list(const onnx::TensorProto& proto, const List& list, Tensor& tensor) {
  const std::size_t entries = tensor.bytes() / sizeof(To);
  if (static_cast<std::size_t>(list.size()) < entries) {
    return too_short(proto, tensor.bytes(), static_cast<std::size_t>(list.size()) * sizeof(To));
  }
  narrow<To>(list, entries, tensor.data());
  return {};
}

Status copy_int32(const onnx::TensorProto& proto, Tensor& tensor) {
  switch (bits_of(tensor.dtype())) {
    case 32:
      return copy_list<std::int32_t>(proto, proto.int32_data(), tensor);
    case 16:
      return copy_list<std::uint16_t>(proto, proto.int32_data(), tensor);
    default:
      break;
  }
  // Eight bits, or packed: the checker of ONNX accepts both one byte and four bytes per entry.
  const auto entries = static_cast<std::size_t>(proto.int32_data_size());
  if (bits_of(tensor.dtype()) < 8 && entries < tensor.bytes() && entries * 4 >= tensor.bytes()) {
    std::vector<std::int32_t> words(proto.int32_data().begin(), proto.int32_data().end());
    std::memcpy(tensor.data(), words.data(), tensor.bytes());
    return {};
  }
  return copy_list<std::uint8_t>(proto, proto.int32_data(), tensor);
}

Status copy_typed_field(const onnx::TensorProto& proto, Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kF32:
    case DType::kC64:
      return copy_list<float>(proto, proto.float_data(), tensor);
    case DType::kF64:
    case DType::kC128:
      return copy_list<double>(proto, proto.double_data(), tensor);
    case DType::kI64:
      return copy_list<std::int64_t>(proto, proto.int64_data(), tensor);
    case DType::kU64:
      return copy_list<std::uint64_t>(proto, proto.uint64_data(), tensor);
    case DType::kU32:
      return copy_list<std::uint32_t>(proto, proto.uint64_data(), tensor);
    default:
      return copy_int32(proto, tensor);
  }
}

Result<Tensor> strings_of(const onnx::TensorProto& proto) {
  // A string takes one byte of the file at least, so the bound of 1 B an element holds.
  const auto count = checked_bytes(DType::kU8, dims_of(proto));
  if (!count || *count != static_cast<std::size_t>(proto.string_data_size())) {
    return make_error(Code::kDataLoss, "its shape needs ", count.value_or(0), " strings, found ",
                      proto.string_data_size())
        .within({Where::kTensor, proto.name()});
  }
  return Tensor::strings(dims_of(proto), {proto.string_data().begin(), proto.string_data().end()});
}

bool is_dtype(int number) {
  return number > 0 && number <= static_cast<int>(DType::kI2);
}

Type::Kind kind_of(const onnx::TypeProto& proto) {
  if (proto.value_case() == onnx::TypeProto::VALUE_NOT_SET) return Type::Kind::kUnknown;
  if (!proto.has_tensor_type()) return Type::Kind::kOther;
  return is_dtype(proto.tensor_type().elem_type()) ? Type::Kind::kTensor : Type::Kind::kUnknown;
}

Dim dim_of(const onnx::TensorShapeProto::Dimension& proto) {
  Dim dim;
  if (proto.has_dim_value() && proto.dim_value() >= 0) dim.size = proto.dim_value();
  if (proto.has_dim_param()) dim.symbol = proto.dim_param();
  return dim;
}

onnx::AttributeProto::AttributeType kind_of(const onnx::AttributeProto& proto) {
  using onnx::AttributeProto;
  if (proto.type() != AttributeProto::UNDEFINED) return proto.type();
  // The first files of all, IR 1, have no discriminator.
  if (proto.has_f()) return AttributeProto::FLOAT;
  if (proto.has_i()) return AttributeProto::INT;
  if (proto.has_s()) return AttributeProto::STRING;
  if (proto.floats_size() > 0) return AttributeProto::FLOATS;
  if (proto.ints_size() > 0) return AttributeProto::INTS;
  if (proto.strings_size() > 0) return AttributeProto::STRINGS;
  return AttributeProto::UNDEFINED;
}

/// Linear position of the i-th value of a sparse tensor; empty if out of range.
std::optional<std::size_t> sparse_position(std::span<const std::int64_t> indices,
                                           const std::vector<std::int64_t>& dims, std::size_t count,
                                           bool linear, std::size_t i) {
  if (linear) {
    const auto at = indices[i];
    if (at < 0 || static_cast<std::size_t>(at) >= count) return std::nullopt;
    return static_cast<std::size_t>(at);
  }
  std::size_t at = 0;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    const auto coordinate = indices[i * dims.size() + axis];
    if (coordinate < 0 || coordinate >= dims[axis]) return std::nullopt;
    at = at * static_cast<std::size_t>(dims[axis]) + static_cast<std::size_t>(coordinate);
  }
  return at;
}

class CaptureFinder {
 public:
  std::vector<std::string> run(const onnx::GraphProto& graph) {
    visit(graph);
    return std::move(found_);
  }

 private:
  void visit(const onnx::GraphProto& graph) {
    scopes_.emplace_back();
    auto& scope = scopes_.back();
    for (const auto& input : graph.input()) scope.insert(input.name());
    for (const auto& constant : graph.initializer()) scope.insert(constant.name());
    for (const auto& constant : graph.sparse_initializer()) scope.insert(constant.values().name());
    for (const auto& node : graph.node()) {
      for (const auto& name : node.input()) use(name);
      for_each_nested_graph(node, [this](const onnx::GraphProto& nested) { visit(nested); });
      for (const auto& name : node.output()) scopes_.back().insert(name);
    }
    for (const auto& output : graph.output()) use(output.name());
    scopes_.pop_back();
  }

  void use(const std::string& name) {
    if (name.empty()) return;
    const bool local =
        std::ranges::any_of(scopes_, [&](const auto& scope) { return scope.contains(name); });
    if (!local && seen_.insert(name).second) found_.push_back(name);
  }

  std::vector<std::unordered_set<std::string>> scopes_;
  std::unordered_set<std::string> seen_;
  std::vector<std::string> found_;
};

}  // namespace

std::optional<std::size_t> checked_bytes(DType dtype, const std::vector<std::int64_t>& dims) {
  std::size_t count = 1;
  bool empty = false;
  for (const auto dim : dims) {
    if (dim < 0) return std::nullopt;
    if (dim == 0) empty = true;
  }
  if (empty) return 0;
  for (const auto dim : dims) {
    if (__builtin_mul_overflow(count, static_cast<std::size_t>(dim), &count)) return std::nullopt;
  }
  if (count > SIZE_MAX / 256) return std::nullopt;
  return bytes_of(dtype, count);
}

Result<Tensor> uninitialised(DType dtype, std::vector<std::int64_t> dims) {
  const auto bytes = checked_bytes(dtype, dims);
  if (!bytes) return make_error(Code::kDataLoss, "its shape is not one a tensor can have");
  const auto rounded = (std::max<std::size_t>(*bytes, 1) + Tensor::kAlignment - 1) /
                       Tensor::kAlignment * Tensor::kAlignment;
  void* data = std::aligned_alloc(Tensor::kAlignment, rounded);
  if (data == nullptr) {
    return make_error(Code::kResourceExhausted, "no memory for ", *bytes, " bytes");
  }
  std::shared_ptr<const void> owner(data, [data](const void*) { std::free(data); });
  return Tensor::view(dtype, std::move(dims), data, std::move(owner));
}

Result<Tensor> tensor_of(const onnx::TensorProto& proto) {
  if (!is_dtype(proto.data_type())) {
    return make_error(Code::kDataLoss, "expected an element type of 1 to ",
                      static_cast<int>(DType::kI2), ", found ", proto.data_type())
        .within({Where::kTensor, proto.name()});
  }
  const auto dtype = static_cast<DType>(proto.data_type());
  if (dtype == DType::kString) return strings_of(proto);
  const auto bytes = checked_bytes(dtype, dims_of(proto));
  if (!bytes) {
    return make_error(Code::kDataLoss, "a dimension is negative or the size overflows")
        .within({Where::kTensor, proto.name()});
  }
  // No storage before the data are known to be there: a hostile shape costs nothing.
  const std::size_t present = proto.ByteSizeLong();
  if (proto.has_raw_data() && proto.raw_data().size() < *bytes) {
    return too_short(proto, *bytes, proto.raw_data().size());
  }
  if (*bytes / 8 > present) return too_short(proto, *bytes, present);
  auto tensor = uninitialised(dtype, dims_of(proto));
  if (!tensor) return std::move(tensor).error().within({Where::kTensor, proto.name()});
  if (*bytes == 0) return tensor;
  if (proto.has_raw_data()) {
    std::memcpy(tensor->data(), proto.raw_data().data(), *bytes);
  } else {
    PENSTOCK_CHECK_OK(copy_typed_field(proto, *tensor));
  }
  return tensor;
}

Result<Tensor> tensor_of(const onnx::SparseTensorProto& proto) {
  const std::string place = concat("sparse tensor '", proto.values().name(), "'");
  PENSTOCK_TRY(const Tensor values, tensor_of(proto.values()));
  PENSTOCK_TRY(const Tensor indices, tensor_of(proto.indices()));
  const auto dims = dims_of(proto);
  const auto bytes = checked_bytes(values.dtype(), dims);
  const auto width = bits_of(values.dtype()) / 8;
  if (!bytes || *bytes > kUnfoldedBytes) {
    return make_error(Code::kResourceExhausted, place, ": its dense form is larger than ",
                      kUnfoldedBytes, " bytes");
  }
  const auto nonzeros = values.count();
  const bool linear = indices.dims().size() == 1;
  const auto per_value = linear ? std::size_t{1} : dims.size();
  if (width == 0 || indices.dtype() != DType::kI64 || indices.count() != nonzeros * per_value) {
    return make_error(Code::kDataLoss, place, ": expected whole-byte values and ",
                      nonzeros * per_value, " i64 indices, found ", values.type(), " and ",
                      indices.type());
  }
  Tensor dense = Tensor::allocate(values.dtype(), dims);
  for (std::size_t i = 0; i < nonzeros; ++i) {
    const auto at = sparse_position(indices.as<std::int64_t>(), dims, dense.count(), linear, i);
    if (!at) return make_error(Code::kDataLoss, place, ": index ", i, " is outside its shape");
    std::memcpy(static_cast<std::byte*>(dense.data()) + *at * width,
                static_cast<const std::byte*>(values.data()) + i * width, width);
  }
  return dense;
}

void fill_header(const Tensor& tensor, const std::string& name, onnx::TensorProto& proto) {
  proto.set_name(name);
  proto.set_data_type(static_cast<int>(tensor.dtype()));
  for (const auto dim : tensor.dims()) proto.add_dims(dim);
  if (tensor.kind() != Tensor::Kind::kStrings) return;
  for (const auto& text : tensor.strings()) proto.add_string_data(text);
}

void fill(const Tensor& tensor, const std::string& name, onnx::TensorProto& proto) {
  fill_header(tensor, name, proto);
  if (tensor.kind() == Tensor::Kind::kDense && tensor.bytes() > 0) {
    proto.set_raw_data(tensor.data(), tensor.bytes());
  }
}

Type type_of(const onnx::TypeProto& proto) {
  Type type;
  type.kind = kind_of(proto);
  if (type.kind == Type::Kind::kOther) type.onnx = proto.SerializeAsString();
  if (type.kind != Type::Kind::kTensor) return type;
  const auto& tensor = proto.tensor_type();
  type.dtype = static_cast<DType>(tensor.elem_type());
  type.ranked = tensor.has_shape();
  for (const auto& dim : tensor.shape().dim()) type.dims.push_back(dim_of(dim));
  return type;
}

bool fill(const Type& type, onnx::TypeProto& proto) {
  if (type.kind == Type::Kind::kUnknown) return false;
  if (type.kind == Type::Kind::kOther) return proto.ParseFromString(type.onnx);
  auto* tensor = proto.mutable_tensor_type();
  tensor->set_elem_type(static_cast<int>(type.dtype));
  if (!type.ranked) return true;
  auto* shape = tensor->mutable_shape();
  for (const auto& dim : type.dims) {
    auto* to = shape->add_dim();
    if (dim.fixed()) {
      to->set_dim_value(dim.size);
    } else if (!dim.symbol.empty()) {
      to->set_dim_param(dim.symbol);
    }
  }
  return true;
}

std::vector<Where> place_of(const onnx::NodeProto& node) {
  const auto made =
      std::ranges::find_if(node.output(), [](const auto& name) { return !name.empty(); });
  return place_of_node(node.name(), node.op_type(), made == node.output().end() ? "" : *made);
}

Attribute attribute_of(const onnx::AttributeProto& proto) {
  using onnx::AttributeProto;
  Attribute attribute{proto.name(), {}};
  switch (kind_of(proto)) {
    case AttributeProto::INT:
      attribute.value = std::int64_t{proto.i()};
      break;
    case AttributeProto::FLOAT:
      attribute.value = proto.f();
      break;
    case AttributeProto::STRING:
      attribute.value = proto.s();
      break;
    case AttributeProto::INTS:
      attribute.value = std::vector<std::int64_t>(proto.ints().begin(), proto.ints().end());
      break;
    case AttributeProto::FLOATS:
      attribute.value = std::vector<float>(proto.floats().begin(), proto.floats().end());
      break;
    case AttributeProto::STRINGS:
      attribute.value = std::vector<std::string>(proto.strings().begin(), proto.strings().end());
      break;
    default:
      attribute.value = Attribute::Opaque{proto.SerializeAsString()};
  }
  return attribute;
}

Status fill(const Attribute& attribute, onnx::AttributeProto& proto) {
  using onnx::AttributeProto;
  const auto set_type = [&](AttributeProto::AttributeType type) {
    proto.set_name(attribute.name);
    proto.set_type(type);
  };
  if (const auto* opaque = std::get_if<Attribute::Opaque>(&attribute.value)) {
    if (proto.ParseFromString(opaque->onnx)) return {};
    return make_error(Code::kDataLoss, "attribute '", attribute.name, "': cannot be read back");
  }
  if (const auto* i = std::get_if<std::int64_t>(&attribute.value)) {
    set_type(AttributeProto::INT);
    proto.set_i(*i);
  } else if (const auto* f = std::get_if<float>(&attribute.value)) {
    set_type(AttributeProto::FLOAT);
    proto.set_f(*f);
  } else if (const auto* s = std::get_if<std::string>(&attribute.value)) {
    set_type(AttributeProto::STRING);
    proto.set_s(*s);
  } else if (const auto* ints = std::get_if<std::vector<std::int64_t>>(&attribute.value)) {
    set_type(AttributeProto::INTS);
    proto.mutable_ints()->Add(ints->begin(), ints->end());
  } else if (const auto* floats = std::get_if<std::vector<float>>(&attribute.value)) {
    set_type(AttributeProto::FLOATS);
    proto.mutable_floats()->Add(floats->begin(), floats->end());
  } else if (const auto* strings = std::get_if<std::vector<std::string>>(&attribute.value)) {
    set_type(AttributeProto::STRINGS);
    for (const auto& text : *strings) proto.add_strings(text);
  }
  return {};
}

void forget_shape(onnx::ValueInfoProto& info) {
  if (info.type().has_tensor_type()) info.mutable_type()->mutable_tensor_type()->clear_shape();
}

bool is_constant(const onnx::NodeProto& node) {
  return node.op_type() == "Constant" && node.domain().empty() && node.output_size() == 1 &&
         !node.output(0).empty();
}

std::unordered_set<std::string> names_in(const onnx::GraphProto& graph) {
  std::unordered_set<std::string> names;
  for (const auto& input : graph.input()) names.insert(input.name());
  for (const auto& constant : graph.initializer()) names.insert(constant.name());
  for (const auto& constant : graph.sparse_initializer()) names.insert(constant.values().name());
  for (const auto& node : graph.node()) names.insert(node.output().begin(), node.output().end());
  return names;
}

std::vector<std::string> captured_names(const onnx::GraphProto& graph) {
  return CaptureFinder().run(graph);
}

std::string first_line(std::string_view text) {
  const auto begin = text.find_first_not_of(" \n\t");
  if (begin == std::string_view::npos) return "no reason given";
  text = text.substr(begin);
  // ONNX breaks lines after "node:" and the like; two short lines are one sentence.
  const auto end = text.find("\n\n");
  std::string line(text.substr(0, std::min<std::size_t>(end, 400)));
  std::ranges::replace(line, '\n', ' ');
  while (!line.empty() && (line.back() == '.' || line.back() == ' ')) line.pop_back();
  return line;
}

}  // namespace penstock::graph
