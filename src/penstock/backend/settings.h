// Whether a backend takes settings, before anything is imported or written with them.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "penstock/backend/backend.h"

namespace penstock::backend {

/// Compiles a model of one node with `options` and `custom_ops`. Fine where they are empty, where
/// the engine is not there, and where this machine cannot do what they ask: a package may be made
/// for another.
/// \error kInvalidArgument, kNotFound  of Backend::compile(): an option or a library is wrong.
Status check_settings(Backend& backend, const std::map<std::string, std::string>& options,
                      const std::vector<std::filesystem::path>& custom_ops);

}  // namespace penstock::backend
