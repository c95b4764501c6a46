// Copies the message field by field, with raw data replaced by their offset and size in the file.
#include "penstock/graph/wire.h"

#include <cstdint>

#include "penstock/graph/proto.h"

namespace penstock::graph {
namespace {

enum class Nested { kModel, kGraph, kNode, kAttribute, kTensor, kOther };
enum WireType : std::uint32_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

/// The message that field `number` of `outer` holds, if it is on the way to a weight.
Nested child_of(Nested outer, std::uint32_t number) {
  switch (outer) {
    case Nested::kModel:
      return number == onnx::ModelProto::kGraphFieldNumber ? Nested::kGraph : Nested::kOther;
    case Nested::kGraph:
      if (number == onnx::GraphProto::kNodeFieldNumber) return Nested::kNode;
      return number == onnx::GraphProto::kInitializerFieldNumber ? Nested::kTensor : Nested::kOther;
    case Nested::kNode:
      return number == onnx::NodeProto::kAttributeFieldNumber ? Nested::kAttribute : Nested::kOther;
    case Nested::kAttribute:
      return number == onnx::AttributeProto::kTFieldNumber ? Nested::kTensor : Nested::kOther;
    default:
      return Nested::kOther;
  }
}

bool take_varint(std::string_view& bytes, std::uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<std::uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if ((byte & 0x80U) == 0) return true;
  }
  return false;
}

bool skip(std::string_view& bytes, std::uint32_t type) {
  std::uint64_t ignored = 0;
  if (type == kVarint) return take_varint(bytes, ignored);
  const std::size_t width = type == kFixed64 ? 8 : 4;
  if ((type != kFixed64 && type != kFixed32) || bytes.size() < width) return false;
  bytes.remove_prefix(width);
  return true;
}

class Rewriter {
 public:
  explicit Rewriter(std::string_view file) : file_(file) {}

  /// False if the bytes are not well formed.
  bool rewrite(Nested message, std::string_view bytes, std::string& out) const {
    while (!bytes.empty()) {
      const std::string_view rest = bytes;
      std::uint64_t tag = 0;
      if (!take_varint(bytes, tag) || tag > UINT32_MAX) return false;
      const auto number = static_cast<std::uint32_t>(tag >> 3U);
      if ((tag & 7U) != kLengthDelimited) {
        if (!skip(bytes, static_cast<std::uint32_t>(tag & 7U))) return false;
        out += rest.substr(0, rest.size() - bytes.size());
        continue;
      }
      std::uint64_t length = 0;
      if (!take_varint(bytes, length) || length > bytes.size()) return false;
      const auto content = bytes.substr(0, length);
      bytes.remove_prefix(length);
      const auto whole = rest.substr(0, rest.size() - bytes.size());
      if (!rewrite_field(message, number, content, whole, out)) return false;
    }
    return true;
  }

 private:
  bool rewrite_field(Nested message, std::uint32_t number, std::string_view content,
                     std::string_view whole, std::string& out) const {
    if (message == Nested::kTensor && number == onnx::TensorProto::kRawDataFieldNumber &&
        content.size() > kInlineBytes) {
      out += stand_in(content);
      return true;
    }
    const auto child = child_of(message, number);
    if (child == Nested::kOther || content.size() <= kInlineBytes) {
      out += whole;
      return true;
    }
    std::string inner;
    if (!rewrite(child, content, inner)) return false;
    put_varint((std::uint64_t{number} << 3U) | kLengthDelimited, out);
    put_varint(inner.size(), out);
    out += inner;
    return true;
  }

  [[nodiscard]] std::string stand_in(std::string_view content) const {
    onnx::TensorProto tensor;
    auto* entry = tensor.add_external_data();
    entry->set_key(std::string(kOwnBytesKey));
    entry->set_value(concat(content.data() - file_.data(), ",", content.size()));
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    return tensor.SerializeAsString();
  }

  static void put_varint(std::uint64_t value, std::string& out) {
    for (; value >= 0x80U; value >>= 7U) out += static_cast<char>((value & 0x7FU) | 0x80U);
    out += static_cast<char>(value);
  }

  std::string_view file_;
};

}  // namespace

std::optional<std::string> without_large_weights(std::string_view bytes) {
  std::string out;
  if (!Rewriter(bytes).rewrite(Nested::kModel, bytes, out)) return std::nullopt;
  return out;
}

bool visit_fields(std::string_view bytes,
                  const std::function<bool(std::uint32_t, std::string_view)>& visit) {
  while (!bytes.empty()) {
    std::uint64_t tag = 0;
    if (!take_varint(bytes, tag) || tag > UINT32_MAX) return false;
    if ((tag & 7U) != kLengthDelimited) {
      if (!skip(bytes, static_cast<std::uint32_t>(tag & 7U))) return false;
      continue;
    }
    std::uint64_t length = 0;
    if (!take_varint(bytes, length) || length > bytes.size()) return false;
    if (!visit(static_cast<std::uint32_t>(tag >> 3U), bytes.substr(0, length))) return false;
    bytes.remove_prefix(length);
  }
  return true;
}

}  // namespace penstock::graph
