// The process that compiles and times: started, spoken to, watched, ended. Internal to cost.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "penstock/base/result.h"
#include "penstock/cost/database.h"
#include "penstock/cost/job.h"
#include "penstock/cost/profiler.h"

namespace penstock::cost {

/// $PENSTOCK_MEASURE, else ../libexec/penstock/penstock-measure or penstock-measure beside the
/// running program or beside this library.
/// \error kNotFound  names the places
Result<std::filesystem::path> find_measure_program();

/// Of so many bytes that are left, those that a measuring process may take: the rest of the machine
/// keeps a tenth; of less than 2.5 GiB 256 MiB, of less than 2 GiB an eighth.
std::uint64_t memory_of_measuring(std::uint64_t available);

/// What a process may take that asks for so many bytes (0: for all): no more than nine tenths of
/// what the machine has left now. 0: nothing tells.
std::uint64_t memory_limit(std::uint64_t asked);

struct WorkerLimits {
  std::uint64_t memory_bytes = 0;         ///< Of the process's data; see memory_limit().
  std::chrono::duration<double> silence;  ///< Compiling, or one run, for longer is a hang.
  /// Called once in a job, of which a run has lasted for kLongRun.
  std::function<void()> on_long_run = [] {};
};

/// How a job ended.
struct WorkerOutcome {
  enum class Kind { kReport, kDied, kInterrupted };
  Kind kind = Kind::kReport;
  JobReport report;  ///< kReport: kDone, kFailed or kRefused.
  Failure failure;   ///< kDied: crash, hang or out of memory.
};

/// One process. Ends with the object.
class Worker {
 public:
  /// \error kNotFound     no program
  ///        kUnavailable  it cannot be started, or ended before it was ready
  static Result<std::unique_ptr<Worker>> start(const WorkerLimits& limits);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Blocks until the job has ended, or the process, or `interrupted` says true (asked ten times a
  /// second): then the process is killed. After kDied and kInterrupted it is of no more use.
  Result<WorkerOutcome> run(const Job& job, const std::function<bool()>& interrupted);

  /// Of the jobs that follow.
  void set_silence(std::chrono::duration<double> silence) { limits_.silence = silence; }
  [[nodiscard]] std::uint64_t memory_bytes() const { return limits_.memory_bytes; }  ///< 0: all.
  [[nodiscard]] std::int64_t jobs() const { return jobs_; }  ///< Given so far.

 private:
  Worker(int socket, int errors, int pid, const WorkerLimits& limits);

  enum class Read { kLine, kEnd, kSilent, kInterrupted };
  Read read_line(std::string& line, std::chrono::duration<double> patience,
                 const std::function<bool()>& interrupted);
  Failure describe_end(std::string_view phase);
  Status wait_until_ready();
  void end();
  [[nodiscard]] std::string last_words() const;

  int socket_;
  int errors_;  ///< What it wrote to stdout and stderr.
  int pid_;     ///< 0 once waited for.
  WorkerLimits limits_;
  std::string buffer_;
  std::int64_t jobs_ = 0;
};

}  // namespace penstock::cost
