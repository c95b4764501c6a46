// Rows of the cost database as JSON. Internal to cost.
#pragma once

#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/cost/records.h"

namespace penstock::cost {

/// Rows of each of tables(), in its order.
using RowsByTable = std::vector<std::vector<std::vector<Cell>>>;

/// {"version": 1, "parts": [{"model": ..., ...}], ...}
std::string print_rows(const RowsByTable& rows);

/// \error kInvalidArgument  not such a text: the place, expected and found;
///        kFailedPrecondition  of a newer version
Result<RowsByTable> parse_rows(const std::string& text);

}  // namespace penstock::cost
