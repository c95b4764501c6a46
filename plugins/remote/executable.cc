#include "executable.h"

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "far_memory.h"

namespace penstock::remote {
namespace {

class RemoteContext final : public backend::Context {
 public:
  explicit RemoteContext(grpc::RemoteModel& client) : client_(client) {}
  ~RemoteContext() override {
    if (call_ == nullptr) return;
    call_->cancel();
    call_->wait(backend::kNoDeadline);
  }

  Status run(const backend::Call& call, std::span<const Tensor* const> inputs,
             std::span<Tensor* const> outputs) override {
    if (cancels_next_.exchange(false)) {
      return make_error(Code::kCancelled, "the run was cancelled");
    }
    grpc::InferOptions options{.frame = call.frame,
                               .deadline_ns = call.deadline_ns,
                               .done = call.done,
                               .whom = call.whom,
                               .traceparent = call.traceparent};
    gather(inputs);
    options.far = far_;
    stay_.clear();
    for (const Tensor* output : outputs) stay_.push_back(output->in_host_memory() ? 0 : 1);
    options.stay = stay_;
    auto started = client_.infer(inputs_, options);
    far_.clear();
    here_.clear();
    PENSTOCK_TRY(auto begun, std::move(started));
    outputs_.assign(outputs.begin(), outputs.end());
    const std::scoped_lock lock(mutex_);
    call_ = std::move(begun);
    if (cancels_next_.exchange(false)) call_->cancel();  // It came while the run began.
    return {};
  }

  Status wait(std::int64_t deadline_ns) override {
    if (call_ == nullptr) return {};
    if (!call_->wait(deadline_ns)) return make_error(Code::kDeadlineExceeded, "in progress");
    std::uint64_t made = 0;
    Status ended = call_->take(outputs_, made);
    if (ended) keep(call_->take_held());
    times_ = call_->times();
    allocations_.fetch_add(made, std::memory_order_relaxed);
    copies_.fetch_add(ended ? outputs_.size() : 0, std::memory_order_relaxed);
    const std::scoped_lock lock(mutex_);
    call_ = nullptr;
    return ended;
  }

  void cancel() noexcept override {
    const std::scoped_lock lock(mutex_);
    if (call_ != nullptr) {
      call_->cancel();
    } else {
      cancels_next_ = true;
    }
  }

  [[nodiscard]] Counters counters() const override { return {copies_, allocations_}; }
  [[nodiscard]] backend::FarTimes far_times() const override {
    return {times_.received_ns, times_.pulled_ns, times_.begun_ns, times_.ended_ns,
            times_.error_ns};
  }

 private:
  /// The inputs, each with where it lies.
  void gather(std::span<const Tensor* const> inputs) {
    inputs_.assign(inputs.begin(), inputs.end());
    far_.assign(inputs.size(), nullptr);
    here_.reserve(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i]->in_host_memory()) continue;
      const auto& handle = handle_of(*inputs[i]);
      far_[i] = handle.far;
      if (handle.far != nullptr) continue;
      const auto& in = *inputs[i];
      const bool written =
          handle.here.kind() != Tensor::Kind::kNone && handle.here.bytes() == in.bytes();
      inputs_[i] =
          written ? &handle.here : &here_.emplace_back(Tensor::allocate(in.dtype(), in.dims()));
    }
  }

  /// Of the outputs, which lie there.
  void keep(std::vector<std::shared_ptr<const grpc::Held>> held) {
    for (std::size_t i = 0; i < held.size(); ++i) {
      if (held[i] != nullptr) handle_of(*outputs_[i]) = {std::move(held[i]), {}};
    }
  }

  grpc::RemoteModel& client_;
  std::vector<const Tensor*> inputs_;
  std::vector<std::shared_ptr<const grpc::Held>> far_;
  std::vector<Tensor> here_;  // In place of what nobody has written: zeros.
  std::vector<char> stay_;
  std::vector<Tensor*> outputs_;
  grpc::CallTimes times_;
  std::mutex mutex_;  // Guards call_ against cancel().
  std::shared_ptr<grpc::InferCall> call_;
  std::atomic<bool> cancels_next_{false};
  std::atomic<std::uint64_t> copies_{0}, allocations_{0};
};

class RemoteExecutable final : public backend::Executable {
 public:
  explicit RemoteExecutable(std::unique_ptr<grpc::RemoteModel> client)
      : client_(std::move(client)) {
    for (const auto& port : client_->model().inputs) inputs_.push_back({port.name, port.type});
    for (const auto& port : client_->model().outputs) outputs_.push_back({port.name, port.type});
  }
  [[nodiscard]] std::span<const backend::Port> inputs() const override { return inputs_; }
  [[nodiscard]] std::span<const backend::Port> outputs() const override { return outputs_; }
  Result<std::unique_ptr<backend::Context>> create_context() override {
    return std::unique_ptr<backend::Context>(std::make_unique<RemoteContext>(*client_));
  }
  [[nodiscard]] int recommended_contexts() const override { return client_->recommended_calls(); }
  [[nodiscard]] bool is_asynchronous() const override { return true; }
  // Of gRPC, which makes them when it likes.
  [[nodiscard]] int idle_threads() const override { return 64; }
  [[nodiscard]] bool is_lost() const override { return client_->is_lost(); }
  [[nodiscard]] std::string why_lost() const override { return client_->why_lost(); }

 private:
  std::unique_ptr<grpc::RemoteModel> client_;
  std::vector<backend::Port> inputs_, outputs_;
};

}  // namespace

std::unique_ptr<backend::Executable> executable_over(std::unique_ptr<grpc::RemoteModel> model) {
  return std::make_unique<RemoteExecutable>(std::move(model));
}

}  // namespace penstock::remote
