// Refuses requests that HTTP/1.1 forbids or the server cannot take; writes heads and chunks.
#include "penstock/http/head.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <string_view>

#include <boost/beast/http/error.hpp>
#include <boost/beast/http/status.hpp>

#include "penstock/base/error.h"
#include "penstock/http/unpack.h"

namespace penstock::http {
namespace {

namespace beast = boost::beast;

std::string date_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 40> text{};
  return {text.data(),
          std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts)};
}

/// A name or value from elsewhere must not begin a line of its own.
void append_header(std::string& head, const std::string& name, const std::string& value) {
  if (value.find_first_of("\r\n") != std::string::npos) return;
  head.append(name).append(": ").append(value).append("\r\n");
}

/// What a proxy before the server may read by the other of two.
std::optional<Response> doubled_header(const BeastRequest& head) {
  for (const auto* name :
       {"Authorization", "Content-Encoding", "Inference-Header-Content-Length"}) {
    const auto found = head.count(name);
    if (found < 2) continue;
    return error_response(400, concat("expected one header '", name, "', found ", found));
  }
  return std::nullopt;
}

/// Of what a client may expect before its body goes, HTTP knows one thing.
std::optional<Response> expectation_problem(const BeastRequest& head) {
  const auto [first, end] = head.equal_range(beast::http::field::expect);
  for (auto field = first; field != end; ++field) {
    const std::string_view found(field->value().data(), field->value().size());
    if (same_name(found, "100-continue")) continue;
    return error_response(
        417, concat("expected no 'Expect' but '100-continue', found '", found.substr(0, 64), "'"));
  }
  return std::nullopt;
}

std::optional<Response> encoding_problem(const BeastRequest& head) {
  const auto encoding = head[beast::http::field::content_encoding];
  const std::string_view named(encoding.data(), encoding.size());
  if (named.empty() || same_name(named, "identity") || is_packing(named)) return std::nullopt;
  auto response = error_response(
      501, concat("Unsupported compression type: expected gzip or deflate, found '", named, "'"));
  response.headers.push_back({"Accept-Encoding", "gzip, deflate"});
  return response;
}

/// Of a request's target; both lie in its text.
struct Target {
  std::string_view authority;  ///< "HOST:PORT"; empty: the target is a path alone.
  std::string_view path;       ///< With its query; may lack the '/' that it begins with.
};

/// "HOST", "HOST:PORT" or "[IPV6]:PORT", and no user.
bool is_authority(std::string_view text) {
  static constexpr std::string_view kDigits = "0123456789";
  static constexpr std::string_view kOfNames =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-._~";
  static constexpr std::string_view kOfIpv6 = "0123456789abcdefABCDEF:.";
  std::size_t end = std::min(text.find_first_not_of(kOfNames), text.size());
  if (text.starts_with('[')) end = text.find_first_not_of(kOfIpv6, 1) + 1;
  const bool closed = !text.starts_with('[') || (end > 2 && text[end - 1] == ']');
  if (end == 0 || !closed) return false;
  text.remove_prefix(end);
  return text.empty() || (text[0] == ':' && text.find_first_not_of(kDigits, 1) == text.npos);
}

/// A path, or what RFC 9112 calls the absolute form, as proxies are asked:
/// "http://HOST:PORT/PATH". Empty: neither.
std::optional<Target> take_apart(std::string_view target) {
  if (target.starts_with('/')) return Target{{}, target};
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!same_name(target.substr(0, scheme.size()), scheme)) continue;
    const auto rest = target.substr(scheme.size());
    const auto end = std::min(rest.find_first_of("/?"), rest.size());
    if (is_authority(rest.substr(0, end))) return Target{rest.substr(0, end), rest.substr(end)};
  }
  return std::nullopt;
}

std::string_view target_of(const BeastRequest& head) {
  return {head.target().data(), head.target().size()};
}

}  // namespace

bool is_parse_error(const boost::system::error_code& failed) {
  return failed.category() ==
         beast::http::make_error_code(beast::http::error::bad_value).category();
}

Peer peer_of(const boost::asio::ip::tcp::endpoint& remote) {
  const auto& address = remote.address();
  const bool mapped = address.is_v6() && address.to_v6().is_v4_mapped();
  const bool local =
      mapped ? boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, address.to_v6())
                   .is_loopback()
             : address.is_loopback();
  return {.address = concat(remote), .local = local, .certificate_name = {}};
}

Request request_of(const BeastRequest& head) {
  Request request;
  request.method = std::string(head.method_string());
  request.target = target_of(head);
  const auto [authority, path] = take_apart(request.target).value_or(Target{{}, request.target});
  const auto question = path.find('?');
  request.path = path.substr(0, question);
  if (request.path.empty()) request.path = "/";
  if (question != std::string::npos) request.query = path.substr(question + 1);
  for (const auto& field : head) {
    request.headers.push_back({std::string(field.name_string()), std::string(field.value())});
  }
  if (!authority.empty()) {
    std::erase_if(request.headers, [](const auto& each) { return same_name(each.name, "Host"); });
    request.headers.push_back({"Host", std::string(authority)});
  }
  return request;
}

std::optional<Response> head_problem(const BeastRequest& head, bool chunked) {
  if (head.version() != 10 && head.version() != 11) {
    return error_response(505, "expected HTTP/1.1 or HTTP/1.0");
  }
  const auto codings = head.count(beast::http::field::transfer_encoding);
  if (codings > 1 || (codings == 1 && !chunked)) {
    return error_response(501, "expected no Transfer-Encoding but 'chunked', found another");
  }
  const auto coding = head[beast::http::field::transfer_encoding];
  if (chunked && !same_name({coding.data(), coding.size()}, "chunked")) {
    return error_response(501, "expected no Transfer-Encoding besides 'chunked', found another");
  }
  if (chunked && head.version() == 10) {
    return error_response(400, "a request of HTTP/1.0 cannot be chunked");
  }
  if (head.version() == 11 && head.count(beast::http::field::host) != 1) {
    return error_response(
        400, concat("expected one header 'Host', found ", head.count(beast::http::field::host)));
  }
  if (!take_apart(target_of(head))) {
    return error_response(400, "expected a path that begins with '/', or http://HOST:PORT/PATH");
  }
  if (auto problem = doubled_header(head)) return problem;
  if (auto problem = expectation_problem(head)) return problem;
  return encoding_problem(head);
}

Body body_of(std::byte* data, std::size_t size, std::function<void(std::byte*)> owner) {
  return {.data = std::shared_ptr<std::byte>(data, std::move(owner)), .size = size};
}

std::string head_of(const Response& response, const Framing& framing) {
  const auto reason =
      beast::http::obsolete_reason(static_cast<beast::http::status>(response.status));
  std::string head = concat("HTTP/1.1 ", response.status, " ",
                            std::string_view(reason.data(), reason.size()), "\r\n");
  append_header(head, "Date", date_now());
  for (const auto& header : response.headers) append_header(head, header.name, header.value);
  if (framing.length) append_header(head, "Content-Length", std::to_string(*framing.length));
  if (framing.chunked) append_header(head, "Transfer-Encoding", "chunked");
  if (!framing.keep_alive) {
    append_header(head, "Connection", "close");
  } else if (framing.version == 10) {
    append_header(head, "Connection", "keep-alive");
  }
  return head + "\r\n";
}

std::string as_chunk(const std::string& text) {
  std::array<char, 20> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), text.size(), 16).ptr;
  return concat(std::string_view(digits.data(), end), "\r\n", text, "\r\n");
}

}  // namespace penstock::http
