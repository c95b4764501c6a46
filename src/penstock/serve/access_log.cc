// Makes each entry a JSON object on one line and appends it to the file, without ever waiting.
#include "penstock/serve/access_log.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <ctime>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/serve/told_outside.h"

namespace penstock::serve {
namespace {

std::string time_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  const std::time_t seconds = milliseconds / 1000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%FT%T", &parts);
  const std::string fraction = std::to_string(1000 + milliseconds % 1000).substr(1);
  return concat(text.data(), ".", fraction, "Z");
}

constexpr auto kCalm = std::chrono::seconds(1);  // Without a loss: it goes on.

std::string loss_reason(int error) {
  if (error == EAGAIN) return "nobody reads on";
  if (error == ENXIO) return "nobody reads this pipe; start its reader first";
  return std::generic_category().message(error);
}

/// Without O_NONBLOCK, a FIFO would wait for its reader. The standard output stays as it is, as
/// other processes may share it.
Result<int> open_file(const std::string& file) {
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_CLOEXEC;
  const int descriptor = file == "-" ? dup(STDOUT_FILENO) : ::open(file.c_str(), kFlags, 0640);
  if (descriptor >= 0) return descriptor;
  return make_error(Code::kPermissionDenied,
                    "the access log cannot be written: ", loss_reason(errno))
      .within({Where::kFile, file});
}

bool has_room(int descriptor) {
  pollfd asked{descriptor, POLLOUT, 0};
  return ::poll(&asked, 1, 0) == 1;
}

/// How much one write() takes: a line as a whole, also beside other programs that append to the
/// file. A pipe with room at all has room for PIPE_BUF bytes.
std::size_t most_at_once(int descriptor) {
  struct stat status{};
  const bool is_file = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  return is_file ? SSIZE_MAX : PIPE_BUF;
}

bool are_same(int first, int second) {
  struct stat one{}, other{};
  return ::fstat(first, &one) == 0 && ::fstat(second, &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

/// What can be written without waiting. \returns how much; if not all, errno says why.
std::size_t write_now(int descriptor, std::string_view text) {
  const std::size_t most = most_at_once(descriptor);
  std::size_t done = 0;
  while (done < text.size()) {
    errno = EAGAIN;
    if (!has_room(descriptor)) break;
    const auto rest = text.substr(done, most);
    const auto written = ::write(descriptor, rest.data(), rest.size());
    if (written <= 0) break;
    done += static_cast<std::size_t>(written);
  }
  return done;
}

}  // namespace

Result<std::unique_ptr<AccessLog>> AccessLog::open(const std::string& file, Say say) {
  PENSTOCK_TRY(const int descriptor, open_file(file));
  return std::unique_ptr<AccessLog>(new AccessLog(file, descriptor, std::move(say)));
}

Status AccessLog::reopen() {
  PENSTOCK_TRY(const int fresh, open_file(file_));
  const std::scoped_lock lock(mutex_);
  cut_ = cut_ && are_same(fresh, descriptor_);
  dup3(fresh, descriptor_, O_CLOEXEC);
  close(fresh);
  return {};
}

AccessLog::~AccessLog() {
  close(descriptor_);
}

void AccessLog::write(const AccessEntry& entry) {
  nlohmann::ordered_json line = {{"time", time_now()},
                                 {"protocol", entry.protocol},
                                 {"peer", entry.peer},
                                 {"method", entry.method},
                                 {"target", entry.target},
                                 {"status", entry.status},
                                 {"request_bytes", entry.request_bytes},
                                 {"response_bytes", entry.response_bytes},
                                 {"duration_us", entry.duration.count() / 1000}};
  if (!entry.client.empty()) line["client"] = entry.client;
  for (const auto& [name, value] : entry.notes) line[name] = beginning(value, kLongestError);
  // A client's own bytes may be no UTF-8, and must not begin a line of their own.
  const auto text =
      line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  const auto told = append(text);
  if (!told.empty() && say_) say_(told);
}

void AccessLog::tell_lost() {
  std::uint64_t lost = 0;
  {
    const std::scoped_lock lock(mutex_);
    lost = std::exchange(lost_, 0);
  }
  if (lost > 0 && say_) say_(concat("access log '", file_, "': ends; lines lost: ", lost));
}

std::string AccessLog::append(const std::string& line) {
  const std::scoped_lock lock(mutex_);
  const std::string text = cut_ ? "\n" + line : line;
  const std::size_t done = write_now(descriptor_, text);
  const int error = errno;
  if (done > 0) cut_ = text[done - 1] != '\n';
  const auto now = std::chrono::steady_clock::now();
  if (done == text.size()) {
    if (lost_ == 0 || now - last_loss_ < kCalm) return {};
    const auto lost = std::exchange(lost_, 0);
    return concat("access log '", file_, "': goes on; lines lost: ", lost);
  }
  last_loss_ = now;
  if (++lost_ > 1) return {};
  return concat("access log '", file_, "': lines are lost: ", loss_reason(error));
}

}  // namespace penstock::serve
