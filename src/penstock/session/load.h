// A package from disk, for whoever compiles its stages.
#pragma once

#include <filesystem>

#include "penstock/base/result.h"
#include "penstock/plan/package.h"

namespace penstock {

/// plan::load_package(). \error as it, and as graph::check_external_files() of a stage's model.
Result<plan::Package> load_package(const std::filesystem::path& path);

}  // namespace penstock
