// LogLines: what gRPC itself has to tell, in the server's log.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace penstock::grpc {

/// Lets each line through once a minute, with how often it came since: a stranger could fill the
/// log with one. Of more than `kMost` different lines in a minute it says so, in place of them.
class Seldom {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kMost = 64;

  /// What to tell of it, if anything.
  std::optional<std::string> admit(std::string line, Clock::time_point now);

 private:
  struct Told {
    Clock::time_point at;
    std::uint64_t since = 0;  // Times that it came and was not told.
  };
  std::map<std::string, Told> lines_;
};

/// Gives gRPC's own lines to `say` for as long as it lives; before and after, they go to the
/// standard error, as gRPC has them. Of several in a process, the last one made gets them.
/// Each goes there as Seldom lets it through.
class LogLines {
 public:
  using Say = std::function<void(const std::string&)>;

  /// \threads  `say` is called from any thread, and once more perhaps after the end.
  explicit LogLines(Say say);
  ~LogLines();
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;

 private:
  std::shared_ptr<const Say> say_;
};

}  // namespace penstock::grpc
