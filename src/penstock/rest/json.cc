// Parses with simdjson and reads fields by type; errors name what was expected and found.
#include "penstock/rest/json.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <system_error>
#include <type_traits>

#include <nlohmann/json.hpp>

#include "penstock/tensor/utf.h"

namespace penstock::rest {
namespace {

/// Of a number that is no whole one of 64 bits.
std::string_view kind_of_fraction(const Element& element) {
  double number = 0;
  if (element.get(number) != simdjson::SUCCESS) number = 0;
  const bool beyond = number >= 0x1p64 || number <= -0x1p63;
  return beyond ? "a number beyond 64 bits" : "a number with a fraction";
}

/// What was found where a number was expected: an integer of another range by its value.
std::string number_of(const Element& element) {
  std::int64_t value = 0;
  if (element.get(value) == simdjson::SUCCESS) return std::to_string(value);
  return std::string(kind_of(element));
}

/// Where a number that begins at `at` ends.
std::size_t end_of_number(std::string_view text, std::size_t at) {
  return std::min(text.find_first_not_of("+-.0123456789Ee", at), text.size());
}

bool is_beyond_64_bits(std::string_view number) {
  const auto overflows = [&](auto wide) {
    const char* end = number.data() + number.size();
    const auto [stop, failed] = std::from_chars(number.data(), end, wide);
    return failed == std::errc::result_out_of_range && stop == end;
  };
  return number.starts_with('-') ? overflows(std::int64_t{0}) : overflows(std::uint64_t{0});
}

/// As JavaScript writes 1e20: digits alone. simdjson takes such a number with an exponent.
std::string with_exponents(std::string_view text) {
  std::string rewritten;
  std::size_t copied = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size();) {
    const char letter = text[i];
    if (letter == '"') in_string = !in_string;
    if (in_string && letter == '\\') ++i;
    const bool number = !in_string && (letter == '-' || (letter >= '0' && letter <= '9'));
    if (!number) {
      ++i;
      continue;
    }
    const std::size_t end = end_of_number(text, i);
    if (is_beyond_64_bits(text.substr(i, end - i))) {
      rewritten.append(text.substr(copied, end - copied)).append("e0");
      copied = end;
    }
    i = end;
  }
  return rewritten.append(text.substr(copied));
}

/// `text` has room for simdjson behind its end.
simdjson::error_code parse_text(simdjson::dom::parser& parser, std::string_view text,
                                Element& root) {
  const auto failed = parser.allocate(text.size(), kMostOpen);
  if (failed != simdjson::SUCCESS) return failed;
  return parser.parse(text.data(), text.size(), false).get(root);
}

template <typename T>
Result<std::optional<T>> field(const Object& object, std::string_view name,
                               std::string_view expected) {
  std::optional<Element> found;
  for (const auto [key, element] : object) {
    if (key != name) continue;
    if (found) return invalid_argument("'", name, "': expected it once, found it twice");
    found = element;
  }
  if (!found || found->is_null()) return std::optional<T>();
  const Element element = *found;
  T value{};
  if (element.get(value) != simdjson::SUCCESS) {
    const bool number = std::is_same_v<T, std::uint64_t>;
    return invalid_argument("'", name, "': expected ", expected, ", found ",
                            number ? number_of(element) : std::string(kind_of(element)));
  }
  return std::optional<T>(value);
}

}  // namespace

Result<Object> parse_object(simdjson::dom::parser& parser, std::string_view text) {
  if (text.empty()) return invalid_argument("expected a JSON object, found nothing");
  Element root;
  auto failed = parse_text(parser, text, root);
  // Which error tells of a whole number beyond 64 bits depends on the version of simdjson.
  if (failed != simdjson::SUCCESS && failed != simdjson::MEMALLOC &&
      failed != simdjson::DEPTH_ERROR) {
    std::string rewritten = with_exponents(text);
    const std::size_t size = rewritten.size();
    rewritten.append(simdjson::SIMDJSON_PADDING, '\0');
    failed = parse_text(parser, std::string_view(rewritten).substr(0, size), root);
  }
  if (failed == simdjson::MEMALLOC) {
    return make_error(Code::kResourceExhausted, "no memory to read the JSON");
  }
  if (failed == simdjson::DEPTH_ERROR) {
    return invalid_argument("the JSON has more than ", kMostOpen, " brackets open at one place");
  }
  if (failed != simdjson::SUCCESS) {
    return invalid_argument("expected a JSON object; it is not JSON: ",
                            simdjson::error_message(failed));
  }
  Object object;
  if (root.get(object) != simdjson::SUCCESS) {
    return invalid_argument("expected a JSON object, found ", kind_of(root));
  }
  return object;
}

std::string_view kind_of(const Element& element) {
  using Type = simdjson::dom::element_type;
  switch (element.type()) {
    case Type::ARRAY:
      return "an array";
    case Type::OBJECT:
      return "an object";
    case Type::INT64:
      return "an integer";
    case Type::UINT64:
      return "an integer over 9223372036854775807";
    case Type::DOUBLE:
      return kind_of_fraction(element);
    case Type::STRING:
      return "a string";
    case Type::BOOL:
      return "true or false";
    case Type::NULL_VALUE:
      return "null";
  }
  return "something else";
}

Result<std::optional<std::string>> string_field(const Object& object, std::string_view name) {
  PENSTOCK_TRY(const auto text, field<std::string_view>(object, name, "a string"));
  return text ? std::optional<std::string>(*text) : std::nullopt;
}

Result<std::optional<std::uint64_t>> number_field(const Object& object, std::string_view name) {
  return field<std::uint64_t>(object, name, "an integer of 0 or more");
}

Result<std::optional<bool>> bool_field(const Object& object, std::string_view name) {
  return field<bool>(object, name, "true or false");
}

Result<std::optional<Object>> object_field(const Object& object, std::string_view name) {
  return field<Object>(object, name, "an object");
}

Result<std::optional<Array>> array_field(const Object& object, std::string_view name) {
  return field<Array>(object, name, "an array");
}

Result<std::string> needed_string(const Object& object, std::string_view name) {
  PENSTOCK_TRY(auto text, string_field(object, name));
  if (!text) return invalid_argument("expected a string '", name, "', found none");
  return *std::move(text);
}

std::optional<std::string> json_string(std::string_view text) {
  if (!is_utf8(text)) return std::nullopt;
  return nlohmann::json(text).dump();
}

}  // namespace penstock::rest
