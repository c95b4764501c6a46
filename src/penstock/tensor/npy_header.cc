// Parses the Python dictionary that NumPy writes, and prints one padded to 64 bytes.
#include "penstock/tensor/npy_header.h"

#include <charconv>
#include <optional>

namespace penstock {
namespace {

/// Reads the one form that NumPy writes: {'descr': '<f4', 'fortran_order': False, 'shape': (2,)}.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<NpyHeader> parse() {
    NpyHeader header;
    if (!take('{')) return damaged();
    while (!take('}')) {
      auto key = quoted();
      if (!key || !take(':')) return damaged();
      PENSTOCK_CHECK_OK(parse_item(*key, header));
      if (!take(',') && !next_is('}')) return damaged();
    }
    skip();
    if (seen_ != 7 || !text_.empty()) return damaged();
    return header;
  }

 private:
  static Error damaged() {
    return make_error(Code::kDataLoss,
                      "its header is not one of a .npy file: expected {'descr': ..., "
                      "'fortran_order': ..., 'shape': ...}; save the array again with numpy.save");
  }

  void skip() {
    const auto at = text_.find_first_not_of(" \t\n\r\f\v");
    text_.remove_prefix(at == std::string_view::npos ? text_.size() : at);
  }
  bool next_is(char c) {
    skip();
    return !text_.empty() && text_.front() == c;
  }
  bool take(char c) {
    if (!next_is(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool take(std::string_view word) {
    skip();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }

  std::optional<std::string_view> quoted() {
    skip();
    if (text_.empty() || (text_.front() != '\'' && text_.front() != '"')) return std::nullopt;
    const auto end = text_.find(text_.front(), 1);
    if (end == std::string_view::npos) return std::nullopt;
    const auto inside = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return inside;
  }

  std::optional<std::int64_t> dimension() {
    skip();
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (error != std::errc{} || value < 0) return std::nullopt;
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return value;
  }

  Status parse_item(std::string_view key, NpyHeader& header) {
    const int bit = key == "descr" ? 1 : key == "fortran_order" ? 2 : key == "shape" ? 4 : 0;
    if (bit == 0 || (seen_ & bit) != 0) return damaged();
    seen_ |= bit;
    if (bit == 1) return parse_description(header.description);
    if (bit == 4) return parse_shape(header.dims);
    header.fortran_order = take("True");
    if (!header.fortran_order && !take("False")) return damaged();
    return {};
  }

  Status parse_description(NpyDescription& description) {
    if (next_is('[')) {
      return invalid_argument(
          "holds records: expected an array of numbers, booleans or texts; save each field as an "
          "array of its own");
    }
    auto text = quoted();
    if (!text || text->size() < 2) return damaged();
    if (std::string_view("<>=|").find(text->front()) != std::string_view::npos) {
      description.order = text->front();
      text->remove_prefix(1);
    }
    description.kind = text->front();
    text->remove_prefix(1);
    if (description.kind == 'O' && text->empty()) return {};
    const char* end = text->data() + text->size();
    const auto [at, error] = std::from_chars(text->data(), end, description.size);
    if (error != std::errc{}) return damaged();
    if (at != end) {
      return invalid_argument("holds values of type '", description.kind, *text,
                              "': expected numbers, booleans or texts");
    }
    return {};
  }

  Status parse_shape(std::vector<std::int64_t>& dims) {
    constexpr std::size_t kMostDims = 64;
    if (!take('(')) return damaged();
    while (!take(')')) {
      const auto size = dimension();
      if (!size || dims.size() == kMostDims) return damaged();
      dims.push_back(*size);
      take('L');  // Python 2 wrote long integers so.
      if (!take(',') && !next_is(')')) return damaged();
    }
    return {};
  }

  std::string_view text_;
  int seen_ = 0;  // One bit for each key.
};

}  // namespace

Result<NpyHeader> parse_npy_header(std::string_view text) {
  return Parser(text).parse();
}

std::string print_npy_header(std::string_view description, const std::vector<std::int64_t>& dims) {
  std::string shape = join(dims, ", ", [](std::int64_t dim) { return std::to_string(dim); });
  if (dims.size() == 1) shape += ",";
  std::string text =
      concat("{'descr': '", description, "', 'fortran_order': False, 'shape': (", shape, "), }");
  constexpr std::size_t kPrefix = 10;  // Magic, version, length.
  const auto unpadded = kPrefix + text.size() + 1;
  text.append((64 - unpadded % 64) % 64, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 0xFFU);
  header += static_cast<char>(text.size() >> 8U);
  return header + text;
}

}  // namespace penstock
