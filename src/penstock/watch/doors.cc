// Checks Host and Authorization of each request; a token may come as the password of Basic.
#include "penstock/watch/doors.h"

#include <optional>
#include <string_view>
#include <utility>

#include "penstock/base/address.h"
#include "penstock/base/option_name.h"
#include "penstock/device/address.h"
#include "penstock/http/base64.h"
#include "penstock/http/pages.h"

namespace penstock::watch {
namespace {

std::string_view header_of(const http::Request& request, std::string_view name) {
  const auto* value = http::find_header(request.headers, name);
  return value == nullptr ? std::string_view() : *value;
}

http::Response refusal(const Error& error) {
  const bool unknown = error.code == Code::kUnauthenticated;
  auto response = http::error_response(unknown ? 401 : 403, error.message());
  if (unknown) {
    response.headers.push_back({"WWW-Authenticate", "Basic realm=\"penstock\", charset=\"UTF-8\""});
  }
  return response;
}

}  // namespace

Status check_exposure(const std::string& address, bool allowed) {
  PENSTOCK_CHECK_OK(split_address(address));
  if (allowed || device::is_loopback(address)) return {};
  return make_error(Code::kPermissionDenied, "plain text would leave this machine at '", address,
                    "': listen on 127.0.0.1, or allow it (", OptionName::kInsecure, ")");
}

std::string token_of(std::string_view authorization) {
  constexpr std::string_view kBasic = "Basic ";
  if (!authorization.starts_with(kBasic)) {
    return std::string(serve::bearer_token(authorization));
  }
  const auto pair = http::decode_base64(authorization.substr(kBasic.size()));
  const auto colon = pair ? pair->find(':') : std::string::npos;
  return colon == std::string::npos ? std::string() : pair->substr(colon + 1);
}

http::Gate make_gate(std::shared_ptr<const serve::Access> access, const std::string& address) {
  const bool at_home = device::is_loopback(address);
  return [access = std::move(access),
          at_home](http::Request& request) -> std::optional<http::Response> {
    if (auto refused = http::refuse_page(request, at_home)) return refused;
    auto client =
        access->check(serve::Right::kAdmin, {.token = token_of(header_of(request, "authorization")),
                                             .certificate_name = request.peer.certificate_name,
                                             .local = request.peer.local});
    if (!client) return refusal(client.error());
    request.client = *std::move(client);
    return std::nullopt;
  };
}

}  // namespace penstock::watch
