// Resolves, connects, writes and reads with Boost.Beast, within one time limit for all of it.
#include "penstock/http/get.h"

#include <algorithm>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include "penstock/base/address.h"

namespace penstock::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;
using boost::system::error_code;

/// The steps of one request, one after the other; the first that fails is the last.
class Getting {
 public:
  Getting(HostAndPort to, const std::string& target, const std::vector<Header>& headers)
      : to_(std::move(to)), resolver_(context_), stream_(context_) {
    request_ = {beast::http::verb::get, target, 11};
    request_.set(beast::http::field::host, to_.host + ":" + to_.port);
    request_.set(beast::http::field::connection, "close");
    for (const auto& header : headers) request_.set(header.name, header.value);
    constexpr std::uint64_t kMost = 256U << 20U;
    parser_.body_limit(kMost);
  }

  error_code run(std::chrono::nanoseconds timeout, const std::function<bool()>& stopped) {
    const auto end = std::chrono::steady_clock::now() + timeout;
    stream_.expires_after(timeout);
    resolver_.async_resolve(to_.host, to_.port, [this](error_code failed, const auto& found) {
      if (fails(failed)) return;
      stream_.async_connect(found, [this](error_code refused, const auto&) {
        if (!fails(refused)) write();
      });
    });
    constexpr auto kStep = std::chrono::milliseconds(50);  // Between looks at `stopped`.
    while (!done_ && std::chrono::steady_clock::now() < end && !(stopped && stopped())) {
      context_.run_until(std::min(end, std::chrono::steady_clock::now() + kStep));
    }
    return done_ ? failed_ : beast::error::timeout;
  }
  Answer answer() {
    return {static_cast<int>(parser_.get().result_int()), std::move(parser_.get().body())};
  }

 private:
  bool fails(error_code failed) {
    failed_ = failed;
    if (failed) done_ = true;
    return done_;
  }
  /// A server that turns clients away may have answered, and closed, before all is written.
  void write() {
    beast::http::async_write(stream_, request_, [this](error_code, std::size_t) { read(); });
  }
  void read() {
    beast::http::async_read(stream_, buffer_, parser_, [this](error_code failed, std::size_t) {
      failed_ = failed;
      done_ = true;
    });
  }

  const HostAndPort to_;
  asio::io_context context_;
  tcp::resolver resolver_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  beast::http::request<beast::http::empty_body> request_;
  beast::http::response_parser<beast::http::string_body> parser_;
  error_code failed_;
  bool done_ = false;
};

}  // namespace

Result<Answer> get(const std::string& address, const std::string& target,
                   const std::vector<Header>& headers, std::chrono::nanoseconds timeout,
                   const std::function<bool()>& stopped) {
  PENSTOCK_TRY(auto to, split_address(address));
  Getting getting(std::move(to), target, headers);
  const auto failed = getting.run(timeout, stopped);
  if (failed == beast::error::timeout) {
    return make_error(Code::kDeadlineExceeded, "'", address, "' does not answer");
  }
  if (failed) {
    return make_error(Code::kUnavailable, "nobody answers at '", address, "': ", failed.message());
  }
  return getting.answer();
}

}  // namespace penstock::http
