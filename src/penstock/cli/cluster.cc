// penstock up, penstock down: workers on a Ray cluster. Ray speaks Python, and so do these.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include <unistd.h>

#include "penstock/cli/command.h"
#include "penstock/cli/numbers.h"

namespace penstock::cli {
namespace {

struct ClusterOptions {
  std::string command;
  std::string file;
  std::string hosts;
};

constexpr const char* kScript = R"(import sys
try:
    from penstock.ray import _main
except ImportError as error:
    sys.exit(f"penstock: error: 'up' and 'down' need Penstock's Python package in {sys.executable}: {error}; "
             "pip install 'penstock[ray]' there, or name another Python in PENSTOCK_PYTHON")
sys.exit(_main())
)";

/// Becomes Python.
Result<int> run(const ClusterOptions& options) {
  const char* named = std::getenv("PENSTOCK_PYTHON");
  const std::string python = named == nullptr || *named == '\0' ? "python3" : named;
  std::vector<std::string> words{python, "-c", kScript, options.command, options.file};
  if (!options.hosts.empty()) words.insert(words.end(), {"--output", options.hosts});
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(python.c_str(), arguments.data());
  return not_found("'", python, "' cannot be started: ", std::strerror(errno),
                   "; install Python, or name it in PENSTOCK_PYTHON");
}

CLI::App* declare(CLI::App& app, Action& chosen, const std::shared_ptr<ClusterOptions>& options,
                  const char* description, const char* footer) {
  auto* command = add_command(app, options->command, description, footer);
  command->add_option("cluster", options->file, "A file of workers, such as cluster.yaml")
      ->required();
  set_action(command, chosen, options, run);
  return command;
}

}  // namespace

void declare_up(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<ClusterOptions>();
  options->command = "up";
  auto* command = declare(
      app, chosen, options, "Starts workers on a Ray cluster, where it has room.",
      R"(Ray places a 'penstock worker' for each entry of the file, and starts it again, elsewhere where its
node has died, until 'penstock down'. docs/hosts.md tells what the file says.

Example:
  penstock up cluster.yaml -o hosts.yaml)");
  command
      ->add_option("-o,--output", options->hosts,
                   "Write the workers' addresses to this file, for --hosts")
      ->check(not_empty("a file"));
}

void declare_down(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<ClusterOptions>();
  options->command = "down";
  declare(app, chosen, options, "Ends the workers that 'penstock up' started.", R"(Example:
  penstock down cluster.yaml)");
}

}  // namespace penstock::cli
