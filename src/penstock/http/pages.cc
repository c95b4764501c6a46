// Compares Origin with Host, and Host with the names that no other machine can have.
#include "penstock/http/pages.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "penstock/base/address.h"
#include "penstock/base/option_name.h"
#include "penstock/base/result.h"
#include "penstock/device/address.h"

namespace penstock::http {
namespace {

std::string lower_header(const Request& request, std::string_view name) {
  const auto* value = find_header(request.headers, name);
  std::string text = value == nullptr ? "" : *value;
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

/// "unix:8000" would be a machine of that name.
bool is_own_name(std::string_view host) {
  return !socket_file(host) && device::is_loopback(host);
}

/// Which no name server can make lead elsewhere.
bool is_numeric(std::string_view host) {
  return host.starts_with('[') || host.find_first_not_of("0123456789.:") == std::string_view::npos;
}

/// Whether the page was loaded from the server that it asks.
bool is_of_server(std::string_view origin, std::string_view host) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!origin.starts_with(scheme)) continue;
    return origin.substr(scheme.size()) == host && (is_own_name(host) || is_numeric(host));
  }
  return false;
}

}  // namespace

std::optional<Response> refuse_page(const Request& request, bool at_home) {
  const auto host = lower_header(request, "host");
  if (at_home && !host.empty() && !is_own_name(host)) {
    return error_response(
        403, concat("expected a request for this machine (localhost), found one for '", host,
                    "': ask for 127.0.0.1 or localhost"));
  }
  const auto origin = lower_header(request, "origin");
  const bool changes = request.method != "GET" && request.method != "HEAD";
  if (!changes || origin.empty() || is_of_server(origin, host)) return std::nullopt;
  return error_response(403,
                        concat("expected a request of a program, found one of a page of '", origin,
                               "': a page may ask by way of its own server, which shows a "
                               "token (",
                               OptionName::kTokens, ")"));
}

}  // namespace penstock::http
