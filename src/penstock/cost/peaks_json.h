// Peaks as JSON: the one form in which a program, a process that measures and Python have them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/cost/machine.h"
#include "penstock/cost/peaks.h"

namespace penstock::cost {

/// {"fp32": [{"name", "flops_per_second"}], "reading": [{"name", "bytes", "bytes_per_second"}]};
/// the bytes of memory, which has no end, are null.
std::string to_json(const Peaks& peaks);
/// \error kInvalidArgument  not such a text
Result<Peaks> peaks_from_json(std::string_view text);

/// A list of those, each with its "device".
std::string to_json(const std::vector<DevicePeaks>& machine);

}  // namespace penstock::cost
