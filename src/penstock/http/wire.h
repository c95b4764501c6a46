// Wire: a client's socket, in plain text or behind TLS.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/strand.hpp>

#include "penstock/http/tls.h"

namespace penstock::http {

namespace asio = boost::asio;
using boost::system::error_code;
using Strand = asio::strand<asio::io_context::executor_type>;
using Socket = asio::basic_stream_socket<asio::ip::tcp, Strand>;

/// An AsyncStream of Boost.Beast, for handlers that are plain functions: Asio's and Beast's
/// operations read and write by it.
/// \threads  those of the socket's strand; secure(), socket() and get_executor(): any.
class Wire {
 public:
  using executor_type = Socket::executor_type;

  /// `tls` null: plain text.
  Wire(Socket accepted, std::shared_ptr<TlsContext> tls)
      : tls_(std::move(tls)), stream_(make(std::move(accepted), tls_.get())) {}
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  [[nodiscard]] bool secure() const { return tls_ != nullptr; }
  Socket& socket() {
    return secure() ? std::get<Secure>(stream_).next_layer() : std::get<Socket>(stream_);
  }
  executor_type get_executor() noexcept { return socket().get_executor(); }

  /// `handler(error_code)` is called when the handshake has ended, well or badly. \pre  secure()
  template <typename Handler>
  void async_handshake(Handler&& handler) {
    std::get<Secure>(stream_).async_handshake(asio::ssl::stream_base::server,
                                              std::forward<Handler>(handler));
  }
  /// As certificate_name() of tls.h; empty without TLS.
  std::string certificate_name() {
    return secure() ? http::certificate_name(std::get<Secure>(stream_).native_handle()) : "";
  }

  template <typename Buffers, typename Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    std::visit(
        [&](auto& stream) { stream.async_read_some(buffers, std::forward<Handler>(handler)); },
        stream_);
  }
  template <typename Buffers, typename Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    std::visit(
        [&](auto& stream) { stream.async_write_some(buffers, std::forward<Handler>(handler)); },
        stream_);
  }

 private:
  using Secure = asio::ssl::stream<Socket>;
  using Stream = std::variant<Socket, Secure>;

  static Stream make(Socket accepted, TlsContext* tls) {
    if (tls == nullptr) return Stream(std::move(accepted));
    return Stream(std::in_place_type<Secure>, std::move(accepted), tls->context);
  }

  std::shared_ptr<TlsContext> tls_;  // Before what uses it.
  Stream stream_;
};

}  // namespace penstock::http
