// A build's report for people.
#pragma once

#include <string>
#include <string_view>

#include "penstock/tune/report.h"

namespace penstock::cli {

/// The ways that were measured, the partitions with what was tried, and the reasons.
/// `advice`: what to do where a simple way is faster than the chosen plan.
std::string report_text(const tune::Report& report, std::string_view advice);

/// Of a report that was not measured now.
inline constexpr std::string_view kMeasureAgain = "--refresh measures all again";

}  // namespace penstock::cli
