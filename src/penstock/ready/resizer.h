// Resizing pictures: nearest, linear and by area, each side by weights of its own.
#pragma once

#include <string_view>
#include <vector>

#include "penstock/ready/picture.h"

namespace penstock::ready {

enum class How { kNearest, kLinear, kArea };

/// The setting `how`, and what its words mean.
Setting how_setting();
How parse_how(std::string_view word);

/// How one side is resized: place i of the result is the sum of `most` places of the source from
/// first[i] on, with weights[i * most ...].
struct Taps {
  int from = 0, to = 0, most = 0;
  std::vector<int> first;
  std::vector<float> weights;
};

/// A rectangle of pixels, perhaps in part or wholly beyond a picture.
struct Part {
  int top = 0, left = 0, height = 0, width = 0;
};

/// Centres of pixels stand at halves, as in OpenCV and Pillow. kNearest takes the pixel in which
/// the centre falls, the later one on a border, kLinear blends the two beside it, kArea means all
/// that it covers.
/// \pre from, to >= 1
Taps taps_of(How how, int from, int to);

/// Resizes pictures; keeps the weights while sizes stay the same. One thread at a time.
class Resizer {
 public:
  explicit Resizer(How how) : how_(how) {}

  /// \pre as many channels; both have pixels, and they do not overlap.
  void run(const Picture& from, const Canvas& to);

  /// What a part shows that may lie beyond the picture, where `value` is.
  /// \pre as many channels; the part has pixels.
  void run(const Picture& from, const Part& part, std::uint8_t value, const Canvas& to);

 private:
  void blend_rows(const Picture& from, int y, float* to, std::size_t count);

  How how_;
  Taps down_, across_;
  std::vector<float> row_;           // A row of the result's, as wide as the source.
  std::vector<std::uint8_t> blank_;  // A row beyond the picture.
};

}  // namespace penstock::ready
