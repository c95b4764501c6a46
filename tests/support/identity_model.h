// A model as bytes, without a library that writes models.
#pragma once

#include <string>

#include "penstock/base/error.h"

namespace penstock::testing {

/// A field of a message of protobuf with a length, all of them short.
inline std::string field(int number, const std::string& bytes) {
  return concat(static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size()), bytes);
}
inline std::string field(int number, char value) {
  return concat(static_cast<char>(number << 3), value);
}

/// f (float[n] x) => (float[n] y) { y = Identity(x) }, as an onnx.ModelProto. `type`: another one
/// than float, by its number there.
inline std::string identity_model(char type = '\1') {
  const auto value = [type](const std::string& name) {
    const std::string shape = field(1, field(2, "n"));
    return field(1, name) + field(2, field(1, field(1, type) + field(2, shape)));
  };
  const std::string node = field(1, "x") + field(2, "y") + field(4, "Identity");
  const std::string graph =
      field(1, node) + field(2, "f") + field(11, value("x")) + field(12, value("y"));
  return field(1, '\10') + field(7, graph) + field(8, field(1, "") + field(2, '\21'));
}

}  // namespace penstock::testing
