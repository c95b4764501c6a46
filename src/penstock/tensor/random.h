// Seeded values for inputs, the same on every machine.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string>

#include "penstock/base/result.h"
#include "penstock/tensor/tensor.h"

namespace penstock {

/// A stream of numbers made from std::mt19937_64's own output, which the standard fixes, by integer
/// arithmetic and one rounding: the standard's distributions and libm's functions differ between
/// platforms.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  std::uint64_t bits() { return engine_(); }
  /// Evenly in [0, limit). \pre limit > 0
  std::uint64_t below(std::uint64_t limit);
  /// Mean 0, deviation 1, bell-shaped, within +-3.47: a sum of four even draws.
  double normal();

 private:
  std::mt19937_64 engine_;
};

struct RandomOptions {
  /// Integers of 16 bits and more are in [0, limit), limit > 0: small, since they often are
  /// indices. 8-bit ones are usually pixels or quantised numbers and take their whole range.
  std::uint64_t integer_limit = 2;
  /// Floats of no range are so many times as large. Other than 1: whole numbers of a known range
  /// are from a part of it, as in pictures of little contrast, each tensor's from another.
  double scale = 1;
  std::optional<WholeRange> range = {};  ///< Numbers of every dtype are whole and in it, evenly.
  /// Texts are among them, evenly; with the empty one, which stands for others, half of them as
  /// they are, half with other capitals. Empty: short words with and without capitals.
  std::span<const std::string> words = {};
};

/// Open dimensions are as Dim::likely() says. Floats as Random::normal(), booleans even, texts
/// short words, integers as `options` say; numbers within a range of whole ones where they name
/// one.
/// \error kInvalidArgument  not a tensor type, or its rank is not known.
Result<Tensor> random_tensor(const Type& type, Random& random, const RandomOptions& options = {});

}  // namespace penstock
