// Runs of a reference that may never end, as where a loop waits for a value that does not come.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "penstock/measure/reference.h"

namespace penstock::measure {

/// What a person should know of a network whose frame has not ended for so long. `random`: nobody
/// gave the frames.
std::string tell_long_run(const std::string& network, std::chrono::seconds lasted, bool random);

/// `tell`, but once however often it is called. Any thread.
std::function<void()> once(std::function<void()> tell);

/// Why a frame failed that a limit has ended. kDeadlineExceeded
Error endless_run(std::chrono::nanoseconds limit);
/// Whether endless_run() made it: a stage's deadline names the stage.
bool is_endless_run(const Error& error);

/// A reference that tells once, on a thread of its own, of a run that has lasted so long. Borrows.
class WatchedReference final : public Reference {
 public:
  using Clock = std::chrono::steady_clock;
  WatchedReference(Reference& reference, std::function<void()> tell, Clock::duration longest);
  ~WatchedReference() override;

  Result<std::vector<Tensor>> run(const frames::Frame& inputs) override;
  void choose_stream(std::uint64_t stream) override { reference_.choose_stream(stream); }
  Status begin_sequence() override { return reference_.begin_sequence(); }
  void limit_runs(Limit limit) override { reference_.limit_runs(limit); }

 private:
  void watch();
  void runs_since(std::optional<Clock::time_point> begin);

  Reference& reference_;
  const std::function<void()> tell_;
  const Clock::duration longest_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Clock::time_point> began_;  ///< Of the run that goes on.
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace penstock::measure
