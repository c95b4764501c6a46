// What a user names to be run: a package, an application or a bare model.
#pragma once

#include <filesystem>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/function/function.h"
#include "penstock/plan/package.h"

namespace penstock::app {

/// An application as a package in a temporary folder; its nodes' libraries are opened to read what
/// they declare, unless `native_code` is false. `functions`: what it calls by name. \error as
/// read_yaml() and pack().
Result<plan::Package> load_application(const std::filesystem::path& file, bool native_code,
                                       const backend::Registry& backends,
                                       const std::vector<function::Function>& functions = {});

/// A package from disk. \error as penstock::load_package(); kPermissionDenied  it has libraries,
/// and `native_code` is false.
Result<plan::Package> load_package(const std::filesystem::path& path, bool native_code);

/// Whichever identify() says; a bare model as one replica for each CPU. \error as those of each
Result<plan::Package> load_source(const std::filesystem::path& path, bool native_code,
                                  const backend::Registry& backends,
                                  const std::vector<function::Function>& functions = {});

/// The error of a start of what the user named `path`, whose package he does not see.
Error in_users_words(Error error, const std::filesystem::path& path, const plan::Plan& plan);

}  // namespace penstock::app
