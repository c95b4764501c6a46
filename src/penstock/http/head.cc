// Refuses requests that HTTP/1.1 forbids or the server cannot take; writes heads and chunks.
#include "penstock/http/head.h"

#include <array>
#include <charconv>
#include <ctime>

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
  request.target = std::string(head.target());
  const auto question = request.target.find('?');
  request.path = request.target.substr(0, question);
  if (question != std::string::npos) request.query = request.target.substr(question + 1);
  for (const auto& field : head) {
    request.headers.push_back({std::string(field.name_string()), std::string(field.value())});
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
  if (!head.target().starts_with('/')) {
    return error_response(400, "expected a path that begins with '/'");
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
