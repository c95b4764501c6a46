// Addresses of machines, as text.
#pragma once

#include <string_view>

namespace penstock::device {

/// Whether only processes of this machine reach the address "HOST:PORT", "[HOST]:PORT", "HOST" or
/// "unix:PATH". Names are not looked up.
bool is_loopback(std::string_view address);

/// Whether a server may have the address: "HOST:PORT", "[HOST]:PORT" or "unix:PATH".
bool is_server(std::string_view text);

}  // namespace penstock::device
