// Reads a container's type out of the ONNX type that it was declared with.
#include "penstock/graph/containers.h"

#include "penstock/graph/proto.h"

namespace penstock::graph {

std::optional<Container> container_of(const Type& type) {
  if (type.kind != Type::Kind::kOther) return std::nullopt;
  onnx::TypeProto proto;
  if (!fill(type, proto)) return Container{};
  using Kind = Container::Kind;
  if (proto.has_sequence_type()) {
    return Container{.kind = Kind::kSequence, .inside = type_of(proto.sequence_type().elem_type())};
  }
  if (proto.has_optional_type()) {
    return Container{.kind = Kind::kOptional, .inside = type_of(proto.optional_type().elem_type())};
  }
  return Container{};
}

std::string type_text(const Type& type) {
  const auto container = container_of(type);
  if (!container) return to_string(type);
  switch (container->kind) {
    case Container::Kind::kSequence:
      return "sequence(" + type_text(container->inside) + ")";
    case Container::Kind::kOptional:
      return "optional(" + type_text(container->inside) + ")";
    case Container::Kind::kClosed:
      break;
  }
  return "map or sparse tensor";
}

}  // namespace penstock::graph
