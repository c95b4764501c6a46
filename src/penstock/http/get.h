// get() and Listener: requests of this program to a server.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/http/message.h"

namespace penstock::http {

struct Answer {
  int status = 0;
  std::string body;
};

/// Plain text, on a connection of its own. `address`: "HOST:PORT".
/// \error kInvalidArgument   the address is none.
/// \error kUnavailable       nobody answers there, or not in HTTP: names the address and why.
/// \error kDeadlineExceeded  not within `timeout`, or before `stopped` said true.
Result<Answer> get(const std::string& address, const std::string& target,
                   const std::vector<Header>& headers, std::chrono::nanoseconds timeout,
                   const std::function<bool()>& stopped = {});

/// An answer that goes on, as server-sent events do. What nobody waits for is forgotten.
///
/// \threads  one at a time.
class Listener {
 public:
  /// Asks, as get(), with the first wait. \error kInvalidArgument  the address is none.
  static Result<Listener> start(const std::string& address, const std::string& target,
                                const std::vector<Header>& headers);
  Listener(Listener&&) noexcept;
  Listener& operator=(Listener&&) noexcept;
  ~Listener();

  /// Reads on until `words` have come, behind those of the wait before. \returns whether: not
  /// within `time`, before `stopped` said true, or before the end.
  bool wait_for(std::string_view words, std::chrono::nanoseconds time,
                const std::function<bool()>& stopped = {});
  /// Whether no more comes: the answer has ended, was cut off, or nobody gives one.
  [[nodiscard]] bool ended() const;

 private:
  class State;
  explicit Listener(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace penstock::http
