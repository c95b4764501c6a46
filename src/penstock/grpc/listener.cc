// Accepts in one thread by poll(), and counts open connections by the inodes of their sockets.
#include "penstock/grpc/listener.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "penstock/base/address.h"
#include "penstock/base/thread.h"

namespace penstock::grpc {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kBetweenCounts = std::chrono::milliseconds(10);
constexpr int kRetryMs = 100;  // Where no descriptor is left.
constexpr int kBacklog = 4096;

std::string reason_of(int error) {
  return std::error_code(error, std::generic_category()).message();
}

Error cannot_listen(const std::string& address, const std::string& reason) {
  return make_error(Code::kUnavailable, "'", address, "' cannot be listened on: ", reason,
                    "; expected HOST:PORT of this machine, free",
                    address.starts_with("unix:") ? ", or unix:PATH" : "");
}

Error cannot_listen(const std::string& address, const std::string& port, int error) {
  if (error != EADDRINUSE) return cannot_listen(address, reason_of(error));
  return make_error(Code::kUnavailable, "'", address,
                    "' cannot be listened on: ", port_is_taken(port, reason_of(error)));
}

/// Which socket the descriptor is of: the system numbers them. 0: of none.
ino_t socket_of(int descriptor) {
  struct stat about{};
  if (::fstat(descriptor, &about) != 0 || !S_ISSOCK(about.st_mode)) return 0;
  return about.st_ino;
}

/// Of a socket's file. 0: there is none.
ino_t inode_of(const std::filesystem::path& file) {
  struct stat about{};
  return ::lstat(file.c_str(), &about) == 0 && S_ISSOCK(about.st_mode) ? about.st_ino : 0;
}

int port_of(int descriptor) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
}

void set(int descriptor, int level, int option, int value) {
  // One that the system lacks is no reason not to serve.
  static_cast<void>(::setsockopt(descriptor, level, option, &value, sizeof value));
}

void set_port(sockaddr* address, int port) {
  const auto number = htons(static_cast<std::uint16_t>(port));
  if (address->sa_family == AF_INET) {
    reinterpret_cast<sockaddr_in*>(address)->sin_port = number;
  } else {
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = number;
  }
}

/// Listens; -1, and errno says why, where that is not possible.
int listen_at(int family, const sockaddr* address, socklen_t size) {
  Descriptor made(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (made.get() < 0) return -1;
  if (family != AF_UNIX) set(made.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (family == AF_INET6) set(made.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(made.get(), address, size) != 0 || ::listen(made.get(), kBacklog) != 0) return -1;
  return made.release();
}

/// A socket that a server left refuses; one in use may be another user's, or of another kind.
bool is_listened_on(const sockaddr_un& address) {
  const Descriptor made(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (made.get() < 0) return false;
  const auto* at = reinterpret_cast<const sockaddr*>(&address);
  return ::connect(made.get(), at, sizeof address) == 0 ||
         (errno != ECONNREFUSED && errno != ENOENT);
}

}  // namespace

Descriptor::Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}
Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}
int Descriptor::release() {
  return std::exchange(number_, -1);
}

Result<std::unique_ptr<Listener>> Listener::bind(const std::string& address) {
  std::unique_ptr<Listener> made(new Listener);
  if (const auto file = socket_file(address)) {
    made->address_ = address;
    PENSTOCK_CHECK_OK(made->open_unix(std::string(*file)));
    return made;
  }
  const auto parts = split_address(address);
  if (!parts) {
    return make_error(Code::kUnavailable, "'", address,
                      "' cannot be listened on: ", parts.error().message(), ", or unix:PATH");
  }
  made->address_ = address.substr(0, address.rfind(':') + 1);
  PENSTOCK_CHECK_OK(made->open(parts->host, parts->port));
  made->address_ += std::to_string(port_of(made->listening_.front().get()));
  return made;
}

Status Listener::open_unix(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return cannot_listen(address_, "the path is empty or too long");
  }
  std::memcpy(static_cast<void*>(address.sun_path), path.c_str(), path.size() + 1);
  struct stat before{};
  if (::lstat(path.c_str(), &before) == 0 && S_ISSOCK(before.st_mode)) {
    if (is_listened_on(address)) {
      return cannot_listen(address_, "another process listens there already");
    }
    ::unlink(path.c_str());
  }
  const int made = listen_at(AF_UNIX, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  if (made < 0) return cannot_listen(address_, reason_of(errno));
  listening_.emplace_back(made);
  std::error_code failed;
  file_ = std::filesystem::absolute(path, failed);  // The process may go elsewhere.
  inode_ = inode_of(file_);
  return {};
}

/// Unless somebody else has put another one there.
void Listener::remove_file() {
  const auto file = std::exchange(file_, {});
  if (!file.empty() && inode_of(file) == inode_) ::unlink(file.c_str());
}

Status Listener::open(const std::string& host, const std::string& port) {
  const std::string text = address_ + port;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int failed = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found); failed != 0) {
    return cannot_listen(text, ::gai_strerror(failed));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, ::freeaddrinfo);
  int error = 0;
  std::set<std::string> seen;  // A name may have one address twice.
  for (const auto* at = found; at != nullptr; at = at->ai_next) {
    if (!listening_.empty()) set_port(at->ai_addr, port_of(listening_.front().get()));
    const auto* bytes = reinterpret_cast<const char*>(at->ai_addr);
    if (!seen.emplace(bytes, at->ai_addrlen).second) continue;
    const int made = listen_at(at->ai_family, at->ai_addr, at->ai_addrlen);
    if (made >= 0) listening_.emplace_back(made);
    if (made < 0) error = errno;
    // Half of the name's clients would reach whoever has it.
    if (made < 0 && error == EADDRINUSE && port != "0") return cannot_listen(text, port, error);
  }
  if (listening_.empty()) return cannot_listen(text, port, error);
  return {};
}

Listener::~Listener() {
  stop();
}

Status Listener::start(std::size_t most, Take take) {
  most_ = most;
  take_ = std::move(take);
  wake_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (wake_.get() < 0) {
    return make_error(Code::kResourceExhausted, "no descriptor for listening: ", reason_of(errno));
  }
  return start_thread(thread_, [this] { loop(); });
}

void Listener::stop() {
  remove_file();
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  static_cast<void>(::write(wake_.get(), &one, sizeof one));
  thread_.join();
  listening_.clear();
}

void Listener::loop() {
  std::vector<pollfd> waits{{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
  for (const auto& listening : listening_) {
    waits.push_back({.fd = listening.get(), .events = POLLIN, .revents = 0});
  }
  while (true) {
    // Who waits for a descriptor would be told of at once, again and again.
    const bool starved = std::exchange(starved_, false);
    const nfds_t count = starved ? 1 : waits.size();
    if (::poll(waits.data(), count, starved ? kRetryMs : -1) < 0 && errno != EINTR) return;
    if ((waits.front().revents & POLLIN) != 0) return;
    for (const auto& listening : listening_) accept_all(listening.get());
  }
}

void Listener::accept_all(int listening) {
  while (true) {
    Descriptor connection(::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection.get() >= 0) {
      take_in(std::move(connection));
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    starved_ = starved_ || (errno != EAGAIN && errno != EWOULDBLOCK);
    return;
  }
}

void Listener::take_in(Descriptor connection) {
  // A GOAWAY would make gRPC's clients come again at once, and again; a connection that is closed
  // makes them wait longer each time.
  if (!has_room()) return;
  set(connection.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  open_.insert_or_assign(connection.get(), socket_of(connection.get()));
  take_(connection.release());
}

/// gRPC tells nobody when it closes a connection; but then its descriptor is closed, or is another
/// socket's.
bool Listener::has_room() {
  if (open_.size() < most_) return true;
  const auto now = Clock::now();
  if (now - counted_ < kBetweenCounts) return false;
  counted_ = now;
  std::erase_if(open_, [](const auto& held) { return socket_of(held.first) != held.second; });
  return open_.size() < most_;
}

}  // namespace penstock::grpc
