// Takes an exclusive flock() on a file beside the database, and tries again every 20 ms.
#include "penstock/cost/turn.h"

#include <cerrno>
#include <chrono>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace penstock::cost {

Turn Turn::wait(const std::filesystem::path& database, const std::function<bool()>& interrupted) {
  constexpr auto kAskEvery = std::chrono::milliseconds(20);
  constexpr int kForMe = 0600;
  if (database.empty()) return {-1, true};
  const std::string name = database.string() + ".turn";
  const int file = open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kForMe);
  if (file < 0) return {-1, true};
  while (flock(file, LOCK_EX | LOCK_NB) != 0) {
    // A file system without locks: nobody else has one either.
    if (errno != EWOULDBLOCK && errno != EINTR) return {file, true};
    if (interrupted()) return {file, false};
    std::this_thread::sleep_for(kAskEvery);
  }
  return {file, true};
}

Turn& Turn::operator=(Turn&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(taken_, other.taken_);
  return *this;
}

Turn::~Turn() {
  if (file_ >= 0) close(file_);
}

}  // namespace penstock::cost
