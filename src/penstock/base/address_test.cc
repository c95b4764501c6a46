// Addresses: what is taken apart, and what a malformed one is told.
#include "penstock/base/address.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(Address, AHostAndAPortAreTakenApart) {
  const std::map<std::string, std::pair<std::string, std::string>> right = {
      {"localhost:0", {"localhost", "0"}},
      {"127.0.0.1:65535", {"127.0.0.1", "65535"}},
      {"[::1]:8001", {"::1", "8001"}},
      {"a.b-c:080", {"a.b-c", "80"}},
  };
  for (const auto& [address, parts] : right) {
    const auto split = split_address(address);
    ASSERT_TRUE(split) << split.error().message();
    EXPECT_EQ(std::pair(split->host, split->port), parts);
  }
}

TEST(Address, ASocketsFileIsBehindItsPrefix) {
  EXPECT_EQ(socket_file("unix:/run/p.sock"), "/run/p.sock");
  EXPECT_EQ(socket_file("unix:"), "");
  EXPECT_EQ(socket_file("unix.example:8001"), std::nullopt);
  EXPECT_EQ(socket_file("/run/unix:p.sock"), std::nullopt);
}

TEST(Address, AMalformedOneIsToldWhatItLacks) {
  const std::map<std::string, std::string> wrong = {
      {"", "found ''"},
      {"8001", "found '8001'; for this machine alone write 127.0.0.1:8001"},
      {"here", "found 'here', which has no port"},
      {"[::1]", "found '[::1]', which has no port"},
      {"here:", "found 'here:': its port '' is no number from 0 to 65535"},
      {"here:70000", "found 'here:70000': its port '70000' is no number from 0 to 65535"},
      {"here:abc", "found 'here:abc': its port 'abc' is no number from 0 to 65535"},
      {"here:-1", "found 'here:-1': its port '-1' is no number from 0 to 65535"},
      {":8001", "found ':8001', which has no host; for this machine alone write 127.0.0.1:8001"},
      {"[]:8001",
       "found '[]:8001', which has no host; for this machine alone write 127.0.0.1:8001"},
      {"::1:8001", "found '::1:8001'; an IPv6 address stands in brackets: [::1]:8001"},
      {"fe80::1", "found 'fe80::1'; an IPv6 address stands in brackets: [fe80:]:1"},
  };
  for (const auto& [address, told] : wrong) {
    const auto split = split_address(address);
    ASSERT_FALSE(split) << address;
    EXPECT_EQ(split.error().message(),
              "expected an address HOST:PORT such as 127.0.0.1:8001, " + told);
  }
}

}  // namespace
}  // namespace penstock
