// Orders elements by keys of 64 bits, so that integers of any width are compared exactly.
#include "penstock/serve/classification.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "penstock/tensor/number.h"

namespace penstock::serve {
namespace {

constexpr std::uint64_t kSign = std::uint64_t{1} << 63;

/// The higher the element, the higher its key.
std::uint64_t key_of(DType dtype, std::uint64_t bits) {
  if (dtype == DType::kU64) return bits;
  if (dtype == DType::kI64) return bits ^ kSign;
  const double number = number_from_bits(dtype, bits) + 0.0;  // -0 is 0.
  if (std::isnan(number)) return std::numeric_limits<std::uint64_t>::max();
  const auto raw = std::bit_cast<std::uint64_t>(number);
  return (raw & kSign) != 0 ? ~raw : raw | kSign;
}

template <typename Number>
std::string digits_of(Number number) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  return {digits.data(), end};
}

std::string text_of(DType dtype, std::uint64_t bits) {
  if (dtype == DType::kU64) return digits_of(bits);
  if (dtype == DType::kI64) return digits_of(static_cast<std::int64_t>(bits));
  const double number = number_from_bits(dtype, bits);
  if (!is_float(dtype)) return digits_of(static_cast<std::int64_t>(number));
  if (std::isnan(number)) return "nan";  // Without its sign.
  return dtype == DType::kF64 ? digits_of(number) : digits_of(static_cast<float>(number));
}

}  // namespace

Result<Tensor> classify(const Tensor& tensor, std::uint64_t most) {
  if (tensor.kind() != Tensor::Kind::kDense) {
    return invalid_argument("classification: expected numbers, found strings");
  }
  const auto bits = [&](std::size_t i) { return load_bits(tensor.dtype(), tensor.data(), i); };
  std::vector<std::uint64_t> keys(tensor.count());
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = key_of(tensor.dtype(), bits(i));
  std::vector<std::size_t> order(keys.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const std::size_t count = std::min<std::uint64_t>(most, order.size());
  std::ranges::partial_sort(
      order, order.begin() + static_cast<std::ptrdiff_t>(count),
      [&](std::size_t a, std::size_t b) { return keys[a] != keys[b] ? keys[a] > keys[b] : a < b; });
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < count; ++i) {
    texts.push_back(concat(text_of(tensor.dtype(), bits(order[i])), ":", order[i]));
  }
  return Tensor::strings({static_cast<std::int64_t>(count)}, std::move(texts));
}

}  // namespace penstock::serve
