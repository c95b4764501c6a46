// What the commands of `penstock` share: how one is declared and how it ends.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <CLI/CLI.hpp>

#include "penstock/base/result.h"

namespace penstock::cli {

inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;        ///< What was given is wrong, or a frame or a check failed.
inline constexpr int kUsage = 2;         ///< The command line itself.
inline constexpr int kInconclusive = 3;  ///< A check could not tell.
inline constexpr int kOurBug = 70;

/// Runs a command whose options are parsed. \returns the exit code.
using Action = std::function<Result<int>()>;

/// Declares a command below `app`; `chosen` becomes its action when it is the one given.
using Declare = void (*)(CLI::App& app, Action& chosen);

void declare_devices(CLI::App& app, Action& chosen);
void declare_up(CLI::App& app, Action& chosen);
void declare_down(CLI::App& app, Action& chosen);
void declare_backends(CLI::App& app, Action& chosen);
void declare_functions(CLI::App& app, Action& chosen);
void declare_costs(CLI::App& app, Action& chosen);
void declare_show(CLI::App& app, Action& chosen);
void declare_split(CLI::App& app, Action& chosen);
void declare_plan(CLI::App& app, Action& chosen);
void declare_build(CLI::App& app, Action& chosen);
void declare_explain(CLI::App& app, Action& chosen);
void declare_run(CLI::App& app, Action& chosen);
void declare_bench(CLI::App& app, Action& chosen);
void declare_serve(CLI::App& app, Action& chosen);
void declare_worker(CLI::App& app, Action& chosen);
void declare_verify(CLI::App& app, Action& chosen);
void declare_token(CLI::App& app, Action& chosen);
void declare_top(CLI::App& app, Action& chosen);
void declare_completion(CLI::App& app, Action& chosen);

/// The options of `serve`, `worker`, `token` and `top`, and their actions, which the library of
/// gRPC brings; once.
/// \throws CLI::ValidationError  the library cannot be loaded.
void load_serving_options(CLI::App& app, Action& chosen);
/// The library's entry for each of them.
using DeclareOptions = void (*)(CLI::App& command, Action& chosen);

/// A new command with its description and, below its options, text such as examples.
CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& description,
                      const std::string& footer);

/// An empty value is a variable of the shell that is not set: what an option asks for would be left
/// out in silence. What an option says of it itself comes first. Once for each command.
void refuse_empty_values(CLI::App& command);

/// An option that may be repeated, each time with one value.
template <typename T>
CLI::Option* add_list(CLI::App* command, const std::string& name, std::vector<T>& values,
                      const std::string& description) {
  return command->add_option(name, values, description)->allow_extra_args(false);
}

/// The backends that Penstock brings, for help and completion; plugins may bring others.
inline constexpr const char* kBackendType = "TEXT:{onnxruntime,openvino,onednn,cuda}";

/// Makes `run(options)` the command's action; the options live as long as it does.
template <typename Options>
void set_action(CLI::App* command, Action& chosen, const std::shared_ptr<Options>& options,
                Result<int> (*run)(const Options&)) {
  command->callback([&chosen, options, run] { chosen = [options, run] { return run(*options); }; });
}

}  // namespace penstock::cli
