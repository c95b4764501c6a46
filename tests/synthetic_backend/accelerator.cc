#include "tests/synthetic_backend/accelerator.h"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/hidden_pages.h"

namespace penstock::synthetic {
namespace {

using Clock = std::chrono::steady_clock;
using testing::HiddenPages;

MemoryDomain domain_of(int index) {
  return static_cast<MemoryDomain>(static_cast<std::uint16_t>(index + 1));
}

class OwnMemory final : public backend::Memory {
 public:
  OwnMemory(const Accelerator& accelerator, int index) : accelerator_(accelerator), index_(index) {}

  [[nodiscard]] std::string name() const override { return concat("cuda:", index_); }

  Result<Tensor> allocate(DType dtype, std::size_t bytes) override {
    if (!accelerator_.absent.empty()) {
      return make_error(Code::kUnavailable, "device '", name(), "': ", accelerator_.absent);
    }
    if (index_ >= accelerator_.devices) {
      return make_error(Code::kUnavailable, "device '", name(), "': there are ",
                        accelerator_.devices, " of its kind");
    }
    auto pages = std::make_shared<HiddenPages>(bytes);
    void* const shown = pages->shown();
    return Tensor::reserve_in(domain_of(index_), dtype, bytes, shown, std::move(pages));
  }

  Status copy(const Tensor& from, Tensor& to) override {
    const bool brings = to.domain() == domain_of(index_) && from.in_host_memory();
    const bool fetches = from.domain() == domain_of(index_) && to.in_host_memory();
    if (!brings && !fetches) return internal_error("asked to copy between others' memories");
    const double per_byte = accelerator_.copy_bandwidth > 0 ? 1 / accelerator_.copy_bandwidth : 0;
    const auto end =
        Clock::now() + std::chrono::duration<double>(accelerator_.copy_latency +
                                                     per_byte * static_cast<double>(from.bytes()));
    const void* const source = brings ? from.data() : HiddenPages::used(from.data());
    std::memcpy(brings ? HiddenPages::used(to.data()) : to.data(), source, from.bytes());
    while (Clock::now() < end) continue;
    return {};
  }

 private:
  const Accelerator accelerator_;
  const int index_;
};

struct Work {
  backend::Call call;
  backend::Context* context = nullptr;
  std::vector<const Tensor*> inputs;
  std::vector<Tensor*> outputs;
  Status status;
  bool finished = false;
};

/// The device: it does one thing after the other. Lives as long as the process.
class Queue {
 public:
  Queue() : thread_([this] { compute(); }) { thread_.detach(); }

  void submit(std::shared_ptr<Work> work) {
    const std::scoped_lock lock(mutex_);
    submitted_.push_back(std::move(work));
    changed_.notify_all();
  }
  /// False: not before the deadline.
  bool wait(const Work& work, std::int64_t deadline_ns) {
    std::unique_lock lock(mutex_);
    const auto finished = [&] { return work.finished; };
    if (deadline_ns == backend::kNoDeadline) {
      changed_.wait(lock, finished);
      return true;
    }
    return changed_.wait_until(lock, Clock::time_point(std::chrono::nanoseconds(deadline_ns)),
                               finished);
  }

 private:
  static Status run(const Work& work) {
    std::vector<Tensor> read, written;
    for (const auto* tensor : work.inputs) {
      if (tensor->in_host_memory()) return internal_error("an input lies in the host's memory");
      read.push_back(
          Tensor::view(tensor->dtype(), tensor->dims(), HiddenPages::used(tensor->data())));
    }
    for (const auto* tensor : work.outputs) {
      if (tensor->in_host_memory()) return internal_error("an output lies in the host's memory");
      auto& made = written.emplace_back(
          Tensor::reserve_in(MemoryDomain::kHost, tensor->dtype(), tensor->capacity_bytes(),
                             HiddenPages::used(tensor->data()), nullptr));
      static_cast<void>(made.set_dims(tensor->dims()));
    }
    std::vector<const Tensor*> inputs;
    std::vector<Tensor*> outputs;
    for (const auto& tensor : read) inputs.push_back(&tensor);
    for (auto& tensor : written) outputs.push_back(&tensor);
    PENSTOCK_CHECK_OK(work.context->run(work.call, inputs, outputs));
    for (std::size_t i = 0; i < written.size(); ++i) {
      if (!work.outputs[i]->set_dims(written[i].dims())) return internal_error("no room");
    }
    return {};
  }

  void compute() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return !submitted_.empty(); });
      const auto work = std::move(submitted_.front());
      submitted_.pop_front();
      lock.unlock();
      auto status = run(*work);
      const auto call = work->call;
      if (call.done != nullptr) call.done(call.whom);
      lock.lock();
      work->status = std::move(status);
      work->finished = true;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;  // Guards all below.
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Work>> submitted_;
  std::thread thread_;  // Last: it uses the rest.
};

/// Of the device of that number; never destroyed, as its thread may be at work to the end.
Queue& queue_of(int index) {
  static auto* const mutex = new std::mutex;
  static auto* const queues = new std::map<int, std::unique_ptr<Queue>>;
  const std::scoped_lock lock(*mutex);
  auto& queue = (*queues)[index];
  if (!queue) queue = std::make_unique<Queue>();
  return *queue;
}

class QueuedContext final : public backend::Context {
 public:
  QueuedContext(Queue& queue, std::unique_ptr<backend::Context> inner)
      : queue_(queue), inner_(std::move(inner)) {}
  ~QueuedContext() override {
    if (work_) queue_.wait(*work_, backend::kNoDeadline);
  }
  QueuedContext(const QueuedContext&) = delete;
  QueuedContext& operator=(const QueuedContext&) = delete;

  Status run(const backend::Call& call, std::span<const Tensor* const> inputs,
             std::span<Tensor* const> outputs) override {
    work_ = std::make_shared<Work>();
    work_->call = call;
    work_->call.traceparent = {};
    work_->context = inner_.get();
    work_->inputs.assign(inputs.begin(), inputs.end());
    work_->outputs.assign(outputs.begin(), outputs.end());
    queue_.submit(work_);
    return {};
  }
  Status wait(std::int64_t deadline_ns) override {
    if (!work_) return {};
    if (!queue_.wait(*work_, deadline_ns)) {
      return make_error(Code::kDeadlineExceeded, "in progress");
    }
    return std::exchange(work_, nullptr)->status;
  }
  void cancel() noexcept override { inner_->cancel(); }

 private:
  Queue& queue_;
  std::unique_ptr<backend::Context> inner_;
  std::shared_ptr<Work> work_;
};

class QueuedExecutable final : public backend::Executable {
 public:
  QueuedExecutable(int contexts, Queue& queue, std::unique_ptr<backend::Executable> inner)
      : contexts_(contexts), queue_(queue), inner_(std::move(inner)) {}

  [[nodiscard]] std::span<const backend::Port> inputs() const override { return inner_->inputs(); }
  [[nodiscard]] std::span<const backend::Port> outputs() const override {
    return inner_->outputs();
  }
  Result<std::unique_ptr<backend::Context>> create_context() override {
    PENSTOCK_TRY(auto inner, inner_->create_context());
    return std::unique_ptr<backend::Context>(
        std::make_unique<QueuedContext>(queue_, std::move(inner)));
  }
  [[nodiscard]] int recommended_contexts() const override { return contexts_; }
  [[nodiscard]] bool is_asynchronous() const override { return true; }
  /// The device's own, which the first model makes.
  [[nodiscard]] int idle_threads() const override { return 1; }

 private:
  int contexts_;
  Queue& queue_;
  std::unique_ptr<backend::Executable> inner_;
};

}  // namespace

std::shared_ptr<backend::Memory> memory_of(const Settings& settings, int index) {
  static std::mutex mutex;
  static std::map<int, std::shared_ptr<OwnMemory>> memories;
  const std::scoped_lock lock(mutex);
  auto& memory = memories[index];
  if (!memory) memory = std::make_shared<OwnMemory>(*settings.accelerator, index);
  return memory;
}

std::unique_ptr<backend::Executable> on_accelerator(const Settings& settings, int index,
                                                    std::unique_ptr<backend::Executable> inner) {
  return std::make_unique<QueuedExecutable>(settings.accelerator->contexts, queue_of(index),
                                            std::move(inner));
}

}  // namespace penstock::synthetic
