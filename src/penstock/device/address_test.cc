// Which addresses count as this machine's, among IP addresses, names, sockets and broken text.
#include "penstock/device/address.h"

#include <gtest/gtest.h>

namespace penstock::device {
namespace {

TEST(AddressTest, OnlyThisMachineReachesLoopback) {
  for (const char* address :
       {"127.0.0.1:8001", "127.9.8.7", "localhost:1", "[::1]:8001", "::1", "unix:/run/penstock",
        "[::ffff:127.0.0.1]:8001", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(is_loopback(address)) << address;
  }
  for (const char* address :
       {"0.0.0.0:8001", "[::]:8001", "10.0.0.2:8001", "127.evil.example:8001", "127.0.0.1.example",
        "localhost.example:1", "[::ffff:10.0.0.2]:8001", ":8001", "", "["}) {
    EXPECT_FALSE(is_loopback(address)) << address;
  }
}

}  // namespace
}  // namespace penstock::device
