// Fusion: a primitive that computes the chain behind its node as it writes.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "builder.h"
#include "chain.h"

namespace penstock::onednn {

/// A primitive with as much of a chain as the library fuses well.
struct Fused {
  Descriptor descriptor;
  std::size_t links = 0;            ///< How many of the chain it takes in.
  std::vector<Argument> arguments;  ///< The operands of its post-operations.
  std::optional<Place> target;      ///< Where it must write: what it adds lies there already.
};

struct Fusion {
  NodeId node{};
  ValueId result = ValueId::kNone;  ///< That the chain begins with.
  std::vector<Link> chain;
  Dims dims;  ///< Of the result as the primitive sees it.
  /// Makes the descriptor with these attributes.
  std::function<Result<Descriptor>(const_dnnl_primitive_attr_t)> make;
  std::size_t required = 0;          ///< Links that must be taken in.
  bool sums = false;                 ///< It may add to what lies in its destination.
  bool binaries = true;              ///< It is right with a binary operation behind it.
  std::vector<std::size_t> buffers;  ///< That it reads: not to be written while it does.
};

/// Whether it is the library's slow, general code.
bool is_reference(const Builder& builder, const Descriptor& descriptor);

/// The longest part of the chain that does not fall back to the library's reference code.
Result<Fused> fuse(Builder& builder, const Fusion& fusion);

/// Appends the step, marks the nodes and defines the result. `arguments`: but for the destination.
/// `in_place`: where it may write instead of a place of its own.
Status finish(Builder& builder, const Fusion& fusion, Fused fused, std::vector<Argument> arguments,
              const std::optional<Place>& in_place = {});

}  // namespace penstock::onednn
