// Loads a file by its kind as a package, and words errors of its start by the user's names.
#include "penstock/app/source.h"

#include <utility>

#include "penstock/app/app.h"
#include "penstock/base/option_name.h"
#include "penstock/session/identify.h"
#include "penstock/session/load.h"
#include "penstock/session/session.h"

namespace penstock::app {
namespace {

Status check_takes(const std::filesystem::path& path, FileKind kind,
                   const ModelSettings& settings) {
  if (kind == FileKind::kModel || settings.empty()) return {};
  const auto given = settings.constants.empty() ? OptionName::kStates : OptionName::kConstants;
  if (kind == FileKind::kApplication) {
    return invalid_argument("'", path.string(), "': ", given,
                            " is for a model (.onnx), found an application: it says so at its "
                            "nodes ('constants') and in 'states'");
  }
  return invalid_argument(
      "'", path.string(), "': ", given,
      " is for a model (.onnx), found a package: give it to 'penstock split' or "
      "'build' when the package is made");
}

}  // namespace

Result<plan::Package> load_application(const std::filesystem::path& file, const Bounds& bounds,
                                       const backend::Registry& backends,
                                       const std::vector<function::Function>& functions) {
  PENSTOCK_TRY(const auto application, read_yaml(file, bounds.folder));
  PENSTOCK_CHECK_OK(check_bounds(application, bounds));
  PENSTOCK_TRY(auto package, pack(application, backends, functions));
  if (Status allowed = check_bounds(package.plan, bounds); !allowed) {
    return place_error(application, std::move(allowed).error());
  }
  return package;
}

Result<plan::Package> load_package(const std::filesystem::path& path, const Bounds& bounds) {
  PENSTOCK_TRY(auto package, penstock::load_package(path));
  PENSTOCK_CHECK_OK(check_bounds(package.plan, bounds));
  return package;
}

Result<plan::Package> load_source(const std::filesystem::path& path, const Bounds& bounds,
                                  const backend::Registry& backends,
                                  const std::vector<function::Function>& functions,
                                  const ModelSettings& settings) {
  const auto kind = identify(path);
  PENSTOCK_CHECK_OK(check_takes(path, kind, settings));
  if (kind == FileKind::kApplication) {
    return load_application(path, bounds, backends, functions);
  }
  if (kind == FileKind::kPackage) return load_package(path, bounds);
  graph::ImportOptions import;
  import.constants = settings.constants;
  PENSTOCK_TRY(const auto graph, import_model(path, std::move(import), backends));
  return pack_model(graph, {}, backends, settings.states);
}

Error in_users_words(Error error, const std::filesystem::path& path, const plan::Plan& plan) {
  const auto kind = identify(path);
  if (kind == FileKind::kApplication) {
    const auto application = read_yaml(path);
    return application ? place_error(*application, std::move(error)) : error;
  }
  if (kind == FileKind::kPackage) return error;
  Where* const model = error.find(Where::kModel);
  if (model != nullptr && model->name == plan.stages.front().partitions.front().model) {
    model->name = path.string();
  }
  return error;
}

}  // namespace penstock::app
