// The models' statistics as Prometheus reads them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "penstock/metrics/families.h"
#include "penstock/serve/statistics.h"

namespace penstock::rest {

/// Triton's names where there are such; and what the process takes. `more` adds what it likes.
std::string metrics_text(const std::vector<serve::ModelStatistics>& models,
                         const std::function<void(metrics::Families&)>& more = nullptr);

}  // namespace penstock::rest
