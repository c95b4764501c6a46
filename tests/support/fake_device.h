// A backend that computes on a thread of its own, as an accelerator or a server does: for tests and
// benchmarks of lanes.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/fake_backend.h"

namespace penstock::testing {

/// Calls end in the order of their start, each `latency` after it, however many are in flight.
class FakeDevice : public backend::Backend {
 public:
  int contexts = 4;  ///< Executable::recommended_contexts().
  std::chrono::nanoseconds latency{0};
  bool deaf = false;  ///< Goes on with calls that are cancelled.
  std::function<Status(const backend::CompileRequest&)> on_compile = [](const auto&) {
    return Status();
  };

  FakeDevice() : thread_([this] { compute(); }) {}
  ~FakeDevice() override {
    {
      const std::scoped_lock lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  FakeDevice(const FakeDevice&) = delete;
  FakeDevice& operator=(const FakeDevice&) = delete;

  /// Gives the device a stage that the network's own backend would run.
  void take(FakeNetwork& network, const std::string& stage) {
    for (auto& made : network.plan.stages) {
      if (made.name != stage) continue;
      auto& partition = made.partitions.front();
      partition.backend = "device";
      take_model(network, partition.model);
      for (const auto& batched : partition.batched) take_model(network, batched.model);
    }
  }

  /// While held, no call ends.
  void hold(bool held) {
    {
      const std::scoped_lock lock(mutex_);
      held_ = held;
    }
    changed_.notify_all();
  }
  /// Calls of this frame end only at let_go().
  void lose(std::uint64_t frame) {
    const std::scoped_lock lock(mutex_);
    lost_frame_ = frame;
  }
  void let_go() {
    {
      const std::scoped_lock lock(mutex_);
      lost_frame_ = UINT64_MAX;
      for (auto& call : lost_) calls_.push_front(std::move(call));
      lost_.clear();
    }
    changed_.notify_all();
  }
  /// Of the call that was started last.
  [[nodiscard]] std::int64_t last_deadline_ns() {
    const std::scoped_lock lock(mutex_);
    return last_deadline_ns_;
  }
  [[nodiscard]] int in_flight() {
    const std::scoped_lock lock(mutex_);
    return in_flight_;
  }
  [[nodiscard]] int most_in_flight() {
    const std::scoped_lock lock(mutex_);
    return most_in_flight_;
  }
  /// Until as many calls are in flight.
  void wait_for(int calls) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return in_flight_ >= calls; });
  }

  [[nodiscard]] backend::Description describe() const override {
    return {"device", "1", "", "", true};
  }
  [[nodiscard]] std::string rules() const override {
    return R"({"version": 1, "rule": {"combine": {"all": true}}})";
  }
  Result<std::unique_ptr<backend::Executable>> compile(
      const backend::CompileRequest& request) override {
    PENSTOCK_CHECK_OK(on_compile(request));
    return std::unique_ptr<backend::Executable>(
        std::make_unique<DeviceExecutable>(*this, models_.at(request.file.filename().string())));
  }

 private:
  struct Job {
    backend::Call call;
    const FakeModel* model = nullptr;
    std::vector<const Tensor*> inputs;
    std::vector<Tensor*> outputs;
    std::chrono::steady_clock::time_point due;
    Status status;
    bool cancelled = false, finished = false;
  };

  struct DeviceContext : backend::Context {
    DeviceContext(FakeDevice& on, const FakeModel& of) : device(on), model(of) {}

    Status run(const backend::Call& call, Inputs inputs, Outputs outputs) override {
      auto made = std::make_shared<Job>();
      made->call = call;
      made->model = &model;
      made->inputs.assign(inputs.begin(), inputs.end());
      made->outputs.assign(outputs.begin(), outputs.end());
      made->due = std::chrono::steady_clock::now() + device.latency;
      {
        const std::scoped_lock lock(device.mutex_);
        made->cancelled = std::exchange(cancels_next, false);
        job = made;
      }
      device.start(made);
      return {};
    }
    Status wait(std::int64_t deadline_ns) override {
      if (!job) return {};
      std::unique_lock lock(device.mutex_);
      const auto finished = [&] { return job->finished; };
      using Time = std::chrono::steady_clock::time_point;
      if (deadline_ns == backend::kNoDeadline) {
        device.changed_.wait(lock, finished);
      } else if (!device.changed_.wait_until(lock, Time(std::chrono::nanoseconds(deadline_ns)),
                                             finished)) {
        return make_error(Code::kDeadlineExceeded, "in progress");
      }
      return std::move(std::exchange(job, nullptr)->status);
    }
    void cancel() noexcept override {
      {
        const std::scoped_lock lock(device.mutex_);
        if (device.deaf) return;
        (job ? job->cancelled : cancels_next) = true;
      }
      device.changed_.notify_all();
    }

    FakeDevice& device;
    const FakeModel& model;
    std::shared_ptr<Job> job;
    bool cancels_next = false;
  };

  struct DeviceExecutable : backend::Executable {
    DeviceExecutable(FakeDevice& on, const FakeModel& of) : device(on), model(of) {}
    [[nodiscard]] std::span<const backend::Port> inputs() const override { return model.inputs; }
    [[nodiscard]] std::span<const backend::Port> outputs() const override { return model.outputs; }
    Result<std::unique_ptr<backend::Context>> create_context() override {
      return std::unique_ptr<backend::Context>(std::make_unique<DeviceContext>(device, model));
    }
    [[nodiscard]] int recommended_contexts() const override { return device.contexts; }
    [[nodiscard]] bool is_asynchronous() const override { return true; }
    FakeDevice& device;
    const FakeModel& model;
  };

  void start(const std::shared_ptr<Job>& job) {
    {
      const std::scoped_lock lock(mutex_);
      most_in_flight_ = std::max(most_in_flight_, ++in_flight_);
      last_deadline_ns_ = job->call.deadline_ns;
      if (job->call.frame == lost_frame_) {
        lost_.push_back(job);
      } else {
        calls_.push_back(job);
      }
    }
    changed_.notify_all();
  }

  // The device: ends the calls one after the other.
  void compute() {
    std::unique_lock lock(mutex_);
    while (!ends_) {
      const bool ready = !calls_.empty() && (!held_ || calls_.front()->cancelled);
      if (!ready) {
        changed_.wait(lock);
        continue;
      }
      const auto job = calls_.front();
      if (!job->cancelled && std::chrono::steady_clock::now() < job->due) {
        changed_.wait_until(lock, job->due);
        continue;
      }
      calls_.pop_front();
      const bool cancelled = job->cancelled;
      lock.unlock();
      Status status = cancelled ? make_error(Code::kCancelled, "the run was cancelled")
                                : job->model->run(job->inputs, job->outputs);
      // Before wait() can return: `whom` lives no longer than that.
      if (job->call.done != nullptr) job->call.done(job->call.whom);
      lock.lock();
      job->status = std::move(status);
      job->finished = true;
      --in_flight_;
      changed_.notify_all();
    }
  }

  void take_model(FakeNetwork& network, const std::string& path) {
    const auto file = std::filesystem::path(path).filename().string();
    models_[file] = network.backend->models.at(file);
  }

  std::map<std::string, FakeModel> models_;
  std::mutex mutex_;  // Guards all below.
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Job>> calls_;  // In flight, the oldest first.
  std::vector<std::shared_ptr<Job>> lost_;
  std::uint64_t lost_frame_ = UINT64_MAX;
  std::int64_t last_deadline_ns_ = 0;
  int in_flight_ = 0, most_in_flight_ = 0;
  bool held_ = false, ends_ = false;
  std::thread thread_;  // Last: it uses the rest.
};

}  // namespace penstock::testing
