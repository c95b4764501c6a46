// Compiles on a thread of its own until it succeeds; contexts are made when they first run.
#include "penstock/pipeline/late.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "penstock/base/thread.h"
#include "penstock/device/affinity.h"
#include "penstock/pipeline/guarded.h"
#include "penstock/plan/plan.h"

namespace penstock::pipeline {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstTry{100}, kLongestPause{1000};
/// In flight, at most, where the plan says nothing: nobody knows yet what the device recommends.
constexpr int kCalls = 8;
constexpr int kIdleThreads = 64;  // Of a library for connections.

std::vector<backend::Port> copied(std::span<const backend::Port> ports) {
  return {ports.begin(), ports.end()};
}

bool are_alike(std::span<const backend::Port> these, std::span<const backend::Port> those) {
  return std::ranges::equal(these, those, [](const auto& a, const auto& b) {
    return a.name == b.name && plan::agree(a.type, b.type);
  });
}

class Late final : public backend::Executable {
 public:
  Late(std::shared_ptr<backend::Backend> backend, backend::CompileRequest request,
       const backend::Executable& like, std::vector<int> mask)
      : backend_(std::move(backend)),
        request_(std::move(request)),
        mask_(std::move(mask)),
        inputs_(copied(like.inputs())),
        outputs_(copied(like.outputs())) {}
  ~Late() override {
    {
      const std::scoped_lock lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  Status start() {
    return start_thread(thread_, [this] { keep_trying(); });
  }

  [[nodiscard]] std::span<const backend::Port> inputs() const override { return inputs_; }
  [[nodiscard]] std::span<const backend::Port> outputs() const override { return outputs_; }
  Result<std::unique_ptr<backend::Context>> create_context() override;
  [[nodiscard]] int recommended_contexts() const override { return kCalls; }
  [[nodiscard]] bool is_asynchronous() const override { return true; }
  [[nodiscard]] bool is_lost() const override {
    const auto* made = made_.load(std::memory_order_acquire);
    return made == nullptr || made->is_lost();
  }
  [[nodiscard]] int idle_threads() const override { return kIdleThreads; }
  [[nodiscard]] std::string why_lost() const override {
    const auto* made = made_.load(std::memory_order_acquire);
    if (made != nullptr) return made->why_lost();
    const std::scoped_lock lock(mutex_);
    return why_;
  }

  Result<std::unique_ptr<backend::Context>> create_context_there() {
    auto* made = made_.load(std::memory_order_acquire);
    if (made != nullptr) return made->create_context();
    return make_error(Code::kUnavailable, "it is not there yet")
        .within({Where::kPeer, request_.device.host});
  }

 private:
  void keep_trying() {
    device::name_this_thread("late");
    static_cast<void>(device::pin_this_thread(mask_));
    auto pause = kFirstTry;
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, pause, [&] { return ends_; })) {
      lock.unlock();
      const Status done = guarded([&]() -> Status { return compile(); });
      lock.lock();
      if (done) return;
      why_ = done.error().reason;
      pause = std::min(pause * 2, kLongestPause);
    }
  }

  Status compile() {
    PENSTOCK_TRY(auto made, backend_->compile(request_));
    if (!are_alike(made->inputs(), inputs_) || !are_alike(made->outputs(), outputs_)) {
      return make_error(Code::kFailedPrecondition, "its model has other inputs and outputs");
    }
    executable_ = std::move(made);
    made_.store(executable_.get(), std::memory_order_release);
    return {};
  }

  const std::shared_ptr<backend::Backend> backend_;
  const backend::CompileRequest request_;
  const std::vector<int> mask_;
  const std::vector<backend::Port> inputs_, outputs_;
  std::unique_ptr<backend::Executable> executable_;  // Of the thread, until `made_` shows it.
  std::atomic<backend::Executable*> made_{nullptr};
  mutable std::mutex mutex_;  // Guards what follows.
  std::condition_variable changed_;
  bool ends_ = false;
  std::string why_;  // It was not made yet.
  std::thread thread_;
};

class LateContext final : public backend::Context {
 public:
  explicit LateContext(Late& of) : late_(of) {}

  Status run(const backend::Call& call, std::span<const Tensor* const> inputs,
             std::span<Tensor* const> outputs) override {
    {
      const std::scoped_lock lock(mutex_);
      if (std::exchange(cancels_next_, false)) {
        return make_error(Code::kCancelled, "the run was cancelled");
      }
      if (context_ == nullptr) {
        PENSTOCK_TRY(context_, late_.create_context_there());
      }
    }
    return context_->run(call, inputs, outputs);
  }
  Status wait(std::int64_t deadline_ns) override {
    return context_ == nullptr ? Status() : context_->wait(deadline_ns);
  }
  void cancel() noexcept override {
    const std::scoped_lock lock(mutex_);
    context_ == nullptr ? void(cancels_next_ = true) : context_->cancel();
  }
  [[nodiscard]] Counters counters() const override {
    const std::scoped_lock lock(mutex_);
    return context_ == nullptr ? Counters() : context_->counters();
  }
  [[nodiscard]] backend::FarTimes far_times() const override {
    return context_ == nullptr ? backend::FarTimes() : context_->far_times();
  }

 private:
  Late& late_;
  mutable std::mutex mutex_;  // Guards what follows, which the thread that runs may read without.
  std::unique_ptr<backend::Context> context_;
  bool cancels_next_ = false;
};

Result<std::unique_ptr<backend::Context>> Late::create_context() {
  return std::unique_ptr<backend::Context>(std::make_unique<LateContext>(*this));
}

}  // namespace

Result<std::shared_ptr<backend::Executable>> compile_late(std::shared_ptr<backend::Backend> backend,
                                                          backend::CompileRequest request,
                                                          const backend::Executable& like,
                                                          std::vector<int> mask) {
  auto late = std::make_shared<Late>(std::move(backend), std::move(request), like, std::move(mask));
  PENSTOCK_CHECK_OK(late->start());
  return std::shared_ptr<backend::Executable>(std::move(late));
}

}  // namespace penstock::pipeline
