// How deep a JSON text may nest.
// Code that walks a document recurses: a text of a million brackets would end the process.
#pragma once

#include <string_view>

#include "penstock/base/result.h"

namespace penstock {

inline constexpr int kMostNested = 200;  ///< Brackets that may be open at one place.

/// Looks at brackets outside of strings, and at nothing else of JSON.
/// \error kDataLoss  more than kMostNested are open somewhere: "at line 1, column 201: ..."
Status check_nesting(std::string_view json);

}  // namespace penstock
