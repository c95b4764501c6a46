// Frames that are almost, or deliberately not, a given one.
// What a network makes of them tells how far a right result may be from another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "penstock/frames/random.h"

namespace penstock::measure {

/// How last bits are changed.
struct LastBits {
  std::uint64_t units = 1;  ///< In the last place, that a float gets larger or smaller by.
  bool mirrored = false;    ///< Smaller where it were larger, and the other way round.
  bool wide = false;        ///< Floats of 16 bits stay as they are.
};

/// Every float but 0 larger or smaller, by a seeded coin. Integers, texts and floats of 8 bits and
/// fewer stay.
frames::Frame with_last_bits_changed(const frames::Frame& frame, std::uint64_t seed,
                                     const LastBits& how = {});

/// Each float rounded to what the narrower type holds, and kept in its own: bf16 has eight bits of
/// mantissa, f16 eleven.
Tensor rounded_to(DType narrow, const Tensor& value);
frames::Frame rounded_to(DType narrow, const frames::Frame& frame);

/// The elements of each tensor in reverse order: another frame whose values are in the same ranges.
frames::Frame reversed(const frames::Frame& frame);

/// Whether all values are the same, bit by bit.
bool same_values(const frames::Frame& a, const frames::Frame& b);

/// Which frames say the most, `most` of them at most: those that differ, and hold more than one
/// number as silence does not, from all of `frames`. Of a `sequence` those that follow each other
/// from the first such frame on.
std::vector<std::size_t> telling_frames(std::span<const frames::Frame> frames, std::size_t most,
                                        bool sequence);

/// All of them, so that the first `most` are these; a sequence begins with the first of these, and
/// those before it follow at its end.
std::vector<frames::Frame> with_telling_first(std::vector<frames::Frame> frames, std::size_t most,
                                              bool sequence);

}  // namespace penstock::measure
