// A thread sleeps until a run has lasted too long, or all runs are over.
#include "penstock/measure/slow_runs.h"

#include <memory>
#include <utility>

#include "penstock/base/option_name.h"
#include "penstock/base/thread.h"

namespace penstock::measure {

std::string tell_long_run(const std::string& network, std::chrono::seconds lasted, bool random) {
  const auto frames = concat("frames of your own (", OptionName::kFrames, ") may end");
  return concat("'", network, "': a frame has not ended for ", lasted.count(),
                " s; a loop in it may wait for a value that ",
                random ? concat("random frames never give: ", frames)
                       : "this frame never gives: other frames may end",
                "; an interrupt (Ctrl-C) stops the wait");
}

std::function<void()> once(std::function<void()> tell) {
  return [tell = std::move(tell), told = std::make_shared<std::once_flag>()] {
    std::call_once(*told, tell);
  };
}

Error endless_run(std::chrono::nanoseconds limit) {
  return make_error(Code::kDeadlineExceeded, "a frame did not end within ",
                    std::chrono::duration<double>(limit).count(),
                    " s: a loop in the network may wait for a value that the frame never gives; "
                    "give frames that end it (",
                    OptionName::kFrames, ")");
}

bool is_endless_run(const Error& error) {
  return error.code == Code::kDeadlineExceeded && error.places.empty();
}

WatchedReference::WatchedReference(Reference& reference, std::function<void()> tell,
                                   Clock::duration longest)
    : reference_(reference), tell_(std::move(tell)), longest_(longest) {
  if (tell_) (void)start_thread(thread_, [this] { watch(); });  // Without one nothing is told.
}

WatchedReference::~WatchedReference() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Result<std::vector<Tensor>> WatchedReference::run(const frames::Frame& inputs) {
  runs_since(Clock::now());
  auto outputs = reference_.run(inputs);
  runs_since(std::nullopt);
  return outputs;
}

void WatchedReference::runs_since(std::optional<Clock::time_point> begin) {
  const std::scoped_lock lock(mutex_);
  began_ = begin;
}

void WatchedReference::watch() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    if (began_ && Clock::now() - *began_ >= longest_) return tell_();
    changed_.wait_for(lock, longest_ / 4);
  }
}

}  // namespace penstock::measure
