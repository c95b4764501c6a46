// Compares floats within a tolerance, 8-bit integers within steps, all else for equality.
#include "penstock/tensor/compare.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "penstock/base/words.h"
#include "penstock/tensor/number.h"

namespace penstock {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string position(std::size_t index, const std::vector<std::int64_t>& dims) {
  std::vector<std::size_t> at(dims.size());
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    const auto size = static_cast<std::size_t>(std::max<std::int64_t>(dims[axis], 1));
    at[axis] = index % size;
    index /= size;
  }
  return "[" + join(at, ",", [](std::size_t i) { return std::to_string(i); }) + "]";
}

/// Collects what single elements differ by.
class Tally {
 public:
  Tally(Comparison& result, const std::vector<std::int64_t>& dims, std::size_t parts = 1)
      : result_(result), dims_(dims), parts_(parts) {}

  void add(std::size_t index, double error, double allowed) {
    if (error == 0) return;
    const double ratio = allowed > 0 ? error / allowed : kInfinity;
    if (!(error <= allowed)) {
      ++result_.mismatches;
      result_.squares += error * error;
    }
    result_.largest_error = std::max(result_.largest_error, error);
    if (!result_.where.empty() && ratio <= result_.worst_ratio) return;
    result_.worst_ratio = ratio;
    result_.where = position(index / parts_, dims_);
  }

 private:
  Comparison& result_;
  const std::vector<std::int64_t>& dims_;
  std::size_t parts_;
};

double error_of(double actual, double expected) {
  if (std::isnan(actual) && std::isnan(expected)) return 0;
  if (actual == expected) return 0;
  const double error = std::fabs(actual - expected);
  return std::isnan(error) ? kInfinity : error;
}

/// Reads elements of any real dtype as doubles; f32 and f64 without a detour.
template <typename Load>
void compare_floats(const Load& actual, const Load& expected, std::size_t count,
                    const Tolerance& tolerance, Tally& tally) {
  double largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double size = std::fabs(expected(i));
    if (std::isfinite(size)) largest = std::max(largest, size);
  }
  const double floor = tolerance.absolute * largest + tolerance.floor;
  for (std::size_t i = 0; i < count; ++i) {
    const double e = expected(i);
    const double error = error_of(actual(i), e);
    if (error == 0) continue;
    tally.add(i, error, std::isfinite(e) ? tolerance.relative * std::fabs(e) + floor : 0);
  }
}

template <typename T>
auto loader(const Tensor& tensor) {
  return [data = static_cast<const T*>(tensor.data())](std::size_t i) {
    return static_cast<double>(data[i]);
  };
}

auto bit_loader(const Tensor& tensor) {
  return [data = tensor.data(), dtype = tensor.dtype()](std::size_t i) {
    return number_from_bits(dtype, load_bits(dtype, data, i));
  };
}

void compare_integers(const Tensor& actual, const Tensor& expected, const Tolerance& tolerance,
                      Tally& tally) {
  const DType dtype = expected.dtype();
  const double allowed = dtype == DType::kI8 || dtype == DType::kU8 ? tolerance.steps : 0;
  // Equal bytes are the common case; 64-bit values are compared as bits, not as doubles.
  if (std::memcmp(actual.data(), expected.data(), expected.bytes()) == 0) return;
  for (std::size_t i = 0; i < expected.count(); ++i) {
    const auto a = load_bits(dtype, actual.data(), i);
    const auto e = load_bits(dtype, expected.data(), i);
    if (a == e) continue;
    const double error = std::fabs(number_from_bits(dtype, a) - number_from_bits(dtype, e));
    tally.add(i, std::max(error, 1.0), allowed);
  }
}

/// Calls `use(actual, expected, count)` with what reads a dense tensor of floats.
template <typename Use>
void with_floats(const Tensor& actual, const Tensor& expected, const Use& use) {
  const DType dtype = expected.dtype();
  const auto count = expected.count();
  if (dtype == DType::kF32) {
    use(loader<float>(actual), loader<float>(expected), count);
  } else if (dtype == DType::kC64) {
    use(loader<float>(actual), loader<float>(expected), count * 2);
  } else if (dtype == DType::kF64) {
    use(loader<double>(actual), loader<double>(expected), count);
  } else if (dtype == DType::kC128) {
    use(loader<double>(actual), loader<double>(expected), count * 2);
  } else if (is_float(dtype)) {
    use(bit_loader(actual), bit_loader(expected), count);
  }
}

void compare_dense(const Tensor& actual, const Tensor& expected, const Tolerance& tolerance,
                   Comparison& result) {
  const DType dtype = expected.dtype();
  const bool is_complex = dtype == DType::kC64 || dtype == DType::kC128;
  Tally tally(result, expected.dims(), is_complex ? 2 : 1);
  with_floats(actual, expected, [&](const auto& a, const auto& e, std::size_t count) {
    compare_floats(a, e, count, tolerance, tally);
  });
  if (!is_complex && !is_float(dtype) && expected.bytes() > 0) {
    compare_integers(actual, expected, tolerance, tally);
  }
}

void compare_strings(const Tensor& actual, const Tensor& expected, Comparison& result) {
  Tally tally(result, expected.dims());
  for (std::size_t i = 0; i < expected.strings().size(); ++i) {
    if (actual.strings()[i] != expected.strings()[i]) tally.add(i, 1, 0);
  }
}

void merge(Comparison& whole, const Comparison& part, std::size_t element) {
  whole.count += part.count;
  whole.mismatches += part.mismatches;
  whole.largest_error = std::max(whole.largest_error, part.largest_error);
  if (!part.where.empty() && (whole.where.empty() || part.worst_ratio > whole.worst_ratio)) {
    whole.worst_ratio = part.worst_ratio;
    whole.where = concat("element ", element, " ", part.where);
  }
  if (!part.problem.empty() && whole.problem.empty()) {
    whole.problem = concat("element ", element, ": ", part.problem);
  }
}

std::string_view word_for(Tensor::Kind kind) {
  switch (kind) {
    case Tensor::Kind::kNone:
      return "no value";
    case Tensor::Kind::kDense:
      return "a tensor";
    case Tensor::Kind::kStrings:
      return "a tensor of texts";
    case Tensor::Kind::kSequence:
      return "a sequence";
    case Tensor::Kind::kOpaque:
      break;
  }
  return "a value that only its backend can read";
}

}  // namespace

Comparison compare(const Tensor& actual, const Tensor& expected, const Tolerance& tolerance) {
  Comparison result;
  if (actual.kind() != expected.kind()) {
    result.problem =
        concat("expected ", word_for(expected.kind()), ", found ", word_for(actual.kind()));
  } else if (expected.kind() == Tensor::Kind::kOpaque) {
    result.problem = concat("cannot compare ", word_for(expected.kind()));
  } else if (expected.kind() == Tensor::Kind::kSequence) {
    const auto& wanted = expected.elements();
    const auto& found = actual.elements();
    if (wanted.size() != found.size()) {
      result.problem =
          concat("expected a sequence of ", wanted.size(), ", found one of ", found.size());
      return result;
    }
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      merge(result, compare(found[i], wanted[i], tolerance), i);
    }
  } else if (expected.kind() != Tensor::Kind::kNone) {
    result.count = expected.count();
    if (actual.dtype() != expected.dtype() || actual.dims() != expected.dims()) {
      result.problem = concat("expected ", expected.type(), ", found ", actual.type());
    } else if (expected.kind() == Tensor::Kind::kStrings) {
      compare_strings(actual, expected, result);
    } else {
      compare_dense(actual, expected, tolerance, result);
    }
  }
  return result;
}

double largest_error(const Tensor& actual, const Tensor& expected, double limit) {
  double largest = 0;
  if (actual.kind() != expected.kind()) return largest;
  if (expected.kind() == Tensor::Kind::kSequence) {
    const auto count = std::min(actual.elements().size(), expected.elements().size());
    for (std::size_t i = 0; i < count; ++i) {
      largest =
          std::max(largest, largest_error(actual.elements()[i], expected.elements()[i], limit));
    }
  } else if (expected.kind() == Tensor::Kind::kDense && actual.dtype() == expected.dtype() &&
             actual.dims() == expected.dims()) {
    with_floats(actual, expected, [&](const auto& a, const auto& e, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) {
        const double error = error_of(a(i), e(i));
        if (std::isfinite(error) && error <= limit) largest = std::max(largest, error);
      }
    });
  }
  return largest;
}

std::string to_string(const Comparison& comparison) {
  if (!comparison.problem.empty()) return comparison.problem;
  if (comparison.where.empty()) return "equal";
  const std::string error =
      concat("largest error ", comparison.largest_error, ", worst at ", comparison.where);
  if (comparison.mismatches == 0) return "within tolerance, " + error;
  std::string times;
  if (std::isfinite(comparison.worst_ratio)) {
    times = concat(" (", comparison.worst_ratio, " times the tolerance)");
  }
  return concat(comparison.mismatches, " of ", counted(comparison.count, "value"),
                " outside the tolerance, ", error, times);
}

}  // namespace penstock
