// The models' statistics as Prometheus reads them.
#pragma once

#include <string>
#include <vector>

#include "penstock/serve/statistics.h"

namespace penstock::rest {

/// Triton's names where there are such.
std::string metrics_text(const std::vector<serve::ModelStatistics>& models);

}  // namespace penstock::rest
