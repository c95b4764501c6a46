// Context: one caller's runs of a Program.
#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

#include "penstock/base/words.h"
#include "program.h"

namespace penstock::onednn {
namespace {

using Memory = std::shared_ptr<dnnl_memory>;

class Context final : public backend::Context {
 public:
  explicit Context(std::shared_ptr<const Program> program)
      : program_(std::move(program)),
        input_data_(program_->inputs.size()),
        output_data_(program_->outputs.size()),
        input_memories_(program_->inputs.size()),
        output_memories_(program_->outputs.size()) {
    for (const auto& port : program_->outputs) output_dims_.push_back(dims_of(port.type));
  }

  Status prepare();
  Status run(const backend::Call&, std::span<const Tensor* const> inputs,
             std::span<Tensor* const> outputs) override;
  void cancel() noexcept override { cancelled_ = true; }
  [[nodiscard]] Counters counters() const override {
    return {.copies = 0, .allocations = allocations_.load(std::memory_order_relaxed)};
  }

 private:
  /// A step with its arguments bound to memory objects.
  struct Call {
    const Step* step;
    std::vector<dnnl_exec_arg_t> arguments;
    std::vector<std::byte*> data;  // Of a kernel's arguments, as bound last.
  };
  /// A memory object whose data move with the caller's buffer.
  struct Moving {
    dnnl_memory_t memory;
    std::size_t offset;
  };

  Status run_frame(std::span<const Tensor* const> inputs, std::span<Tensor* const> outputs);
  Status bind_input(std::size_t i, const Tensor& tensor);
  Status bind_output(std::size_t i, Tensor& tensor);
  Status move(const std::vector<Moving>& memories, std::byte* data);
  Status execute();
  Result<dnnl_memory_t> memory_at(const Place& place);
  std::byte* data_of(const Place& place);

  [[nodiscard]] const Engine& engine() const { return *program_->engine; }

  std::shared_ptr<const Program> program_;
  std::shared_ptr<dnnl_stream> stream_;
  Tensor arena_, scratch_;
  std::vector<Memory> memories_;
  std::vector<Call> calls_;
  std::vector<std::byte*> input_data_, output_data_;  // As bound last.
  std::vector<Dims> output_dims_;
  std::vector<std::vector<Moving>> input_memories_, output_memories_;
  std::atomic<bool> cancelled_{false};
  std::atomic<std::uint64_t> allocations_{0};  // Written by the running thread only.
};

Status Context::prepare() {
  const Api& api = engine().api;
  dnnl_stream_t stream = nullptr;
  PENSTOCK_CHECK_OK(engine().check(
      api.stream_create(&stream, engine().cpu, dnnl_stream_default_flags), "stream"));
  stream_ = {stream, api.stream_destroy};
  arena_ = Tensor::reserve(DType::kF32, std::max<std::size_t>(program_->arena_bytes, 1));
  scratch_ = Tensor::reserve(DType::kU8, std::max<std::size_t>(program_->scratch_bytes, 1));
  for (const auto& step : program_->steps) {
    Call call{&step, {}, {}};
    if (step.primitive == nullptr) call.data.resize(step.arguments.size());
    for (const auto& argument : step.arguments) {
      if (step.primitive == nullptr) break;
      PENSTOCK_TRY(const dnnl_memory_t memory, memory_at(argument.place));
      call.arguments.push_back({argument.name, memory});
    }
    if (step.scratch_bytes > 0) {
      const Dims dims = {static_cast<std::int64_t>(step.scratch_bytes)};
      const Dims strides = {1};
      dnnl_memory_desc_t raw = nullptr;
      PENSTOCK_CHECK_OK(engine().check(
          api.memory_desc_create_with_strides(&raw, 1, dims.data(), dnnl_u8, strides.data()),
          "scratchpad"));
      const std::shared_ptr<dnnl_memory_desc> description(raw, api.memory_desc_destroy);
      dnnl_memory_t memory = nullptr;
      PENSTOCK_CHECK_OK(engine().check(
          api.memory_create(&memory, raw, engine().cpu, scratch_.data()), "scratchpad"));
      memories_.emplace_back(memory, api.memory_destroy);
      call.arguments.push_back({DNNL_ARG_SCRATCHPAD, memory});
    }
    calls_.push_back(std::move(call));
  }
  return {};
}

/// Null while the caller's buffer is not known.
std::byte* Context::data_of(const Place& place) {
  const Buffer& buffer = program_->buffers[place.buffer];
  switch (buffer.kind) {
    case Buffer::Kind::kArena:
      return static_cast<std::byte*>(arena_.data()) + buffer.offset + place.offset;
    case Buffer::Kind::kConstant:
      // Never written: no step has a constant as its destination.
      return static_cast<std::byte*>(const_cast<void*>(program_->constants[buffer.index].data())) +
             place.offset;
    case Buffer::Kind::kInput:
      return input_data_[buffer.index] == nullptr ? nullptr
                                                  : input_data_[buffer.index] + place.offset;
    case Buffer::Kind::kOutput:
      return output_data_[buffer.index] == nullptr ? nullptr
                                                   : output_data_[buffer.index] + place.offset;
  }
  return nullptr;
}

Result<dnnl_memory_t> Context::memory_at(const Place& place) {
  dnnl_memory_t memory = nullptr;
  PENSTOCK_CHECK_OK(engine().check(
      engine().api.memory_create(&memory, place.layout.get(), engine().cpu, data_of(place)),
      "memory"));
  memories_.emplace_back(memory, engine().api.memory_destroy);
  const Buffer& buffer = program_->buffers[place.buffer];
  if (buffer.kind == Buffer::Kind::kInput) {
    input_memories_[buffer.index].push_back({memory, place.offset});
  } else if (buffer.kind == Buffer::Kind::kOutput) {
    output_memories_[buffer.index].push_back({memory, place.offset});
  }
  return memory;
}

Status Context::run(const backend::Call&, std::span<const Tensor* const> inputs,
                    std::span<Tensor* const> outputs) {
  Status outcome;
  try {
    outcome = run_frame(inputs, outputs);
  } catch (const std::bad_alloc&) {
    outcome = make_error(Code::kResourceExhausted, "out of memory");
  }
  // A cancel that has come by now was for this run, be it that it came too late for it.
  cancelled_ = false;
  return outcome;
}

Status Context::run_frame(std::span<const Tensor* const> inputs, std::span<Tensor* const> outputs) {
  if (inputs.size() != program_->inputs.size() || outputs.size() != program_->outputs.size()) {
    return invalid_argument("expected ", counted(program_->inputs.size(), "input"), " and ",
                            counted(program_->outputs.size(), "output"), ", found ", inputs.size(),
                            " and ", outputs.size());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) PENSTOCK_CHECK_OK(bind_input(i, *inputs[i]));
  for (std::size_t i = 0; i < outputs.size(); ++i) PENSTOCK_CHECK_OK(bind_output(i, *outputs[i]));
  // oneDNN asks the runtime for its threads on whichever thread runs.
  const ThreadCount threads(engine().threads, program_->threads);
  return execute();
}

Status Context::bind_input(std::size_t i, const Tensor& tensor) {
  const backend::Port& port = program_->inputs[i];
  if (auto matches = check_matches(port.type, tensor); !matches) {
    return std::move(matches).error().within({Where::kInput, port.name});
  }
  // Never written: no step has an input as its destination.
  auto* data = static_cast<std::byte*>(const_cast<void*>(tensor.data()));
  if (data == input_data_[i]) return {};
  input_data_[i] = data;
  return move(input_memories_[i], data);
}

Status Context::bind_output(std::size_t i, Tensor& tensor) {
  const Type& type = program_->outputs[i].type;
  const Dims& dims = output_dims_[i];
  const bool fits = tensor.kind() == Tensor::Kind::kDense && tensor.data() != nullptr &&
                    tensor.dtype() == type.dtype && tensor.set_dims(dims);
  if (!fits) {
    tensor = Tensor::allocate(type.dtype, dims);
    allocations_.store(allocations_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  auto* data = static_cast<std::byte*>(tensor.data());
  if (data == output_data_[i]) return {};
  output_data_[i] = data;
  return move(output_memories_[i], data);
}

Status Context::move(const std::vector<Moving>& memories, std::byte* data) {
  for (const auto& [memory, offset] : memories) {
    PENSTOCK_CHECK_OK(
        engine().check(engine().api.memory_set_data_handle(memory, data + offset), "memory"));
  }
  return {};
}

Status Context::execute() {
  const Api& api = engine().api;
  for (auto& [step, arguments, data] : calls_) {
    if (cancelled_.load(std::memory_order_relaxed)) {
      return make_error(Code::kCancelled, "the run was cancelled");
    }
    if (step->primitive == nullptr) {
      for (std::size_t i = 0; i < data.size(); ++i) data[i] = data_of(step->arguments[i].place);
      PENSTOCK_CHECK_OK(step->kernel(data));
      continue;
    }
    const auto outcome = api.primitive_execute(
        step->primitive.get(), stream_.get(), static_cast<int>(arguments.size()), arguments.data());
    if (outcome != dnnl_success) return engine().check(outcome, "run");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<backend::Context>> create_context(std::shared_ptr<const Program> program) {
  auto context = std::make_unique<Context>(std::move(program));
  PENSTOCK_CHECK_OK(context->prepare());
  return std::unique_ptr<backend::Context>(std::move(context));
}

}  // namespace penstock::onednn
