// Tries to connect to each host for a second, and words the options that a run has to be given.
#include "penstock/cli/package_needs.h"

#include <chrono>
#include <set>

#include <spdlog/spdlog.h>

#include "penstock/hosts/answering.h"

namespace penstock::cli {

void warn_of_silent_hosts(const plan::Plan& plan) {
  constexpr std::chrono::milliseconds kPatience{1000};
  std::set<std::string> hosts;
  for (const auto& stage : plan.stages) {
    for (const auto* devices : {&stage.devices, &stage.standby}) {
      for (const auto& device : *devices) {
        if (device.is_remote()) hosts.insert(device.host);
      }
    }
  }
  if (hosts.empty()) return;
  const auto silent = hosts::silent_among({hosts.begin(), hosts.end()}, kPatience);
  if (silent.empty()) return;
  spdlog::warn(
      "nothing answers at {}: a worker or server has to listen there before the package is run",
      join(silent, ", "));
}

Result<hosts::Hosts> read_hosts(const std::filesystem::path& file,
                                const BackendArguments& arguments) {
  PENSTOCK_TRY(auto all, hosts::read_hosts(file));
  PENSTOCK_TRY(const auto given, to_options_of_the_way(arguments));
  hosts::reach_by(all, given);
  return all;
}

std::string connections_text(const hosts::Hosts& all) {
  if (const auto alike = hosts::check_connections_alike(all); !alike) {
    return concat("it runs with none of their connections: ", alike.error().message(), "\n");
  }
  if (all.hosts.empty() || all.hosts.front().connection.empty()) return "";
  return "run it with " +
         join(all.hosts.front().connection, " ",
              [](const auto& option) {
                return concat("--backend-option remote:", option.first, "=", option.second);
              }) +
         "\n";
}

}  // namespace penstock::cli
