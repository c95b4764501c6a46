// Numbers with units, as people write them.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

#include "penstock/base/letters.h"
#include "penstock/hosts/hosts.h"

namespace penstock::hosts {
namespace {

struct Unit {
  std::string_view name;  ///< In lower case.
  double factor;
};

/// A positive number and one of the units, whatever their case; `forms` shows how it is written.
Result<double> parse_quantity(const std::string& text, std::span<const Unit> units,
                              std::string_view forms) {
  std::string plain = lower_case(text);
  std::erase(plain, ' ');
  double value = 0;
  const auto* end = plain.data() + plain.size();
  const auto [stop, problem] = std::from_chars(plain.data(), end, value);
  const std::string_view rest(stop, static_cast<std::size_t>(end - stop));
  const auto unit = std::ranges::find(units, rest, &Unit::name);
  if (problem != std::errc() || unit == units.end() || !std::isfinite(value) || value <= 0) {
    return invalid_argument("expected ", forms, ", found '", text, "'");
  }
  return value * unit->factor;
}

}  // namespace

Result<double> parse_bandwidth(const std::string& text) {
  static constexpr Unit kUnits[] = {{"bit", 1 / 8.0},    {"bit/s", 1 / 8.0},  {"kbit", 1e3 / 8},
                                    {"kbit/s", 1e3 / 8}, {"mbit", 1e6 / 8},   {"mbit/s", 1e6 / 8},
                                    {"gbit", 1e9 / 8},   {"gbit/s", 1e9 / 8}, {"kb/s", 1e3},
                                    {"mb/s", 1e6},       {"gb/s", 1e9}};
  return parse_quantity(text, kUnits, "a bandwidth such as 200mbit, 1gbit or 25MB/s");
}

Result<double> parse_duration(const std::string& text) {
  static constexpr Unit kUnits[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};
  return parse_quantity(text, kUnits, "a time such as 0.2ms or 50us");
}

Result<double> parse_memory(const std::string& text) {
  static constexpr Unit kUnits[] = {{"", 1},     {"b", 1},      {"kb", 1e3},      {"mb", 1e6},
                                    {"gb", 1e9}, {"kib", 1024}, {"mib", 1 << 20}, {"gib", 1 << 30}};
  return parse_quantity(text, kUnits, "bytes such as 2GiB or 512MB");
}

}  // namespace penstock::hosts
