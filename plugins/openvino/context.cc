// Context: one caller's runs of a Model.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <new>
#include <utility>

#include "model.h"
#include "penstock/backend/buffer_cache.h"
#include "penstock/base/words.h"

namespace penstock::openvino {
namespace {

using Value = Handle<ov_tensor_t>;

// How many of the first runs look after the engine's threads: it makes them when it needs them.
constexpr int kSettlingRuns = 16;

struct InputSlot {
  backend::BufferCache<Value> cache;
  const ov_tensor_t* value = nullptr;  // Of this run; null where OpenVINO has no use for it.
  const ov_tensor_t* set = nullptr;    // What the request has now; of the cache.
};

/// OpenVINO does not say that a result did not fit into the caller's memory: it leaves the tensor
/// as it was. So the tensor goes in with a shape that no result has, and what still has it
/// afterwards was not written.
struct OutputSlot {
  backend::BufferCache<Value> cache;
  ov_tensor_t* value = nullptr;  // Of this run; of the cache, or own.
  ov_tensor_t* set = nullptr;    // What the request has now.
  Value own;                     // OpenVINO's tensor, where only the run tells the shape.
  bool bound = false;            // This run writes into the caller's buffer.
  std::int64_t count = 0;        // Elements that an open output's buffer holds.
};

// More dimensions than any operator takes; the last one holds the whole buffer.
constexpr std::size_t kMarkRank = 32;

/// A counter that one thread writes and any may read.
void add(std::atomic<std::uint64_t>& counter, std::uint64_t count) {
  counter.store(counter.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
}

class Context final : public backend::Context {
 public:
  Context(std::shared_ptr<const Model> model, std::shared_ptr<const Compiled> compiled,
          Handle<ov_infer_request_t> request)
      : model_(std::move(model)),
        compiled_(std::move(compiled)),
        request_(std::move(request)),
        input_slots_(model_->inputs.size()),
        output_slots_(model_->outputs.size()),
        settling_(compiled_->threads == nullptr ? 0 : kSettlingRuns) {}

  Status prepare();
  Status run(const backend::Call&, std::span<const Tensor* const> inputs,
             std::span<Tensor* const> outputs) override;
  Status wait(std::int64_t deadline_ns) override;
  /// OpenVINO stops a frame that its own threads compute; on the caller's thread it goes on.
  void cancel() noexcept override {
    cancelled_ = true;
    api().ov_infer_request_cancel(request_.get());
  }
  [[nodiscard]] Counters counters() const override {
    return {copies_.load(std::memory_order_relaxed), allocations_.load(std::memory_order_relaxed)};
  }

 private:
  Status start(std::span<const Tensor* const> inputs, std::span<Tensor* const> outputs);
  ov_status_e wait_until(std::int64_t deadline_ns) const;
  Status finish(Status outcome);
  Status bind_input(std::size_t i, const Tensor& tensor);
  Status bind_output(std::size_t i, Tensor& tensor);
  Status bind_open_output(std::size_t i, Tensor& tensor);
  Status set_tensors();
  Status set_output(std::size_t i);
  Status set(const ov_output_const_port_t* port, const ov_tensor_t* value);
  Status mark_open_outputs();
  Status take_open_outputs();
  Status take_open_output(std::size_t i, Tensor& tensor);
  Status run_for_unwritten();
  Result<std::vector<std::int64_t>> dims_of(const ov_tensor_t* value) const;
  Result<Value> borrow(DType dtype, std::vector<std::int64_t> dims, const void* data) const;

  const Engine& engine() const { return *model_->engine; }
  const Api& api() const { return model_->engine->api; }
  static Error cancelled() { return make_error(Code::kCancelled, "the run was cancelled"); }
  Status check(ov_status_e status) const {
    if (status == INFER_CANCELLED) return cancelled();
    return engine().check(status);
  }

  std::shared_ptr<const Model> model_;
  std::shared_ptr<const Compiled> compiled_;
  Handle<ov_infer_request_t> request_;
  std::vector<InputSlot> input_slots_;
  std::vector<OutputSlot> output_slots_;
  int settling_;
  std::vector<Tensor*> outputs_;  // Of the run that was started and not yet waited for.
  bool started_ = false;
  std::atomic<bool> cancelled_{false};
  std::atomic<std::uint64_t> copies_{0}, allocations_{0};  // Written by the running thread only.
};

/// Keeps OpenVINO's own tensors of outputs that it sizes itself.
Status Context::prepare() {
  for (std::size_t i = 0; i < output_slots_.size(); ++i) {
    if (!model_->open_outputs[i]) continue;
    ov_tensor_t* raw = nullptr;
    PENSTOCK_CHECK_OK(check(api().ov_infer_request_get_tensor_by_const_port(
        request_.get(), compiled_->outputs[i].get(), &raw)));
    output_slots_[i].own = {raw, {api().ov_tensor_free}};
  }
  outputs_.resize(output_slots_.size());
  return {};
}

Status Context::run(const backend::Call&, std::span<const Tensor* const> inputs,
                    std::span<Tensor* const> outputs) {
  try {
    PENSTOCK_CHECK_OK(start(inputs, outputs));
    if (cancelled_.exchange(false)) return cancelled();
    if (model_->own_threads) {
      PENSTOCK_CHECK_OK(check(api().ov_infer_request_start_async(request_.get())));
      started_ = true;
      // OpenVINO forgets what is cancelled before it starts.
      if (cancelled_) cancel();
      return {};
    }
    return finish(check(api().ov_infer_request_infer(request_.get())));
  } catch (const std::bad_alloc&) {
    return make_error(Code::kResourceExhausted, "out of memory");
  }
}

Status Context::wait(std::int64_t deadline_ns) {
  if (!started_) return {};
  try {
    const auto ended = wait_until(deadline_ns);
    if (ended == RESULT_NOT_READY) {
      return make_error(Code::kDeadlineExceeded, "the run is still in progress");
    }
    started_ = false;
    return finish(check(ended));
  } catch (const std::bad_alloc&) {
    return make_error(Code::kResourceExhausted, "out of memory");
  }
}

/// OpenVINO counts milliseconds: rounded up, so that it does not return before the deadline.
ov_status_e Context::wait_until(std::int64_t deadline_ns) const {
  using Clock = std::chrono::steady_clock;
  if (deadline_ns == backend::kNoDeadline) return api().ov_infer_request_wait(request_.get());
  const Clock::time_point deadline{std::chrono::nanoseconds(deadline_ns)};
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  return api().ov_infer_request_wait_for(request_.get(), std::max<std::int64_t>(left.count(), 0));
}

Status Context::start(std::span<const Tensor* const> inputs, std::span<Tensor* const> outputs) {
  if (inputs.size() != input_slots_.size() || outputs.size() != output_slots_.size()) {
    return invalid_argument("expected ", counted(input_slots_.size(), "input"), " and ",
                            counted(output_slots_.size(), "output"), ", found ", inputs.size(),
                            " and ", outputs.size());
  }
  PENSTOCK_CHECK_OK(wait(backend::kNoDeadline));
  for (std::size_t i = 0; i < inputs.size(); ++i) PENSTOCK_CHECK_OK(bind_input(i, *inputs[i]));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    PENSTOCK_CHECK_OK(model_->open_outputs[i] ? bind_open_output(i, *outputs[i])
                                              : bind_output(i, *outputs[i]));
  }
  std::ranges::copy(outputs, outputs_.begin());
  PENSTOCK_CHECK_OK(set_tensors());
  return mark_open_outputs();
}

Status Context::finish(Status outcome) {
  // A cancel that has come by now was for this run, be it that it came too late for it.
  cancelled_ = false;
  PENSTOCK_CHECK_OK(std::move(outcome));
  PENSTOCK_CHECK_OK(take_open_outputs());
  if (settling_ > 0) {
    --settling_;
    compiled_->threads->confine();
  }
  return {};
}

Status Context::bind_input(std::size_t i, const Tensor& tensor) {
  const backend::Port& port = model_->inputs[i];
  InputSlot& slot = input_slots_[i];
  const bool plain = tensor.kind() == Tensor::Kind::kDense && tensor.dtype() == port.type.dtype;
  // A buffer seen before passed the check then.
  slot.value = plain ? slot.cache.find(tensor) : nullptr;
  if (slot.value != nullptr) return {};
  if (auto fits = check_matches(port.type, tensor); !fits) {
    return std::move(fits).error().within({Where::kInput, port.name});
  }
  if (compiled_->inputs[i] == nullptr) return {};
  PENSTOCK_TRY(Value made, borrow(tensor.dtype(), tensor.dims(), tensor.data()));
  slot.value = slot.cache.add(tensor, std::move(made));
  slot.set = nullptr;  // add() may have let go of it.
  return {};
}

/// Of a shape that is known.
Status Context::bind_output(std::size_t i, Tensor& tensor) {
  const Type& type = model_->outputs[i].type;
  OutputSlot& slot = output_slots_[i];
  if (tensor.kind() != Tensor::Kind::kDense || tensor.data() == nullptr ||
      tensor.dtype() != type.dtype || !tensor.set_dims(model_->output_dims[i])) {
    tensor = Tensor::allocate(type.dtype, model_->output_dims[i]);
    add(allocations_, 1);
  }
  slot.value = slot.cache.find(tensor);
  if (slot.value != nullptr) return {};
  PENSTOCK_TRY(Value made, borrow(tensor.dtype(), tensor.dims(), tensor.data()));
  slot.value = slot.cache.add(tensor, std::move(made));
  slot.set = nullptr;
  return {};
}

/// Gives OpenVINO the whole buffer, whatever the shape will be.
Status Context::bind_open_output(std::size_t i, Tensor& tensor) {
  const DType dtype = model_->outputs[i].type.dtype;
  OutputSlot& slot = output_slots_[i];
  slot.count = static_cast<std::int64_t>(tensor.capacity_bytes() / bytes_of(dtype, 1));
  const std::array<std::int64_t, 1> whole = {slot.count};
  slot.bound = tensor.kind() == Tensor::Kind::kDense && tensor.data() != nullptr &&
               tensor.dtype() == dtype && slot.count > 0 && tensor.set_dims(whole);
  slot.value = slot.bound ? slot.cache.find(tensor) : slot.own.get();
  if (slot.value != nullptr) return {};
  PENSTOCK_TRY(Value made, borrow(dtype, {slot.count}, tensor.data()));
  slot.value = slot.cache.add(tensor, std::move(made));
  slot.set = nullptr;
  return {};
}

/// All or none: where an output is an input passed through, setting one sets the other too, and the
/// input must have the last word.
Status Context::set_tensors() {
  const auto differs = [](const auto& slot) { return slot.value != slot.set; };
  if (std::ranges::none_of(input_slots_, differs) && std::ranges::none_of(output_slots_, differs)) {
    return {};
  }
  for (std::size_t i = 0; i < output_slots_.size(); ++i) PENSTOCK_CHECK_OK(set_output(i));
  for (std::size_t i = 0; i < input_slots_.size(); ++i) {
    InputSlot& slot = input_slots_[i];
    slot.set = nullptr;
    if (slot.value == nullptr) continue;
    PENSTOCK_CHECK_OK(set(compiled_->inputs[i].get(), slot.value));
    slot.set = slot.value;
  }
  return {};
}

Status Context::set_output(std::size_t i) {
  OutputSlot& slot = output_slots_[i];
  slot.set = nullptr;
  if (slot.bound) {
    // A tensor without elements goes into any place.
    std::int64_t none = 0;
    PENSTOCK_CHECK_OK(check(api().ov_tensor_set_shape(slot.value, {1, &none})));
  }
  PENSTOCK_CHECK_OK(set(compiled_->outputs[i].get(), slot.value));
  slot.set = slot.value;
  return {};
}

Status Context::mark_open_outputs() {
  std::array<std::int64_t, kMarkRank> dims;
  dims.fill(1);
  for (OutputSlot& slot : output_slots_) {
    if (!slot.bound) continue;
    dims.back() = slot.count;
    PENSTOCK_CHECK_OK(check(api().ov_tensor_set_shape(slot.set, {kMarkRank, dims.data()})));
  }
  return {};
}

Status Context::set(const ov_output_const_port_t* port, const ov_tensor_t* value) {
  return check(api().ov_infer_request_set_tensor_by_const_port(request_.get(), port, value));
}

/// A tensor over memory that the caller keeps alive.
Result<Value> Context::borrow(DType dtype, std::vector<std::int64_t> dims, const void* data) const {
  static char nothing = 0;  // A tensor without elements may have no address.
  const ov_shape_t shape{static_cast<std::int64_t>(dims.size()), dims.data()};
  // OpenVINO does not write into inputs; its interface only lacks the const.
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
  void* memory = data == nullptr ? &nothing : const_cast<void*>(data);
  ov_tensor_t* raw = nullptr;
  PENSTOCK_CHECK_OK(
      check(api().ov_tensor_create_from_host_ptr(to_engine(dtype), shape, memory, &raw)));
  return Value(raw, {api().ov_tensor_free});
}

Status Context::take_open_outputs() {
  if (!model_->any_open_output) return {};
  PENSTOCK_CHECK_OK(run_for_unwritten());
  for (std::size_t i = 0; i < output_slots_.size(); ++i) {
    if (model_->open_outputs[i]) PENSTOCK_CHECK_OK(take_open_output(i, *outputs_[i]));
  }
  return {};
}

/// Results that were larger than the caller's buffers are lost: the frame is computed once more,
/// with OpenVINO's own tensors in their places.
Status Context::run_for_unwritten() {
  bool again = false;
  for (OutputSlot& slot : output_slots_) {
    if (!slot.bound) continue;
    PENSTOCK_TRY(const auto dims, dims_of(slot.set));
    if (dims.size() != kMarkRank) continue;
    slot.bound = false;
    slot.value = slot.own.get();
    again = true;
  }
  if (!again) return {};
  PENSTOCK_CHECK_OK(set_tensors());
  PENSTOCK_CHECK_OK(mark_open_outputs());
  return check(api().ov_infer_request_infer(request_.get()));
}

Status Context::take_open_output(std::size_t i, Tensor& tensor) {
  OutputSlot& slot = output_slots_[i];
  PENSTOCK_TRY(auto dims, dims_of(slot.set));
  if (slot.bound) {
    if (tensor.set_dims(dims)) return {};
    return internal_error("output '", model_->outputs[i].name, "' outgrew its buffer");
  }
  void* data = nullptr;
  PENSTOCK_CHECK_OK(check(api().ov_tensor_data(slot.set, &data)));
  tensor = Tensor::allocate(model_->outputs[i].type.dtype, std::move(dims));
  add(allocations_, 1);
  if (tensor.bytes() == 0) return {};
  std::memcpy(tensor.data(), data, tensor.bytes());
  add(copies_, 1);
  return {};
}

Result<std::vector<std::int64_t>> Context::dims_of(const ov_tensor_t* value) const {
  ov_shape_t shape{};
  PENSTOCK_CHECK_OK(check(api().ov_tensor_get_shape(value, &shape)));
  std::vector<std::int64_t> dims(shape.dims, shape.dims + shape.rank);
  api().ov_shape_free(&shape);
  return dims;
}

}  // namespace

Result<std::unique_ptr<backend::Context>> create_context(std::shared_ptr<const Model> model,
                                                         std::shared_ptr<const Compiled> compiled) {
  const Engine& engine = *model->engine;
  ov_infer_request_t* raw = nullptr;
  PENSTOCK_CHECK_OK(
      engine.check(engine.api.ov_compiled_model_create_infer_request(compiled->model.get(), &raw)));
  Handle<ov_infer_request_t> request(raw, {engine.api.ov_infer_request_free});
  auto context =
      std::make_unique<Context>(std::move(model), std::move(compiled), std::move(request));
  PENSTOCK_CHECK_OK(context->prepare());
  return std::unique_ptr<backend::Context>(std::move(context));
}

}  // namespace penstock::openvino
