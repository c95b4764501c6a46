#include "penstock/cli/source.h"

#include <utility>

#include <spdlog/spdlog.h>

#include "penstock/cli/json.h"
#include "penstock/cli/show_plan.h"
#include "penstock/cli/text.h"

namespace penstock::cli {

void add_source_options(CLI::App* command, SourceArguments& arguments) {
  command
      ->add_option("file", arguments.file,
                   "A package (a folder or .zip), or a model (.onnx): one replica for each CPU")
      ->required();
  add_import_options(command, arguments.import);
  add_backend_options(command, arguments.engine);
}

Result<plan::Package> load_source(const SourceArguments& arguments,
                                  const backend::Registry& backends) {
  if (names_package(arguments.file)) {
    const auto& import = arguments.import;
    if (!import.shapes.empty() || !import.parameters.empty() || import.as_is ||
        !arguments.engine.custom_ops.empty()) {
      return invalid_argument(
          "--shape, --parameter, --as-is and --custom-ops are settled when a "
          "package is made; give them to 'penstock split', or give the model");
    }
    return plan::load_package(arguments.file);
  }
  PENSTOCK_TRY(const auto graph, import_file(arguments.file, arguments.import, backends,
                                             arguments.engine.custom_ops));
  partition::SplitOptions split;
  split.custom_ops = arguments.engine.custom_ops;
  return pack_model(graph, std::move(split), backends);
}

Result<std::unique_ptr<pipeline::Pipeline>> start_source(const SourceArguments& arguments,
                                                         const plan::Package& package,
                                                         pipeline::Options options,
                                                         const backend::Registry& backends) {
  PENSTOCK_TRY(options.backend_options, to_backend_options(arguments.engine));
  options.warn = [](const std::string& message) { spdlog::warn("{}", message); };
  PENSTOCK_TRY(auto pipeline,
               pipeline::Pipeline::start(package.plan, package.folder, backends, options));
  log_plan(package.plan, backends);
  spdlog::info("{} stages started, edges hold {}, {} frames in flight at most",
               package.plan.stages.size(), memory_text(pipeline->memory_bytes()),
               pipeline->in_flight_limit());
  return pipeline;
}

}  // namespace penstock::cli
