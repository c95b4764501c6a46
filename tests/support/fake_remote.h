// The backend `remote` without a network: peers that can be lost and come back, for tests of the
// runtime.
#pragma once

#include <algorithm>
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

/// Each peer, which a device names by its host, ends its calls in the order of their start.
class FakeRemote : public backend::Backend {
 public:
  int contexts = 4;  ///< Executable::recommended_contexts().

  explicit FakeRemote(FakeNetwork& network) : network_(network), thread_([this] { compute(); }) {}
  ~FakeRemote() override {
    change([&] { ends_ = true; });
    thread_.join();
  }
  FakeRemote(const FakeRemote&) = delete;
  FakeRemote& operator=(const FakeRemote&) = delete;

  /// While held, no call of the peer ends.
  void hold(const std::string& host, bool held) {
    change([&] { peers_[host].held = held; });
  }
  /// What is in flight ends as unavailable, whatever comes later is not begun.
  void lose(const std::string& host) {
    change([&] { peers_[host].lost = true; });
  }
  void restore(const std::string& host) {
    change([&] { peers_[host].lost = peers_[host].found = false; });
  }
  /// Until somebody asks whether the peer is lost, and it is not. False: nobody does.
  [[nodiscard]] bool wait_until_found(const std::string& host, std::chrono::seconds at_most) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, at_most, [&] { return peers_[host].found; });
  }
  /// The peer answers the next calls as unavailable, and is there all the same.
  void refuse(const std::string& host, int calls) {
    change([&] { peers_[host].refuses = calls; });
  }
  void wait_for_calls(const std::string& host, int calls) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return peers_[host].in_flight >= calls; });
  }
  /// That are in flight.
  [[nodiscard]] int calls(const std::string& host) {
    const std::scoped_lock lock(mutex_);
    return peers_[host].in_flight;
  }
  /// Frames that were computed there, in the order of their end.
  [[nodiscard]] std::vector<std::uint64_t> computed(const std::string& host) {
    const std::scoped_lock lock(mutex_);
    return peers_[host].computed;
  }
  /// What was asked for last: its options and names.
  [[nodiscard]] backend::CompileRequest asked(const std::string& host) {
    const std::scoped_lock lock(mutex_);
    return peers_[host].asked;
  }

  [[nodiscard]] backend::Description describe() const override {
    return {"remote", "1", "", "", true};
  }
  [[nodiscard]] std::string rules() const override {
    return R"({"version": 1, "rule": {"combine": {"all": true}}})";
  }
  [[nodiscard]] bool accepts(const device::Device& device) const override {
    return device.is_remote();
  }
  Result<std::unique_ptr<backend::Executable>> compile(
      const backend::CompileRequest& request) override {
    const std::scoped_lock lock(mutex_);
    auto& peer = peers_[request.device.host];
    peer.asked = request;
    const auto name = request.served.empty()
                          ? request.file.filename().string()
                          : request.served.substr(request.served.rfind('/') + 1) + ".onnx";
    return std::unique_ptr<backend::Executable>(
        std::make_unique<RemoteExecutable>(*this, peer, network_.backend->models.at(name)));
  }

 private:
  struct Peer {
    bool held = false, lost = false, found = false;
    int refuses = 0, in_flight = 0;
    std::vector<std::uint64_t> computed;
    backend::CompileRequest asked;
  };
  struct Job {
    Peer* peer = nullptr;
    backend::Call call;
    const FakeModel* model = nullptr;
    std::vector<const Tensor*> inputs;
    std::vector<Tensor*> outputs;
    Status status;
    bool cancelled = false, finished = false;
  };

  static Error unavailable(const char* why) {
    return make_error(Code::kUnavailable, why).within({Where::kPeer, "the peer"});
  }

  struct RemoteContext : backend::Context {
    RemoteContext(FakeRemote& on, Peer& at, const FakeModel& of)
        : remote(on), peer(at), model(of) {}
    Status run(const backend::Call& call, Inputs inputs, Outputs outputs) override {
      auto made = std::make_shared<Job>();
      made->peer = &peer;
      made->call = call;
      made->model = &model;
      made->inputs.assign(inputs.begin(), inputs.end());
      made->outputs.assign(outputs.begin(), outputs.end());
      const std::scoped_lock lock(remote.mutex_);
      if (peer.lost) return unavailable("is lost");
      job = made;
      ++peer.in_flight;
      remote.jobs_.push_back(std::move(made));
      remote.changed_.notify_all();
      return {};
    }
    Status wait(std::int64_t deadline_ns) override {
      if (!job) return {};
      std::unique_lock lock(remote.mutex_);
      const auto finished = [&] { return job->finished; };
      using Time = std::chrono::steady_clock::time_point;
      if (deadline_ns == backend::kNoDeadline) {
        remote.changed_.wait(lock, finished);
      } else if (!remote.changed_.wait_until(lock, Time(std::chrono::nanoseconds(deadline_ns)),
                                             finished)) {
        return make_error(Code::kDeadlineExceeded, "in progress");
      }
      return std::move(std::exchange(job, nullptr)->status);
    }
    void cancel() noexcept override {
      const std::scoped_lock lock(remote.mutex_);
      if (job) job->cancelled = true;
      remote.changed_.notify_all();
    }
    FakeRemote& remote;
    Peer& peer;
    const FakeModel& model;
    std::shared_ptr<Job> job;
  };

  struct RemoteExecutable : backend::Executable {
    RemoteExecutable(FakeRemote& on, Peer& at, const FakeModel& of)
        : remote(on), peer(at), model(of) {}
    [[nodiscard]] std::span<const backend::Port> inputs() const override { return model.inputs; }
    [[nodiscard]] std::span<const backend::Port> outputs() const override { return model.outputs; }
    Result<std::unique_ptr<backend::Context>> create_context() override {
      return std::unique_ptr<backend::Context>(
          std::make_unique<RemoteContext>(remote, peer, model));
    }
    [[nodiscard]] int recommended_contexts() const override { return remote.contexts; }
    [[nodiscard]] bool is_asynchronous() const override { return true; }
    [[nodiscard]] bool is_lost() const override {
      const std::scoped_lock lock(remote.mutex_);
      if (!peer.lost && !std::exchange(peer.found, true)) remote.changed_.notify_all();
      return peer.lost;
    }
    FakeRemote& remote;
    Peer& peer;
    const FakeModel& model;
  };

  template <typename Change>
  void change(Change what) {
    {
      const std::scoped_lock lock(mutex_);
      what();
    }
    changed_.notify_all();
  }

  static bool is_due(const Job& job) { return !job.peer->held || job.peer->lost || job.cancelled; }

  void compute() {
    std::unique_lock lock(mutex_);
    for (;;) {
      const auto due = std::ranges::find_if(jobs_, [](const auto& job) { return is_due(*job); });
      if (ends_) return;
      if (due == jobs_.end()) {
        changed_.wait(lock);
        continue;
      }
      const auto job = *due;
      jobs_.erase(due);
      Peer& peer = *job->peer;
      const bool refused = peer.refuses > 0;
      if (refused) --peer.refuses;
      const bool lost = peer.lost, cancelled = job->cancelled;
      lock.unlock();
      Status status;
      if (lost || refused) {
        status = unavailable(lost ? "is lost" : "is busy");
      } else if (cancelled) {
        status = make_error(Code::kCancelled, "the run was cancelled");
      } else {
        status = job->model->run(job->inputs, job->outputs);
      }
      if (job->call.done != nullptr) job->call.done(job->call.whom);
      lock.lock();
      if (status && job->call.done != nullptr) peer.computed.push_back(job->call.frame);
      --peer.in_flight;
      job->status = std::move(status);
      job->finished = true;
      changed_.notify_all();
    }
  }

  FakeNetwork& network_;
  std::mutex mutex_;  // Guards all below.
  std::condition_variable changed_;
  std::map<std::string, Peer> peers_;
  std::deque<std::shared_ptr<Job>> jobs_;  // In flight, the oldest first.
  bool ends_ = false;
  std::thread thread_;  // Last: it uses the rest.
};

}  // namespace penstock::testing
