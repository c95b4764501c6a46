// Room: how many copies of a network the machine's memory holds at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "penstock/base/files.h"
#include "penstock/graph/subgraph.h"

namespace penstock::tune {

/// "10.5 GB"
std::string gigabytes(double bytes);

/// Of the constants that it reads, each once.
double bytes_of_weights(const graph::Subgraph& subgraph);

/// Whether an engine can make values of so many bytes for a frame all at once, in a quarter of the
/// memory that is left, and files can hold those of so many frames. Of what is not known there is
/// any amount.
bool has_room_for_values(double frame_bytes, std::size_t frames,
                         std::optional<std::uint64_t> available, const TemporarySpace& space);

/// What to warn of where the temporary folder holds weights in memory, and they are no small part
/// of what is left there.
std::optional<std::string> warning_of_store(double weight_bytes,
                                            std::optional<std::uint64_t> available,
                                            const TemporarySpace& space);

/// What to warn of where less memory is left than a build of so many bytes of weights takes with
/// one engine: the system may end it without a word.
std::optional<std::string> warning_of_memory(double weight_bytes,
                                             std::optional<std::uint64_t> available);

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
  /// Whether weights of so many bytes may stand at once; those of one copy always may.
  [[nodiscard]] bool holds_bytes(double bytes) const;
  /// Of what has so many bytes of weights; 1 at least.
  [[nodiscard]] std::size_t copies_of(double weight_bytes) const;
  /// "weights of 10.0 GB, 21.5 GB of memory left"
  [[nodiscard]] std::string describe() const;

 private:
  double weight_bytes_;
  std::optional<std::uint64_t> available_;
};

}  // namespace penstock::tune
