// What a package needs that it does not hold: machines that listen, and files of connections.
#pragma once

#include <string>

#include "penstock/hosts/hosts.h"
#include "penstock/plan/plan.h"

namespace penstock::cli {

/// Warns of machines of the plan's devices, and of those that stand by, where nobody listens.
void warn_of_silent_hosts(const plan::Plan& plan);

/// How a run is told the files of the hosts' connections, which no package names: a line, or
/// nothing.
std::string connections_text(const hosts::Hosts& all);

}  // namespace penstock::cli
