#include "builder.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "kernels.h"
#include "operators.h"

namespace penstock::onednn {
namespace {

/// Inputs can be given sizes; those of other tensors may depend on values.
std::string_view how_to_fix(const graph::Value& value) {
  const auto& type = value.type;
  if (!value.is_input || type.kind != Type::Kind::kTensor || type.fixed()) return "";
  return "; fix the sizes of the model's inputs: '--shape', in Python 'shapes'";
}

}  // namespace

using graph::index;

Builder::Builder(std::shared_ptr<const Engine> engine, const Graph& graph, bool optimize,
                 dnnl_fpmath_mode_t precision)
    : program_(std::make_shared<Program>()),
      graph_(&graph),
      optimize_(optimize),
      precision_(precision),
      opset_(graph.info.opsets.contains("") ? graph.info.opsets.at("") : 0),
      states_(graph.values.size()),
      done_(graph.nodes.size()) {
  program_->engine = std::move(engine);
  for (std::size_t i = 0; optimize && i < graph.nodes.size(); ++i) {
    const auto id = static_cast<NodeId>(i);
    if (const auto first = twin_before(id)) twins_[*first].push_back(id);
  }
}

/// The first node that computes the same; empty: none does.
std::optional<NodeId> Builder::twin_before(NodeId id) const {
  const Node& node = graph_->node(id);
  // Of several operands they are computed one by one, and defined each time.
  constexpr std::array kStepwise = {"Max", "Min", "Sum"};
  if (std::ranges::find(kStepwise, node.op) != kStepwise.end()) return {};
  const auto varies = [&](ValueId input) {
    return input != ValueId::kNone && constant(input) == nullptr;
  };
  const auto input = std::ranges::find_if(node.inputs, varies);
  if (input == node.inputs.end()) return {};
  for (const NodeId other_id : graph_->value(*input).consumers) {
    if (other_id >= id) break;
    const Node& other = graph_->node(other_id);
    if (other.op == node.op && other.domain == node.domain && other.inputs == node.inputs &&
        other.attributes == node.attributes && other.captures.empty() &&
        other.outputs.size() == node.outputs.size()) {
      return other_id;
    }
  }
  return {};
}

Result<std::shared_ptr<const Program>> Builder::build(int threads) {
  program_->threads = threads;
  PENSTOCK_CHECK_OK(check_types());
  PENSTOCK_CHECK_OK(take_inputs());
  for (std::size_t i = 0; i < graph_->nodes.size(); ++i) {
    if (done_[i]) continue;
    const Node& node = graph_->nodes[i];
    if (auto outcome = lower(static_cast<NodeId>(i)); !outcome) {
      return std::move(outcome)
          .error()
          .within({Where::kOperator, node.op})
          .within({Where::kNode, node.name});
    }
  }
  PENSTOCK_CHECK_OK(deliver_outputs());
  drop_unused_constants();
  plan_arena(*program_);
  return std::shared_ptr<const Program>(program_);
}

/// Weights in the file's layout, where a primitive reads them in its own.
void Builder::drop_unused_constants() {
  std::vector<bool> used(program_->constants.size());
  for (const auto& step : program_->steps) {
    for (const auto& argument : step.arguments) {
      const Buffer& buffer = program_->buffers[argument.place.buffer];
      if (buffer.kind == Buffer::Kind::kConstant) used[buffer.index] = true;
    }
  }
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) program_->constants[i] = Tensor();
  }
}

/// Values of a fixed shape; other types only stand in constants.
Status Builder::check_types() const {
  constexpr std::array kTypes = {DType::kF32,  DType::kI64, DType::kI32,
                                 DType::kBool, DType::kI8,  DType::kU8};
  for (const auto& value : graph_->values) {
    if (value.constant && !value.is_output) continue;
    const bool mentioned = value.producer || value.is_input || value.is_output;
    if (!mentioned) continue;
    if (value.type.kind != Type::Kind::kTensor || !value.type.fixed() ||
        std::ranges::find(kTypes, value.type.dtype) == kTypes.end()) {
      return make_error(Code::kUnimplemented,
                        "the onednn backend takes tensors of f32, i64, i32, i8, u8 or bool with a "
                        "fixed shape, found ",
                        value.type, how_to_fix(value))
          .within({Where::kTensor, value.name});
    }
    if (value.type.max_bytes() == std::size_t{0}) {
      return make_error(Code::kUnimplemented, "the onednn backend takes no empty tensors, found ",
                        value.type)
          .within({Where::kTensor, value.name});
    }
  }
  return {};
}

Status Builder::take_inputs() {
  for (const ValueId id : graph_->inputs) {
    const auto& value = graph_->value(id);
    PENSTOCK_TRY(auto layout, plain(at_least_1d(dims(id)), dtype(id)));
    program_->buffers.push_back({Buffer::Kind::kInput, layout.bytes(), program_->inputs.size(), 0});
    holds_.emplace_back();
    program_->inputs.push_back({value.name, value.type});
    define(id, {program_->buffers.size() - 1, 0, std::move(layout)});
  }
  return {};
}

Status Builder::lower(NodeId id) {
  const Node& node = graph_->node(id);
  const auto lowering = node.domain.empty() ? lowering_of(node.op) : std::nullopt;
  if (!lowering) {
    return make_error(Code::kUnimplemented, "the onednn backend does not run operator ",
                      node.domain.empty() ? node.op : node.domain + ":" + node.op);
  }
  if (!lowering->any_type) PENSTOCK_CHECK_OK(check_floats(node));
  PENSTOCK_CHECK_OK(lowering->lower(*this, id));
  mark_done(id);
  return {};
}

/// Of an operator that has primitives alone. Constants are checked where they are read.
Status Builder::check_floats(const Node& node) const {
  for (const auto& ids : {node.inputs, node.outputs}) {
    for (const ValueId id : ids) {
      if (id == ValueId::kNone || constant(id) != nullptr || dtype(id) == DType::kF32) continue;
      return make_error(Code::kUnimplemented, "the onednn backend computes it of f32, found ",
                        graph_->value(id).type)
          .within({Where::kTensor, graph_->value(id).name});
    }
  }
  return {};
}

Status Builder::deliver_outputs() {
  for (std::size_t i = 0; i < graph_->outputs.size(); ++i) {
    const auto& value = graph_->value(graph_->outputs[i]);
    program_->outputs.push_back({value.name, value.type});
    PENSTOCK_CHECK_OK(deliver(i));
  }
  return {};
}

/// The last primitive writes straight to the caller where it writes what the caller reads.
Status Builder::deliver(std::size_t i) {
  PENSTOCK_TRY(const Place from, place(graph_->outputs[i]));
  Buffer& buffer = program_->buffers[from.buffer];
  if (buffer.kind == Buffer::Kind::kArena && from.offset == 0 && from.layout.is_plain() &&
      buffer.bytes == from.layout.bytes()) {
    buffer.kind = Buffer::Kind::kOutput;
    buffer.index = i;
    return {};
  }
  PENSTOCK_TRY(auto layout, plain(from.layout.dims(), from.layout.dtype()));
  program_->buffers.push_back({Buffer::Kind::kOutput, layout.bytes(), i, 0});
  holds_.emplace_back();
  const Place to{program_->buffers.size() - 1, 0, std::move(layout)};
  return copy(from, to);
}

std::span<const float> Builder::floats(ValueId id) const {
  return constant(id)->as<float>();
}

bool Builder::available(ValueId id) const {
  return constant(id) != nullptr || states_[index(id)].place.has_value();
}

Result<Place> Builder::place(ValueId id) {
  State& state = states_[index(id)];
  if (!state.place) {
    const Tensor* tensor = constant(id);
    if (tensor == nullptr) {
      return internal_error("tensor '", graph_->value(id).name, "' is used before it is made");
    }
    PENSTOCK_TRY(state.place, add_constant(*tensor, at_least_1d(tensor->dims())));
  }
  return *state.place;
}

Result<Place> Builder::place_as(ValueId id, const Layout& layout) {
  PENSTOCK_TRY(const Place from, place(id));
  if (from.layout.same(layout)) return from;
  for (const Place& other : states_[index(id)].others) {
    if (other.layout.same(layout)) return other;
  }
  PENSTOCK_TRY(Place to, reordered(from, layout));
  states_[index(id)].others.push_back(to);
  holds_[to.buffer].push_back(id);
  return to;
}

Result<Place> Builder::plain_place(ValueId id) {
  PENSTOCK_TRY(const Place from, place(id));
  if (from.layout.is_plain()) return from;
  PENSTOCK_TRY(const auto layout, plain(from.layout.dims(), from.layout.dtype()));
  return place_as(id, layout);
}

Result<Place> Builder::dense_place(ValueId id) {
  PENSTOCK_TRY(const Place from, place(id));
  if (from.layout.is_dense() || !from.layout.is_strided()) return from;
  PENSTOCK_TRY(const auto layout, from.layout.dense_like(from.layout.dims(), from.layout.dtype()));
  return place_as(id, layout);
}

Result<Place> Builder::strided_place(ValueId id) {
  PENSTOCK_TRY(const Place own, place(id));
  if (own.layout.is_strided()) return own;
  PENSTOCK_TRY(const auto layout, own.layout.dense_like(own.layout.dims()));
  return place_as(id, layout);
}

Result<Place> Builder::reordered(const Place& from, const Layout& layout) {
  if (from.layout.same(layout)) return from;
  if (program_->buffers[from.buffer].kind == Buffer::Kind::kConstant) {
    return reorder_constant(from, layout);
  }
  Place to = new_place(layout);
  PENSTOCK_CHECK_OK(copy(from, to));
  return to;
}

Result<Place> Builder::reshaped(const Place& from, const Dims& dims) {
  if (auto view = from.layout.reshaped(dims)) return Place{from.buffer, from.offset, *view};
  PENSTOCK_TRY(const auto layout, from.layout.copy_to_reshape(dims));
  PENSTOCK_TRY(const Place copy, reordered(from, layout));
  auto view = copy.layout.reshaped(dims);
  if (!view) return internal_error("a copy that was to be reshaped is not");
  return Place{copy.buffer, copy.offset, *std::move(view)};
}

void Builder::define(ValueId id, Place place) {
  holds_[place.buffer].push_back(id);
  states_[index(id)].place = place;
  const auto maker = graph_->value(id).producer;
  const auto twins = maker ? twins_.find(*maker) : twins_.end();
  if (twins == twins_.end()) return;
  // Now: once all readers of this value are done, its place is written anew.
  const auto& own = graph_->node(*maker).outputs;
  const auto which = std::ranges::find(own, id) - own.begin();
  for (const NodeId twin : twins->second) {
    const ValueId same = graph_->node(twin).outputs[static_cast<std::size_t>(which)];
    if (is_done(twin) || same == ValueId::kNone) continue;
    holds_[place.buffer].push_back(same);
    states_[index(same)].place = place;
    const auto available = [this](ValueId output) {
      return output == ValueId::kNone || this->available(output);
    };
    if (std::ranges::all_of(graph_->node(twin).outputs, available)) mark_done(twin);
  }
}

Place Builder::new_place(Layout layout) {
  program_->buffers.push_back({Buffer::Kind::kArena, layout.bytes(), 0, 0});
  holds_.emplace_back();
  return {program_->buffers.size() - 1, 0, std::move(layout)};
}

Result<Place> Builder::new_constant(std::span<const float> values, const Dims& dims) {
  Tensor tensor = Tensor::allocate(DType::kF32, dims);
  std::ranges::copy(values, tensor.as<float>().begin());
  return add_constant(std::move(tensor), dims);
}

Result<Place> Builder::add_constant(Tensor tensor, const Dims& dims) {
  PENSTOCK_TRY(auto layout, plain(dims, tensor.dtype()));
  program_->buffers.push_back(
      {Buffer::Kind::kConstant, layout.bytes(), program_->constants.size(), 0});
  program_->constants.push_back(std::move(tensor));
  holds_.emplace_back();
  return Place{program_->buffers.size() - 1, 0, std::move(layout)};
}

/// Now, once for all contexts.
Result<Place> Builder::reorder_constant(const Place& from, const Layout& layout) {
  Tensor result = Tensor::reserve(layout.dtype(), layout.bytes());
  program_->buffers.push_back(
      {Buffer::Kind::kConstant, layout.bytes(), program_->constants.size(), 0});
  holds_.emplace_back();
  Place to{program_->buffers.size() - 1, 0, layout};
  Program once;
  once.engine = program_->engine;
  once.threads = program_->threads;
  const auto& source = program_->constants[program_->buffers[from.buffer].index];
  once.buffers = {{Buffer::Kind::kConstant, source.bytes(), 0, 0},
                  {Buffer::Kind::kConstant, layout.bytes(), 1, 0}};
  once.constants = {source, result};
  PENSTOCK_TRY(auto step, step_of_copy({0, from.offset, from.layout}, {1, 0, layout}));
  once.scratch_bytes = step.scratch_bytes;
  once.steps.push_back(std::move(step));
  PENSTOCK_TRY(const auto context, create_context(std::make_shared<const Program>(once)));
  PENSTOCK_CHECK_OK(context->run({}, {}, {}));
  program_->constants.push_back(std::move(result));
  return to;
}

bool Builder::is_free_after(const Place& place, std::span<const NodeId> nodes) const {
  if (program_->buffers[place.buffer].kind != Buffer::Kind::kArena) return false;
  return std::ranges::all_of(holds_[place.buffer], [&](ValueId id) {
    const auto& value = graph_->value(id);
    return !value.is_output && std::ranges::all_of(value.consumers, [&](NodeId reader) {
      return is_done(reader) || std::ranges::find(nodes, reader) != nodes.end();
    });
  });
}

Result<Attributes> Builder::attributes(dnnl_post_ops_t post_ops) const {
  dnnl_primitive_attr_t raw = nullptr;
  PENSTOCK_CHECK_OK(engine().check(api().primitive_attr_create(&raw), "attributes"));
  Attributes attributes(raw, api().primitive_attr_destroy);
  PENSTOCK_CHECK_OK(engine().check(
      api().primitive_attr_set_scratchpad_mode(raw, dnnl_scratchpad_mode_user), "scratchpad mode"));
  // Said aloud: the environment can change the default.
  PENSTOCK_CHECK_OK(
      engine().check(api().primitive_attr_set_fpmath_mode(raw, precision_), "precision"));
  if (post_ops != nullptr) {
    PENSTOCK_CHECK_OK(
        engine().check(api().primitive_attr_set_post_ops(raw, post_ops), "fused operators"));
  }
  return attributes;
}

Result<Layout> Builder::layout_of(const Descriptor& descriptor, dnnl_query_t what,
                                  int index) const {
  const auto found = api().primitive_desc_query_md(descriptor.get(), what, index);
  if (found == nullptr) return Layout{};
  return Layout::of(engine(), found);
}

std::string Builder::implementation_of(const Descriptor& descriptor) const {
  const char* name = nullptr;
  const auto outcome = api().primitive_desc_query(descriptor.get(), dnnl_query_impl_info_str, 0,
                                                  static_cast<void*>(&name));
  return outcome == dnnl_success && name != nullptr ? name : "";
}

Result<bool> Builder::takes_channels_last() {
  if (channels_last_) return *channels_last_;
  PENSTOCK_TRY(const auto image, any({1, 64, 28, 28}));
  PENSTOCK_TRY(const auto kernels, any({64, 64, 3, 3}));
  PENSTOCK_TRY(const auto plain_attributes, attributes(nullptr));
  const Dims ones = {1, 1};
  const Dims zeros = {0, 0};
  PENSTOCK_TRY(const auto descriptor, describe([&](dnnl_primitive_desc_t* raw) {
                 return api().convolution_forward_primitive_desc_create(
                     raw, engine().cpu, dnnl_forward_inference, dnnl_convolution_direct,
                     image.get(), kernels.get(), nullptr, image.get(), ones.data(), zeros.data(),
                     ones.data(), ones.data(), plain_attributes.get());
               }));
  PENSTOCK_TRY(const auto layout, layout_of(descriptor, dnnl_query_dst_md));
  channels_last_ = layout.is_strided();
  return *channels_last_;
}

Result<Step> Builder::step_of(const Descriptor& descriptor, std::vector<Argument> arguments) const {
  dnnl_primitive_t raw = nullptr;
  PENSTOCK_CHECK_OK(engine().check(api().primitive_create(&raw, descriptor.get()), "operator"));
  PENSTOCK_TRY(const auto scratchpad, layout_of(descriptor, dnnl_query_scratchpad_md));
  return Step{{raw, api().primitive_destroy}, std::move(arguments), scratchpad.bytes(), {}};
}

Status Builder::append(const Descriptor& descriptor, std::vector<Argument> arguments) {
  PENSTOCK_TRY(auto step, step_of(descriptor, std::move(arguments)));
  program_->steps.push_back(std::move(step));
  return {};
}

void Builder::append_kernel(Kernel kernel, std::vector<Place> places) {
  Step step{.primitive = nullptr, .arguments = {}, .scratch_bytes = 0, .kernel = std::move(kernel)};
  for (auto& place : places) step.arguments.push_back({0, std::move(place)});
  program_->steps.push_back(std::move(step));
}

void Builder::append_fill(const Place& place, float value) {
  const std::size_t count = place.layout.bytes() / sizeof(float);
  append_kernel(
      [=](std::span<std::byte* const> data) {
        std::fill_n(reinterpret_cast<float*>(data[0]), count, value);
        return Status();
      },
      {place});
}

Status Builder::copy(const Place& from, const Place& to) {
  PENSTOCK_TRY(auto step, step_of_copy(from, to));
  program_->steps.push_back(std::move(step));
  return {};
}

Result<Step> Builder::step_of_copy(const Place& from, const Place& to) const {
  if (from.layout.dtype() != DType::kF32) {
    return Step{.primitive = nullptr,
                .arguments = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}},
                .scratch_bytes = 0,
                .kernel = copy_kernel(
                    walk_of(to.layout.dims(), {from.layout.strides(), to.layout.strides()}),
                    from.layout.element_bytes())};
  }
  PENSTOCK_TRY(const auto plain_attributes, attributes(nullptr));
  PENSTOCK_TRY(const auto descriptor, describe([&](dnnl_primitive_desc_t* raw) {
                 return api().reorder_primitive_desc_create(raw, from.layout.get(), engine().cpu,
                                                            to.layout.get(), engine().cpu,
                                                            plain_attributes.get());
               }));
  return step_of(descriptor, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

}  // namespace penstock::onednn
