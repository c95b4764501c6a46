// Reads nested lists by recursive descent, and prints numbers in their shortest exact form.
#include "penstock/tensor/literal.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <vector>

#include "penstock/base/option_name.h"
#include "penstock/base/words.h"
#include "penstock/tensor/number.h"

namespace penstock {
namespace {

constexpr std::size_t kDeepestLiteral = 16;  ///< Lists in lists.
constexpr std::size_t kMostListed = 16;      ///< Values that literal_of() lists.

/// The values of a text in order, and the sizes of the lists that they stand in.
struct Listed {
  std::vector<std::string> items;
  std::vector<std::int64_t> sizes;  ///< Outermost first; empty: one value without brackets.
};

class LiteralReader {
 public:
  explicit LiteralReader(std::string_view text) : text_(text) {}

  Result<Listed> run() {
    PENSTOCK_CHECK_OK(read_value(0));
    skip_spaces();
    if (at_ != text_.size()) return unexpected("the end");
    return std::move(listed_);
  }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t'))
      ++at_;
  }

  bool take(char c) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  [[nodiscard]] Error unexpected(std::string_view expected) const {
    constexpr std::size_t kShown = 20;
    const auto rest = text_.substr(at_, kShown);
    return invalid_argument("expected ", expected, ", found ",
                            rest.empty() ? "nothing" : concat("'", rest, "'"), " at character ",
                            at_ + 1);
  }

  Status read_value(std::size_t depth) {
    if (take('[')) return read_list(depth);
    if (!leaf_depth_) leaf_depth_ = depth;
    if (*leaf_depth_ != depth || listed_.sizes.size() > depth) return ragged();
    return read_item(depth);
  }

  Status read_list(std::size_t depth) {
    if (depth == kDeepestLiteral) {
      return invalid_argument("expected at most ", kDeepestLiteral, " lists in one another");
    }
    if (leaf_depth_ && depth >= *leaf_depth_) return ragged();
    if (listed_.sizes.size() == depth) listed_.sizes.push_back(Dim::kOpen);
    std::int64_t count = 0;
    if (!take(']')) {
      do {
        PENSTOCK_CHECK_OK(read_value(depth + 1));
        ++count;
      } while (take(','));
      if (!take(']')) return unexpected("',' or ']'");
    }
    auto& size = listed_.sizes[depth];
    if (size != Dim::kOpen && size != count) return ragged();
    size = count;
    return {};
  }

  static Error ragged() {
    return invalid_argument("expected lists of equal length in a list, and values at one depth");
  }

  Status read_item(std::size_t depth) {
    skip_spaces();
    if (at_ < text_.size() && text_[at_] == '"') return read_quoted();
    auto end = depth == 0 ? text_.size() : text_.find_first_of(",[]", at_);
    end = std::min(end, text_.size());
    auto last = end;
    while (last > at_ && text_[last - 1] == ' ') --last;
    if (last == at_) return unexpected("a value");
    listed_.items.emplace_back(text_.substr(at_, last - at_));
    at_ = end;
    return {};
  }

  Status read_quoted() {
    std::string item;
    auto end = at_ + 1;
    for (; end < text_.size() && text_[end] != '"'; ++end) {
      if (text_[end] == '\\' && !text_.substr(++end).starts_with('"') &&
          !text_.substr(end).starts_with('\\')) {
        at_ = end;
        return unexpected("'\"' or '\\' behind '\\'");
      }
      item += text_[end];
    }
    if (end >= text_.size()) return unexpected("a text that ends in '\"'");
    listed_.items.push_back(std::move(item));
    at_ = end + 1;
    return {};
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::optional<std::size_t> leaf_depth_;  // Of every value.
  Listed listed_;
};

template <typename T>
std::optional<T> number_in(std::string_view item) {
  T value{};
  const auto [stop, problem] = std::from_chars(item.data(), item.data() + item.size(), value);
  const bool whole = problem == std::errc() && stop == item.data() + item.size();
  return whole ? std::optional(value) : std::nullopt;
}

Error outside(DType dtype, std::string_view item) {
  return invalid_argument("'", item, "' is outside what ", to_string(dtype), " can hold");
}

bool is_whole(std::string_view item) {
  if (item.starts_with('-')) item.remove_prefix(1);
  return !item.empty() && std::ranges::all_of(item, [](char c) { return c >= '0' && c <= '9'; });
}

Result<std::uint64_t> integer_bits(DType dtype, std::string_view item) {
  if (!is_whole(item)) {
    return invalid_argument("expected an integer, as the input is ", to_string(dtype), ", found '",
                            item, "'");
  }
  if (dtype == DType::kU64) {
    const auto value = number_in<std::uint64_t>(item);
    return value ? Result(*value) : outside(dtype, item);
  }
  const auto value = number_in<std::int64_t>(item);
  if (!value) return outside(dtype, item);
  if (dtype == DType::kI64) return static_cast<std::uint64_t>(*value);
  const auto number = static_cast<double>(*value);
  const auto bits = bits_from_number(dtype, number);
  return number_from_bits(dtype, bits) == number ? Result(bits) : outside(dtype, item);
}

Result<std::uint64_t> float_bits(DType dtype, std::string_view item) {
  const auto value = number_in<double>(item);
  if (!value || !std::isfinite(*value)) {
    return invalid_argument("expected a finite number, found '", item,
                            "'; an .npy file may hold others");
  }
  constexpr double kEndless = std::numeric_limits<double>::infinity();
  // Of a kind without infinity: its largest number, which stands for all over it.
  const double most = number_from_bits(dtype, bits_from_number(dtype, kEndless));
  const auto bits = bits_from_number(dtype, *value);
  const bool holds = std::abs(*value) <= most && std::isfinite(number_from_bits(dtype, bits));
  return holds ? Result(bits) : outside(dtype, item);
}

Result<std::uint64_t> bits_in(DType dtype, std::string_view item) {
  if (dtype == DType::kBool) {
    if (item == "true" || item == "True" || item == "1") return std::uint64_t{1};
    if (item == "false" || item == "False" || item == "0") return std::uint64_t{0};
    return invalid_argument("expected true or false, found '", item, "'");
  }
  return is_float(dtype) ? float_bits(dtype, item) : integer_bits(dtype, item);
}

/// The shape of what is listed, as a value of `type`.
Result<std::vector<std::int64_t>> dims_of(const Listed& listed, const Type& type) {
  const auto fixed_dims = [&] {
    std::vector<std::int64_t> dims;
    dims.reserve(type.dims.size());
    for (const auto& dim : type.dims) dims.push_back(dim.size);
    return dims;
  };
  if (!type.ranked) return listed.sizes;
  if (listed.sizes.empty()) {
    if (type.fixed()) return fixed_dims();
    return invalid_argument("one value does not tell the sizes of ", type,
                            "; give a list, or fix the shape (", OptionName::kShapes, ")");
  }
  std::size_t count = 1;
  for (const auto& dim : type.dims) count *= dim.fixed() ? static_cast<std::size_t>(dim.size) : 0;
  if (listed.sizes.size() == 1 && type.fixed() && listed.items.size() == count) return fixed_dims();
  const bool fits =
      listed.sizes.size() == type.dims.size() &&
      std::ranges::equal(listed.sizes, type.dims, [](std::int64_t size, const Dim& dim) {
        return dim.fixed() ? dim.size == size : dim.bound == Dim::kOpen || size <= dim.bound;
      });
  if (fits) return listed.sizes;
  return invalid_argument(
      "expected ", type, ", found ", counted(listed.items.size(), "value"), " of shape [",
      join(listed.sizes, ",", [](std::int64_t size) { return concat(size); }), "]");
}

bool has_literals(DType dtype) {
  return dtype != DType::kUndefined && dtype != DType::kC64 && dtype != DType::kC128;
}

/// The shortest text of which the dtype's own number is made again.
std::string text_of_number(DType dtype, std::uint64_t bits) {
  if (dtype == DType::kBool) return bits != 0 ? "true" : "false";
  if (dtype == DType::kI64) return concat(static_cast<std::int64_t>(bits));
  if (dtype == DType::kU64) return concat(bits);
  const double number = number_from_bits(dtype, bits);
  constexpr std::size_t kLongest = 32;
  std::string text(kLongest, '\0');
  auto* const end = text.data() + text.size();
  const auto stop = dtype == DType::kF64
                        ? std::to_chars(text.data(), end, number).ptr
                        : std::to_chars(text.data(), end, static_cast<float>(number)).ptr;
  text.resize(static_cast<std::size_t>(stop - text.data()));
  return text;
}

}  // namespace

Result<Tensor> parse_literal(std::string_view text, const Type& type) {
  if (type.kind != Type::Kind::kTensor || !has_literals(type.dtype)) {
    return invalid_argument("expected a tensor of numbers, booleans or texts, found ", type,
                            ", which has no value as a text");
  }
  PENSTOCK_TRY(auto listed, LiteralReader(text).run());
  PENSTOCK_TRY(auto dims, dims_of(listed, type));
  const bool one = listed.sizes.empty();
  if (type.dtype == DType::kString) {
    std::size_t count = 1;
    for (const auto size : dims) count *= static_cast<std::size_t>(size);
    if (one) listed.items.resize(count, listed.items.front());
    return Tensor::strings(std::move(dims), std::move(listed.items));
  }
  Tensor tensor = Tensor::allocate(type.dtype, std::move(dims));
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < tensor.count(); ++i) {
    if (i == 0 || !one) {
      PENSTOCK_TRY(bits, bits_in(type.dtype, listed.items[i]));
    }
    store_bits(type.dtype, tensor.data(), i, bits);
  }
  return tensor;
}

std::optional<std::string> literal_of(const Tensor& tensor) {
  const auto dtype = tensor.dtype();
  const auto count = tensor.count();
  if (tensor.kind() != Tensor::Kind::kDense || !has_literals(dtype) || count == 0)
    return std::nullopt;
  const auto bits = [&](std::size_t i) { return load_bits(dtype, tensor.data(), i); };
  bool one = true;
  for (std::size_t i = 1; i < count && one; ++i) one = bits(i) == bits(0);
  if (!one && count > kMostListed) return std::nullopt;
  std::string text = text_of_number(dtype, bits(0));
  if (!one) {
    for (std::size_t i = 1; i < count; ++i) text += ", " + text_of_number(dtype, bits(i));
    text = "[" + text + "]";
  }
  const auto again = parse_literal(text, tensor.type());
  const bool same = again && std::memcmp(again->data(), tensor.data(), tensor.bytes()) == 0;
  return same ? std::optional(text) : std::nullopt;
}

}  // namespace penstock
