// Starts the process with posix_spawn on a socket, polls for its reports, and tells why it ended.
#include "penstock/cost/worker.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/device/cgroup.h"

namespace penstock::cost {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kProgram = "penstock-measure";
constexpr auto kAskEvery = std::chrono::milliseconds(100);
constexpr auto kEndPause = std::chrono::milliseconds(5);
constexpr int kEndTries = 1000;
// Loading backends on a busy machine is no hang of a part.
constexpr std::chrono::duration<double> kStartPatience = std::chrono::seconds(60);
// What the rest of the machine keeps: a tenth of what is left; where that is little, an eighth, up
// to this.
constexpr std::uint64_t kReserveBytes = 256ULL << 20U;

fs::path folder_of_library() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&find_measure_program), &info) == 0) return {};
  std::error_code ignored;
  return fs::canonical(info.dli_fname, ignored).parent_path();
}

std::uint64_t memory_left() {
  const auto available = device::available_memory();
  return available ? memory_of_measuring(*available) : 0;
}

/// The two ends of a stream: ours, and the one that becomes the process's standard input.
Result<std::array<int, 2>> socket_pair() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0) return ends;
  return make_error(Code::kUnavailable, kProgram, ": no socket: ", std::strerror(errno));
}

Result<int> spawn(const fs::path& program, int socket, int errors, std::uint64_t memory_bytes) {
  posix_spawn_file_actions_t actions{};
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
  std::array<std::string, 2> words{kProgram, std::to_string(memory_bytes)};
  std::array<char*, 3> arguments{words[0].data(), words[1].data(), nullptr};
  int pid = 0;
  const int code = posix_spawn(&pid, program.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (code == 0) return pid;
  return make_error(
      Code::kUnavailable, "program '", program.string(),
      "': cannot be started: ", std::strerror(code),
      code == EAGAIN ? "; raise the limit of processes (ulimit -u), or run less at once" : "");
}

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? concat("signal ", signal) : concat("SIG", name);
}

std::string seconds_text(std::chrono::duration<double> time) {
  return concat(time.count(), " s");
}

}  // namespace

Result<fs::path> find_measure_program() {
  if (const char* named = std::getenv("PENSTOCK_MEASURE"); named != nullptr && *named != '\0') {
    if (access(named, X_OK) == 0) return fs::path(named);
    return not_found("PENSTOCK_MEASURE: '", named, "' is no program; expected ", kProgram);
  }
  std::error_code ignored;
  const fs::path beside = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  const fs::path library = folder_of_library();
  const std::vector<fs::path> places = {
      beside / kProgram, beside / "../libexec/penstock" / kProgram,
      library / "../libexec/penstock" / kProgram, library / "../bin" / kProgram,
      library / "../../libexec/penstock" / kProgram};
  for (const auto& place : places) {
    if (access(place.c_str(), X_OK) == 0) return fs::canonical(place, ignored);
  }
  return not_found(
      "program 'penstock-measure': not found at ",
      join(places, ", ", [](const auto& place) { return place.lexically_normal().string(); }),
      "; install it, or name it with PENSTOCK_MEASURE");
}

std::uint64_t memory_of_measuring(std::uint64_t available) {
  return available - std::max(available / 10, std::min(available / 8, kReserveBytes));
}

std::uint64_t memory_limit(std::uint64_t asked) {
  const std::uint64_t left = memory_left();
  if (asked == 0 || left == 0) return std::max(asked, left);
  return std::min(asked, left);
}

Worker::Worker(int socket, int errors, int pid, const WorkerLimits& limits)
    : socket_(socket), errors_(errors), pid_(pid), limits_(limits) {}

Worker::~Worker() {
  end();
  close(socket_);
  close(errors_);
}

void Worker::end() {
  if (pid_ == 0) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
}

Result<std::unique_ptr<Worker>> Worker::start(const WorkerLimits& limits) {
  PENSTOCK_TRY(const auto program, find_measure_program());
  WorkerLimits set = limits;
  set.memory_bytes = memory_limit(limits.memory_bytes);
  PENSTOCK_TRY(const auto sockets, socket_pair());
  const int errors = memfd_create("penstock-measure-errors", MFD_CLOEXEC);
  // Appending, so that each job can begin with an empty file.
  if (errors >= 0) fcntl(errors, F_SETFL, O_APPEND);
  const auto pid =
      errors < 0 ? Result<int>(make_error(Code::kUnavailable, kProgram, ": ", std::strerror(errno)))
                 : spawn(program, sockets[1], errors, set.memory_bytes);
  close(sockets[1]);
  if (!pid) {
    close(sockets[0]);
    if (errors >= 0) close(errors);
    return pid.error();
  }
  std::unique_ptr<Worker> worker(new Worker(sockets[0], errors, *pid, set));
  PENSTOCK_CHECK_OK(worker->wait_until_ready());
  return worker;
}

Status Worker::wait_until_ready() {
  std::string line;
  const Read read =
      read_line(line, std::max(limits_.silence, kStartPatience), [] { return false; });
  if (read == Read::kLine) {
    PENSTOCK_TRY(const auto report, parse_report(line));
    if (report.event == JobReport::Event::kReady) return {};
    return make_error(Code::kUnavailable, kProgram, ": ", report.error.message());
  }
  const Failure failure = describe_end("started");
  return make_error(Code::kUnavailable, kProgram, ": ", failure.message);
}

Worker::Read Worker::read_line(std::string& line, std::chrono::duration<double> patience,
                               const std::function<bool()>& interrupted) {
  const auto end = Clock::now() + patience;
  for (;;) {
    if (const auto at = buffer_.find('\n'); at != std::string::npos) {
      line = buffer_.substr(0, at);
      buffer_.erase(0, at + 1);
      return Read::kLine;
    }
    if (interrupted()) return Read::kInterrupted;
    if (Clock::now() >= end) return Read::kSilent;
    pollfd waiting{socket_, POLLIN, 0};
    if (poll(&waiting, 1, static_cast<int>(kAskEvery.count())) <= 0) continue;
    std::array<char, 4096> bytes{};
    const auto got = recv(socket_, bytes.data(), bytes.size(), 0);
    if (got == 0 || (got < 0 && errno != EINTR)) return Read::kEnd;
    if (got > 0) buffer_.append(bytes.data(), static_cast<std::size_t>(got));
  }
}

Result<WorkerOutcome> Worker::run(const Job& job, const std::function<bool()>& interrupted) {
  ++jobs_;
  if (ftruncate(errors_, 0) != 0) return internal_error(kProgram, ": ", std::strerror(errno));
  const std::string text = to_line(job) + "\n";
  // A process that has died meanwhile is noticed below.
  for (std::size_t sent = 0; sent < text.size();) {
    const auto n = send(socket_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno != EINTR) break;
    if (n > 0) sent += static_cast<std::size_t>(n);
  }
  std::string phase = "loaded";
  bool told = false;
  for (std::string line;;) {
    const auto begin = Clock::now();
    const auto look = [&] {
      if (!told && phase != "loaded" && Clock::now() - begin >= kLongRun) {
        told = true;
        limits_.on_long_run();
      }
      return interrupted();
    };
    const Read read = read_line(line, limits_.silence, look);
    if (read == Read::kInterrupted) {
      end();
      return WorkerOutcome{WorkerOutcome::Kind::kInterrupted, {}, {}};
    }
    if (read == Read::kSilent) {
      end();
      const char* doing = phase == "loaded" ? "compiling" : "a run";
      return WorkerOutcome{WorkerOutcome::Kind::kDied,
                           {},
                           {FailureKind::kHang,
                            concat(doing, " did not end within ", seconds_text(limits_.silence))}};
    }
    if (read == Read::kEnd) {
      return WorkerOutcome{WorkerOutcome::Kind::kDied, {}, describe_end(phase)};
    }
    PENSTOCK_TRY(auto report, parse_report(line));
    if (report.event != JobReport::Event::kAlive) {
      return WorkerOutcome{WorkerOutcome::Kind::kReport, std::move(report), {}};
    }
    phase = report.phase;
  }
}

Failure Worker::describe_end(std::string_view phase) {
  int status = 0;
  rusage usage{};
  int ended = 0;
  for (int i = 0; i < kEndTries && ended <= 0; ++i) {
    ended = wait4(pid_, &status, WNOHANG, &usage);
    if (ended == 0) std::this_thread::sleep_for(kEndPause);
  }
  if (ended <= 0) {  // It lives, and closed the socket that it was given.
    end();
    return {FailureKind::kCrash, "the process closed the connection that it was given"};
  }
  pid_ = 0;
  const std::string_view doing = phase == "loaded"    ? "while it compiled"
                                 : phase == "started" ? "while it started"
                                                      : "while it ran";
  const std::string said = last_words();
  const std::string words = said.empty() ? "" : ": " + said;
  // ru_maxrss is in KiB.
  const auto peak = static_cast<std::uint64_t>(usage.ru_maxrss) << 10U;
  const bool was_full = limits_.memory_bytes > 0 && peak > limits_.memory_bytes / 10 * 9;
  if (was_full || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)) {
    return {FailureKind::kOutOfMemory,
            concat("out of memory ", doing, ", at ", peak >> 20U, " MiB", words)};
  }
  if (WIFSIGNALED(status)) {
    return {FailureKind::kCrash,
            concat("killed by ", signal_name(WTERMSIG(status)), " ", doing, words)};
  }
  return {FailureKind::kCrash,
          concat("the process ended with exit code ", WEXITSTATUS(status), " ", doing, words)};
}

std::string Worker::last_words() const {
  constexpr off_t kMost = 4096;
  constexpr std::size_t kShown = 200;
  const off_t size = lseek(errors_, 0, SEEK_END);
  std::string text(static_cast<std::size_t>(std::clamp<off_t>(size, 0, kMost)), '\0');
  const auto got = pread(errors_, text.data(), text.size(), std::max<off_t>(size - kMost, 0));
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  if (const auto at = text.rfind('\n'); at != std::string::npos) text.erase(0, at + 1);
  return text.substr(0, kShown);
}

}  // namespace penstock::cost
