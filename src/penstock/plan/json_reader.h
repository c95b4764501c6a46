// Reading JSON field by field; the first thing wrong is kept with its path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/plan/document.h"

namespace penstock::plan {

/// One place in a document. Every reader returns a harmless default once something was wrong, so
/// that code reads as a list of fields; whoever began looks at the error at the end.
class Field {
 public:
  Field(const Json& value, std::string path, std::optional<Error>& error)
      : value_(&value), path_(std::move(path)), error_(&error) {}

  void fail(std::string_view expected) const;
  void fail_missing(std::string_view name) const;

  /// Refuses fields that this version does not know: a misspelt one would be ignored else.
  void only(std::initializer_list<std::string_view> names) const;

  [[nodiscard]] std::optional<Field> find(std::string_view name) const;
  /// The field of this name: required.
  [[nodiscard]] Field at(std::string_view name) const;

  [[nodiscard]] std::string string() const;
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] double number() const;
  [[nodiscard]] std::int64_t integer(std::int64_t lowest, std::int64_t highest) const;

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
  [[nodiscard]] std::string path_of(std::string_view name) const;
  [[nodiscard]] std::string shown() const;

  const Json* value_;
  std::string path_;
  std::optional<Error>* error_;  // The reader's, who outlives every Field.
};

}  // namespace penstock::plan
