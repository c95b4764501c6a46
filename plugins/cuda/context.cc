// Context: one caller's runs of a Program, each a replay of one graph of the driver's between the
// copies that the caller's tensors need.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "expression.h"
#include "penstock/base/words.h"
#include "program.h"
#include "waiter.h"

namespace penstock::cuda {
namespace {

std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

class Context final : public backend::Context {
 public:
  explicit Context(std::shared_ptr<const Program> program)
      : program_(std::move(program)), gpu_(*program_->gpu) {
    for (const auto& port : program_->outputs) output_dims_.push_back(dims_of(port.type));
  }
  ~Context() override {
    if (started_) static_cast<void>(wait(backend::kNoDeadline));
  }

  Status prepare();
  Status run(const backend::Call& call, std::span<const Tensor* const> inputs,
             std::span<Tensor* const> outputs) override;
  Status wait(std::int64_t deadline_ns) override;
  /// The device does not stop: the run ends when it would have, and its result is not given.
  void cancel() noexcept override { cancelled_ = true; }
  [[nodiscard]] Counters counters() const override {
    return {.copies = copies_.load(std::memory_order_relaxed),
            .allocations = allocations_.load(std::memory_order_relaxed)};
  }

 private:
  const Driver& driver() const { return gpu_.driver(); }
  Status capture();
  Status put_in();
  Status start(std::span<const Tensor* const> inputs, std::span<Tensor* const> outputs);
  Status bring_input(std::size_t i, const Tensor& tensor);
  Status bind_output(std::size_t i, Tensor& tensor);
  Status fetch_output(std::size_t i, const Tensor& tensor);
  Status hand_over(const backend::Call& call);
  Status await_device();
  Status finish();
  Result<bool> is_done_by(std::int64_t deadline_ns);
  [[nodiscard]] DevicePointer at(std::size_t buffer) const {
    return *memory_ + program_->buffers[buffer].offset;
  }

  std::shared_ptr<const Program> program_;
  Gpu& gpu_;
  DeviceStorage memory_, workspace_;
  std::vector<PinnedStorage> pinned_inputs_, pinned_outputs_;
  std::shared_ptr<CUstream_st> stream_;
  std::shared_ptr<CUevent_st> finished_event_;
  std::shared_ptr<CUgraphExec_st> graph_;
  std::vector<Dims> output_dims_;
  std::vector<Tensor*> outputs_;  // Of the run that was started and not yet waited for.
  bool started_ = false;
  bool handed_over_ = false;  // To the waiter, who finishes it.
  std::atomic<bool> cancelled_{false};
  std::atomic<std::uint64_t> copies_{0}, allocations_{0};

  std::mutex mutex_;  // Guards the two below.
  bool ended_ = false;
  Status outcome_;
  std::condition_variable ended_changed_;
  Waiter waiter_;  // Last: it uses the rest.
};

Status Context::prepare() {
  PENSTOCK_CHECK_OK(gpu_.use());
  PENSTOCK_TRY(memory_, gpu_.allocate(std::max<std::size_t>(program_->memory_bytes, 1)));
  PENSTOCK_TRY(workspace_, gpu_.allocate(std::max<std::size_t>(program_->workspace_bytes, 1)));
  for (const auto buffer : program_->input_buffers) {
    PENSTOCK_TRY(auto pinned, gpu_.allocate_pinned(program_->buffers[buffer].bytes));
    pinned_inputs_.push_back(std::move(pinned));
  }
  for (const auto buffer : program_->output_buffers) {
    PENSTOCK_TRY(auto pinned, gpu_.allocate_pinned(program_->buffers[buffer].bytes));
    pinned_outputs_.push_back(std::move(pinned));
  }
  Stream stream = nullptr;
  PENSTOCK_CHECK_OK(gpu_.check(driver().create_stream(&stream, kStreamNonBlocking), "stream"));
  stream_ = {stream, driver().destroy_stream};
  Event event = nullptr;
  PENSTOCK_CHECK_OK(
      gpu_.check(driver().create_event(&event, kEventBlockingSync | kEventDisableTiming), "event"));
  finished_event_ = {event, driver().destroy_event};
  outputs_.resize(program_->outputs.size());
  return capture();
}

/// All steps once as they are, since libraries prepare themselves in their first call, and once
/// more into the graph.
Status Context::capture() {
  const std::scoped_lock lock(gpu_.mutex);
  PENSTOCK_CHECK_OK(put_in());
  PENSTOCK_CHECK_OK(gpu_.check(driver().synchronize_stream(stream_.get()), "a first run"));
  PENSTOCK_CHECK_OK(gpu_.check(driver().begin_capture(stream_.get(), kCaptureRelaxed), "capture"));
  auto put = put_in();
  CapturedGraph captured = nullptr;
  const auto ended = gpu_.check(driver().end_capture(stream_.get(), &captured), "capture");
  const std::shared_ptr<CUgraph_st> owned(captured, [&](CapturedGraph graph) {
    if (graph != nullptr) driver().destroy_graph(graph);
  });
  PENSTOCK_CHECK_OK(std::move(put));
  PENSTOCK_CHECK_OK(ended);
  GraphExec graph = nullptr;
  PENSTOCK_CHECK_OK(gpu_.check(driver().instantiate(&graph, captured, 0), "graph"));
  graph_ = {graph, driver().destroy_graph_exec};
  return {};
}

Status Context::put_in() {
  const Launch launch{gpu_, *program_, stream_.get(), *memory_, *workspace_};
  for (const Step& step : program_->steps) {
    if (auto outcome = step.enqueue(launch); !outcome) {
      return std::move(outcome).error().within({Where::kNode, step.name});
    }
  }
  return {};
}

Status Context::run(const backend::Call& call, std::span<const Tensor* const> inputs,
                    std::span<Tensor* const> outputs) {
  if (started_) PENSTOCK_CHECK_OK(wait(backend::kNoDeadline));
  if (gpu_.is_lost()) {
    return make_error(Code::kUnavailable, "device cuda:", gpu_.ordinal(), " is lost");
  }
  if (cancelled_.exchange(false)) return make_error(Code::kCancelled, "the run was cancelled");
  try {
    if (auto begun = start(inputs, outputs); !begun) {
      // What is in the stream by now reads and writes the context's own memory.
      driver().synchronize_stream(stream_.get());
      return begun;
    }
    return hand_over(call);
  } catch (const std::bad_alloc&) {
    driver().synchronize_stream(stream_.get());
    return make_error(Code::kResourceExhausted, "out of memory");
  }
}

Status Context::start(std::span<const Tensor* const> inputs, std::span<Tensor* const> outputs) {
  if (inputs.size() != program_->inputs.size() || outputs.size() != program_->outputs.size()) {
    return invalid_argument("expected ", counted(program_->inputs.size(), "input"), " and ",
                            counted(program_->outputs.size(), "output"), ", found ", inputs.size(),
                            " and ", outputs.size());
  }
  PENSTOCK_CHECK_OK(gpu_.use());
  for (std::size_t i = 0; i < inputs.size(); ++i) PENSTOCK_CHECK_OK(bring_input(i, *inputs[i]));
  for (std::size_t i = 0; i < outputs.size(); ++i) PENSTOCK_CHECK_OK(bind_output(i, *outputs[i]));
  PENSTOCK_CHECK_OK(gpu_.check(driver().launch_graph(graph_.get(), stream_.get()), "run"));
  for (std::size_t i = 0; i < outputs.size(); ++i) PENSTOCK_CHECK_OK(fetch_output(i, *outputs[i]));
  return gpu_.check(driver().record_event(finished_event_.get(), stream_.get()), "event");
}

Status Context::bring_input(std::size_t i, const Tensor& tensor) {
  const backend::Port& port = program_->inputs[i];
  if (auto matches = check_matches(port.type, tensor); !matches) {
    return std::move(matches).error().within({Where::kInput, port.name});
  }
  const DevicePointer to = at(program_->input_buffers[i]);
  if (!tensor.in_host_memory()) {
    const auto from = reinterpret_cast<DevicePointer>(tensor.data());
    return gpu_.check(driver().copy_on_device(to, from, tensor.bytes(), stream_.get()), "input");
  }
  std::memcpy(pinned_inputs_[i].get(), tensor.data(), tensor.bytes());
  copies_.fetch_add(1, std::memory_order_relaxed);
  return gpu_.check(
      driver().copy_to_device(to, pinned_inputs_[i].get(), tensor.bytes(), stream_.get()), "input");
}

Status Context::bind_output(std::size_t i, Tensor& tensor) {
  const DType dtype = program_->outputs[i].type.dtype;
  if (tensor.kind() != Tensor::Kind::kDense || tensor.data() == nullptr ||
      tensor.dtype() != dtype || !tensor.set_dims(output_dims_[i])) {
    tensor = Tensor::allocate(dtype, output_dims_[i]);
    allocations_.fetch_add(1, std::memory_order_relaxed);
  }
  outputs_[i] = &tensor;
  return {};
}

Status Context::fetch_output(std::size_t i, const Tensor& tensor) {
  const DevicePointer from = at(program_->output_buffers[i]);
  if (!tensor.in_host_memory()) {
    const auto to = reinterpret_cast<DevicePointer>(tensor.data());
    return gpu_.check(driver().copy_on_device(to, from, tensor.bytes(), stream_.get()), "output");
  }
  copies_.fetch_add(1, std::memory_order_relaxed);
  return gpu_.check(
      driver().copy_to_host(pinned_outputs_[i].get(), from, tensor.bytes(), stream_.get()),
      "output");
}

/// To the waiter, where somebody sleeps until the frame is there; wait() finishes it otherwise.
Status Context::hand_over(const backend::Call& call) {
  started_ = true;
  handed_over_ = call.done != nullptr;
  if (!handed_over_) return {};
  ended_ = false;
  const bool has_thread = waiter_.start([this, done = call.done, whom = call.whom] {
    auto outcome = finish();
    done(whom);
    const std::scoped_lock lock(mutex_);
    outcome_ = std::move(outcome);
    ended_ = true;
    ended_changed_.notify_all();
  });
  if (has_thread) return {};
  started_ = false;
  static_cast<void>(finish());
  return make_error(Code::kResourceExhausted, "the system has no thread left");
}

/// Awake for a while, then asleep.
Status Context::await_device() {
  PENSTOCK_CHECK_OK(gpu_.use());
  const std::int64_t asleep_from = now_ns() + program_->spin_ns;
  while (now_ns() < asleep_from) {
    const DriverResult state = driver().query_event(finished_event_.get());
    if (state != kErrorNotReady) return gpu_.check(state, "run");
  }
  return gpu_.check(driver().synchronize_event(finished_event_.get()), "run");
}

/// Waits, and puts what came to the host into the caller's tensors.
Status Context::finish() {
  PENSTOCK_CHECK_OK(await_device());
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    Tensor& tensor = *outputs_[i];
    if (tensor.in_host_memory()) {
      std::memcpy(tensor.data(), pinned_outputs_[i].get(), tensor.bytes());
    }
  }
  return {};
}

Result<bool> Context::is_done_by(std::int64_t deadline_ns) {
  PENSTOCK_CHECK_OK(gpu_.use());
  while (true) {
    const DriverResult state = driver().query_event(finished_event_.get());
    if (state == kSuccess) return true;
    if (state != kErrorNotReady) PENSTOCK_CHECK_OK(gpu_.check(state, "run"));
    if (now_ns() >= deadline_ns) return false;
  }
}

Status Context::wait(std::int64_t deadline_ns) {
  if (!started_) return {};
  const auto in_progress = [] {
    return make_error(Code::kDeadlineExceeded, "the run is still in progress");
  };
  Status outcome;
  if (handed_over_) {
    std::unique_lock lock(mutex_);
    const auto ended = [&] { return ended_; };
    using Time = std::chrono::steady_clock::time_point;
    if (deadline_ns == backend::kNoDeadline) {
      ended_changed_.wait(lock, ended);
    } else if (!ended_changed_.wait_until(lock, Time(std::chrono::nanoseconds(deadline_ns)),
                                          ended)) {
      return in_progress();
    }
    outcome = std::move(outcome_);
  } else if (deadline_ns == backend::kNoDeadline) {
    outcome = finish();
  } else {
    const auto done = is_done_by(deadline_ns);
    if (done && !*done) return in_progress();
    outcome = done ? finish() : Status(done.error());
  }
  started_ = false;
  const bool cancelled = cancelled_.exchange(false);
  PENSTOCK_CHECK_OK(std::move(outcome));
  if (cancelled) return make_error(Code::kCancelled, "the run was cancelled");
  return {};
}

}  // namespace

Result<std::unique_ptr<backend::Context>> create_context(std::shared_ptr<const Program> program) {
  auto context = std::make_unique<Context>(std::move(program));
  PENSTOCK_CHECK_OK(context->prepare());
  return std::unique_ptr<backend::Context>(std::move(context));
}

}  // namespace penstock::cuda
