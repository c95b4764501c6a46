// Containers: what a value that is no tensor holds, by its type, and how that is written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "penstock/tensor/tensor.h"

namespace penstock::graph {

struct Container {
  enum class Kind : std::uint8_t {
    kSequence,  ///< Any number of values.
    kOptional,  ///< A value or none.
    kClosed,    ///< A map or a sparse tensor, which nobody but an engine looks into.
  };
  Kind kind = Kind::kClosed;
  Type inside;  ///< Of each value of a sequence, and of an optional's; may be a container too.
};

/// What a value of the type holds; nothing for a tensor, and for an unknown type.
std::optional<Container> container_of(const Type& type);

/// As to_string(), and "sequence(f32[2])", "optional(sequence(i64))", "map or sparse tensor".
std::string type_text(const Type& type);

}  // namespace penstock::graph
