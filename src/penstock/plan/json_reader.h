// Reading JSON field by field; the first thing wrong is kept with its path.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "penstock/base/error.h"

namespace penstock::plan {

using Json = nlohmann::ordered_json;

/// One place in a document. Every reader returns a harmless default once something was wrong, so
/// that code reads as a list of fields; whoever began looks at the error at the end.
class Field {
 public:
  Field(const Json& value, std::string path, std::optional<Error>& error)
      : value_(&value), path_(std::move(path)), error_(&error) {}

  void fail(std::string_view expected) const {
    if (*error_) return;
    *error_ = invalid_argument(path_.empty() ? "the document" : path_, ": expected ", expected,
                               ", found ", shown());
  }
  void fail_missing(std::string_view name) const {
    if (*error_) return;
    *error_ = invalid_argument(path_of(name), ": missing");
  }

  /// Refuses fields that this version does not know: a misspelt one would be ignored else.
  void only(std::initializer_list<std::string_view> names) const {
    if (!value_->is_object()) return fail("an object");
    for (const auto& [name, ignored] : value_->items()) {
      if (std::ranges::find(names, name) != names.end() || *error_) continue;
      *error_ =
          invalid_argument(path_of(name), ": unknown field; expected one of ", join(names, ", "));
    }
  }

  [[nodiscard]] std::optional<Field> find(std::string_view name) const {
    if (!value_->is_object()) return std::nullopt;
    const auto at = value_->find(name);
    if (at == value_->end()) return std::nullopt;
    return Field(*at, path_of(name), *error_);
  }

  /// The field of this name: required.
  [[nodiscard]] Field at(std::string_view name) const {
    if (auto field = find(name)) return *field;
    value_->is_object() ? fail_missing(name) : fail("an object");
    static const Json kNull;
    return {kNull, path_of(name), *error_};
  }

  [[nodiscard]] std::string string() const {
    if (!value_->is_string()) return fail("a string"), std::string();
    return value_->get<std::string>();
  }

  [[nodiscard]] bool boolean() const {
    if (!value_->is_boolean()) return fail("true or false"), false;
    return value_->get<bool>();
  }

  [[nodiscard]] double number() const {
    if (!value_->is_number()) return fail("a number"), 0;
    return value_->get<double>();
  }

  [[nodiscard]] std::int64_t integer(std::int64_t lowest, std::int64_t highest) const {
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

  /// The elements of a list.
  template <typename Read>
  void each(Read read) const {
    if (!value_->is_array()) return fail("a list");
    for (std::size_t i = 0; i < value_->size() && !*error_; ++i) {
      read(Field((*value_)[i], concat(path_, "[", i, "]"), *error_));
    }
  }

  /// The fields of an object whose names are data: read(name, field).
  template <typename Read>
  void each_named(Read read) const {
    if (!value_->is_object()) return fail("an object");
    for (const auto& [name, value] : value_->items()) {
      if (!*error_) read(name, Field(value, path_of(name), *error_));
    }
  }

  [[nodiscard]] const Json& json() const { return *value_; }

 private:
  [[nodiscard]] std::string path_of(std::string_view name) const {
    return path_.empty() ? std::string(name) : concat(path_, ".", name);
  }

  [[nodiscard]] std::string shown() const {
    constexpr std::size_t kMost = 60;
    if (value_->is_object()) return "an object";
    if (value_->is_array()) return "a list";
    if (!value_->is_string()) return value_->dump(-1, ' ', false, Json::error_handler_t::replace);
    const auto& text = value_->get_ref<const std::string&>();
    return "'" + (text.size() > kMost ? text.substr(0, kMost) + "..." : text) + "'";
  }

  const Json* value_;
  std::string path_;
  std::optional<Error>* error_;  // The reader's, who outlives every Field.
};

}  // namespace penstock::plan
