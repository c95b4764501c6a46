// AccessLog: one line of JSON for each request, whichever protocol it came by.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "penstock/base/result.h"

namespace penstock::serve {

struct AccessEntry {
  std::string protocol;  ///< "http", "grpc"
  std::string peer;      ///< "10.0.0.7:43210"
  std::string client;    ///< Whose rights it had; empty: nobody was asked.
  std::string method;    ///< "POST"
  std::string target;    ///< "/v2/models/m/infer"
  int status = 0;        ///< As the protocol counts.
  std::uint64_t request_bytes = 0, response_bytes = 0;
  std::chrono::nanoseconds duration{0};
  std::map<std::string, std::string> notes;  ///< Model, error, trace.
};

/// \threads  write() and reopen() may be called from any thread.
class AccessLog {
 public:
  using Say = std::function<void(const std::string&)>;

  /// Appends to the file; "-" is the standard output. Of lost lines `say` is told, by any thread.
  /// \error kPermissionDenied  it cannot be written, with the system's reason.
  static Result<std::unique_ptr<AccessLog>> open(const std::string& file, Say say);
  ~AccessLog();
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  /// Goes on in the file of that name, which may be another one than before: a program that turns
  /// logs over has moved the old one away. \error as open(); the old one stays in use.
  Status reopen();

  /// One line, written whole. What cannot be written at once is lost: nobody waits for the reader
  /// of a pipe.
  void write(const AccessEntry& entry);

  /// Tells how many lines were lost since it was told last that it goes on.
  void tell_lost();

 private:
  AccessLog(std::string file, int descriptor, Say say)
      : file_(std::move(file)), descriptor_(descriptor), say_(std::move(say)) {}

  /// \returns what is to be said of lost lines; empty: nothing.
  std::string append(const std::string& line);

  const std::string file_;
  const int descriptor_;
  const Say say_;  // Null: nobody hears.
  std::mutex mutex_;
  // Guarded by mutex_:
  bool cut_ = false;        // The last line has no end.
  std::uint64_t lost_ = 0;  // Lines, until it is told that it goes on.
  std::chrono::steady_clock::time_point last_loss_;
};

}  // namespace penstock::serve
