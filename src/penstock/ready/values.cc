// Settings come as text, from YAML, Python and plans alike; each is read as its declaration says.
#include "penstock/ready/values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "penstock/base/near_names.h"

namespace penstock::ready {
namespace {

using Kind = Setting::Kind;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '[')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == ']')) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  for (text = trimmed(text);;) {
    const auto comma = text.find(',');
    parts.push_back(trimmed(text.substr(0, comma)));
    if (comma == text.npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

std::optional<double> number_in(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number)) {
    return std::nullopt;
  }
  return number;
}

std::optional<std::vector<double>> numbers_in(const Setting& setting, std::string_view text) {
  const bool whole = setting.kind == Kind::kInteger || setting.kind == Kind::kSize;
  std::vector<double> numbers;
  for (const auto part : parts_of(text)) {
    const auto number = number_in(part);
    if (!number || *number < setting.lowest || *number > setting.highest) return std::nullopt;
    if (whole && *number != std::floor(*number)) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

bool is_count_right(const Setting& setting, std::size_t count) {
  if (setting.kind == Kind::kNumbers) return count >= setting.least;
  return setting.kind == Kind::kSize ? count <= 2 : count == 1;
}

/// "300", or "n<=300".
std::optional<Dim> dim_in(std::string_view text) {
  Dim dim;
  const auto at = text.find("<=");
  const auto size = number_in(at == text.npos ? text : trimmed(text.substr(at + 2)));
  constexpr double kMost = 1e9;
  if (!size || *size < 1 || *size > kMost || *size != std::floor(*size)) return std::nullopt;
  const auto whole = static_cast<std::int64_t>(*size);
  if (at == text.npos) return Dim{whole, {}, Dim::kOpen};
  const auto symbol = trimmed(text.substr(0, at));
  if (symbol.empty()) return std::nullopt;
  return Dim{Dim::kOpen, std::string(symbol), whole};
}

/// "300", or "-1" for the rest.
std::optional<Dim> dim_or_rest(std::string_view text) {
  if (text == "-1") return Dim{};
  return text.find('<') == text.npos ? dim_in(text) : std::nullopt;
}

std::optional<std::vector<Dim>> dims_in(const Setting& setting, std::string_view text) {
  const bool reshapes = setting.kind == Kind::kReshape;
  std::vector<Dim> dims;
  for (const auto part : parts_of(text)) {
    const auto dim = reshapes ? dim_or_rest(part) : dim_in(part);
    if (!dim) return std::nullopt;
    const auto is_rest = [](const Dim& other) { return !other.fixed(); };
    if (reshapes && is_rest(*dim) && std::ranges::any_of(dims, is_rest)) return std::nullopt;
    dims.push_back(*dim);
  }
  return dims;
}

std::vector<std::string> words_of(const Setting& setting) {
  std::vector<std::string> words;
  for (auto rest = setting.words;;) {
    const auto bar = rest.find('|');
    words.emplace_back(rest.substr(0, bar));
    if (bar == rest.npos) return words;
    rest.remove_prefix(bar + 1);
  }
}

/// Whole numbers in full: 1000000, not 1e+06.
std::string plain(double number) {
  return number == std::floor(number) ? concat(static_cast<std::int64_t>(number)) : concat(number);
}

std::string range_of(const Setting& setting) {
  return concat(" from ", plain(setting.lowest), " to ", plain(setting.highest));
}

std::string quoted(const std::string& name) {
  return "'" + name + "'";
}

Error refused(const Setting& setting, const std::string& text) {
  return invalid_argument("setting '", setting.name, "': expected ", expected(setting), ", found '",
                          text, "'");
}

Error unknown_setting(const Declaration& declaration, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& setting : declaration.settings) names.emplace_back(setting.name);
  return not_found("no setting '", name, "'", did_you_mean(name, names),
                   "; there are: ", names.empty() ? "none" : join(names, ", ", quoted));
}

}  // namespace

std::string expected(const Setting& setting) {
  switch (setting.kind) {
    case Kind::kInteger:
      return "a whole number" + range_of(setting);
    case Kind::kNumber:
      return "a number" + range_of(setting);
    case Kind::kNumbers:
      return concat(setting.least == 1 ? "one number" : concat(setting.least, " numbers"),
                    " or more,", range_of(setting));
    case Kind::kSize:
      return concat("height and width, such as 480,640, or one number for both,",
                    range_of(setting));
    case Kind::kFlag:
      return "true or false";
    case Kind::kWord:
      return "one of " + join(words_of(setting), ", ", quoted);
    case Kind::kShape:
      return "dimensions such as 1,1000 or n<=300,4";
    case Kind::kReshape:
      return "dimensions such as 1,-1,512, one of them perhaps -1, which is what the others leave";
  }
  return "";
}

Result<Values::Value> Values::read_one(const Setting& setting, const std::string& text) {
  Value value{text, {}, {}};
  if (setting.kind == Kind::kFlag || setting.kind == Kind::kWord) {
    // Python writes True, YAML true.
    if (text == "True") value.text = "true";
    if (text == "False") value.text = "false";
    const auto words =
        setting.kind == Kind::kFlag ? std::vector<std::string>{"true", "false"} : words_of(setting);
    if (std::ranges::find(words, value.text) == words.end()) return refused(setting, text);
  } else if (setting.kind == Kind::kShape || setting.kind == Kind::kReshape) {
    auto dims = dims_in(setting, text);
    if (!dims) return refused(setting, text);
    value.dims = *std::move(dims);
  } else {
    auto numbers = numbers_in(setting, text);
    if (!numbers || !is_count_right(setting, numbers->size())) return refused(setting, text);
    value.numbers = *std::move(numbers);
  }
  return value;
}

Result<Values> Values::read(const Declaration& declaration, const function::Settings& settings) {
  for (const auto& [name, text] : settings) {
    const auto known = std::ranges::find(declaration.settings, name, &Setting::name);
    if (known == declaration.settings.end()) return unknown_setting(declaration, name);
  }
  Values values;
  for (const auto& setting : declaration.settings) {
    const std::string name(setting.name);
    const auto given = settings.find(name);
    if (given == settings.end() && setting.usual.empty()) {
      return invalid_argument("setting '", name, "' is missing: ", setting.says, " Expected ",
                              expected(setting));
    }
    if (given != settings.end()) values.given_.insert(name);
    PENSTOCK_TRY(
        values.values_[name],
        read_one(setting, given == settings.end() ? std::string(setting.usual) : given->second));
  }
  return values;
}

std::int64_t Values::integer(std::string_view name) const {
  return static_cast<std::int64_t>(at(name).numbers.front());
}

double Values::number(std::string_view name) const {
  return at(name).numbers.front();
}

std::vector<float> Values::numbers(std::string_view name) const {
  std::vector<float> numbers;
  for (const auto number : at(name).numbers) numbers.push_back(static_cast<float>(number));
  return numbers;
}

Size Values::size(std::string_view name) const {
  const auto& numbers = at(name).numbers;
  return {static_cast<std::int64_t>(numbers.front()), static_cast<std::int64_t>(numbers.back())};
}

bool Values::flag(std::string_view name) const {
  return at(name).text == "true";
}

const std::string& Values::word(std::string_view name) const {
  return at(name).text;
}

const std::vector<Dim>& Values::shape(std::string_view name) const {
  return at(name).dims;
}

}  // namespace penstock::ready
