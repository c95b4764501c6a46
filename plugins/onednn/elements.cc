// Functions of single elements that the library has no primitive for: comparisons, logic, choices,
// casts, integers.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <type_traits>
#include <utility>

#include "kernels.h"
#include "operators.h"

namespace penstock::onednn {
namespace {

/// make(T()) for the type in memory; a bool lies there as a byte that is 0 or 1.
template <typename Make>
Result<Kernel> of_type(DType dtype, Make make) {
  switch (dtype) {
    case DType::kF32:
      return make(float());
    case DType::kI64:
      return make(std::int64_t());
    case DType::kI32:
      return make(std::int32_t());
    case DType::kI8:
      return make(std::int8_t());
    case DType::kU8:
    case DType::kBool:
      return make(std::uint8_t());
    default:
      return unsupported("takes no ", to_string(dtype));
  }
}

template <typename Make>
Result<Kernel> of_integers(DType dtype, std::string_view op, Make make) {
  if (dtype == DType::kF32 || dtype == DType::kBool) {
    return unsupported("computes ", op, " of integers, found ", to_string(dtype));
  }
  return of_type(dtype, [&](auto zero) -> Kernel {
    if constexpr (std::is_integral_v<decltype(zero)>) return make(zero);
    return {};
  });
}

/// Operands where they lie, the result last.
struct Operands {
  std::vector<Place> places;
  Walk walk;
};

/// The result lies as the first operand of its size does.
Result<Operands> operands_at(Builder& builder, std::vector<Place> places, ValueId result) {
  const Dims dims = at_least_1d(builder.dims(result));
  PENSTOCK_TRY(Layout layout, builder.plain(dims, builder.dtype(result)));
  const auto full = std::ranges::find(places, dims, [](const Place& p) { return p.layout.dims(); });
  if (full != places.end()) {
    PENSTOCK_TRY(layout, full->layout.dense_like(dims, builder.dtype(result)));
  }
  std::vector<Dims> strides;
  for (const Place& place : places) strides.push_back(broadcast_strides(place.layout, dims));
  strides.push_back(layout.strides());
  places.push_back(builder.new_place(std::move(layout)));
  return Operands{std::move(places), walk_of(dims, std::move(strides))};
}

Result<Operands> operands_of(Builder& builder, std::span<const ValueId> ids, ValueId result) {
  std::vector<Place> places;
  for (const ValueId id : ids) {
    PENSTOCK_TRY(Place place, builder.strided_place(id));
    places.push_back(std::move(place));
  }
  return operands_at(builder, std::move(places), result);
}

/// Appends the step and defines the result.
void append(Builder& builder, Kernel kernel, Operands operands, ValueId result) {
  Place target = operands.places.back();
  builder.append_kernel(std::move(kernel), std::move(operands.places));
  builder.define(result, std::move(target));
}

template <typename Test>
Result<Kernel> comparison(DType dtype, const Walk& walk, Test test) {
  return of_type(dtype, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    return map_kernel<std::uint8_t, T, T>(
        walk, [test](T a, T b) { return static_cast<std::uint8_t>(test(a, b)); });
  });
}

Result<Kernel> logic(const Node& node, DType dtype, const Walk& walk) {
  using Byte = std::uint8_t;
  const auto map = [&](auto function) -> Result<Kernel> {
    if (dtype != DType::kBool) return unsupported("takes bool, found ", to_string(dtype));
    return map_kernel<Byte, Byte, Byte>(walk, function);
  };
  if (node.op == "And") return map([](Byte a, Byte b) { return static_cast<Byte>(a & b); });
  if (node.op == "Or") return map([](Byte a, Byte b) { return static_cast<Byte>(a | b); });
  return map([](Byte a, Byte b) { return static_cast<Byte>(a ^ b); });
}

/// An overflow wraps around.
template <typename Function>
Result<Kernel> arithmetic(const Node& node, DType dtype, const Walk& walk, Function function) {
  return of_integers(dtype, node.op, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    return map_kernel<T, T, T>(walk, [function](T a, T b) {
      return static_cast<T>(function(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)));
    });
  });
}

template <typename T>
T quotient(T a, T b) {
  if (b == 0) return 0;  // Refused by then.
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) {
    return static_cast<T>(0 - static_cast<std::uint64_t>(a));
  }
  return static_cast<T>(a / b);
}

/// With the sign of the divisor, as Python's; of the dividend, as C's, where `like_c`.
template <typename T>
T remainder(T a, T b, bool like_c) {
  if (b == 0 || (std::is_signed_v<T> && b == static_cast<T>(-1))) return 0;
  const T rest = static_cast<T>(a % b);
  return !like_c && rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
}

/// Div and Mod. \error kInvalidArgument  at a run that divides by 0.
template <typename T, typename Function>
Kernel division(const Walk& walk, Function function) {
  Kernel divide = map_kernel<T, T, T>(walk, function);
  return [walk, divide = std::move(divide)](std::span<std::byte* const> data) -> Status {
    bool divides = true;
    for_each_row<3>(walk, [&](const auto& at) {
      const T* const divisors = as<const T>(data[1]) + at[1];
      for (std::int64_t i = 0; i < walk.dims.back(); ++i) {
        divides = divides && divisors[i * walk.strides[1].back()] != 0;
      }
    });
    if (!divides) return invalid_argument("an integer is divided by 0");
    return divide(data);
  };
}

Result<Kernel> division(const Node& node, DType dtype, const Walk& walk) {
  const bool like_c = node.int_or("fmod", 0) != 0;
  if (node.op == "Mod" && dtype == DType::kF32) {
    if (!like_c) return unsupported("takes Mod of floats with fmod=1");
    return map_kernel<float, float, float>(walk, [](float a, float b) { return std::fmod(a, b); });
  }
  return of_integers(dtype, node.op, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    if (node.op == "Div") return division<T>(walk, quotient<T>);
    return division<T>(walk, [like_c](T a, T b) { return remainder<T>(a, b, like_c); });
  });
}

Result<Kernel> binary_kernel(const Node& node, DType dtype, const Walk& walk) {
  const auto& op = node.op;
  if (op == "Equal") return comparison(dtype, walk, std::equal_to<>());
  if (op == "Greater") return comparison(dtype, walk, std::greater<>());
  if (op == "GreaterOrEqual") return comparison(dtype, walk, std::greater_equal<>());
  if (op == "Less") return comparison(dtype, walk, std::less<>());
  if (op == "LessOrEqual") return comparison(dtype, walk, std::less_equal<>());
  if (op == "And" || op == "Or" || op == "Xor") return logic(node, dtype, walk);
  if (op == "Add" || op == "Sum") return arithmetic(node, dtype, walk, std::plus<>());
  if (op == "Sub") return arithmetic(node, dtype, walk, std::minus<>());
  if (op == "Mul") return arithmetic(node, dtype, walk, std::multiplies<>());
  if (op == "Div" || op == "Mod") return division(node, dtype, walk);
  if (op == "Max" || op == "Min") {
    const bool largest = op == "Max";
    return of_integers(dtype, op, [&](auto zero) -> Kernel {
      using T = decltype(zero);
      return map_kernel<T, T, T>(walk, [largest](T a, T b) { return (a < b) == largest ? b : a; });
    });
  }
  if (op == "Pow" && dtype == DType::kF32) {
    return map_kernel<float, float, float>(walk, [](float a, float b) { return std::pow(a, b); });
  }
  return unsupported("is not computed of ", to_string(dtype));
}

/// Negation and absolute value of the least integer are that integer.
Result<Kernel> integer_function(const Node& node, DType dtype, const Walk& walk) {
  if (node.op == "IsNaN") return unsupported("is computed of f32, found ", to_string(dtype));
  return of_integers(dtype, node.op, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    const auto negative = [](T x) { return static_cast<T>(0 - static_cast<std::uint64_t>(x)); };
    if (node.op == "Neg") return map_kernel<T, T>(walk, negative);
    if (node.op == "Sign") {
      return map_kernel<T, T>(walk, [](T x) { return static_cast<T>((x > 0) - (x < 0)); });
    }
    return map_kernel<T, T>(walk, [negative](T x) { return x < 0 ? negative(x) : x; });
  });
}

Result<Kernel> unary_kernel(const Node& node, DType dtype, const Walk& walk, std::size_t bytes) {
  if (node.op == "Expand") return copy_kernel(walk, bytes);
  if (node.op == "Not") {
    return map_kernel<std::uint8_t, std::uint8_t>(
        walk, [](std::uint8_t x) { return static_cast<std::uint8_t>(x == 0); });
  }
  if (dtype != DType::kF32) return integer_function(node, dtype, walk);
  if (node.op == "IsNaN") {
    return map_kernel<std::uint8_t, float>(
        walk, [](float x) { return static_cast<std::uint8_t>(std::isnan(x)); });
  }
  constexpr std::pair<std::string_view, float (*)(float)> kFunctions[] = {
      {"Ceil", [](float x) { return std::ceil(x); }},
      {"Cos", [](float x) { return std::cos(x); }},
      {"Erf", [](float x) { return std::erf(x); }},
      {"Floor", [](float x) { return std::floor(x); }},
      {"Sign", [](float x) { return x != x ? x : static_cast<float>((x > 0) - (x < 0)); }},
      {"Sin", [](float x) { return std::sin(x); }}};
  const auto* const found =
      std::ranges::find(kFunctions, node.op, [](const auto& entry) { return entry.first; });
  if (found == std::end(kFunctions)) return unsupported("is not computed of f32");
  return map_kernel<float, float>(walk, found->second);
}

/// What the conversion of a float out of range gives is not defined by ONNX; here it is of x86.
std::int64_t whole_of(float value) {
  constexpr float kLimit = 0x1p63F;
  if (!(value >= -kLimit && value < kLimit)) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(value);
}

template <typename From>
Result<Kernel> cast_from(DType to, const Walk& walk) {
  if (to == DType::kBool) {
    return map_kernel<std::uint8_t, From>(walk,
                                          [](From x) { return static_cast<std::uint8_t>(x != 0); });
  }
  return of_type(to, [&](auto zero) -> Kernel {
    using To = decltype(zero);
    if constexpr (std::is_same_v<From, float> && !std::is_same_v<To, float>) {
      return map_kernel<To, From>(walk, [](From x) { return static_cast<To>(whole_of(x)); });
    } else {
      return map_kernel<To, From>(walk, [](From x) { return static_cast<To>(x); });
    }
  });
}

Result<Kernel> cast_kernel(DType from, DType to, const Walk& walk) {
  Result<Kernel> kernel = Kernel();
  PENSTOCK_CHECK_OK(of_type(from, [&](auto zero) -> Kernel {
    kernel = cast_from<decltype(zero)>(to, walk);
    return {};
  }));
  return kernel;
}

template <typename T>
Kernel choice(const Walk& walk) {
  return map_kernel<T, std::uint8_t, T, T>(
      walk, [](std::uint8_t first, T a, T b) { return first != 0 ? a : b; });
}

/// The innermost loops that a compiler makes vectors of: each operand runs along, or stands still.
template <bool kFirstRuns, bool kSecondRuns, typename Function>
Kernel float_kernel(Walk walk, Function function) {
  return [walk = std::move(walk), function](std::span<std::byte* const> data) {
    for_each_row<3>(walk, [&](const auto& at) {
      const float* const a = as<const float>(data[0]) + at[0];
      const float* const b = as<const float>(data[1]) + at[1];
      float* const to = as<float>(data[2]) + at[2];
      for (std::int64_t i = 0; i < walk.dims.back(); ++i) {
        to[i] = function(a[kFirstRuns ? i : 0], b[kSecondRuns ? i : 0]);
      }
    });
    return Status();
  };
}

template <typename Function>
Kernel float_kernel(Walk walk, Function function) {
  const auto a = walk.strides[0].back();
  const auto b = walk.strides[1].back();
  if (walk.strides[2].back() == 1) {
    if (a == 1 && b == 1) return float_kernel<true, true>(std::move(walk), function);
    if (a == 1 && b == 0) return float_kernel<true, false>(std::move(walk), function);
    if (a == 0 && b == 1) return float_kernel<false, true>(std::move(walk), function);
  }
  return map_kernel<float, float, float>(std::move(walk), function);
}

Kernel float_kernel(dnnl_alg_kind_t algorithm, Walk walk) {
  switch (algorithm) {
    case dnnl_binary_add:
      return float_kernel(std::move(walk), std::plus<>());
    case dnnl_binary_sub:
      return float_kernel(std::move(walk), std::minus<>());
    case dnnl_binary_mul:
      return float_kernel(std::move(walk), std::multiplies<>());
    case dnnl_binary_div:
      return float_kernel(std::move(walk), std::divides<>());
    case dnnl_binary_max:
      return float_kernel(std::move(walk),
                          [](float x, float y) { return x > y || x != x ? x : y; });
    default:
      return float_kernel(std::move(walk),
                          [](float x, float y) { return x < y || x != x ? x : y; });
  }
}

}  // namespace

Status append_floats(Builder& builder, dnnl_alg_kind_t algorithm, const Place& a, const Place& b,
                     ValueId result) {
  PENSTOCK_TRY(auto operands, operands_at(builder, {a, b}, result));
  Kernel kernel = float_kernel(algorithm, operands.walk);
  append(builder, std::move(kernel), std::move(operands), result);
  return {};
}

/// Of one input, or of any number two by two.
Status lower_elements(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const ValueId result = node.outputs.front();
  const DType dtype = builder.dtype(node.inputs.front());
  if (node.inputs.size() == 1 || node.op == "Expand") {
    PENSTOCK_TRY(auto operands, operands_of(builder, {&node.inputs.front(), 1}, result));
    const std::size_t bytes = operands.places.front().layout.element_bytes();
    PENSTOCK_TRY(auto kernel, unary_kernel(node, dtype, operands.walk, bytes));
    append(builder, std::move(kernel), std::move(operands), result);
    return {};
  }
  std::array pair = {node.inputs[0], node.inputs[1]};
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    pair[1] = node.inputs[i];
    PENSTOCK_TRY(auto operands, operands_of(builder, pair, result));
    PENSTOCK_TRY(auto kernel, binary_kernel(node, dtype, operands.walk));
    append(builder, std::move(kernel), std::move(operands), result);
    pair[0] = result;
  }
  return {};
}

Status lower_where(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const ValueId result = node.outputs.front();
  PENSTOCK_TRY(auto operands, operands_of(builder, node.inputs, result));
  const Walk& walk = operands.walk;
  PENSTOCK_TRY(auto kernel, of_type(builder.dtype(result), [&](auto zero) -> Kernel {
                 return choice<decltype(zero)>(walk);
               }));
  append(builder, std::move(kernel), std::move(operands), result);
  return {};
}

Status lower_cast(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const ValueId result = node.outputs.front();
  const DType from = builder.dtype(node.inputs[0]);
  const DType to = builder.dtype(result);
  if (from == to) return lower_reshape(builder, id);
  PENSTOCK_TRY(auto operands, operands_of(builder, {&node.inputs.front(), 1}, result));
  PENSTOCK_TRY(auto kernel, cast_kernel(from, to, operands.walk));
  append(builder, std::move(kernel), std::move(operands), result);
  return {};
}

}  // namespace penstock::onednn
