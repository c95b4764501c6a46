// What of an error goes to a client.
#pragma once

#include <string>

#include "penstock/base/error.h"

namespace penstock::serve {

/// The error in one line. What a function of Python's raises has its traceback behind the first
/// one, which tells of files and code of this machine: they are their owner's.
inline std::string told_outside(const Error& error) {
  const auto message = error.message();
  return message.substr(0, message.find('\n'));
}

}  // namespace penstock::serve
