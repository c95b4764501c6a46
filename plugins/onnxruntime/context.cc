// Context: one caller's runs of a Session.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "forecast.h"
#include "penstock/base/words.h"
#include "session.h"
#include "values.h"
#include "wire.h"

namespace penstock::ort {
namespace {

struct InputSlot {
  ValueCache cache;
  Value temporary;  // Of this run: strings, sequences.
  Value empty;      // The empty sequence, made on first use.
};

struct OutputSlot {
  bool bound = false;    // This run writes into the caller's buffer.
  bool refused = false;  // This run was refused it, perhaps for another output's shape.
  ValueCache cache;
};

/// A counter that one thread writes and any may read.
void add(std::atomic<std::uint64_t>& counter, std::uint64_t count) {
  counter.store(counter.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
}

class Context final : public backend::Context {
 public:
  Context(std::shared_ptr<const Model> model, Handle<OrtRunOptions> run_options);

  Status run(const backend::Call&, std::span<const Tensor* const> inputs,
             std::span<Tensor* const> outputs) override;
  void cancel() noexcept override;
  [[nodiscard]] Counters counters() const override;

 private:
  Status compute(std::span<const Tensor* const> inputs, std::span<Tensor* const> outputs);
  Status run_frame(std::span<const Tensor* const> inputs, std::span<Tensor* const> outputs);
  bool take_cancel();
  Status bind_input(std::size_t i, const Tensor& tensor);
  Result<const OrtValue*> new_input(std::size_t i, const Tensor& tensor, bool plain);
  Status bind_output(std::size_t i, std::span<const Tensor* const> inputs, Tensor& tensor);
  OrtStatus* start();
  Status run_without_buffers(OrtStatus* first);
  Status take_output(std::size_t i, Tensor& tensor);
  void count_output(const Tensor& result);
  void release_unbound();

  const Engine& engine() const { return *model_->engine; }

  std::shared_ptr<const Model> model_;
  Handle<OrtRunOptions> run_options_;
  std::vector<InputSlot> input_slots_;
  std::vector<OutputSlot> output_slots_;
  std::vector<const OrtValue*> input_values_;
  std::vector<OrtValue*> output_values_;  // Null: ONNX Runtime allocates; then ours to release.
  ShapeForecast forecast_;
  bool some_absent_ = false;  // Of this run's inputs: null in input_values_.
  std::mutex cancel_mutex_;   // Held where `cancelled_` and ONNX Runtime's own flag change.
  std::atomic<bool> cancelled_{false};
  std::atomic<std::uint64_t> copies_{0}, allocations_{0};  // Written by the running thread only.
};

Context::Context(std::shared_ptr<const Model> model, Handle<OrtRunOptions> run_options)
    : model_(std::move(model)),
      run_options_(std::move(run_options)),
      input_slots_(model_->inputs.size()),
      output_slots_(model_->outputs.size()),
      input_values_(model_->inputs.size()),
      output_values_(model_->outputs.size()),
      forecast_(model_->inputs, model_->outputs) {}

Status Context::run(const backend::Call&, std::span<const Tensor* const> inputs,
                    std::span<Tensor* const> outputs) {
  const auto cancelled = [] { return make_error(Code::kCancelled, "the run was cancelled"); };
  Status outcome = cancelled_ ? cancelled() : compute(inputs, outputs);
  // A cancel that has come by now was for this run, be it that it came too late for it.
  const bool was_cancelled = take_cancel();
  if (outcome || !was_cancelled) return outcome;
  return cancelled();
}

Status Context::compute(std::span<const Tensor* const> inputs, std::span<Tensor* const> outputs) {
  try {
    auto outcome = run_frame(inputs, outputs);
    release_unbound();
    return outcome;
  } catch (const std::bad_alloc&) {
    release_unbound();
    return make_error(Code::kResourceExhausted, "out of memory");
  }
}

Status Context::run_frame(std::span<const Tensor* const> inputs, std::span<Tensor* const> outputs) {
  if (inputs.size() != input_slots_.size() || outputs.size() != output_slots_.size()) {
    return invalid_argument("expected ", counted(input_slots_.size(), "input"), " and ",
                            counted(output_slots_.size(), "output"), ", found ", inputs.size(),
                            " and ", outputs.size());
  }
  some_absent_ = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) PENSTOCK_CHECK_OK(bind_input(i, *inputs[i]));
  forecast_.begin(inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    PENSTOCK_CHECK_OK(bind_output(i, inputs, *outputs[i]));
  }
  if (OrtStatus* failed = start()) {
    auto outcome = run_without_buffers(failed);
    if (!outcome) return behind_reshape(model_->filled, std::move(outcome).error());
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) PENSTOCK_CHECK_OK(take_output(i, *outputs[i]));
  forecast_.end();
  return {};
}

Status Context::bind_input(std::size_t i, const Tensor& tensor) {
  const backend::Port& port = model_->inputs[i];
  const bool plain = tensor.kind() == Tensor::Kind::kDense && tensor.dtype() == port.type.dtype;
  // A buffer seen before passed the check then.
  input_values_[i] = plain ? input_slots_[i].cache.find(tensor) : nullptr;
  if (input_values_[i] != nullptr) return {};
  auto value = new_input(i, tensor, plain);
  if (!value) return std::move(value).error().within({Where::kInput, port.name});
  input_values_[i] = *value;
  return {};
}

Result<const OrtValue*> Context::new_input(std::size_t i, const Tensor& tensor, bool plain) {
  const backend::Port& port = model_->inputs[i];
  InputSlot& slot = input_slots_[i];
  PENSTOCK_CHECK_OK(check_matches(port.type, tensor));
  PENSTOCK_CHECK_OK(refuse_empty(model_->filled, port.name, tensor));
  if (plain) {
    PENSTOCK_TRY(Value value, to_value(engine(), tensor));
    return slot.cache.add(tensor, std::move(value));
  }
  if (tensor.kind() == Tensor::Kind::kOpaque) return opaque_value(tensor);
  if (tensor.kind() == Tensor::Kind::kNone) {
    if (!is_optional(port.type.onnx)) return invalid_argument("expected a value, found none");
    some_absent_ = true;
    return nullptr;
  }
  const bool is_empty = tensor.kind() == Tensor::Kind::kSequence && tensor.elements().empty();
  if (!is_empty) {
    PENSTOCK_TRY(slot.temporary, to_value(engine(), tensor));
    if (tensor.kind() == Tensor::Kind::kStrings) {
      add(copies_, 1);
      add(allocations_, 1);
    }
    return slot.temporary.get();
  }
  if (slot.empty == nullptr) {
    const std::string model = model_of_empty_sequence(port.type.onnx);
    if (model.empty()) return invalid_argument("expected a value, found an empty sequence");
    PENSTOCK_TRY(slot.empty, evaluate_constant(engine(), model));
  }
  return slot.empty.get();
}

Status Context::bind_output(std::size_t i, std::span<const Tensor* const> inputs, Tensor& tensor) {
  OutputSlot& slot = output_slots_[i];
  output_values_[i] = nullptr;
  const auto* dims = forecast_.dims(i, inputs);
  slot.bound = tensor.kind() == Tensor::Kind::kDense && tensor.data() != nullptr &&
               tensor.dtype() == model_->outputs[i].type.dtype && dims != nullptr &&
               tensor.set_dims(*dims);
  if (!slot.bound) return {};
  output_values_[i] = slot.cache.find(tensor);
  if (output_values_[i] != nullptr) return {};
  PENSTOCK_TRY(Value value, to_value(engine(), tensor));
  output_values_[i] = slot.cache.add(tensor, std::move(value));
  return {};
}

OrtStatus* Context::start() {
  const OrtApi& api = *engine().api;
  const auto start_with = [&](const auto& names, const auto& values) {
    return api.Run(model_->session.get(), run_options_.get(), names.data(), values.data(),
                   values.size(), model_->output_names.data(), output_values_.size(),
                   output_values_.data());
  };
  if (!some_absent_) return start_with(model_->input_names, input_values_);
  // An optional is absent by not being fed.
  std::vector<const char*> names;
  std::vector<const OrtValue*> values;
  for (std::size_t i = 0; i < input_values_.size(); ++i) {
    if (input_values_[i] == nullptr) continue;
    names.push_back(model_->input_names[i]);
    values.push_back(input_values_[i]);
  }
  return start_with(names, values);
}

/// A model may declare output shapes that it does not keep. ONNX Runtime then refuses a buffer of
/// the declared shape; the run is tried once more with buffers of its own.
Status Context::run_without_buffers(OrtStatus* first) {
  const OrtApi& api = *engine().api;
  const std::string_view text = api.GetErrorMessage(first);
  const auto says = [&](std::string_view words) { return text.find(words) != text.npos; };
  const bool shape_refused = (says("hape") || says("invalid dimensions")) && !says("terminate") &&
                             !names_reshape(model_->filled, text);
  if (!shape_refused || std::ranges::none_of(output_slots_, &OutputSlot::bound)) {
    return engine().check(first);
  }
  api.ReleaseStatus(first);
  release_unbound();
  for (std::size_t i = 0; i < output_slots_.size(); ++i) {
    output_values_[i] = nullptr;
    output_slots_[i].refused = std::exchange(output_slots_[i].bound, false);
  }
  Status ran = engine().check(start());
  // Then it was not the buffers.
  for (auto& slot : output_slots_) slot.refused = slot.refused && static_cast<bool>(ran);
  return ran;
}

/// Hands over what ONNX Runtime allocated: into the caller's buffer where it fits.
Status Context::take_output(std::size_t i, Tensor& tensor) {
  OutputSlot& slot = output_slots_[i];
  if (slot.bound) return {};
  Value value(std::exchange(output_values_[i], nullptr), {engine().api->ReleaseValue});
  PENSTOCK_TRY(Tensor result, to_tensor(engine(), std::move(value), model_));
  forecast_.learn(i, result.dims(), std::exchange(slot.refused, false));
  count_output(result);
  const bool fits = result.kind() == Tensor::Kind::kDense &&
                    tensor.kind() == Tensor::Kind::kDense && tensor.data() != nullptr &&
                    tensor.dtype() == result.dtype() && tensor.set_dims(result.dims());
  if (!fits) {
    tensor = std::move(result);
  } else if (result.bytes() > 0) {
    std::memcpy(tensor.data(), result.data(), result.bytes());
    add(copies_, 1);
  }
  return {};
}

/// What ONNX Runtime allocated for an output; texts and sequences are copied out of it besides.
void Context::count_output(const Tensor& result) {
  if (result.kind() == Tensor::Kind::kNone) return;
  add(allocations_, 1);
  std::uint64_t converted = 0;
  if (result.kind() == Tensor::Kind::kStrings) converted = 1;
  if (result.kind() == Tensor::Kind::kSequence) converted = result.elements().size();
  add(allocations_, converted);
  add(copies_, converted);
}

/// Outputs that ONNX Runtime allocated and nobody took: after a failure.
void Context::release_unbound() {
  for (std::size_t i = 0; i < output_values_.size(); ++i) {
    if (output_values_[i] != nullptr && !output_slots_[i].bound) {
      engine().api->ReleaseValue(output_values_[i]);
    }
    output_values_[i] = nullptr;
  }
}

void Context::cancel() noexcept {
  const std::scoped_lock lock(cancel_mutex_);
  cancelled_ = true;
  if (OrtStatus* outcome = engine().api->RunOptionsSetTerminate(run_options_.get())) {
    engine().api->ReleaseStatus(outcome);
  }
}

/// Whether there was a cancel since this was asked last.
bool Context::take_cancel() {
  if (!cancelled_) return false;
  const std::scoped_lock lock(cancel_mutex_);
  cancelled_ = false;
  if (OrtStatus* outcome = engine().api->RunOptionsUnsetTerminate(run_options_.get())) {
    engine().api->ReleaseStatus(outcome);
  }
  return true;
}

backend::Context::Counters Context::counters() const {
  return {copies_.load(std::memory_order_relaxed), allocations_.load(std::memory_order_relaxed)};
}

}  // namespace

Result<std::unique_ptr<backend::Context>> create_context(std::shared_ptr<const Model> model) {
  const OrtApi& api = *model->engine->api;
  OrtRunOptions* raw = nullptr;
  PENSTOCK_CHECK_OK(model->engine->check(api.CreateRunOptions(&raw)));
  Handle<OrtRunOptions> run_options(raw, {api.ReleaseRunOptions});
  return std::unique_ptr<backend::Context>(
      std::make_unique<Context>(std::move(model), std::move(run_options)));
}

}  // namespace penstock::ort
