// CallLog: a line of the access log for each call, and for each request of a stream.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <optional>
#include <string>

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include "penstock/serve/access_log.h"
#include "penstock/serve/request.h"

namespace penstock::grpc {

/// Keeps nothing, and does nothing, where there is no log.
class CallLog {
 public:
  /// `method` is the call's name in the service. \pre `log` is null or outlives it
  CallLog(serve::AccessLog* log, const ::grpc::CallbackServerContext& context, const char* kind,
          const char* method, const char* service = "inference.GRPCInferenceService");

  void client(const std::string& name);  ///< Whose right it is.
  void received(std::size_t bytes);
  void asks(const serve::Request& request);
  void note(const char* what, const std::string& text);  ///< Nothing where the text is empty.
  /// note() of a text that is made only where there is a log.
  template <std::invocable Make>
  void note(const char* what, Make make) {
    if (entry_) note(what, std::string(make()));
  }
  /// Writes the line; once.
  void end(const ::grpc::Status& status, std::size_t bytes = 0);

 private:
  serve::AccessLog* const log_;
  std::optional<serve::AccessEntry> entry_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace penstock::grpc
