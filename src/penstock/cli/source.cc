// Refuses options that do not apply to the kind of file, loads it, and starts its pipeline.
#include "penstock/cli/source.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include <spdlog/spdlog.h>

#include "penstock/app/source.h"
#include "penstock/base/words.h"
#include "penstock/cli/interrupt.h"
#include "penstock/cli/json.h"
#include "penstock/cli/show_plan.h"
#include "penstock/cli/stream_options.h"
#include "penstock/cli/text.h"
#include "penstock/session/identify.h"
#include "penstock/session/refused_node.h"

namespace penstock::cli {

Result<pipeline::Options> completed(pipeline::Options options, const SourceArguments& arguments) {
  PENSTOCK_TRY(options.backend_options, to_backend_options(arguments.engine));
  options.native_code = !arguments.no_native_code;
  options.warn = [](const std::string& message) { spdlog::warn("{}", message); };
  options.stopped = interrupted;
  return options;
}

void add_source_options(CLI::App* command, SourceArguments& arguments) {
  command
      ->add_option("file", arguments.file,
                   "A package (a folder or .zip), an application (.yaml), or a model (.onnx): one "
                   "replica for each CPU")
      ->required();
  add_import_options(command, arguments.import);
  add_backend_options(command, arguments.engine);
  add_state_option(command, arguments.states);
  add_batch_option(command, arguments.batches);
  add_native_code_option(command, arguments.no_native_code);
}

Result<plan::Package> load_source(const SourceArguments& arguments,
                                  const backend::Registry& backends) {
  const auto& import = arguments.import;
  const bool of_a_model = !import.shapes.empty() || !import.constants.empty() ||
                          !import.parameters.empty() || import.as_is ||
                          !arguments.engine.custom_ops.empty() || !arguments.states.empty() ||
                          !arguments.batches.empty();
  std::error_code ignored;
  const auto kind = identify(arguments.file);
  if (kind == FileKind::kModel && !std::filesystem::exists(arguments.file, ignored)) {
    return not_found("'", arguments.file.string(),
                     "': no such file or folder; expected a package (a folder or .zip), an "
                     "application (.yaml) or a model (.onnx)");
  }
  if (kind == FileKind::kApplication) {
    if (of_a_model) {
      return invalid_argument(
          "--shape, --constant, --parameter, --as-is, --custom-ops, --state and --batch are for a "
          "model: an application says so at its nodes and 'states'");
    }
    return app::load_application(arguments.file, {.native_code = !arguments.no_native_code},
                                 backends);
  }
  if (kind == FileKind::kPackage) {
    if (of_a_model) {
      return invalid_argument(
          "--shape, --constant, --parameter, --as-is, --custom-ops, --state and --batch are "
          "settled "
          "when a package is made; give them to 'penstock split', or give the model");
    }
    return app::load_package(arguments.file, {.native_code = !arguments.no_native_code});
  }
  PENSTOCK_TRY(const auto graph, import_file(arguments.file, arguments.import, backends,
                                             arguments.engine.custom_ops));
  partition::SplitOptions split;
  split.custom_ops = arguments.engine.custom_ops;
  PENSTOCK_TRY(split.batches, to_batches(arguments.batches));
  PENSTOCK_TRY(const auto states, to_states(arguments.states));
  return pack_model(graph, std::move(split), backends, states);
}

Result<std::unique_ptr<pipeline::Pipeline>> start_source(const SourceArguments& arguments,
                                                         const plan::Package& package,
                                                         pipeline::Options options,
                                                         const backend::Registry& backends) {
  PENSTOCK_TRY(options, completed(std::move(options), arguments));
  auto started = pipeline::Pipeline::start(package.plan, package.folder, backends, options);
  if (!started) {
    return app::in_users_words(name_refused_node(std::move(started).error(), package),
                               arguments.file, package.plan);
  }
  auto pipeline = *std::move(started);
  log_plan(package.plan, backends);
  // Scripts wait for "stages started", of however many.
  spdlog::info("stages started: {}; edges hold {}, {} in flight at most",
               package.plan.stages.size(), memory_text(pipeline->memory_bytes()),
               counted(pipeline->in_flight_limit(), "frame"));
  return pipeline;
}

Status replace_source(const SourceArguments& arguments, const plan::Package& package,
                      pipeline::Options options, const backend::Registry& backends,
                      pipeline::Pipeline& pipeline) {
  PENSTOCK_TRY(options, completed(std::move(options), arguments));
  Status replaced = pipeline.replace(package.plan, package.folder, backends, options);
  if (replaced) return replaced;
  return app::in_users_words(std::move(replaced).error(), arguments.file, package.plan);
}

}  // namespace penstock::cli
