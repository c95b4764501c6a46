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

}  // namespace penstock
