// penstock-measure: compiles and times what another process of Penstock asks for.
// So a crash, a hang or a want of memory is that process's knowledge and not its end. No command
// for people.
//
// Standard input is a socket: a cost::Job in each line comes in, lines of cost::JobReport go out.
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <mutex>
#include <new>
#include <string>
#include <thread>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "penstock/backend/registry.h"
#include "penstock/base/memory_left.h"
#include "penstock/base/thread.h"
#include "penstock/cost/job.h"
#include "penstock/probe/execute.h"

namespace penstock::probe {
namespace {

using Clock = std::chrono::steady_clock;
using cost::JobReport;

constexpr auto kAliveEvery = std::chrono::milliseconds(200);

/// Bytes of data that the process has now: the limit counts them too.
[[maybe_unused]] std::uint64_t data_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmData:")) return std::strtoull(line.c_str() + 7, nullptr, 10) << 10U;
  }
  return 0;
}

/// Memory that runs out ends this process before any other.
void bound_memory([[maybe_unused]] std::uint64_t bytes) {
  std::ofstream("/proc/self/oom_score_adj") << 1000;
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // Their shadows count as data.
  if (bytes == 0) return;
  const rlimit limit{data_bytes() + bytes, data_bytes() + bytes};
  setrlimit(RLIMIT_DATA, &limit);
  // An engine that the limit ends is a result; whether it would, nobody knows beforehand.
  let_memory_run_out();
#endif
}

/// The socket, away from where an engine may read or print.
class Line {
 public:
  explicit Line(int socket) : socket_(socket) {}

  void send(const JobReport& report) const {
    const std::string text = to_line(report) + "\n";
    for (std::size_t sent = 0; sent < text.size();) {
      const auto n = ::send(socket_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (n < 0 && errno != EINTR) return;
      if (n > 0) sent += static_cast<std::size_t>(n);
    }
  }

  /// False: the other end is gone.
  bool receive(std::string& line) {
    for (;;) {
      if (const auto at = buffer_.find('\n'); at != std::string::npos) {
        line = buffer_.substr(0, at);
        buffer_.erase(0, at + 1);
        return true;
      }
      std::array<char, 4096> bytes{};
      const auto got = recv(socket_, bytes.data(), bytes.size(), 0);
      if (got == 0 || (got < 0 && errno != EINTR)) return false;
      if (got > 0) buffer_.append(bytes.data(), static_cast<std::size_t>(got));
    }
  }

 private:
  int socket_;
  std::string buffer_;
};

JobReport execute_safely(const cost::Job& job, const backend::Registry& backends,
                         const std::function<void(const std::string&)>& alive) {
  JobReport report;
  report.id = job.id;
  report.event = JobReport::Event::kFailed;
  report.phase = "run";
  try {
    return execute(job, backends, alive);
  } catch (const std::bad_alloc&) {
    report.error = out_of_memory();
  } catch (const std::exception& error) {
    report.error = make_error(Code::kUnknown, "an exception left the backend: ", error.what());
  }
  return report;
}

JobReport refusal_of(Error error) {
  JobReport report;
  report.event = JobReport::Event::kRefused;
  report.error = std::move(error);
  return report;
}

void work(const Line& line, const backend::Registry& backends, const std::string& text) {
  const auto job = cost::parse_job(text);
  if (!job) return line.send(refusal_of(job.error()));
  std::string last_phase;
  Clock::time_point next;
  const auto alive = [&](const std::string& phase) {
    const auto now = Clock::now();
    if (phase == last_phase && now < next) return;
    last_phase = phase;
    next = now + kAliveEvery;
    JobReport report;
    report.id = job->id;
    report.phase = phase;
    line.send(report);
  };
  line.send(execute_safely(*job, backends, alive));
}

/// Standard input's, which is then empty. Below 0: errno says why not.
int take_socket() {
  constexpr int kAboveWhatIsPrinted = STDERR_FILENO + 1;
  const int socket = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, kAboveWhatIsPrinted);
  const int null = socket < 0 ? -1 : open("/dev/null", O_RDONLY | O_CLOEXEC);
  return null < 0 || dup2(null, STDIN_FILENO) < 0 ? -1 : socket;
}

int run(int argc, char** argv) {
  std::signal(SIGINT, SIG_IGN);  // Ctrl-C is the other process's to answer.
  if (argc != 2) {
    std::fputs("penstock-measure is started by penstock; it is no command\n", stderr);
    return 2;
  }
  const int socket = take_socket();
  if (socket < 0) {
    std::fprintf(stderr,
                 "the connection cannot be kept open: %s; raise the limit of open files (ulimit "
                 "-n)\n",
                 std::strerror(errno));
    return 2;
  }
  Line line(socket);
  bound_memory(std::strtoull(argv[1], nullptr, 10));
  const auto backends = backend::Registry::load();
  JobReport ready;
  ready.event = JobReport::Event::kReady;
  line.send(ready);
  // Jobs have a thread of their own each: what one leaves behind on it ends with it, and this
  // thread notices at any time that nobody listens any more.
  std::thread worker;
  for (std::string text; line.receive(text);) {
    if (worker.joinable()) worker.join();
    Status started = start_thread(worker, [&line, &backends, text] { work(line, backends, text); });
    if (!started) line.send(refusal_of(std::move(started).error()));
  }
  std::_Exit(0);
}

}  // namespace
}  // namespace penstock::probe

int main(int argc, char** argv) {
  return penstock::probe::run(argc, argv);
}
