// --tune: a pipeline that is kept at the plan that is the best while it runs.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include <CLI/CLI.hpp>

#include "penstock/follow/tuner.h"

namespace penstock::cli {

/// `share`: 0 without the option.
void add_tune_option(CLI::App* command, double& share);

/// Tells of each swap on standard error. Null where `share` is 0. \error as follow::Tuner::start()
Result<std::unique_ptr<follow::Tuner>> tune(
    double share, const plan::Package& package, const std::shared_ptr<pipeline::Pipeline>& pipeline,
    std::function<Status(const plan::Plan&, const std::filesystem::path&)> replace);

}  // namespace penstock::cli
