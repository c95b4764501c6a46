// Types as text.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

#include "penstock/app/app.h"

namespace penstock::app {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::optional<std::int64_t> number_in(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

bool is_symbol(std::string_view text) {
  const auto is_letter = [](unsigned char c) { return std::isalpha(c) != 0 || c == '_'; };
  return !text.empty() && is_letter(static_cast<unsigned char>(text.front())) &&
         std::ranges::all_of(text, [&](unsigned char c) {
           return is_letter(c) || std::isdigit(c) != 0 || c == '.';
         });
}

/// "3", "h", "h<=224", "?", "?<=224"
std::optional<Dim> dim_in(std::string_view text) {
  if (const auto size = number_in(text)) return Dim{*size, {}, Dim::kOpen};
  Dim dim;
  if (const auto at = text.find("<="); at != text.npos) {
    const auto bound = number_in(trimmed(text.substr(at + 2)));
    if (!bound) return std::nullopt;
    dim.bound = *bound;
    text = trimmed(text.substr(0, at));
  }
  if (text != "?" && !is_symbol(text)) return std::nullopt;
  if (text != "?") dim.symbol = text;
  return dim;
}

}  // namespace

Result<Type> parse_type(std::string_view text) {
  const auto refuse = [&] {
    return invalid_argument(
        "expected a type such as f32[1,3,224,224] or u8[h<=1080,w<=1920,3], its dimensions between "
        "commas, found '",
        text, "'");
  };
  const auto open = text.find('[');
  const auto dtype = parse_dtype(trimmed(text.substr(0, open)));
  if (!dtype || *dtype == DType::kUndefined) return refuse();
  Type type = Type::tensor(*dtype, std::vector<Dim>{});
  type.ranked = open != text.npos;
  if (!type.ranked) return type;
  if (trimmed(text).back() != ']') return refuse();
  auto rest = trimmed(text.substr(open + 1));
  rest.remove_suffix(1);
  if (trimmed(rest).empty()) return type;
  for (;;) {
    const auto comma = rest.find(',');
    const auto dim = dim_in(trimmed(rest.substr(0, comma)));
    if (!dim) return refuse();
    type.dims.push_back(*dim);
    if (comma == rest.npos) return type;
    rest = rest.substr(comma + 1);
  }
}

}  // namespace penstock::app
