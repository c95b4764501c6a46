// What a ready-made function was told: its settings, read and checked.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/ready/ready.h"

namespace penstock::ready {

/// Of a picture, in pixels.
struct Size {
  std::int64_t height = 0, width = 0;
};

class Values {
 public:
  /// \error  as make() says.
  static Result<Values> read(const Declaration& declaration, const function::Settings& settings);

  /// Whether somebody said it.
  [[nodiscard]] bool given(std::string_view name) const { return given_.contains(name); }

  // \pre the function declares a setting of that name and kind.
  [[nodiscard]] std::int64_t integer(std::string_view name) const;
  [[nodiscard]] double number(std::string_view name) const;
  [[nodiscard]] std::vector<float> numbers(std::string_view name) const;
  [[nodiscard]] Size size(std::string_view name) const;
  [[nodiscard]] bool flag(std::string_view name) const;
  [[nodiscard]] const std::string& word(std::string_view name) const;
  [[nodiscard]] const std::vector<Dim>& shape(std::string_view name) const;

 private:
  struct Value {
    std::string text;
    std::vector<double> numbers;
    std::vector<Dim> dims;
  };
  static Result<Value> read_one(const Setting& setting, const std::string& text);
  [[nodiscard]] const Value& at(std::string_view name) const { return values_.find(name)->second; }

  std::map<std::string, Value, std::less<>> values_;
  std::set<std::string, std::less<>> given_;
};

}  // namespace penstock::ready
