// Tuning: which of several ways is the fastest on this device, found by timing them at compilation.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gpu.h"

namespace penstock::cuda {

/// A stream and scratch memory of its own for the time of a choice.
class Timer {
 public:
  static Result<Timer> create(Gpu& gpu);

  [[nodiscard]] Stream stream() const { return stream_.get(); }
  /// Memory with some small positive f32 numbers in it, until the timer is gone.
  Result<DevicePointer> scratch(std::size_t bytes);
  /// Milliseconds of one run, the fastest of several. What `run` refuses it refuses.
  Result<float> time(const std::function<Status()>& run);

 private:
  explicit Timer(Gpu& gpu) : gpu_(&gpu) {}

  Gpu* gpu_;
  std::shared_ptr<CUstream_st> stream_;
  std::shared_ptr<CUevent_st> begin_, end_;
  std::vector<DeviceStorage> storage_;
};

/// What was chosen for a question before, in this process.
template <typename Choice>
class Choices {
 public:
  std::optional<Choice> find(const std::string& question) {
    const std::scoped_lock lock(mutex_);
    const auto found = made_.find(question);
    return found == made_.end() ? std::nullopt : std::optional<Choice>(found->second);
  }
  void keep(const std::string& question, const Choice& choice) {
    const std::scoped_lock lock(mutex_);
    made_.emplace(question, choice);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Choice> made_;
};

}  // namespace penstock::cuda
