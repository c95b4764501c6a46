#include "penstock/partition/denormals.h"

#include <algorithm>
#include <cstdint>
#include <span>

namespace penstock::partition {
namespace {

/// Exponent zero, fraction not. In blocks without early exit, which compilers vectorise.
bool has_denormal(std::span<const std::uint32_t> floats) {
  constexpr std::size_t kBlock = 4096;
  while (!floats.empty()) {
    const auto block = floats.first(std::min(kBlock, floats.size()));
    std::uint32_t found = 0;
    for (const auto bits : block) {
      const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
      found |= static_cast<std::uint32_t>(magnitude - 1U < 0x007FFFFFU);
    }
    if (found != 0) return true;
    floats = floats.subspan(block.size());
  }
  return false;
}

}  // namespace

bool has_denormal_constants(const graph::Subgraph& subgraph) {
  return std::ranges::any_of(subgraph.constants(), [&](graph::ValueId id) {
    const auto& constant = subgraph.graph().value(id).constant;
    return constant && constant->kind() == Tensor::Kind::kDense &&
           constant->dtype() == DType::kF32 && has_denormal(constant->as<std::uint32_t>());
  });
}

}  // namespace penstock::partition
