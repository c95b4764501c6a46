// Takes host and port apart at the last colon, and a socket's file from its prefix.
#include "penstock/base/address.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace penstock {
namespace {

std::optional<std::uint16_t> to_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto* const end = text.data() + text.size();
  const auto [at, failed] = std::from_chars(text.data(), end, port);
  if (failed != std::errc() || at != end) return std::nullopt;
  return port;
}

/// What is wrong with an address, and how it would be right.
Error malformed(const std::string& address, const std::string& why) {
  return invalid_argument("expected an address HOST:PORT such as 127.0.0.1:8001, found '", address,
                          "'", why);
}

}  // namespace

Result<HostAndPort> split_address(const std::string& address) {
  if (to_port(address)) {
    return malformed(address, "; for this machine alone write 127.0.0.1:" + address);
  }
  const bool bracketed = address.starts_with('[');
  const auto bracket = address.rfind(']');
  const auto colon = address.rfind(':');
  const bool without_port = colon == std::string::npos || (bracketed && colon < bracket);
  if (without_port) {
    return malformed(address, address.empty() ? "" : ", which has no port");
  }
  std::string host = address.substr(0, colon);
  const std::string port = address.substr(colon + 1);
  const auto number = to_port(port);
  if (!number) {
    return malformed(address, concat(": its port '", port, "' is no number from 0 to 65535"));
  }
  if (host.empty() || host == "[]") {
    return malformed(address,
                     ", which has no host; for this machine alone write 127.0.0.1:" + port);
  }
  if (bracketed && bracket + 1 == colon) {
    host = host.substr(1, host.size() - 2);
  } else if (std::ranges::count(host, ':') > 0) {
    return malformed(address, concat("; an IPv6 address stands in brackets: [", host, "]:", port));
  }
  return HostAndPort{.host = std::move(host), .port = std::to_string(*number)};
}

std::optional<std::string_view> socket_file(std::string_view address) {
  constexpr std::string_view kPrefix = "unix:";
  if (!address.starts_with(kPrefix)) return std::nullopt;
  return address.substr(kPrefix.size());
}

std::string port_is_taken(const std::string& port, const std::string& systems_reason) {
  return concat("another process has port ", port, " (", systems_reason,
                "): give another port, or 0 for any that is free");
}

}  // namespace penstock
