// A JSON text as a value that is destroyed without allocating.
#pragma once

#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "penstock/base/result.h"

namespace penstock::plan {

using Json = nlohmann::json;

/// Owns the value of a JSON text. nlohmann::json allocates while it destroys a list or an object
/// that has members, and ends the process where there is no memory for that. A Document empties its
/// value from the leaves up; destroying what is empty allocates nothing.
class Document {
 public:
  /// \error kDataLoss  deeper than check_nesting() allows, or not JSON: with line and column; or an
  ///                   object has two members of one name
  static Result<Document> parse(std::string_view text);

  Document(Document&& other) noexcept = default;
  Document& operator=(Document&&) = delete;
  Document(const Document&) = delete;
  Document& operator=(const Document&) = delete;
  ~Document();

  [[nodiscard]] const Json& value() const { return value_; }

 private:
  Document() = default;

  Json value_;
};

}  // namespace penstock::plan
