// Refuses options that do not apply to the kind of file, loads it, and starts its pipeline.
#include "penstock/cli/source.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include <spdlog/spdlog.h>

#include "penstock/app/source.h"
#include "penstock/base/near_names.h"
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
                   "A package (a folder or .zip), an application (.yaml), or a model (.onnx), "
                   "which runs as one replica for each CPU")
      ->required();
  add_import_options(command, arguments.import);
  add_backend_options(command, arguments.engine);
  add_state_option(command, arguments.states);
  add_batch_option(command, arguments.batches);
  add_native_code_option(command, arguments.no_native_code);
}

Status check_there(const std::filesystem::path& file) {
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored)) return {};
  if (file.string().find("://") != std::string::npos) {
    return not_found("'", file.string(),
                     "': expected a file or folder, found an address; download it first");
  }
  return not_found("'", file.string(),
                   "': no such file or folder; expected a package (a folder or .zip), an "
                   "application (.yaml) or a model (.onnx)",
                   did_you_mean_file(file));
}

namespace {

/// An option that goes with a model alone, of those given; empty: none is.
std::string option_of_model(const SourceArguments& arguments) {
  const auto& import = arguments.import;
  if (!import.shapes.empty()) return "--shape";
  if (!import.constants.empty()) return "--constant";
  if (!import.parameters.empty()) return "--parameter";
  if (import.as_is) return "--as-is";
  if (!arguments.engine.custom_ops.empty()) return "--custom-ops";
  if (!arguments.states.empty()) return "--state";
  return arguments.batches.empty() ? "" : "--batch";
}

}  // namespace

Result<plan::Package> load_source(const SourceArguments& arguments,
                                  const backend::Registry& backends) {
  const auto option = option_of_model(arguments);
  const auto kind = identify(arguments.file);
  if (kind == FileKind::kModel) PENSTOCK_CHECK_OK(check_there(arguments.file));
  if (kind == FileKind::kApplication) {
    if (!option.empty()) {
      return invalid_argument(option,
                              ": is for a model: an application says so at its nodes and 'states'");
    }
    return app::load_application(arguments.file, {.native_code = !arguments.no_native_code},
                                 backends);
  }
  if (kind == FileKind::kPackage) {
    if (!option.empty()) {
      return invalid_argument(option,
                              ": is settled when a package is made; give it to 'penstock split', "
                              "or give the model");
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
