// Addresses as text: "HOST:PORT", "[IPV6]:PORT", "unix:PATH".
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "penstock/base/result.h"

namespace penstock {

struct HostAndPort {
  std::string host, port;
};

/// \error kInvalidArgument  shows the text and the form expected.
Result<HostAndPort> split_address(const std::string& address);

/// PATH of "unix:PATH", which may be empty; of any other address nothing.
std::optional<std::string_view> socket_file(std::string_view address);

/// Why nothing can listen on a port that something listens on already, and what helps.
std::string port_is_taken(const std::string& port, const std::string& systems_reason);

}  // namespace penstock
