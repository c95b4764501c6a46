// Workers: OpenVINO's threads, kept on the CPUs of the stage that they belong to.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/result.h"

namespace penstock::openvino {

/// Whether the system has `count` more threads now. OpenVINO must not meet the limit itself: it
/// hangs or ends the process where a thread is refused.
/// \error kResourceExhausted  it has not.
Status check_threads_left(int count);

/// The threads that compute beside a caller are one pool for the process, and run on any CPU
/// whatever the mask of the thread that needs them. So what has several threads must be on the same
/// CPUs at a time, and the pool's threads are moved there as they appear.
class WorkerPool {
 public:
  /// Held by each compiled model of several threads.
  class Claim {
   public:
    explicit Claim(std::shared_ptr<WorkerPool> pool) : pool_(std::move(pool)) {}
    ~Claim();
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;
    [[nodiscard]] WorkerPool& pool() const { return *pool_; }

   private:
    std::shared_ptr<WorkerPool> pool_;
  };

  /// For the calling thread's CPUs. \error kFailedPrecondition  it is claimed for others.
  static Result<std::shared_ptr<Claim>> claim(const std::shared_ptr<WorkerPool>& pool);

 private:
  friend class Watch;
  std::mutex mutex_;
  int claims_ = 0;
  std::vector<int> cpus_;               // Of all claims.
  std::map<int, std::string> workers_;  // By id: of all claims so far, with their names.
};

/// The threads that come with one compiled model. Made before it, on the thread that compiles.
class Watch {
 public:
  /// `claim`: of a model of several threads, else null.
  explicit Watch(std::shared_ptr<WorkerPool::Claim> claim);

  /// Moves every thread that appeared since and bears the calling thread's name, and what the pool
  /// has, to the calling thread's CPUs. On the stage's thread, between runs. Waits until they
  /// sleep, asleep itself, for 200 ms at most in all its calls: beside a busy stage the pool never
  /// sleeps.
  void confine();

 private:
  std::vector<int> find_workers();
  [[nodiscard]] std::map<int, std::string> find_new() const;

  std::shared_ptr<WorkerPool::Claim> claim_;
  int maker_;             // The thread that made it.
  std::set<int> before_;  // Threads that `maker_` had made by then.
  std::chrono::microseconds patience_ = std::chrono::milliseconds(200);  // What is left of it.
};

}  // namespace penstock::openvino
