// Divides the memory that is left by twice the bytes of the weights.
#include "penstock/tune/room.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace penstock::tune {
namespace {

constexpr double kPacked = 2;  ///< Of a copy's weights, the room that an engine may take.

}  // namespace

std::string gigabytes(double bytes) {
  return concat(std::round(bytes / 1e8) / 10, " GB");
}

double bytes_of_weights(const graph::Subgraph& subgraph) {
  double bytes = 0;
  for (const auto id : subgraph.constants()) {
    const auto& constant = subgraph.graph().value(id).constant;
    if (constant) bytes += static_cast<double>(constant->bytes());
  }
  return bytes;
}

bool has_room_for_values(double frame_bytes, std::size_t frames,
                         std::optional<std::uint64_t> available, const TemporarySpace& space) {
  constexpr double kMemoryShare = 0.25;
  const double kept = frame_bytes * static_cast<double>(frames);
  const double memory = space.in_memory ? frame_bytes + kept : frame_bytes;
  return (!available || memory <= kMemoryShare * static_cast<double>(*available)) &&
         (!space.free_bytes || kept <= static_cast<double>(*space.free_bytes));
}

std::optional<std::string> warning_of_store(double weight_bytes,
                                            std::optional<std::uint64_t> available,
                                            const TemporarySpace& space) {
  constexpr double kSmall = 0.1;  ///< Of the memory that is left.
  if (!space.in_memory || !available) return std::nullopt;
  if (weight_bytes <= kSmall * static_cast<double>(*available)) return std::nullopt;
  return concat(
      "the folder of temporary files is in memory (tmpfs), and so is what the build writes there "
      "of ",
      gigabytes(weight_bytes), " of weights: set TMPDIR to a folder on a disk");
}

std::optional<std::string> warning_of_memory(double weight_bytes,
                                             std::optional<std::uint64_t> available) {
  constexpr double kMiB = 1 << 20;
  constexpr double kEngines = 64 * kMiB;  ///< An engine here, and one in the measuring process.
  const double needed = kEngines + kPacked * weight_bytes;
  if (!available || static_cast<double>(*available) >= needed) return std::nullopt;
  const auto mebibytes = [](double bytes) { return std::lround(bytes / kMiB); };
  return concat(
      mebibytes(static_cast<double>(*available)),
      " MiB of memory are left, and a build of this network needs about ", mebibytes(needed),
      "; where the system ends it, raise the limit of the control group or container, end "
      "other programs, or build on a like machine with more memory and run the package "
      "here");
}

std::size_t Room::copies_of(double weight_bytes) const {
  constexpr auto kAny = std::numeric_limits<std::size_t>::max();
  if (!available_ || weight_bytes <= 0) return kAny;
  const double copies = static_cast<double>(*available_) / (kPacked * weight_bytes);
  return copies < 1e9 ? std::max<std::size_t>(static_cast<std::size_t>(copies), 1) : kAny;
}

bool Room::holds_bytes(double bytes) const {
  return !available_ || bytes <= weight_bytes_ ||
         kPacked * bytes <= static_cast<double>(*available_);
}

std::string Room::describe() const {
  return concat("weights of ", gigabytes(weight_bytes_), ", ",
                gigabytes(static_cast<double>(available_.value_or(0))), " of memory left");
}

}  // namespace penstock::tune
