// Router: which handler answers which path.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/http/message.h"

namespace penstock::http {

class Exchange;

/// A response that is written piece by piece, such as server-sent events. Ends with its last copy.
///
/// \threads  any.
class Stream {
 public:
  /// Bytes that may wait for a slow reader.
  static constexpr std::size_t kMostWaiting = 1U << 20U;

  explicit Stream(std::shared_ptr<Exchange> exchange);
  /// False, and nothing is sent: the client has gone, or more waits for it than may.
  bool write(std::string text);

 private:
  std::shared_ptr<Exchange> exchange_;
};

/// Answers one request, now or later. Where the last copy goes without an answer, that is 500.
///
/// \threads  any.
class Responder {
 public:
  explicit Responder(std::shared_ptr<Exchange> exchange);

  /// Only the first answer counts.
  void send(Response response) const;
  /// Answers with a stream, in place of the response's body.
  [[nodiscard]] Stream stream(Response response) const;
  /// Calls `gone`, once, if the client leaves before it is answered; at once if it has left.
  void on_gone(std::function<void()> gone) const;

 private:
  std::shared_ptr<Exchange> exchange_;
};

/// Called by one of the server's threads; should be short.
using Handler = std::function<void(Request, Responder)>;
/// Looks at a request before its body is read; what it returns is the answer, and the end.
using Gate = std::function<std::optional<Response>(Request&)>;

struct Route {
  std::string method;                 ///< "GET", which answers HEAD too.
  std::vector<std::string> segments;  ///< "{name}" takes any one segment.
  Gate gate;                          ///< Empty: open.
  Handler handler;
};

class Router {
 public:
  /// `pattern`: "/v2/models/{model}/infer". Of several that fit, the first added is taken.
  void add(std::string method, std::string_view pattern, Gate gate, Handler handler);

  struct Found {
    const Route* route = nullptr;  ///< Null: `response` says why.
    std::map<std::string, std::string> captured;
    Response response;
  };
  /// Of a path as sent; a '/' at its end does not count. 400 (not percent-encoded right), 404, 405.
  [[nodiscard]] Found find(std::string_view method, std::string_view path) const;

 private:
  std::vector<Route> routes_;
};

/// Empty where a '%' is not followed by two hexadecimal digits.
std::optional<std::string> percent_decoded(std::string_view text);

}  // namespace penstock::http
