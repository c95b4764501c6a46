// The commands of serving are in a library of their own.
// The reason is that gRPC takes as long to load as all else together.
#include <dlfcn.h>

#include "penstock/cli/command.h"

namespace penstock::cli {
namespace {

constexpr const char* kLibrary = "libpenstock_serve_command.so";

struct LoadedCommand {
  const char* name;
  const char* what;
  const char* entry;  // The library's function that declares the options.
};
constexpr LoadedCommand kServe{
    "serve", "Serves models to clients of the Open Inference Protocol (Triton, KServe).",
    "penstock_declare_serve_options"};
constexpr LoadedCommand kWorker{"worker", "Runs stages of pipelines for callers of other machines.",
                                "penstock_declare_worker_options"};
constexpr LoadedCommand kToken{"token", "Makes a token for a client of 'serve --tokens'.",
                               "penstock_declare_token_options"};
constexpr LoadedCommand kTop{"top", "Shows in a terminal what a running pipeline does.",
                             "penstock_declare_top_options"};

void load_options(CLI::App& command, const char* entry, Action& chosen) {
  if (!command.get_footer().empty()) return;                   // It has them.
  void* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_GLOBAL);  // Never closed: gRPC keeps threads.
  void* declare = library == nullptr ? nullptr : ::dlsym(library, entry);
  if (declare == nullptr) {
    throw CLI::FileError(concat(
        "'", command.get_name(), "' is not in this build: its library cannot be loaded (",
        ::dlerror(), "); build all of it (cmake --build --preset release), or install Penstock"));
  }
  reinterpret_cast<DeclareOptions>(declare)(command, chosen);
  refuse_empty_values(command);
}

void declare(CLI::App& app, const LoadedCommand& declared, Action& chosen) {
  CLI::App* command = add_command(app, declared.name, declared.what, "");
  command->preparse_callback([command, entry = declared.entry, &chosen](std::size_t) {
    load_options(*command, entry, chosen);
  });
}

}  // namespace

void load_serving_options(CLI::App& app, Action& chosen) {
  for (const auto& command : {kServe, kWorker, kToken, kTop}) {
    load_options(*app.get_subcommand(command.name), command.entry, chosen);
  }
}

void declare_serve(CLI::App& app, Action& chosen) {
  declare(app, kServe, chosen);
}

void declare_worker(CLI::App& app, Action& chosen) {
  declare(app, kWorker, chosen);
}

void declare_token(CLI::App& app, Action& chosen) {
  declare(app, kToken, chosen);
}

void declare_top(CLI::App& app, Action& chosen) {
  declare(app, kTop, chosen);
}

}  // namespace penstock::cli
