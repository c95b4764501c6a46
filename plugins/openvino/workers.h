// Workers: OpenVINO's threads, kept on the CPUs of the stage that they belong to.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/result.h"

namespace penstock::openvino {

/// The threads that compute beside a caller are one pool for the process, and run on any CPU
/// whatever the mask of the thread that needs them. So one stage at a time may have several
/// threads, and they are moved to its CPUs as they appear.
class WorkerPool {
 public:
  /// Held by that stage.
  class Claim {
   public:
    explicit Claim(std::shared_ptr<WorkerPool> pool) : pool_(std::move(pool)) {}
    ~Claim();
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;

   private:
    std::shared_ptr<WorkerPool> pool_;
  };

  /// \error kFailedPrecondition  another stage has it.
  static Result<std::shared_ptr<Claim>> claim(const std::shared_ptr<WorkerPool>& pool);

 private:
  friend class Watch;
  std::mutex mutex_;
  bool claimed_ = false;
  std::map<int, std::string> workers_;  // By id: of all claims so far, with their names.
};

/// The threads that come with one compiled model. Made before it, on the thread that compiles.
class Watch {
 public:
  /// `pool`: of a stage that has claimed it, else null.
  explicit Watch(std::shared_ptr<WorkerPool> pool);

  /// Moves every thread that appeared since and bears the calling thread's name, and what the pool
  /// has, to the calling thread's CPUs. On the stage's thread, between runs.
  void confine();

 private:
  std::vector<int> find_workers();

  std::shared_ptr<WorkerPool> pool_;
  std::map<int, std::string> before_;
};

}  // namespace penstock::openvino
