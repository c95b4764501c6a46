// Front: a server's models over HTTP, as the Open Inference Protocol has it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "penstock/base/result.h"
#include "penstock/base/tls_files.h"
#include "penstock/metrics/families.h"
#include "penstock/serve/access.h"
#include "penstock/serve/access_log.h"
#include "penstock/serve/server.h"

namespace penstock::rest {

class Front {
 public:
  struct Options {
    std::string address = "127.0.0.1:8000";  ///< Port 0: any that is free.
    std::optional<TlsFiles> tls;             ///< Empty: plain text.
    serve::AccessLog* log = nullptr;         ///< Outlives the front; null: none.
    /// Adds figures to those of /metrics. What it uses outlives the front. Any thread; empty: none.
    std::function<void(metrics::Families&)> figures;
    std::function<void(const std::string&)> say;  ///< What the operator should know; any thread.
  };

  /// \pre  `server` and `access` outlive it
  /// \error kUnavailable      the address cannot be listened on.
  /// \error kInvalidArgument  it is none; a certificate or key cannot be used.
  static Result<std::unique_ptr<Front>> start(serve::Server& server, const serve::Access& access,
                                              Options options);
  ~Front();
  Front(const Front&) = delete;
  Front& operator=(const Front&) = delete;

  /// Where it listens, with the port that was chosen.
  [[nodiscard]] const std::string& address() const;

  /// No new requests; those in progress end, or are cut off after `patience`. Idempotent.
  void stop(std::chrono::nanoseconds patience);

 private:
  struct State;
  explicit Front(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace penstock::rest
