// Cuts off the port, and compares the rest with the loopback forms of IPv4 and IPv6.
#include "penstock/device/address.h"

#include <algorithm>
#include <string>

#include "penstock/base/address.h"

namespace penstock::device {
namespace {

std::string_view without_port(std::string_view address) {
  if (address.starts_with('[')) return address.substr(1, address.find(']') - 1);
  if (std::ranges::count(address, ':') > 1) return address;  // IPv6 alone.
  return address.substr(0, address.find(':'));
}

bool is_ipv4_loopback(std::string_view host) {
  return host.starts_with("127.") && std::ranges::count(host, '.') == 3 &&
         host.find_first_not_of("0123456789.") == std::string_view::npos;
}

}  // namespace

bool is_loopback(std::string_view address) {
  if (socket_file(address)) return true;
  const std::string_view host = without_port(address);
  if (host.starts_with("::ffff:")) return is_ipv4_loopback(host.substr(7));
  return host == "localhost" || host == "::1" || is_ipv4_loopback(host);
}

bool is_server(std::string_view text) {
  if (const auto file = socket_file(text)) return !file->empty();
  return static_cast<bool>(split_address(std::string(text)));
}

}  // namespace penstock::device
