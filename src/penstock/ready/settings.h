// Settings as the families declare them, a line each.
#pragma once

#include <string_view>

#include "penstock/ready/ready.h"

namespace penstock::ready {

// `usual` empty: it has to be given; then shown_as() says what documents show.

inline Setting whole(std::string_view name, std::string_view usual, std::string_view says,
                     double highest, double lowest = 1) {
  return {.name = name, .usual = usual, .says = says, .lowest = lowest, .highest = highest};
}

inline Setting number(std::string_view name, std::string_view usual, std::string_view says,
                      double lowest, double highest) {
  auto setting = whole(name, usual, says, highest, lowest);
  setting.kind = Setting::Kind::kNumber;
  return setting;
}

inline Setting numbers(std::string_view name, std::string_view usual, std::string_view says,
                       double lowest, double highest) {
  auto setting = whole(name, usual, says, highest, lowest);
  setting.kind = Setting::Kind::kNumbers;
  return setting;
}

inline Setting flag(std::string_view name, std::string_view usual, std::string_view says) {
  return {.name = name, .kind = Setting::Kind::kFlag, .usual = usual, .says = says};
}

inline Setting word(std::string_view name, std::string_view usual, std::string_view says,
                    std::string_view words) {
  return {.name = name, .kind = Setting::Kind::kWord, .usual = usual, .says = says, .words = words};
}

inline Setting shown_as(std::string_view shown, Setting setting) {
  setting.shown = shown;
  return setting;
}

inline Setting shape_of(std::string_view says) {
  return {.name = "shape", .kind = Setting::Kind::kShape, .says = says, .shown = "1,1000"};
}

}  // namespace penstock::ready
