// Sums four 16-bit draws for a normal number, and rejects draws that would favour small values.
#include "penstock/tensor/random.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <string>
#include <vector>

#include "penstock/base/option_name.h"
#include "penstock/tensor/number.h"

namespace penstock {
namespace {

std::uint64_t random_bits(DType dtype, Random& random, const RandomOptions& options) {
  if (dtype == DType::kBool) return random.bits() & 1U;
  if (dtype == DType::kF8E8M0) return 120 + random.below(16);  // Powers of two around 1.
  if (is_float(dtype)) return bits_from_number(dtype, random.normal() * options.scale);
  const auto bits = bits_of(dtype);
  if (bits <= 8) return random.below(1ULL << bits);
  return random.below(options.integer_limit);
}

void fill(Tensor& tensor, Random& random, const RandomOptions& options) {
  const auto number = [&] { return random.normal() * options.scale; };
  const DType dtype = tensor.dtype();
  if (dtype == DType::kF32) {
    for (float& x : tensor.as<float>()) x = static_cast<float>(number());
  } else if (dtype == DType::kC64) {
    for (float& x : tensor.as<float>()) x = static_cast<float>(number());
  } else if (dtype == DType::kC128) {
    for (double& x : tensor.as<double>()) x = number();
  } else {
    for (std::size_t i = 0; i < tensor.count(); ++i) {
      store_bits(dtype, tensor.data(), i, random_bits(dtype, random, options));
    }
  }
}

void fill(Tensor& tensor, Random& random, const WholeRange& range) {
  const auto span = static_cast<std::uint64_t>(range.most - range.least) + 1;
  for (std::size_t i = 0; i < tensor.count(); ++i) {
    const auto number = range.least + static_cast<std::int64_t>(random.below(span));
    store_bits(tensor.dtype(), tensor.data(), i,
               bits_from_number(tensor.dtype(), static_cast<double>(number)));
  }
}

/// About a quarter of a wide range, anywhere in it: pictures of some brightness and little
/// contrast.
WholeRange part_of(const WholeRange& range, Random& random) {
  constexpr std::int64_t kNarrow = 16, kWide = std::int64_t{1} << 40;
  std::int64_t span = 0;
  const bool overflows = __builtin_sub_overflow(range.most, range.least, &span);
  if (overflows || span < kNarrow || span > kWide) return range;
  const auto middle =
      range.least + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(span) + 1));
  return {std::max(range.least, middle - span / 8), std::min(range.most, middle + span / 8)};
}

/// Of the numbers, where they are whole. Nothing: they are small, or no range is known.
std::optional<WholeRange> range_of(DType dtype, const RandomOptions& options) {
  if (options.range) return options.range;
  if (dtype == DType::kU8) return WholeRange{0, 255};
  if (dtype == DType::kI8) return WholeRange{-128, 127};
  return {};
}

bool is_real_number(DType dtype) {
  return dtype != DType::kBool && dtype != DType::kC64 && dtype != DType::kC128;
}

/// Half of the texts are as they are. Others get a capital or all, or lose those that they have.
std::string in_another_case(std::string text, Random& random) {
  const auto drawn = random.below(4);
  if (drawn > 1) return text;
  const auto was = text;
  const auto end = drawn == 0 || text.empty() ? text.end() : text.begin() + 1;
  const auto is_small = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto is_capital = [](char c) { return c >= 'A' && c <= 'Z'; };
  std::transform(text.begin(), end, text.begin(),
                 [&](char c) { return is_small(c) ? static_cast<char>(c - 'a' + 'A') : c; });
  if (text != was) return text;
  std::ranges::transform(text, text.begin(), [&](char c) {
    return is_capital(c) ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

Tensor random_texts(std::vector<std::int64_t> dims, std::size_t count, Random& random,
                    std::span<const std::string> words) {
  std::vector<std::string> texts(count);
  const bool others = std::ranges::find(words, "") != words.end();  // Are taken, too.
  for (auto& text : texts) {
    if (!words.empty()) {
      text = words[random.below(words.size())];
      if (others) text = in_another_case(std::move(text), random);
      continue;
    }
    for (auto letters = 1 + random.below(8); letters > 0; --letters) {
      text += static_cast<char>('a' + random.below(26));
    }
    text = in_another_case(std::move(text), random);
  }
  return Tensor::strings(std::move(dims), std::move(texts));
}

}  // namespace

std::uint64_t Random::below(std::uint64_t limit) {
  // The largest multiple of `limit` in 64 bits: what lies above would make small values likelier.
  const std::uint64_t end = UINT64_MAX - UINT64_MAX % limit;
  for (;;) {
    const std::uint64_t drawn = engine_();
    if (drawn < end) return drawn % limit;
  }
}

double Random::normal() {
  constexpr double kMean = 2 * 65535.0;
  // Each even draw of n = 65536 values has the variance (n^2 - 1) / 12; four of them, its square
  // root is that of (n^2 - 1) / 3.
  constexpr double kDeviation = 37837.22723720648;
  const std::uint64_t drawn = engine_();
  const auto sum =
      (drawn & 0xFFFFU) + (drawn >> 16U & 0xFFFFU) + (drawn >> 32U & 0xFFFFU) + (drawn >> 48U);
  return (static_cast<double>(sum) - kMean) / kDeviation;
}

Result<Tensor> random_tensor(const Type& type, Random& random, const RandomOptions& options) {
  if (type.kind == Type::Kind::kOther) {
    return invalid_argument(
        "cannot make random values of a map or a sparse tensor, nor has one a form in a file: "
        "begin the network behind the node that reads it, with what that makes as the input");
  }
  if (type.kind != Type::Kind::kTensor || !type.ranked || type.dtype == DType::kUndefined) {
    return invalid_argument("cannot make random values of type ", type,
                            ": expected a tensor whose rank is known; give frames (",
                            OptionName::kFrames, ")");
  }
  Type sized = type;
  std::vector<std::int64_t> dims;
  std::size_t count = 1;
  for (auto& dim : sized.dims) {
    dim.size = dim.likely();
    dims.push_back(dim.size);
    if (__builtin_mul_overflow(count, static_cast<std::size_t>(dim.size), &count)) {
      return invalid_argument("a value of type ", type, " is larger than any memory");
    }
  }
  try {
    if (type.dtype == DType::kString)
      return random_texts(std::move(dims), count, random, options.words);
    if (!sized.max_bytes()) {
      return invalid_argument("a value of type ", type, " is larger than any memory");
    }
    Tensor tensor = Tensor::allocate(type.dtype, std::move(dims));
    const auto range = range_of(type.dtype, options);
    if (range && options.scale != 1 && is_real_number(type.dtype)) {
      fill(tensor, random, part_of(*range, random));
    } else if (options.range && is_real_number(type.dtype)) {
      fill(tensor, random, *options.range);
    } else {
      fill(tensor, random, options);
    }
    return tensor;
  } catch (const std::exception&) {
    return make_error(Code::kResourceExhausted, "a value of type ", type,
                      " needs more memory than there is; export the model with smaller "
                      "dimensions, or bind open ones to less");
  }
}

}  // namespace penstock
