// Reading YAML field by field: the first thing wrong is kept, with its file and line.
#pragma once

#include <algorithm>
#include <concepts>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/base/result.h"

namespace YAML {
class Node;
}

namespace penstock::yaml {

/// One place in a document. Every reader returns a harmless default once something was wrong, so
/// that code reads as a list of fields; read_document() looks at the error at the end.
class Field {
 public:
  /// The file and its line.
  [[nodiscard]] std::vector<Where> place() const;

  void fail(const std::string& what, Code code = Code::kInvalidArgument) const;
  void fail_expected(std::string_view expected) const;

  [[nodiscard]] bool is_nothing() const;
  [[nodiscard]] bool is_mapping() const;
  [[nodiscard]] bool is_list() const;

  /// Empty where there is none.
  [[nodiscard]] std::string scalar() const;
  [[nodiscard]] std::string string() const;
  /// A value as parse_literal() reads it: a scalar, or lists of them.
  [[nodiscard]] std::string literal() const;
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] double positive() const;  ///< From 0.001 to 1e12.
  [[nodiscard]] int integer(int lowest, int highest) const;
  [[nodiscard]] std::vector<std::string> strings() const;
  /// A file, or a folder, that is there: taken from the document's folder on, and of the folder
  /// that read_document() was given, if it was given one.
  [[nodiscard]] std::filesystem::path existing_path() const;

  /// The elements of a list.
  template <typename Read>
  void each(Read read) const {
    for (const auto& item : items()) {
      if (!*error_) read(item);
    }
  }

  /// The fields of a mapping, in the file's order: read(name, field).
  template <typename Read>
  void each_named(Read read) const {
    for (const auto& [name, field] : named()) {
      if (!*error_) read(name, field);
    }
  }

  /// Refuses fields of other names: a misspelt one would be ignored else.
  void only(std::initializer_list<std::string_view> names) const;
  [[nodiscard]] std::optional<Field> find(std::string_view name) const;

  /// What a parser made of the text, or its error with the line before it.
  template <typename T>
  T take(Result<T> parsed) const {
    if (parsed) return *std::move(parsed);
    fail(parsed.error().message());
    return T();
  }

 private:
  friend Status read_document(const std::filesystem::path& file, std::string_view what,
                              const std::function<void(const Field&)>& read,
                              const std::filesystem::path& folder);
  struct Document {
    std::filesystem::path file;
    std::string name;              ///< Of the file, for messages.
    std::filesystem::path folder;  ///< Empty: paths lead anywhere.
  };
  Field(const YAML::Node& value, int line, std::string path, const Document* document,
        std::optional<Error>* error);

  [[nodiscard]] std::vector<Field> items() const;
  [[nodiscard]] std::vector<std::pair<std::string, Field>> named() const;
  [[nodiscard]] std::string path_of(std::string_view name) const;
  [[nodiscard]] std::string shown() const;

  std::shared_ptr<const YAML::Node> value_;
  int line_;  // Where a message points, from 1; 0: nowhere.
  std::string path_;
  const Document* document_;  // Both are read_document()'s, which outlives every Field.
  std::optional<Error>* error_;
};

/// Reads a file of one document. `what` it should be, for messages: "application". `folder`, where
/// not empty, is all that its paths may name, links followed: of what lies elsewhere it is not even
/// told whether it is there.
/// \error kNotFound         no such file, or no file that one of its fields names.
/// \error kInvalidArgument  no YAML, or the first thing that `read` finds wrong: names the line.
Status read_document(const std::filesystem::path& file, std::string_view what,
                     const std::function<void(const Field&)>& read,
                     const std::filesystem::path& folder = {});

}  // namespace penstock::yaml
