// A backend that computes in memory of its own, which the host cannot read: for tests of memory
// domains.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/fake_backend.h"
#include "tests/support/hidden_pages.h"

namespace penstock::testing {

class FakeMemory : public backend::Memory {
 public:
  explicit FakeMemory(int index) : index_(index) {}

  std::atomic<bool> direct{false};  ///< Whether it copies from the other devices.
  std::atomic<bool> within{false};  ///< Whether it copies from one place of it to another.
  std::atomic<bool> lost{false};
  std::atomic<int> room{1 << 20};  ///< Tensors that it still has room for.
  std::atomic<int> from_host{0}, to_host{0}, from_device{0}, inside{0};  ///< Copies.
  /// Before a copy; an error fails it. Set before the start.
  std::function<Status(const Tensor& from, const Tensor& to)> on_copy =
      [](const auto&, const auto&) { return Status(); };

  [[nodiscard]] MemoryDomain domain() const {
    return static_cast<MemoryDomain>(static_cast<std::uint16_t>(index_ + 1));
  }
  [[nodiscard]] Error loss() const {
    return make_error(Code::kUnavailable, "device '", name(), "' was lost");
  }

  [[nodiscard]] std::string name() const override { return concat("cuda:", index_); }
  Result<Tensor> allocate(DType dtype, std::size_t bytes) override {
    if (lost) return loss();
    if (room.fetch_sub(1) <= 0) return make_error(Code::kResourceExhausted, "the device is full");
    auto pages = std::make_shared<HiddenPages>(bytes);
    void* const shown = pages->shown();
    return Tensor::reserve_in(domain(), dtype, bytes, shown, std::move(pages));
  }
  Status copy(const Tensor& from, Tensor& to) override {
    if (lost) return loss();
    PENSTOCK_CHECK_OK(on_copy(from, to));
    if (from.bytes() == 0 || from.bytes() != to.bytes() || from.dtype() != to.dtype() ||
        from.dims() != to.dims()) {
      return internal_error("asked to copy ", from.type(), " to ", to.type());
    }
    const bool here = to.domain() == domain();
    if (here && from.in_host_memory()) {
      ++from_host;
    } else if (from.domain() == domain() && to.in_host_memory()) {
      ++to_host;
    } else if (here && from.domain() != domain() && direct) {
      ++from_device;
    } else if (here && from.domain() == domain() && within) {
      ++inside;
    } else {
      return internal_error("asked to copy between memories that are others'");
    }
    void* const target = to.in_host_memory() ? to.data() : HiddenPages::used(to.data());
    std::memcpy(target, from.in_host_memory() ? from.data() : HiddenPages::used(from.data()),
                from.bytes());
    return {};
  }
  [[nodiscard]] bool copies_from(const backend::Memory& other) const override {
    return other.name() == name() ? within : direct;
  }

 private:
  const int index_;
};

/// Two devices, "cuda:0" and "cuda:1". Each ends its calls in the order of their start, on a thread
/// of its own.
class FakeAccelerator : public backend::Backend {
 public:
  std::atomic<bool> asynchronous{true};
  int contexts = 1;  ///< Executable::recommended_contexts().
  std::function<void(const backend::CompileRequest&)> on_compile = [](const auto&) {};

  FakeAccelerator() {
    for (int i = 0; i < 2; ++i) devices_.push_back(std::make_unique<Queue>(i));
  }

  [[nodiscard]] FakeMemory& memory_of(std::size_t device) { return *devices_[device]->memory; }
  /// Forgets the copies of the start.
  void forget_copies() {
    for (auto& device : devices_) {
      FakeMemory& memory = *device->memory;
      memory.from_host = memory.to_host = memory.from_device = memory.inside = 0;
    }
  }
  /// While held, no call of the device ends.
  void hold(std::size_t device, bool held) {
    devices_[device]->change([&](Queue& queue) { queue.held = held; });
  }
  /// What is in flight ends with an error; whatever comes later fails.
  void lose(std::size_t device) {
    devices_[device]->change([](Queue& queue) { queue.memory->lost = true; });
  }
  void wait_for(std::size_t device, std::size_t calls) { devices_[device]->wait_for(calls); }
  /// The frames of the calls, in the order in which the device has ended them.
  [[nodiscard]] std::vector<std::uint64_t> ended(std::size_t device) {
    const std::scoped_lock lock(devices_[device]->mutex);
    return devices_[device]->ended;
  }

  /// Gives a stage that the network's own backend would run to devices, a replica on each.
  void take(FakeNetwork& network, const std::string& stage, const std::vector<int>& indices = {0}) {
    auto& made = *std::ranges::find(network.plan.stages, stage, &plan::Stage::name);
    const auto take_model = [&](const std::string& file) {
      models_[file] = network.backend->models.at(std::filesystem::path(file).filename().string());
    };
    for (auto& partition : made.partitions) {
      if (partition.backend != "fake" && partition.backend != "accelerator") continue;
      partition.backend = "accelerator";
      take_model(partition.model);
      for (const auto& batched : partition.batched) take_model(batched.model);
    }
    made.devices.clear();
    for (const int index : indices) {
      device::Device device;
      device.kind = device::Device::Kind::kCuda;
      device.index = index;
      made.devices.push_back(device);
    }
  }

  [[nodiscard]] backend::Description describe() const override {
    return {"accelerator", "1", "", "", true};
  }
  [[nodiscard]] std::string rules() const override {
    return R"({"version": 1, "rule": {"combine": {"all": true}}})";
  }
  [[nodiscard]] bool accepts(const device::Device& device) const override {
    return device.kind == device::Device::Kind::kCuda;
  }
  [[nodiscard]] std::shared_ptr<backend::Memory> memory(
      const device::Device& device) const override {
    return devices_.at(static_cast<std::size_t>(device.index))->memory;
  }
  Result<std::unique_ptr<backend::Executable>> compile(
      const backend::CompileRequest& request) override {
    on_compile(request);
    const auto path = std::filesystem::path("stages") / request.file.filename();
    return std::unique_ptr<backend::Executable>(std::make_unique<AcceleratorExecutable>(
        *this, *devices_.at(static_cast<std::size_t>(request.device.index)),
        models_.at(path.string())));
  }

 private:
  struct Work {
    backend::Call call;
    const FakeModel* model = nullptr;
    std::vector<const Tensor*> inputs;
    std::vector<Tensor*> outputs;
    Status status;
    bool finished = false;
  };

  /// A device: its memory, and the thread that computes.
  struct Queue {
    explicit Queue(int index)
        : memory(std::make_shared<FakeMemory>(index)), thread([this] { compute(); }) {}
    ~Queue() {
      change([](Queue& queue) { queue.ends = true; });
      thread.join();
    }
    Queue(const Queue&) = delete;
    Queue& operator=(const Queue&) = delete;

    template <typename Change>
    void change(Change what) {
      {
        const std::scoped_lock lock(mutex);
        what(*this);
      }
      changed.notify_all();
    }
    void wait_for(std::size_t calls) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return submitted.size() >= calls; });
    }

    Status check_place(const Tensor& tensor) const {
      if (tensor.domain() == memory->domain()) return {};
      return internal_error("a tensor lies outside '", memory->name(), "'");
    }
    Status run(const Work& work) const {
      if (memory->lost) return memory->loss();
      std::vector<Tensor> read, written;
      for (const Tensor* tensor : work.inputs) {
        PENSTOCK_CHECK_OK(check_place(*tensor));
        read.push_back(
            Tensor::view(tensor->dtype(), tensor->dims(), HiddenPages::used(tensor->data())));
      }
      for (const Tensor* tensor : work.outputs) {
        PENSTOCK_CHECK_OK(check_place(*tensor));
        auto& made = written.emplace_back(
            Tensor::reserve_in(MemoryDomain::kHost, tensor->dtype(), tensor->capacity_bytes(),
                               HiddenPages::used(tensor->data()), nullptr));
        static_cast<void>(made.set_dims(tensor->dims()));
      }
      std::vector<const Tensor*> inputs;
      std::vector<Tensor*> outputs;
      for (auto& tensor : read) inputs.push_back(&tensor);
      for (auto& tensor : written) outputs.push_back(&tensor);
      PENSTOCK_CHECK_OK(work.model->run(inputs, outputs));
      for (std::size_t i = 0; i < written.size(); ++i) {
        if (!work.outputs[i]->set_dims(written[i].dims())) return internal_error("no room");
      }
      return {};
    }
    void compute() {
      std::unique_lock lock(mutex);
      while (!ends) {
        if (submitted.empty() || (held && !memory->lost)) {
          changed.wait(lock);
          continue;
        }
        const auto work = submitted.front();
        lock.unlock();
        Status status = run(*work);
        if (work->call.done != nullptr) work->call.done(work->call.whom);
        lock.lock();
        submitted.pop_front();
        ended.push_back(work->call.frame);
        work->status = std::move(status);
        work->finished = true;
        changed.notify_all();
      }
    }

    const std::shared_ptr<FakeMemory> memory;
    std::mutex mutex;  // Guards all below.
    std::condition_variable changed;
    std::deque<std::shared_ptr<Work>> submitted;
    std::vector<std::uint64_t> ended;
    bool held = false, ends = false;
    std::thread thread;  // Last: it uses the rest.
  };

  struct AcceleratorContext : backend::Context {
    AcceleratorContext(Queue& on, const FakeModel& of) : queue(on), model(of) {}
    Status run(const backend::Call& call, Inputs inputs, Outputs outputs) override {
      if (queue.memory->lost) return queue.memory->loss();
      work = std::make_shared<Work>();
      work->call = call;
      work->model = &model;
      work->inputs.assign(inputs.begin(), inputs.end());
      work->outputs.assign(outputs.begin(), outputs.end());
      queue.change([&](Queue& device) { device.submitted.push_back(work); });
      return {};
    }
    Status wait(std::int64_t deadline_ns) override {
      if (!work) return {};
      std::unique_lock lock(queue.mutex);
      const auto finished = [&] { return work->finished; };
      using Time = std::chrono::steady_clock::time_point;
      if (deadline_ns == backend::kNoDeadline) {
        queue.changed.wait(lock, finished);
      } else if (!queue.changed.wait_until(lock, Time(std::chrono::nanoseconds(deadline_ns)),
                                           finished)) {
        return make_error(Code::kDeadlineExceeded, "in progress");
      }
      return std::move(std::exchange(work, nullptr)->status);
    }
    Queue& queue;
    const FakeModel& model;
    std::shared_ptr<Work> work;
  };

  struct AcceleratorExecutable : backend::Executable {
    AcceleratorExecutable(FakeAccelerator& of, Queue& on, const FakeModel& compiled)
        : accelerator(of), queue(on), model(compiled) {}
    [[nodiscard]] std::span<const backend::Port> inputs() const override { return model.inputs; }
    [[nodiscard]] std::span<const backend::Port> outputs() const override { return model.outputs; }
    Result<std::unique_ptr<backend::Context>> create_context() override {
      return std::unique_ptr<backend::Context>(std::make_unique<AcceleratorContext>(queue, model));
    }
    [[nodiscard]] int recommended_contexts() const override { return accelerator.contexts; }
    [[nodiscard]] bool is_asynchronous() const override { return accelerator.asynchronous; }
    FakeAccelerator& accelerator;
    Queue& queue;
    const FakeModel& model;
  };

  std::map<std::string, FakeModel> models_;
  std::vector<std::unique_ptr<Queue>> devices_;
};

}  // namespace penstock::testing
