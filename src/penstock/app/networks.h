// The networks of an application that are built by measurement. Internal to app.
#pragma once

#include <memory>
#include <vector>

#include "penstock/app/recording.h"
#include "penstock/app/tuning.h"
#include "penstock/plan/package.h"
#include "penstock/tune/report.h"

namespace penstock::app {

struct BuiltNetworks {
  plan::Package package;                           ///< The application with them in their places.
  std::vector<std::shared_ptr<const void>> files;  ///< Theirs, as long as these live.
};

/// Builds each network that says nothing of how it is split, on what came to it, by the share of
/// the time that it takes as it is written. The report counts what is measured.
/// \error as build_model(), with the node's place.
Result<BuiltNetworks> build_networks(const Tuning& tuning, const plan::Package& written,
                                     const Recording& recording, tune::Report& report);

}  // namespace penstock::app
