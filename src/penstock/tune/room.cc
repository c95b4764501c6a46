// Divides the memory that is left by twice the bytes of the weights.
#include "penstock/tune/room.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace penstock::tune {
namespace {

constexpr double kPacked = 2;  ///< Of a copy's weights, the room that an engine may take.

std::string gigabytes(double bytes) {
  return concat(std::round(bytes / 1e8) / 10, " GB");
}

}  // namespace

double bytes_of_weights(const graph::Subgraph& subgraph) {
  double bytes = 0;
  for (const auto id : subgraph.constants()) {
    const auto& constant = subgraph.graph().value(id).constant;
    if (constant) bytes += static_cast<double>(constant->bytes());
  }
  return bytes;
}

std::size_t Room::copies_of(double weight_bytes) const {
  constexpr auto kAny = std::numeric_limits<std::size_t>::max();
  if (!available_ || weight_bytes <= 0) return kAny;
  const double copies = static_cast<double>(*available_) / (kPacked * weight_bytes);
  return copies < 1e9 ? std::max<std::size_t>(static_cast<std::size_t>(copies), 1) : kAny;
}

std::string Room::describe() const {
  return concat("weights of ", gigabytes(weight_bytes_), ", ",
                gigabytes(static_cast<double>(available_.value_or(0))), " of memory left");
}

}  // namespace penstock::tune
