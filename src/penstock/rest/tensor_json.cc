// Fills a tensor from simdjson's arrays with range checks; appends its values as JSON text.
#include "penstock/rest/tensor_json.h"

#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/base/words.h"
#include "penstock/tensor/datatype.h"

namespace penstock::rest {
namespace {

Error in_element(std::size_t index, std::string_view expected, const Element& found) {
  return invalid_argument("element ", index, " of its data: expected ", expected, ", found ",
                          kind_of(found));
}

Error does_not_fit(std::size_t index, const Element& found) {
  return invalid_argument("element ", index, " of its data: ", simdjson::minify(found),
                          " does not fit its datatype");
}

Status store(const Element& element, std::size_t index, bool& to) {
  if (element.get(to) != simdjson::SUCCESS) return in_element(index, "true or false", element);
  return {};
}

Status store(const Element& element, std::size_t index, std::string& to) {
  std::string_view text;
  if (element.get(text) != simdjson::SUCCESS) return in_element(index, "a string", element);
  to = text;
  return {};
}

template <std::integral T>
Status store(const Element& element, std::size_t index, T& to) {
  using Wide = std::conditional_t<std::signed_integral<T>, std::int64_t, std::uint64_t>;
  Wide wide = 0;
  const auto failed = element.get(wide);
  if (failed != simdjson::SUCCESS) {
    const bool real = element.type() == simdjson::dom::element_type::DOUBLE;
    const double beyond = std::ldexp(1, std::numeric_limits<Wide>::digits);
    if (failed == simdjson::NUMBER_OUT_OF_RANGE || (real && std::abs(double(element)) >= beyond))
      return does_not_fit(index, element);
    return in_element(index, "an integer", element);
  }
  if (!std::in_range<T>(wide)) return does_not_fit(index, element);
  to = static_cast<T>(wide);
  return {};
}

template <std::floating_point T>
Status store(const Element& element, std::size_t index, T& to) {
  double wide = 0;
  if (element.get(wide) != simdjson::SUCCESS) return in_element(index, "a number", element);
  to = static_cast<T>(wide);
  if (!std::isfinite(to)) return does_not_fit(index, element);
  return {};
}

/// Writes the elements of an array one behind the other. It has them all, or is nested as the
/// shape.
template <typename T>
class Filler {
 public:
  Filler(std::span<T> to, std::span<const std::int64_t> dims) : to_(to), dims_(dims) {}

  Status fill(const Array& data) {
    const auto first = data.begin();
    const bool nested = dims_.size() > 1 && first != data.end() && (*first).is_array();
    return nested ? add_nested(data) : add_flat(data);
  }

 private:
  Status add_flat(const Array& data) {
    for (const Element element : data) {
      if (at_ == to_.size()) {
        return invalid_argument("its shape has ", counted(to_.size(), "element"),
                                ", its data more");
      }
      PENSTOCK_CHECK_OK(add(element));
    }
    if (at_ == to_.size()) return {};
    return invalid_argument("its shape has ", counted(to_.size(), "element"), ", its data ", at_);
  }

  Status add_nested(const Array& data) {  // As deep as the shape.
    const std::size_t axis = path_.size();
    const auto size = static_cast<std::size_t>(dims_[axis]);
    path_.push_back(0);
    for (const Element element : data) {
      if (path_.back() == size) return wrong_size(size, "more");
      if (axis + 1 == dims_.size()) {
        PENSTOCK_CHECK_OK(add(element));
      } else if (Array inner; element.get(inner) == simdjson::SUCCESS) {
        PENSTOCK_CHECK_OK(add_nested(inner));
      } else {
        return invalid_argument(place(), " of its data: expected a list, as its shape is ", shape(),
                                ", found ", kind_of(element));
      }
      ++path_.back();
    }
    if (path_.back() < size) return wrong_size(size, concat(path_.back()));
    path_.pop_back();
    return {};
  }

  Status add(const Element& element) {
    PENSTOCK_CHECK_OK(store(element, at_, to_[at_]));
    ++at_;
    return {};
  }

  /// Of the list that is read. `found`: how many it has.
  Error wrong_size(std::size_t expected, std::string_view found) {
    path_.pop_back();
    return invalid_argument(path_.empty() ? "its data" : concat(place(), " of its data"),
                            ": expected a list of ", counted(expected, "element"),
                            ", as its shape is ", shape(), ", found ", found);
  }

  /// "[1][0]"
  [[nodiscard]] std::string place() const {
    return join(path_, "", [](std::size_t at) { return concat("[", at, "]"); });
  }

  /// "[2,2]"
  [[nodiscard]] std::string shape() const {
    return concat("[", join(dims_, ",", [](std::int64_t size) { return concat(size); }), "]");
  }

  std::span<T> to_;
  std::span<const std::int64_t> dims_;
  std::size_t at_ = 0;
  std::vector<std::size_t> path_;  // Where a nested array is read.
};

template <typename T>
Status fill(Tensor& tensor, const Array& data) {
  return Filler<T>(tensor.as<T>(), tensor.dims()).fill(data);
}

Status fill_any(Tensor& tensor, const Array& data) {
  switch (tensor.dtype()) {
    case DType::kBool:
      return fill<bool>(tensor, data);
    case DType::kU8:
      return fill<std::uint8_t>(tensor, data);
    case DType::kU16:
      return fill<std::uint16_t>(tensor, data);
    case DType::kU32:
      return fill<std::uint32_t>(tensor, data);
    case DType::kU64:
      return fill<std::uint64_t>(tensor, data);
    case DType::kI8:
      return fill<std::int8_t>(tensor, data);
    case DType::kI16:
      return fill<std::int16_t>(tensor, data);
    case DType::kI32:
      return fill<std::int32_t>(tensor, data);
    case DType::kI64:
      return fill<std::int64_t>(tensor, data);
    case DType::kF32:
      return fill<float>(tensor, data);
    case DType::kF64:
      return fill<double>(tensor, data);
    default:
      return invalid_argument("JSON cannot hold ", datatype_of(tensor.dtype()),
                              "; send it as bytes, with 'binary_data_size'");
  }
}

/// A shape is a few bytes, and must not make us take more memory than the data justify.
Status check_size(const Array& data, std::size_t count) {
  if (count <= data.number_of_slots()) return {};
  return invalid_argument("its shape has ", counted(count, "element"), ", its data fewer");
}

void append_element(bool value, std::string& json) {
  json += value ? "true" : "false";
}

template <typename T>
void append_element(T value, std::string& json) {
  if constexpr (std::floating_point<T>) {
    // Who reads "-0" as an integer loses the sign.
    if (value == 0 && std::signbit(value)) {
      json += "-0.0";
      return;
    }
  }
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  json.append(digits.data(), end);
}

template <typename T>
Status append_all(const Tensor& tensor, std::string& json) {
  bool first = true;
  for (const T value : tensor.as<T>()) {
    if constexpr (std::floating_point<T>) {
      if (!std::isfinite(value)) {
        return invalid_argument("holds ", std::isnan(value) ? "NaN" : "an infinity",
                                ", which JSON cannot; ask for it with 'binary_data': true");
      }
    }
    if (!std::exchange(first, false)) json += ',';
    append_element(value, json);
  }
  return {};
}

Status append_strings(const Tensor& tensor, std::string& json) {
  bool first = true;
  for (const auto& value : tensor.strings()) {
    const auto text = json_string(value);
    if (!text) {
      return invalid_argument(
          "holds bytes that are not UTF-8, which JSON cannot; ask for it with 'binary_data': true");
    }
    if (!std::exchange(first, false)) json += ',';
    json += *text;
  }
  return {};
}

Status append_any(const Tensor& tensor, std::string& json) {
  switch (tensor.dtype()) {
    case DType::kString:
      return append_strings(tensor, json);
    case DType::kBool:
      return append_all<bool>(tensor, json);
    case DType::kU8:
      return append_all<std::uint8_t>(tensor, json);
    case DType::kU16:
      return append_all<std::uint16_t>(tensor, json);
    case DType::kU32:
      return append_all<std::uint32_t>(tensor, json);
    case DType::kU64:
      return append_all<std::uint64_t>(tensor, json);
    case DType::kI8:
      return append_all<std::int8_t>(tensor, json);
    case DType::kI16:
      return append_all<std::int16_t>(tensor, json);
    case DType::kI32:
      return append_all<std::int32_t>(tensor, json);
    case DType::kI64:
      return append_all<std::int64_t>(tensor, json);
    case DType::kF32:
      return append_all<float>(tensor, json);
    case DType::kF64:
      return append_all<double>(tensor, json);
    default:
      return invalid_argument("is ", datatype_of(tensor.dtype()),
                              ", which JSON cannot hold; ask for it with 'binary_data': true");
  }
}

}  // namespace

Result<Tensor> tensor_of(const Array& data, DType dtype, std::vector<std::int64_t> dims) {
  PENSTOCK_TRY(const std::size_t count, count_elements(dims));
  PENSTOCK_CHECK_OK(check_size(data, count));
  if (dtype == DType::kString) {
    std::vector<std::string> values(count);
    PENSTOCK_CHECK_OK(Filler<std::string>(values, dims).fill(data));
    return Tensor::strings(std::move(dims), std::move(values));
  }
  Tensor tensor = Tensor::allocate(dtype, std::move(dims));
  PENSTOCK_CHECK_OK(fill_any(tensor, data));
  return tensor;
}

Status append_data(const Tensor& tensor, std::string& json) {
  json += '[';
  PENSTOCK_CHECK_OK(append_any(tensor, json));
  json += ']';
  return {};
}

}  // namespace penstock::rest
