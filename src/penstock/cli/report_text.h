// A build's report for people.
#pragma once

#include <string>

#include "penstock/tune/report.h"

namespace penstock::cli {

/// The ways that were measured, the partitions with what was tried, and the reasons.
/// `measured_now`: in the build that prints it, which recalled none of it.
std::string report_text(const tune::Report& report, bool measured_now);

}  // namespace penstock::cli
