// Whether two values are the same within a tolerance, and where they differ most.
#pragma once

#include <cstddef>
#include <string>

#include "penstock/tensor/tensor.h"

namespace penstock {

/// A float a matches e where |a - e| <= relative * |e| + absolute * (largest finite |e| of the
/// tensor) + floor. i8 and u8 match within `steps`; other integers, booleans and texts where equal.
/// NaN matches NaN, an infinity itself. Complex numbers are compared part by part.
struct Tolerance {
  double relative = 1e-3;
  double absolute = 1e-5;
  double steps = 1;
  double floor = 0;

  /// The default with another relative part, the absolute one in proportion.
  static Tolerance of(double relative) {
    Tolerance tolerance;
    tolerance.absolute *= relative / tolerance.relative;
    tolerance.relative = relative;
    return tolerance;
  }
};

/// What compare() found.
struct Comparison {
  std::size_t count = 0;       ///< Elements compared, those of a sequence's tensors together.
  std::size_t mismatches = 0;  ///< Elements outside the tolerance.
  double largest_error = 0;    ///< |a - e| where it is largest; infinite where only one is finite.
  double squares = 0;          ///< Sum of (a - e)^2 over the elements outside the tolerance.
  /// Of the element that exceeds its tolerance the most (or comes nearest): how many times.
  double worst_ratio = 0;
  std::string where;    ///< That element: "[0,3,17]", "element 2 [5]"; empty if all are equal.
  std::string problem;  ///< Kinds, dtypes or shapes differ, so that nothing could be compared.

  [[nodiscard]] bool ok() const { return mismatches == 0 && problem.empty(); }
};

Comparison compare(const Tensor& actual, const Tensor& expected, const Tolerance& tolerance = {});

/// The largest |a - e| of the floats of two values that is finite and at most `limit`; 0 where
/// there is none, or the values are not of one type and shape.
double largest_error(const Tensor& actual, const Tensor& expected, double limit);

/// "equal", "within tolerance, largest error 1.2e-06 at [0,3]", "3 of 1000 values outside the
/// tolerance, largest error 0.5 at [0,3] (120 times the tolerance)", or the problem.
std::string to_string(const Comparison& comparison);

}  // namespace penstock
