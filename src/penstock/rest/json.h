// JSON as clients send it, read strictly.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <simdjson.h>

#include "penstock/base/result.h"

namespace penstock::rest {

using Element = simdjson::dom::element;
using Object = simdjson::dom::object;
using Array = simdjson::dom::array;

/// Brackets that may be open at one place.
inline constexpr std::size_t kMostOpen = 100;

/// The object that `text` is, which lives as long as the parser. There must be http::Body::kPadding
/// bytes behind the text. \error kInvalidArgument
Result<Object> parse_object(simdjson::dom::parser& parser, std::string_view text);

/// "a number", "null", for sentences.
std::string_view kind_of(const Element& element);

/// Empty where the object has no such field, or null, as clients write it who name every field of
/// the protocol. \error kInvalidArgument  it is of another kind.
Result<std::optional<std::string>> string_field(const Object& object, std::string_view name);
Result<std::optional<std::uint64_t>> number_field(const Object& object, std::string_view name);
Result<std::optional<bool>> bool_field(const Object& object, std::string_view name);
Result<std::optional<Object>> object_field(const Object& object, std::string_view name);
Result<std::optional<Array>> array_field(const Object& object, std::string_view name);

/// As string_field(). \error kInvalidArgument  it is missing, too.
Result<std::string> needed_string(const Object& object, std::string_view name);

/// A JSON string. Empty where `text` is not UTF-8.
std::optional<std::string> json_string(std::string_view text);

}  // namespace penstock::rest
