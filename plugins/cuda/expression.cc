// Views and compositions of expressions.
#include "expression.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace penstock::cuda {
namespace {

/// Strides of the same elements seen as `to`; empty where they are not at equal distances.
std::optional<Dims> reshaped_strides(const Dims& dims, const Dims& all_strides, const Dims& to) {
  Dims from;
  Dims strides;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1) continue;
    from.push_back(dims[i]);
    strides.push_back(all_strides[i]);
  }
  Dims result(to.size(), 0);
  // Groups of dimensions, the smallest that have as many elements on both sides.
  for (std::size_t i = 0, o = 0; i < from.size() && o < to.size();) {
    std::size_t i_end = i + 1;
    std::size_t o_end = o + 1;
    for (std::int64_t in = from[i], out = to[o]; in != out;) {
      if (out < in) {
        out *= to[o_end++];
      } else {
        in *= from[i_end++];
      }
    }
    for (std::size_t k = i; k + 1 < i_end; ++k) {
      if (strides[k] != from[k + 1] * strides[k + 1]) return {};
    }
    std::int64_t step = strides[i_end - 1];
    for (std::size_t k = o_end; k > o; --k) {
      result[k - 1] = step;
      step *= to[k - 1];
    }
    i = i_end;
    o = o_end;
  }
  return result;
}

/// Takes in the leaves of `operand`, equal ones once; returns its code over `leaves`.
std::string take_leaves(const Expression& operand, std::vector<Leaf>& leaves) {
  std::vector<std::string> numbers;
  for (const Leaf& leaf : operand.leaves) {
    const auto found = std::ranges::find(leaves, leaf);
    numbers.push_back(concat("$", found - leaves.begin()));
    if (found == leaves.end()) leaves.push_back(leaf);
  }
  return with_elements(operand.code, numbers);
}

}  // namespace

std::string with_elements(const std::string& code, const std::vector<std::string>& elements) {
  std::string result;
  for (std::size_t i = 0; i < code.size();) {
    if (code[i] != '$') {
      result += code[i++];
      continue;
    }
    std::size_t number = 0;
    for (++i; i < code.size() && code[i] >= '0' && code[i] <= '9'; ++i) {
      number = number * 10 + static_cast<std::size_t>(code[i] - '0');
    }
    result += elements[number];
  }
  return result;
}

std::int64_t count_of(const Dims& dims) {
  std::int64_t count = 1;
  for (const auto dim : dims) count *= dim;
  return count;
}

Dims contiguous_strides(const Dims& dims) {
  Dims strides(dims.size());
  std::int64_t stride = 1;
  for (std::size_t i = dims.size(); i > 0; --i) {
    strides[i - 1] = stride;
    stride *= dims[i - 1];
  }
  return strides;
}

Expression Expression::place(std::size_t buffer, Dims dims, DType dtype) {
  Leaf leaf{buffer, 0, contiguous_strides(dims), dtype};
  return {std::move(dims), dtype, {std::move(leaf)}, "$0"};
}

bool Expression::is_dense() const {
  if (!is_place()) return false;
  const Dims dense = contiguous_strides(dims);
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != 1 && leaves.front().strides[i] != dense[i]) return false;
  }
  return true;
}

Expression Expression::permuted(const Dims& order) const {
  Expression result = *this;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto from = static_cast<std::size_t>(order[i]);
    result.dims[i] = dims[from];
    for (std::size_t l = 0; l < leaves.size(); ++l) {
      result.leaves[l].strides[i] = leaves[l].strides[from];
    }
  }
  return result;
}

Expression Expression::broadcast(const Dims& to) const {
  Expression result = *this;
  const std::size_t shift = to.size() - dims.size();
  result.dims = to;
  for (std::size_t l = 0; l < leaves.size(); ++l) {
    Dims strides(to.size(), 0);
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] != 1) strides[i + shift] = leaves[l].strides[i];
    }
    result.leaves[l].strides = std::move(strides);
  }
  return result;
}

Expression Expression::window(const Dims& begin, const Dims& steps, const Dims& to) const {
  Expression result = *this;
  result.dims = to;
  for (Leaf& leaf : result.leaves) {
    for (std::size_t i = 0; i < to.size(); ++i) {
      leaf.offset += begin[i] * leaf.strides[i];
      leaf.strides[i] *= steps[i];
    }
  }
  return result;
}

std::optional<Expression> Expression::reshaped(const Dims& to) const {
  Expression result = *this;
  result.dims = to;
  for (Leaf& leaf : result.leaves) {
    auto strides = reshaped_strides(dims, leaf.strides, to);
    if (!strides) return {};
    leaf.strides = *std::move(strides);
  }
  return result;
}

Expression apply(std::string_view function, const std::vector<Expression>& operands, DType dtype,
                 const std::vector<std::string>& constants) {
  Expression result{broadcast_dims(operands), dtype, {}, std::string(function) + "("};
  std::string separator;
  for (const Expression& operand : operands) {
    result.code += separator + take_leaves(operand.broadcast(result.dims), result.leaves);
    separator = ", ";
  }
  for (const auto& constant : constants) {
    result.code += separator + constant;
    separator = ", ";
  }
  result.code += ")";
  return result;
}

Dims broadcast_dims(const std::vector<Expression>& operands) {
  Dims dims;
  for (const Expression& operand : operands) {
    const Dims& own = operand.dims;
    if (own.size() > dims.size()) dims.insert(dims.begin(), own.size() - dims.size(), 1);
    const std::size_t shift = dims.size() - own.size();
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (own[i] != 1) dims[i + shift] = own[i];
    }
  }
  return dims;
}

std::string literal(float value) {
  if (std::isnan(value)) return "NOT_A_NUMBER";
  if (std::isinf(value)) return value > 0 ? "INFINITE" : "-INFINITE";
  std::array<char, 32> digits{};
  const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  std::string text(digits.data(), written.ptr);
  if (text.find_first_of(".e") == text.npos) text += ".0";
  return text + "f";
}

std::string_view type_name(DType dtype) {
  switch (dtype) {
    case DType::kI64:
      return "long long";
    case DType::kI32:
      return "int";
    case DType::kI8:
      return "signed char";
    case DType::kU8:
      return "unsigned char";
    case DType::kBool:
      return "bool";
    default:
      return "float";
  }
}

}  // namespace penstock::cuda
