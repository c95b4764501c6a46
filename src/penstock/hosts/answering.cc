// Opens non-blocking TCP connections to all addresses at once, and polls them until time is over.
#include "penstock/hosts/answering.h"

#include <algorithm>
#include <cerrno>
#include <memory>

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "penstock/base/address.h"

namespace penstock::hosts {
namespace {

using Clock = std::chrono::steady_clock;
using Found = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

Found find(const std::string& address) {
  const auto parts = split_address(address);
  if (!parts) return {nullptr, ::freeaddrinfo};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(parts->host.c_str(), parts->port.c_str(), &hints, &found);
  return {failed == 0 ? found : nullptr, ::freeaddrinfo};
}

/// One connection that is being made.
struct Try {
  std::size_t address;
  int socket;
};

/// Connections to each place of an address, or that it answered at once.
class Tries {
 public:
  explicit Tries(std::size_t count) : answered_(count, false) {}
  Tries(const Tries&) = delete;
  Tries& operator=(const Tries&) = delete;
  ~Tries() {
    for (const auto& each : open_) ::close(each.socket);
  }

  void begin(std::size_t address, const addrinfo* places) {
    for (; places != nullptr; places = places->ai_next) {
      const int made = ::socket(places->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
      if (made < 0) continue;
      open_.push_back({address, made});
      const int failed = ::connect(made, places->ai_addr, places->ai_addrlen);
      if (failed == 0) answered_[address] = true;
      if (failed == 0 || errno != EINPROGRESS) drop(open_.size() - 1);
    }
  }

  void wait_until(Clock::time_point end) {
    while (!open_.empty()) {
      std::vector<pollfd> sockets;
      for (const auto& each : open_) sockets.push_back({each.socket, POLLOUT, 0});
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
      if (left <= 0) return;
      const int ready = ::poll(sockets.data(), sockets.size(), static_cast<int>(left));
      if (ready < 0 && errno != EINTR) return;
      if (ready <= 0) continue;
      for (std::size_t i = open_.size(); i-- > 0;) {
        if (sockets[i].revents != 0) finish(i);
      }
    }
  }

  [[nodiscard]] bool answered(std::size_t address) const { return answered_[address]; }

 private:
  void finish(std::size_t i) {
    int error = 0;
    socklen_t size = sizeof(error);
    const bool told = ::getsockopt(open_[i].socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0;
    if (told && error == 0) answered_[open_[i].address] = true;
    drop(i);
  }
  void drop(std::size_t i) {
    ::close(open_[i].socket);
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  std::vector<Try> open_;
  std::vector<bool> answered_;
};

}  // namespace

std::vector<std::string> silent_among(const std::vector<std::string>& addresses,
                                      std::chrono::milliseconds patience) {
  Tries tries(addresses.size());
  for (std::size_t i = 0; i < addresses.size(); ++i) tries.begin(i, find(addresses[i]).get());
  tries.wait_until(Clock::now() + patience);
  std::vector<std::string> silent;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    if (!tries.answered(i)) silent.push_back(addresses[i]);
  }
  return silent;
}

}  // namespace penstock::hosts
