// The heads of requests and responses: what Beast has read, and what goes out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>

#include "penstock/http/message.h"

namespace penstock::http {

using BeastRequest = boost::beast::http::request<boost::beast::http::empty_body>;

/// Whether the bytes were wrong, and not the connection.
bool is_parse_error(const boost::system::error_code& failed);

Peer peer_of(const boost::asio::ip::tcp::endpoint& remote);
/// Where the target names a server, that is its `Host`, whatever the header says.
Request request_of(const BeastRequest& head);

/// The answer to a head that Beast takes and we do not: without it, what follows could be read in
/// two ways, or not at all.
std::optional<Response> head_problem(const BeastRequest& head, bool chunked);

Body body_of(std::byte* data, std::size_t size, std::function<void(std::byte*)> owner);

struct Framing {
  std::optional<std::size_t> length;  ///< Empty: of a stream.
  bool chunked = false;
  bool keep_alive = true;
  unsigned version = 11;  ///< 10 or 11, as the client's.
};
/// Status line and headers, with the empty line behind them.
std::string head_of(const Response& response, const Framing& framing);

std::string as_chunk(const std::string& text);

}  // namespace penstock::http
