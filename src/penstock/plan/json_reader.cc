// Checks the type and range of each field and says what was expected there and what was found.
#include "penstock/plan/json_reader.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace penstock::plan {

void Field::fail(std::string_view expected) const {
  if (*error_) return;
  *error_ = invalid_argument(path_.empty() ? "the document" : path_, ": expected ", expected,
                             ", found ", shown());
}

void Field::fail_missing(std::string_view name) const {
  if (*error_) return;
  *error_ = invalid_argument(path_of(name), ": missing");
}

void Field::only(std::initializer_list<std::string_view> names) const {
  if (!value_->is_object()) return fail("an object");
  for (const auto& [name, ignored] : value_->items()) {
    if (std::ranges::find(names, name) != names.end() || *error_) continue;
    *error_ =
        invalid_argument(path_of(name), ": unknown field; expected one of ", join(names, ", "));
  }
}

std::optional<Field> Field::find(std::string_view name) const {
  if (!value_->is_object()) return std::nullopt;
  const auto at = value_->find(name);
  if (at == value_->end()) return std::nullopt;
  return Field(*at, path_of(name), *error_);
}

Field Field::at(std::string_view name) const {
  if (auto field = find(name)) return *field;
  value_->is_object() ? fail_missing(name) : fail("an object");
  static const Json kNull;
  return {kNull, path_of(name), *error_};
}

std::string Field::string() const {
  if (!value_->is_string()) return fail("a string"), std::string();
  return value_->get<std::string>();
}

bool Field::boolean() const {
  if (!value_->is_boolean()) return fail("true or false"), false;
  return value_->get<bool>();
}

double Field::number() const {
  if (!value_->is_number()) return fail("a number"), 0;
  return value_->get<double>();
}

std::int64_t Field::integer(std::int64_t lowest, std::int64_t highest) const {
  const auto refuse = [&] {
    fail(concat("an integer from ", lowest, " to ", highest));
    return lowest;
  };
  if (!value_->is_number_integer()) return refuse();
  if (value_->is_number_unsigned() &&
      value_->get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
    return refuse();
  }
  const auto number = value_->get<std::int64_t>();
  return number < lowest || number > highest ? refuse() : number;
}

std::string Field::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : concat(path_, ".", name);
}

std::string Field::shown() const {
  constexpr std::size_t kMost = 60;
  if (value_->is_object()) return "an object";
  if (value_->is_array()) return "a list";
  if (!value_->is_string()) return value_->dump(-1, ' ', false, Json::error_handler_t::replace);
  const auto& text = value_->get_ref<const std::string&>();
  return "'" + (text.size() > kMost ? text.substr(0, kMost) + "..." : text) + "'";
}

}  // namespace penstock::plan
