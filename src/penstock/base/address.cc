// Splits at the last colon, takes the brackets off an IPv6 address and checks the port's number.
#include "penstock/base/address.h"

#include <charconv>
#include <cstdint>
#include <utility>

namespace penstock {

Result<HostAndPort> split_address(const std::string& address) {
  const auto colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  std::uint16_t number = 0;
  const char* end = address.data() + address.size();
  const char* begin = colon == std::string::npos ? end : address.data() + colon + 1;
  const auto [at, failed] = std::from_chars(begin, end, number);
  if (failed != std::errc() || at != end || host.empty()) {
    const auto* digits = address.data();
    const auto [last, no_port] = std::from_chars(digits, end, number);
    const bool port = no_port == std::errc() && last == end;
    return invalid_argument("expected an address HOST:PORT, found '", address, "'",
                            port ? "; for this machine alone write 127.0.0.1:" + address : "");
  }
  return HostAndPort{.host = std::move(host), .port = std::to_string(number)};
}

std::string port_is_taken(const std::string& port, const std::string& systems_reason) {
  return concat("another process has port ", port, " (", systems_reason,
                "): give another port, or 0 for any that is free");
}

}  // namespace penstock
