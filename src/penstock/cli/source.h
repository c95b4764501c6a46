// What `run` and `bench` run: a package, or a bare model as one replica for each core.
#pragma once

#include <filesystem>

#include <CLI/CLI.hpp>

#include "penstock/cli/import_options.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/session/session.h"

namespace penstock::cli {

struct SourceArguments {
  std::filesystem::path file;
  ImportArguments import;  ///< Of a bare model.
  BackendArguments engine;
  std::vector<std::string> states;   ///< Of a bare model.
  std::vector<std::string> batches;  ///< Of a bare model.
  bool no_native_code = false;
};

/// The positional argument and the options of both.
void add_source_options(CLI::App* command, SourceArguments& arguments);

/// \error kNotFound  for a command that takes packages, applications and models.
Status check_there(const std::filesystem::path& file);

/// The package, loaded or made. \error kInvalidArgument  import options beside a package.
Result<plan::Package> load_source(const SourceArguments& arguments,
                                  const backend::Registry& backends);

/// With --backend-option and --no-native-code; warnings go to the log, and an interrupt ends a
/// start.
Result<pipeline::Options> completed(pipeline::Options options, const SourceArguments& arguments);

/// Starts it; warnings of the start go to the log. `options` are completed with --backend-option.
Result<std::unique_ptr<pipeline::Pipeline>> start_source(const SourceArguments& arguments,
                                                         const plan::Package& package,
                                                         pipeline::Options options,
                                                         const backend::Registry& backends);

/// Lets the package take the place of what runs, as it would be started.
Status replace_source(const SourceArguments& arguments, const plan::Package& package,
                      pipeline::Options options, const backend::Registry& backends,
                      pipeline::Pipeline& pipeline);

}  // namespace penstock::cli
