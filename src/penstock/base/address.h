// Addresses as text: "HOST:PORT", "[IPV6]:PORT".
#pragma once

#include <string>

#include "penstock/base/result.h"

namespace penstock {

struct HostAndPort {
  std::string host, port;
};

/// \error kInvalidArgument  shows the text and the form expected.
Result<HostAndPort> split_address(const std::string& address);

/// Why nothing can listen on a port that something listens on already, and what helps.
std::string port_is_taken(const std::string& port, const std::string& systems_reason);

}  // namespace penstock
