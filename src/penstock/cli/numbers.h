// Checks of numbers on the command line, with a sentence instead of a range of 309 digits.
#pragma once

#include <cmath>
#include <string>

#include <CLI/CLI.hpp>

#include "penstock/base/error.h"

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

/// A whole number from 0.
inline CLI::Validator whole_number() {
  return {[](std::string& text) -> std::string {
            std::uint64_t value = 0;
            const bool digits = text.find_first_not_of("0123456789") == std::string::npos;
            if (digits && CLI::detail::lexical_cast(text, value)) return {};
            return concat("expected a whole number from 0, found '", text, "'");
          },
          "WHOLE"};
}

/// Anything but an empty text.
inline CLI::Validator not_empty(const std::string& what) {
  return {[what](std::string& text) -> std::string {
            return text.empty() ? concat("expected ", what, ", found ''") : std::string();
          },
          ""};
}

}  // namespace penstock::cli
