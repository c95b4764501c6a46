// Plan <-> JSON ("plan.json"), versioned.
#pragma once

#include <string>
#include <string_view>

#include "penstock/plan/plan.h"

namespace penstock::plan {

/// Deterministic: the same plan gives the same text. Indented, diffable.
std::string to_json(const Plan& plan);

/// Parses and validates. to_json(*from_json(text)) == text for text made by to_json.
/// \error kDataLoss            not JSON: line and column.
/// \error kInvalidArgument     a field is missing or of the wrong type (names it), or validate().
/// \error kFailedPrecondition  made by another version: which, and what to do.
Result<Plan> from_json(std::string_view text);

}  // namespace penstock::plan
