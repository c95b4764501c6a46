// Keeps what is known of each value, and appends steps.
#include "builder.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <utility>

#include "operators.h"

namespace penstock::cuda {
namespace {

using graph::index;

/// An expression beyond these is computed: kernels have 4 KiB of parameters, and compiling takes
/// its time.
constexpr std::size_t kMostLeaves = 16;
constexpr std::size_t kMostCode = 4000;

constexpr std::array kTypes = {DType::kF32,  DType::kI64, DType::kI32,
                               DType::kBool, DType::kI8,  DType::kU8};

/// A number that stands in the code itself; empty where it is no single one.
std::optional<Expression> number_of(const Tensor& tensor) {
  if (tensor.count() != 1) return {};
  Expression number{tensor.dims(), tensor.dtype(), {}, {}};
  switch (tensor.dtype()) {
    case DType::kF32:
      number.code = literal(tensor.as<float>().front());
      return number;
    case DType::kI64:
      number.code = concat("(", tensor.as<std::int64_t>().front(), "LL)");
      return number;
    case DType::kI32:
      number.code = concat("(", tensor.as<std::int32_t>().front(), ")");
      return number;
    default:
      return {};
  }
}

/// Inputs can be given sizes; those of other tensors may depend on values.
std::string_view how_to_fix(const graph::Value& value) {
  const auto& type = value.type;
  if (!value.is_input || type.kind != Type::Kind::kTensor || type.fixed()) return "";
  return "; fix the sizes of the model's inputs: '--shape', in Python 'shapes'";
}

}  // namespace

Builder::Builder(std::shared_ptr<Gpu> gpu, const Graph& graph, Settings settings)
    : program_(std::make_shared<Program>()),
      graph_(&graph),
      settings_(settings),
      opset_(graph.info.opsets.contains("") ? graph.info.opsets.at("") : 0),
      values_(graph.values.size()),
      done_(graph.nodes.size()) {
  program_->gpu = std::move(gpu);
}

Result<std::shared_ptr<Program>> Builder::build() {
  PENSTOCK_CHECK_OK(check_types());
  take_inputs();
  for (std::size_t i = 0; i < graph_->nodes.size(); ++i) {
    if (done_[i]) continue;
    const Node& node = graph_->nodes[i];
    node_name_ = node.name;
    if (auto outcome = lower(static_cast<NodeId>(i)); !outcome) {
      return std::move(outcome)
          .error()
          .within({Where::kOperator, node.op})
          .within({Where::kNode, node.name});
    }
  }
  node_name_ = "outputs";
  PENSTOCK_CHECK_OK(deliver_outputs());
  plan_memory(*program_);
  if (gpu() != nullptr) PENSTOCK_CHECK_OK(upload_weights(*program_));
  return program_;
}

/// Values of a fixed shape, some elements, and no more of them than kernels count.
Status Builder::check_types() const {
  const auto refused = [](const graph::Value& value, std::string_view what) {
    return make_error(Code::kUnimplemented, "the cuda backend takes ", what, ", found ", value.type,
                      how_to_fix(value))
        .within({Where::kTensor, value.name});
  };
  for (const auto& value : graph_->values) {
    if (value.constant && !value.is_output) continue;
    if (!value.producer && !value.is_input && !value.is_output) continue;
    if (value.type.kind != Type::Kind::kTensor || !value.type.fixed() ||
        std::ranges::find(kTypes, value.type.dtype) == kTypes.end()) {
      return refused(value, "tensors of f32, i64, i32, i8, u8 or bool with a fixed shape");
    }
    const auto count = count_of(dims_of(value.type));
    if (count == 0) return refused(value, "no empty tensors");
    if (count > std::numeric_limits<std::int32_t>::max()) {
      return refused(value, "tensors of at most 2147483647 elements");
    }
  }
  return {};
}

void Builder::take_inputs() {
  for (const ValueId id : graph_->inputs) {
    const auto& value = graph_->value(id);
    program_->input_buffers.push_back(program_->buffers.size());
    program_->buffers.push_back({Buffer::Kind::kInput,
                                 bytes_of(dtype(id), static_cast<std::size_t>(count_of(dims(id)))),
                                 program_->inputs.size(), 0});
    values_[index(id)] = Expression::place(program_->buffers.size() - 1, dims(id), dtype(id));
    program_->inputs.push_back({value.name, value.type});
  }
  for (const ValueId id : graph_->outputs) {
    program_->output_buffers.push_back(program_->buffers.size());
    program_->buffers.push_back({Buffer::Kind::kOutput,
                                 bytes_of(dtype(id), static_cast<std::size_t>(count_of(dims(id)))),
                                 program_->outputs.size(), 0});
    program_->outputs.push_back({graph_->value(id).name, graph_->value(id).type});
  }
}

Status Builder::lower(NodeId id) {
  const Node& node = graph_->node(id);
  const auto lowering = node.domain.empty() ? lowering_of(node.op) : nullptr;
  if (lowering == nullptr) {
    return make_error(Code::kUnimplemented, "the cuda backend does not run operator ",
                      node.domain.empty() ? node.op : node.domain + ":" + node.op);
  }
  PENSTOCK_CHECK_OK(lowering(*this, id));
  mark_done(id);
  return {};
}

/// Into their own memory, where they do not lie there already.
Status Builder::deliver_outputs() {
  for (std::size_t i = 0; i < graph_->outputs.size(); ++i) {
    const ValueId id = graph_->outputs[i];
    PENSTOCK_TRY(const Expression found, value(id));
    const auto buffer = program_->output_buffers[i];
    if (found.is_dense() && found.leaves.front().buffer == buffer) continue;
    PENSTOCK_CHECK_OK(compute(found, Expression::place(buffer, dims(id), dtype(id))));
  }
  return {};
}

bool Builder::available(ValueId id) const {
  return constant(id) != nullptr || values_[index(id)].has_value();
}

Result<Expression> Builder::value(ValueId id) {
  auto& known = values_[index(id)];
  if (known) return *known;
  const Tensor* const tensor = constant(id);
  if (tensor == nullptr) return internal_error("read before it is made");
  if (std::ranges::find(kTypes, tensor->dtype()) == kTypes.end() || tensor->count() == 0) {
    return make_error(Code::kUnimplemented, "the cuda backend takes no constants such as ",
                      tensor->type());
  }
  known = number_of(*tensor);
  if (!known) known = new_constant(*tensor);
  return *known;
}

Result<Expression> Builder::place(ValueId id) {
  PENSTOCK_TRY(const Expression found, value(id));
  PENSTOCK_TRY(auto made, computed(found));
  values_[index(id)] = made;
  return made;
}

Result<Expression> Builder::dense(ValueId id) {
  PENSTOCK_TRY(const Expression found, value(id));
  PENSTOCK_TRY(auto made, densely(found));
  values_[index(id)] = made;
  return made;
}

Result<Expression> Builder::computed(const Expression& value) {
  if (value.is_place()) return value;
  auto made = new_place(value.dims, value.dtype);
  PENSTOCK_CHECK_OK(compute(value, made));
  return made;
}

Result<Expression> Builder::densely(const Expression& value) {
  if (value.is_dense()) return value;
  auto made = new_place(value.dims, value.dtype);
  PENSTOCK_CHECK_OK(compute(value, made));
  return made;
}

Result<Expression> Builder::reshaped(const Expression& value, const Dims& dims) {
  if (auto view = value.reshaped(dims)) return *std::move(view);
  PENSTOCK_TRY(const Expression made, densely(value));
  return *made.reshaped(dims);
}

/// Whether one node reads it in the end, the others being element-wise on the way to that one.
bool Builder::is_read_together(ValueId id) const {
  const auto& consumers = graph_->value(id).consumers;
  const auto last = std::ranges::max(consumers);
  return std::ranges::all_of(consumers, [&](NodeId reader) {
    while (reader != last) {
      const Node& node = graph_->node(reader);
      if (!is_pointwise(node.op)) return false;
      const auto next = only_reader(node.outputs.front());
      if (!next) return false;
      reader = *next;
    }
    return is_pointwise(graph_->node(reader).op);
  });
}

Status Builder::define(ValueId id, Expression value) {
  const auto& known = graph_->value(id);
  const bool lone = !known.is_output && (known.consumers.size() <= 1 || is_read_together(id));
  const bool lazy = settings_.optimize && lone && value.leaves.size() <= kMostLeaves &&
                    value.code.size() <= kMostCode;
  if (!value.is_place() && !lazy) {
    auto made = new_place(id);
    PENSTOCK_CHECK_OK(compute(value, made));
    value = std::move(made);
  }
  values_[index(id)] = std::move(value);
  return {};
}

Expression Builder::new_place(ValueId id) {
  for (std::size_t i = 0; i < graph_->outputs.size(); ++i) {
    if (graph_->outputs[i] != id) continue;
    return Expression::place(program_->output_buffers[i], dims(id), dtype(id));
  }
  return new_place(dims(id), dtype(id));
}

Expression Builder::new_place(const Dims& dims, DType dtype) {
  program_->buffers.push_back(
      {Buffer::Kind::kArena, bytes_of(dtype, static_cast<std::size_t>(count_of(dims))), 0, 0});
  return Expression::place(program_->buffers.size() - 1, dims, dtype);
}

Expression Builder::new_constant(Tensor tensor) {
  program_->buffers.push_back(
      {Buffer::Kind::kConstant, tensor.bytes(), program_->constants.size(), 0});
  auto made = Expression::place(program_->buffers.size() - 1, tensor.dims(), tensor.dtype());
  program_->constants.push_back(std::move(tensor));
  return made;
}

Status Builder::append(Kernel kernel) {
  sources_.push_back(kernel.source);
  Function function = nullptr;
  if (gpu() != nullptr) {
    PENSTOCK_TRY(function, gpu()->kernel(kernel.source));
  }
  std::vector<std::size_t> buffers;
  for (const Access& access : kernel.accesses) buffers.push_back(access.buffer);
  const auto enqueue = [function, blocks = kernel.blocks, threads = kernel.threads,
                        accesses = std::move(kernel.accesses)](const Launch& launch) {
    std::vector<DevicePointer> pointers;
    for (const Access& access : accesses) {
      const auto size = static_cast<std::int64_t>(bytes_of(access.dtype, 1));
      pointers.push_back(launch.at(access.buffer) +
                         static_cast<DevicePointer>(access.offset * size));
    }
    std::vector<void*> parameters;
    for (auto& pointer : pointers) parameters.push_back(&pointer);
    return launch.gpu.check(launch.gpu.driver().launch(function, blocks, 1, 1, threads, 1, 1, 0,
                                                       launch.stream, parameters.data(), nullptr),
                            "starting a kernel");
  };
  append(std::move(buffers), 0, enqueue);
  return {};
}

void Builder::append(std::vector<std::size_t> buffers, std::size_t workspace_bytes,
                     std::function<Status(const Launch&)> enqueue) {
  program_->workspace_bytes = std::max(program_->workspace_bytes, workspace_bytes);
  program_->steps.push_back({node_name_, std::move(buffers), std::move(enqueue)});
}

Status Builder::compute(const Expression& value, const Expression& place) {
  return append(pointwise_kernel(value, place));
}

}  // namespace penstock::cuda
