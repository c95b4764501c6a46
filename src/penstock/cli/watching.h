// --page, --record and --metrics: a pipeline that others may look at while it runs.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "penstock/gateway/watching.h"
#include "penstock/plan/package.h"

namespace penstock::cli {

struct WatchArguments {
  std::string page;              ///< HOST:PORT; empty: none.
  std::filesystem::path record;  ///< Empty: none.
  std::string metrics;           ///< HOST:PORT; empty: none.
  bool insecure = false;
  std::filesystem::path tokens;
};

void add_watch_options(CLI::App* command, WatchArguments& arguments);

/// What shows a pipeline until it is destroyed.
using Watchers = std::vector<std::unique_ptr<gateway::Watching>>;

/// Tells on standard error where. `package`: what runs.
/// \error  as gateway::start_watching(), with the option's name.
Result<Watchers> watch(const WatchArguments& arguments, const plan::Package& package,
                       const std::shared_ptr<const pipeline::Pipeline>& pipeline);

/// Tells those who look that it is over. \error  the recording cannot be written.
Status stop(const Watchers& watchers);

}  // namespace penstock::cli
