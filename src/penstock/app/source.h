// What a user names to be run: a package, an application or a bare model.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "penstock/app/bounds.h"
#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/function/function.h"
#include "penstock/graph/import.h"
#include "penstock/plan/package.h"

namespace penstock::app {

/// What a bare model is loaded with; an application and a package have their own.
struct ModelSettings {
  std::map<std::string, graph::InputValue> constants;  ///< As graph::ImportOptions has them.
  std::vector<plan::StateEdge> states;                 ///< As split_model() takes them.

  [[nodiscard]] bool empty() const { return constants.empty() && states.empty(); }
};

/// An application as a package in a temporary folder; its nodes' libraries are opened to read what
/// they declare, where they may be. `functions`: what it calls by name. \error as read_yaml(),
/// check_bounds() and pack().
Result<plan::Package> load_application(const std::filesystem::path& file, const Bounds& bounds,
                                       const backend::Registry& backends,
                                       const std::vector<function::Function>& functions = {});

/// A package from disk. \error as penstock::load_package() and check_bounds()
Result<plan::Package> load_package(const std::filesystem::path& path, const Bounds& bounds);

/// Whichever identify() says; a bare model as one replica for each CPU, or one that has states.
/// \error as those of each; kInvalidArgument  settings for what is no model.
Result<plan::Package> load_source(const std::filesystem::path& path, const Bounds& bounds,
                                  const backend::Registry& backends,
                                  const std::vector<function::Function>& functions = {},
                                  const ModelSettings& settings = {});

/// The error of a start of what the user named `path`, whose package he does not see.
Error in_users_words(Error error, const std::filesystem::path& path, const plan::Plan& plan);

}  // namespace penstock::app
