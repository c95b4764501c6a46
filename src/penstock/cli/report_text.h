// A build's report for people.
#pragma once

#include <string>

#include "penstock/tune/report.h"

namespace penstock::cli {

/// The ways that were measured, the partitions with what was tried, and the reasons.
std::string report_text(const tune::Report& report);

}  // namespace penstock::cli
