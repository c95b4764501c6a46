// Room: how many copies of a network the machine's memory holds at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "penstock/graph/subgraph.h"

namespace penstock::tune {

/// Of the constants that it reads, each once.
double bytes_of_weights(const graph::Subgraph& subgraph);

/// A copy is counted as twice its weights: an engine packs them for itself while it reads them.
class Room {
 public:
  /// `available`: bytes, as device::available_memory() has them; none: nothing tells, and all is
  /// tried.
  Room(double weight_bytes, std::optional<std::uint64_t> available)
      : weight_bytes_(weight_bytes), available_(available) {}

  /// Whether so many copies of the whole network may stand at once. One always may: whether it
  /// does, its engine tells.
  [[nodiscard]] bool holds(std::size_t copies) const { return copies <= copies_of(weight_bytes_); }
  /// Of what has so many bytes of weights; 1 at least.
  [[nodiscard]] std::size_t copies_of(double weight_bytes) const;
  /// "weights of 10.0 GB, 21.5 GB of memory left"
  [[nodiscard]] std::string describe() const;

 private:
  double weight_bytes_;
  std::optional<std::uint64_t> available_;
};

}  // namespace penstock::tune
