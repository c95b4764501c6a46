// A build's report for people.
#pragma once

#include <string>

#include "penstock/build/report.h"

namespace penstock::cli {

/// The ways that were measured, the partitions with what was tried, and the reasons.
std::string report_text(const build::Report& report);

}  // namespace penstock::cli
