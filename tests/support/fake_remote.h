// The backend `remote` without a network: peers that can be lost and come back, for tests of the
// runtime.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
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
  int contexts = 4;     ///< Executable::recommended_contexts().
  bool direct = false;  ///< Tensors stay with the peer that made them, and are lost with it.

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
    change([&] {
      peers_[host].lost = true;
      ++peers_[host].losses;
    });
  }
  /// It has lost what it had, and goes on.
  void forget(const std::string& host) {
    change([&] { ++peers_[host].losses; });
  }
  void restore(const std::string& host) {
    change([&] { peers_[host].lost = peers_[host].found = false; });
  }
  /// Until somebody asks whether the peer is lost, and it is not. False: nobody does.
  [[nodiscard]] bool wait_until_found(const std::string& host, std::chrono::seconds at_most) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, at_most, [&] { return peers_[host].found; });
  }
  /// Whether nothing can be compiled there: the peer is not there at the start.
  void set_absent(const std::string& host, bool absent) {
    change([&] { peers_[host].absent = absent; });
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
  [[nodiscard]] std::shared_ptr<backend::Memory> memory(
      const device::Device& device) const override {
    return direct && device.kind != device::Device::Kind::kServer ? memory_ : nullptr;
  }
  Result<std::unique_ptr<backend::Executable>> compile(
      const backend::CompileRequest& request) override {
    const std::scoped_lock lock(mutex_);
    auto& peer = peers_[request.device.host];
    peer.asked = request;
    if (peer.absent) return unavailable("nobody listens there");
    const auto name = request.served.empty()
                          ? request.file.filename().string()
                          : request.served.substr(request.served.rfind('/') + 1) + ".onnx";
    return std::unique_ptr<backend::Executable>(
        std::make_unique<RemoteExecutable>(*this, peer, network_.backend->models.at(name)));
  }

 private:
  struct Peer {
    bool held = false, lost = false, found = false, absent = false;
    std::atomic<int> losses{0};
    int refuses = 0, in_flight = 0;
    std::vector<std::uint64_t> computed;
    backend::CompileRequest asked;
  };
  /// What stands for a tensor that is on a peer, or that is here and goes along when it is read.
  struct Handle {
    const Peer* peer = nullptr;
    int losses = 0;  // That the peer had when it made the tensor.
    Tensor value;
    [[nodiscard]] bool is_lost() const { return peer != nullptr && peer->losses != losses; }
  };
  static Handle& handle_of(const Tensor& tensor) {
    Tensor same = tensor;
    if (same.data() != same.owner().get()) throw std::logic_error("a handle has no parts");
    return *static_cast<Handle*>(same.data());
  }

  struct Job {
    Peer* peer = nullptr;
    backend::Call call;
    const FakeModel* model = nullptr;
    std::vector<const Tensor*> inputs;
    std::vector<Tensor*> outputs;
    std::deque<Handle> far;   // Of inputs on peers.
    std::deque<Tensor> made;  // In place of outputs that stay.
    std::vector<Tensor*> stay;
    int losses = 0;
    Status status;
    bool cancelled = false, finished = false;

    const Tensor* value_of(const Tensor& input) {
      if (input.in_host_memory()) return &input;
      auto& handle = far.emplace_back(handle_of(input));
      if (handle.value.bytes() != input.bytes())  // Nobody has written it.
        handle.value = Tensor::allocate(input.dtype(), input.dims());
      return &handle.value;
    }
    Tensor* place_of(Tensor& output) {
      if (output.in_host_memory()) return &output;
      stay.push_back(&output);
      return &made.emplace_back(Tensor::allocate(output.dtype(), output.dims()));
    }
  };

  struct PeersMemory : backend::Memory {
    [[nodiscard]] std::string name() const override { return "peers"; }
    [[nodiscard]] bool reaches_host() const override { return true; }
    [[nodiscard]] bool may_lose() const override { return true; }
    [[nodiscard]] bool is_lost(const Tensor& tensor) const override {
      return handle_of(tensor).is_lost();
    }
    void forget(Tensor& tensor) noexcept override { handle_of(tensor) = {}; }
    Result<Tensor> allocate(DType dtype, std::size_t bytes) override {
      constexpr auto kDomain = static_cast<MemoryDomain>(UINT16_MAX);
      auto handle = std::make_shared<Handle>();
      void* const at = handle.get();
      return Tensor::reserve_in(kDomain, dtype, bytes, at, std::move(handle));
    }
    Status copy(const Tensor& from, Tensor& to) override {
      if (!to.in_host_memory()) {
        Handle made = from.in_host_memory() ? Handle{nullptr, 0, from} : handle_of(from);
        handle_of(to) = std::move(made);
        return {};
      }
      const auto& handle = handle_of(from);
      if (handle.is_lost()) return unavailable("an input was lost");
      if (handle.value.bytes() == to.bytes() && to.bytes() > 0) {
        std::memcpy(to.data(), handle.value.data(), to.bytes());
      } else if (to.bytes() > 0) {
        std::memset(to.data(), 0, to.bytes());
      }
      return {};
    }
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
      made->losses = peer.losses;
      for (const Tensor* input : inputs) made->inputs.push_back(made->value_of(*input));
      for (Tensor* output : outputs) made->outputs.push_back(made->place_of(*output));
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
      const auto ended = std::exchange(job, nullptr);
      for (std::size_t i = 0; i < ended->stay.size() && ended->status; ++i) {
        Tensor& output = *ended->stay[i];
        const Tensor& made = ended->made[i];
        if (made.dtype() != output.dtype() || !output.set_dims(made.dims())) {
          output = made;  // Who asked sees that it is not what was asked for.
          continue;
        }
        handle_of(output) = {&peer, ended->losses, made};
      }
      return std::move(ended->status);
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
      } else if (std::ranges::any_of(job->far, &Handle::is_lost)) {
        status = unavailable("an input was lost");
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
  const std::shared_ptr<backend::Memory> memory_ = std::make_shared<PeersMemory>();
  std::mutex mutex_;  // Guards all below.
  std::condition_variable changed_;
  std::map<std::string, Peer> peers_;
  std::deque<std::shared_ptr<Job>> jobs_;  // In flight, the oldest first.
  bool ends_ = false;
  std::thread thread_;  // Last: it uses the rest.
};

}  // namespace penstock::testing
