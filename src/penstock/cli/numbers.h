// Checks of numbers and words on the command line, with a sentence that shows what was found.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>

#include "penstock/base/error.h"
#include "penstock/device/device.h"

namespace penstock::cli {

/// Over 0 and at most 1e9: beyond, times and counts overflow.
inline CLI::Validator positive_number() {
  constexpr double kMost = 1e9;
  return {[](std::string& text) -> std::string {
            double value = 0;
            if (CLI::detail::lexical_cast(text, value) && value > 0 && value <= kMost) return {};
            const bool large = value > kMost;  // Infinity too.
            return concat("expected a positive number", large ? " up to 1e9" : "", ", found '",
                          text, "'");
          },
          "POSITIVE"};
}

/// From 0.
inline CLI::Validator not_negative_number() {
  return {[](std::string& text) -> std::string {
            double value = 0;
            const bool read = CLI::detail::lexical_cast(text, value);
            if (read && std::isfinite(value) && value >= 0) return {};
            return concat("expected a number from 0, found '", text, "'");
          },
          "NONNEGATIVE"};
}

/// A number from `least` to `most`.
inline CLI::Validator number_from(double least, double most) {
  return {[least, most](std::string& text) -> std::string {
            double value = 0;
            const bool read = CLI::detail::lexical_cast(text, value);
            if (read && value >= least && value <= most) return {};
            return concat("expected a number from ", least, " to ", most, ", found '", text, "'");
          },
          "NUMBER"};
}

/// A time that can be waited for.
inline CLI::Validator milliseconds() {
  constexpr double kShortest = 0.001, kLongest = 1e12;
  return {[](std::string& text) -> std::string {
            double value = 0;
            const bool read = CLI::detail::lexical_cast(text, value);
            if (read && value >= kShortest && value <= kLongest) return {};
            return concat("expected milliseconds, 0.001 to 1e12, found '", text, "'");
          },
          "MILLISECONDS"};
}

/// A whole number from `least` to `most`.
inline CLI::Validator whole_number(std::uint64_t least, std::uint64_t most) {
  return {[least, most](std::string& text) -> std::string {
            std::uint64_t value = 0;
            const auto* end = text.data() + text.size();
            const auto [stop, problem] = std::from_chars(text.data(), end, value);
            const bool read = problem == std::errc() && stop == end;
            if (read && value >= least && value <= most) return {};
            return concat("expected a whole number from ", least, " to ", most, ", found '", text,
                          "'");
          },
          "WHOLE"};
}

/// Of things to be done: beyond 1e9, times overflow.
inline CLI::Validator positive_count() {
  return whole_number(1, 1'000'000'000);
}

/// Of memory or of a file.
inline CLI::Validator positive_bytes() {
  return whole_number(1, INT64_MAX);
}

/// A word of a few.
inline CLI::Validator one_of(const std::vector<std::string>& words) {
  return {[words](std::string& text) -> std::string {
            if (std::ranges::count(words, text) != 0) return {};
            return concat("expected ", join(words, ", "), ", found '", text, "'");
          },
          "{" + join(words, ",") + "}"};
}

/// What `parse` takes, whose error is the sentence.
template <typename Parse>
CLI::Validator taken_by(Parse parse) {
  return {[parse](std::string& text) -> std::string {
            const auto read = parse(text);
            return read ? std::string() : read.error().message();
          },
          ""};
}

/// A list of devices, there or not.
inline CLI::Validator device_list() {
  return taken_by([](const std::string& text) { return device::parse_devices(text, {}); });
}

/// Anything but an empty text.
inline CLI::Validator not_empty(const std::string& what) {
  return {[what](std::string& text) -> std::string {
            return text.empty() ? concat("expected ", what, ", found ''") : std::string();
          },
          ""};
}

}  // namespace penstock::cli
