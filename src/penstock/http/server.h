// Server: HTTP/1.1 on a port, over plain text or TLS. Knows nothing of what is served.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "penstock/base/result.h"
#include "penstock/base/tls_files.h"
#include "penstock/http/router.h"

namespace penstock::http {

/// What strangers may take of the server.
struct Limits {
  std::size_t header_bytes = 16U << 10U;  ///< Of the request's line and headers.
  std::size_t body_bytes = 64U << 20U;    ///< Of one body, packed and unpacked.
  std::size_t bodies_bytes = 1U << 30U;   ///< Of all bodies that are here.
  std::size_t connections = 16384;        ///< At once; those over it are turned away.
  std::chrono::milliseconds handshake_timeout{10'000};
  std::chrono::milliseconds header_timeout{10'000};  ///< From a request's first byte.
  std::chrono::milliseconds idle_timeout{300'000};   ///< Between requests.
  /// For a body or a response of no bytes; each further byte adds to it.
  std::chrono::milliseconds transfer_timeout{30'000};
  std::size_t least_bytes_per_second = 256U << 10U;  ///< A slower peer runs out of that time.
};

/// One exchange, when it is over.
struct Served {
  Peer peer;
  std::string client;  ///< Whose rights it had.
  std::string method, target;
  int status = 0;                                       ///< 499: the client left before the answer.
  std::uint64_t request_bytes = 0, response_bytes = 0;  ///< Of the bodies, as sent.
  std::chrono::nanoseconds duration{0};                 ///< From its headers to the answer's end.
  std::map<std::string, std::string> notes;             ///< Of the response.
};

struct Options {
  std::string address = "127.0.0.1:8000";  ///< "HOST:PORT"; port 0: any that is free.
  int threads = 2;
  Limits limits;
  std::optional<TlsFiles> tls;
  std::function<void(const std::string&)> say;  ///< What the operator should know; any thread.
  std::function<void(const Served&)> log;       ///< Any thread.
};

class Server {
 public:
  /// \error kUnavailable      the address cannot be listened on, with the system's reason.
  /// \error kResourceExhausted  the system has no thread left.
  /// \error kInvalidArgument  the address is none; a certificate or key cannot be used.
  static Result<std::unique_ptr<Server>> start(Options options, Router router);
  /// As stop(0).
  ~Server();

  /// "127.0.0.1:8000", with the port that was found free.
  [[nodiscard]] const std::string& address() const;
  [[nodiscard]] std::size_t connections() const;

  /// Takes no more connections, closes those that wait, and lets requests in progress end, for at
  /// most `timeout`. False where some had not ended, which are cut off. Once.
  bool stop(std::chrono::nanoseconds timeout);

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace penstock::http
