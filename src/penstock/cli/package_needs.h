// What a package needs that it does not hold: machines that listen, and files of connections.
#pragma once

#include <filesystem>
#include <string>

#include "penstock/base/result.h"
#include "penstock/cli/import_options.h"
#include "penstock/hosts/hosts.h"
#include "penstock/plan/plan.h"

namespace penstock::cli {

/// Warns of machines of the plan's devices, and of those that stand by, where nobody listens.
void warn_of_silent_hosts(const plan::Plan& plan);

/// The file's hosts, reached as `--backend-option remote:...` says where it does.
Result<hosts::Hosts> read_hosts(const std::filesystem::path& file,
                                const BackendArguments& arguments);

/// How a run is told the files of the hosts' connections, which no package names: a line, or
/// nothing.
std::string connections_text(const hosts::Hosts& all);

}  // namespace penstock::cli
