// get(): one request of this program to a server.
#pragma once

#include <chrono>
#include <functional>
#include <string>
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

}  // namespace penstock::http
