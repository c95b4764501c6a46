// What any running pipeline exports, served or not.
#pragma once

#include "penstock/metrics/families.h"
#include "penstock/pipeline/stats.h"

namespace penstock::metrics {

/// Its frames by how they came out, and of each stage and edge what pipeline::Stats has; all names
/// begin with `penstock_`. `labels` say which pipeline it is.
void add_pipeline(Families& families, const Labels& labels, const pipeline::Stats& stats);

/// How long its frames took from push to pop.
void add_latency(Families& families, const Labels& labels, const pipeline::Quantiles& latency);

}  // namespace penstock::metrics
