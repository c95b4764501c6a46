// Loads a package, and checks that each model's external data are files of its folder.
#include "penstock/session/load.h"

#include <string>
#include <utility>
#include <vector>

#include "penstock/graph/external_files.h"

namespace penstock {

namespace {

Result<plan::Package> load(const std::filesystem::path& path) {
  PENSTOCK_TRY(auto package, plan::load_package(path));
  for (const auto& stage : package.plan.stages) {
    for (const auto& partition : stage.partitions) {
      if (partition.backend == plan::kFunctionBackend || partition.model.empty()) continue;
      std::vector<std::string> models = {partition.model};
      for (const auto& batched : partition.batched) models.push_back(batched.model);
      for (const auto& model : models) {
        auto checked = graph::check_external_files(package.folder / model);
        if (checked) continue;
        return std::move(checked)
            .error()
            .within({Where::kModel, model})
            .within({Where::kPackage, path.string()});
      }
    }
  }
  return package;
}

}  // namespace

Result<plan::Package> load_package(const std::filesystem::path& path) {
  try {
    return load(path);
  } catch (const std::exception& error) {
    return plan::thrown(path, error);
  }
}

}  // namespace penstock
