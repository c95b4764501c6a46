// What comes in and what goes out over HTTP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::http {

struct Header {
  std::string name;
  std::string value;
};

/// Whether they are one name of HTTP, which has no case.
bool same_name(std::string_view a, std::string_view b);

/// Null where no header has the name, in whatever case.
const std::string* find_header(const std::vector<Header>& headers, std::string_view name);

/// The bytes of a request. Copies share them.
struct Body {
  /// Bytes behind the end that may be read, whatever they hold: fast parsers need them.
  static constexpr std::size_t kPadding = 64;

  std::shared_ptr<std::byte> data;  ///< Of any alignment; null where `size` is 0.
  std::size_t size = 0;

  [[nodiscard]] std::string_view text() const {
    return size == 0 ? std::string_view()
                     : std::string_view(reinterpret_cast<char*>(data.get()), size);
  }
};

/// Who sent a request.
struct Peer {
  std::string address;           ///< "127.0.0.1:43210"
  bool local = false;            ///< By this machine's loopback.
  std::string certificate_name;  ///< Of its certificate, verified; empty: it showed none.
};

struct Request {
  std::string method;  ///< "GET"
  std::string target;  ///< As sent: "/v2/models/a%20b?x=1"
  std::string path;    ///< The target's, without its query.
  std::string query;   ///< Behind the '?'; empty: none.
  std::vector<Header> headers;
  std::map<std::string, std::string> captured;  ///< The path's parts that the route names, decoded.
  Body body;                                    ///< Unpacked.
  Peer peer;
  std::string client;  ///< Whose rights it has, as the route's gate found; empty: nobody's.
};

/// A part of a response: text of its own, or bytes that are not copied.
struct Piece {
  std::string text;
  std::span<const std::byte> bytes;   ///< Sent where `text` is empty.
  std::shared_ptr<const void> owner;  ///< Kept until it is sent: of `bytes`, or what counts `text`.

  [[nodiscard]] std::span<const std::byte> content() const {
    return text.empty() ? bytes : std::as_bytes(std::span(text));
  }
};

struct Response {
  int status = 200;
  std::vector<Header> headers;  ///< But the length, the date and what belongs to the connection.
  std::vector<Piece> body;
  std::map<std::string, std::string> notes;  ///< For the access log.
};

Response text_response(int status, std::string content_type, std::string text);
/// `{"error": sentence}`, which the log notes too.
Response error_response(int status, const std::string& sentence);

}  // namespace penstock::http
