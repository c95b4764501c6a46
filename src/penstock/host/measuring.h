// Measuring: jobs of penstock-measure for callers of other machines.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/cost/job.h"
#include "penstock/cost/worker.h"
#include "penstock/host/contents.h"

namespace penstock::host {

struct MeasureOrder {
  std::string job;  ///< One line of JSON: cost::Job. Each file that it names is one of `files`.
  std::vector<std::pair<std::string, HeldContent>> files;
  std::uint64_t memory_bytes = 0;       ///< Of the process's data; 0: what the machine has left.
  std::chrono::nanoseconds silence{0};  ///< Compiling, or one run, for longer is a hang. 0: 60 s.
};

struct Measured {
  std::string report;  ///< One line of JSON: cost::JobReport. Empty: the process died.
  std::string died;    ///< cost::FailureKind.
  std::string why;     ///< A sentence.
};

/// The job with its files where they are laid out in `folder`.
/// \error kInvalidArgument   no job; it names a file that was not sent, or wants outputs written.
/// \error kPermissionDenied  native code, or an option that names a file, and neither is allowed.
Result<cost::Job> place_job(const MeasureOrder& order, const std::filesystem::path& folder,
                            bool native_code);

/// \threads  all functions may be called from any thread: jobs wait for one another.
class Measuring {
 public:
  /// Blocks until the job has ended, or `interrupted` says true: kCancelled then.
  /// \error as place_job() and cost::Worker::start()
  Result<Measured> run(const MeasureOrder& order, Contents& contents, bool native_code,
                       const std::function<bool()>& interrupted);
  /// Ends the process, unless a job runs.
  void rest();

 private:
  Result<Measured> run_placed(const cost::Job& job, const MeasureOrder& order,
                              const std::function<bool()>& interrupted);

  std::mutex mutex_;  // Guards all below; held while a job runs.
  std::unique_ptr<cost::Worker> process_;
  std::uint64_t memory_bytes_ = 0;  // As it was asked for.
  std::chrono::nanoseconds silence_{0};
};

}  // namespace penstock::host
