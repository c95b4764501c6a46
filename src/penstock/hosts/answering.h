// Whether anything listens where plans say that machines are.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace penstock::hosts {

/// Those of the addresses ("host:port") where nobody takes a connection within `patience`, all of
/// them asked at once; finding the addresses of names takes as long as the system lets it. Who
/// listens there is not asked, and needs no certificate to be known.
std::vector<std::string> silent_among(const std::vector<std::string>& addresses,
                                      std::chrono::milliseconds patience);

}  // namespace penstock::hosts
