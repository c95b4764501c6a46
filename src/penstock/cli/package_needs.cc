#include "penstock/cli/package_needs.h"

#include <chrono>
#include <map>
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

std::string connections_text(const hosts::Hosts& all) {
  std::map<std::string, std::string> said;
  for (const auto& host : all.hosts) said.insert(host.connection.begin(), host.connection.end());
  if (said.empty()) return "";
  return "run it with " +
         join(said, " ",
              [](const auto& option) {
                return concat("--backend-option remote:", option.first, "=", option.second);
              }) +
         "\n";
}

}  // namespace penstock::cli
