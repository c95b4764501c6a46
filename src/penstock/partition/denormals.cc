// Searches the constants that a subgraph reads for denormal floats.
#include "penstock/partition/denormals.h"

#include <algorithm>

#include "penstock/tensor/number.h"

namespace penstock::partition {

bool has_denormal_constants(const graph::Subgraph& subgraph) {
  return std::ranges::any_of(subgraph.constants(), [&](graph::ValueId id) {
    const auto& constant = subgraph.graph().value(id).constant;
    return constant && has_denormals(*constant);
  });
}

}  // namespace penstock::partition
