// Admission: the bounded queue of requests that wait for room in a pipeline.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "penstock/base/result.h"
#include "penstock/pipeline/frame.h"

namespace penstock::serve {

/// Who wants in.
class Entrant {
 public:
  virtual ~Entrant() = default;
  [[nodiscard]] virtual pipeline::Priority priority() const = 0;
  [[nodiscard]] virtual std::optional<std::chrono::steady_clock::time_point> deadline() const = 0;
  /// \error kDeadlineExceeded  no room within `timeout`. Others end it.
  virtual Status push(std::chrono::nanoseconds timeout) = 0;
  /// It is not pushed, and will not be. Called without a lock.
  virtual void refuse(Error error) = 0;
};

/// Where nobody waits an entrant is pushed at once, by its own thread; else it waits, behind those
/// that came before it and, unless its priority is high, those of high priority.
/// \threads  all functions may be called from any thread.
class Admission {
 public:
  /// `between`: called between pushes by the thread that pushes those who wait, while it returns
  /// false or wake() was called.
  static Result<std::unique_ptr<Admission>> start(std::size_t most_waiting,
                                                  std::function<bool()> between);
  /// \pre  nobody waits
  ~Admission();
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  /// refuse() is called within where it cannot wait: kResourceExhausted  so many do.
  void add(const std::shared_ptr<Entrant>& entrant);
  /// Takes it out of those who wait. \returns whether it was among them.
  bool remove(const Entrant& entrant);
  void wake();
  [[nodiscard]] std::size_t waiting() const;

 private:
  using Clock = std::chrono::steady_clock;
  using Queue = std::deque<std::shared_ptr<Entrant>>;

  Admission(std::size_t most_waiting, std::function<bool()> between)
      : most_waiting_(most_waiting), between_(std::move(between)) {}
  void loop();
  void push_first(std::unique_lock<std::mutex>& lock);
  void refuse_late(std::unique_lock<std::mutex>& lock);
  [[nodiscard]] std::size_t count() const {
    return high_.size() + normal_.size() + (pushing_ ? 1 : 0);
  }
  Queue& queue_of(const Entrant& entrant);

  const std::size_t most_waiting_;
  const std::function<bool()> between_;
  mutable std::mutex mutex_;  // Guards all below, and orders pushes that do not wait.
  std::condition_variable changed_;
  Queue high_, normal_;
  bool pushing_ = false;  // The thread pushes one that it took out.
  bool asked_ = false;    // For `between_`.
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace penstock::serve
