// LSTM and GRU: all steps of all directions in one primitive of the library's, or in one kernel.
#include <algorithm>
#include <array>
#include <utility>

#include "operators.h"
#include "penstock/base/letters.h"
#include "pointwise.h"
#include "recurrence.h"

namespace penstock::onednn {
namespace {

bool is_given(const Node& node, std::size_t input) {
  return node.inputs.size() > input && node.inputs[input] != ValueId::kNone;
}

bool is_wanted(const Node& node, std::size_t output) {
  return node.outputs.size() > output && node.outputs[output] != ValueId::kNone;
}

Status check_activations(const Node& node, const Cell& cell) {
  const auto* attribute = node.find("activations");
  if (attribute == nullptr) return {};
  const auto* names = std::get_if<std::vector<std::string>>(&attribute->value);
  if (names == nullptr) return unsupported("expected activations by their names");
  const std::vector<std::string> usual = cell.is_lstm
                                             ? std::vector<std::string>{"sigmoid", "tanh", "tanh"}
                                             : std::vector<std::string>{"sigmoid", "tanh"};
  for (std::size_t i = 0; i < names->size(); ++i) {
    if (lower_case((*names)[i]) != usual[i % usual.size()]) {
      return unsupported("takes the usual activations, found ", (*names)[i]);
    }
  }
  return {};
}

/// Only frames that are all as long as the sequence.
Status check_lengths(const Builder& builder, const Node& node, const Cell& cell) {
  if (!is_given(node, 4)) return {};
  const auto lengths = builder.integers(node.inputs[4]);
  const bool full = lengths && std::ranges::all_of(*lengths, [&](std::int64_t length) {
                      return length == cell.steps;
                    });
  if (full) return {};
  return unsupported("takes no sequence_lens but a constant of full lengths");
}

Result<Cell> cell_of(const Builder& builder, const Node& node) {
  Cell cell{.is_lstm = node.op == "LSTM",
            .resets_last = node.int_or("linear_before_reset", 0) != 0};
  if (node.int_or("layout", 0) != 0) return unsupported("takes layout=0");
  if (node.find("clip") != nullptr) return unsupported("takes no clip");
  if (node.int_or("input_forget", 0) != 0) return unsupported("takes no input_forget");
  if (is_given(node, 7)) return unsupported("takes no peepholes");
  const auto direction = string_or(node, "direction", "forward");
  if (direction == "reverse") cell.direction = dnnl_unidirectional_right2left;
  if (direction == "bidirectional") cell.direction = dnnl_bidirectional_concat;
  for (const std::size_t input : {1, 2, 3}) {
    if (is_given(node, input) && builder.constant(node.inputs[input]) == nullptr) {
      return unsupported("takes constant weights");
    }
  }
  const Dims x = builder.dims(node.inputs[0]);
  const Dims recurrence = builder.dims(node.inputs[2]);
  cell.steps = x[0];
  cell.batch = x[1];
  cell.features = x[2];
  cell.directions = recurrence[0];
  cell.hidden = recurrence[2];
  // i, f, c, o of ONNX's i, o, f, c; update, reset and output are in one order.
  cell.gates =
      cell.is_lstm ? std::vector<std::int64_t>{0, 2, 3, 1} : std::vector<std::int64_t>{0, 1, 2};
  PENSTOCK_CHECK_OK(check_activations(node, cell));
  PENSTOCK_CHECK_OK(check_lengths(builder, node, cell));
  return cell;
}

/// ONNX's [directions, gates * hidden, inputs] as the library's ldigo.
Result<Place> weights_of(Builder& builder, const Cell& cell, ValueId id, std::int64_t inputs) {
  const auto given = builder.floats(id);
  const auto gates = cell.gate_count();
  std::vector<float> ordered(given.size());
  auto to = ordered.begin();
  for (std::int64_t d = 0; d < cell.directions; ++d) {
    for (std::int64_t i = 0; i < inputs; ++i) {
      for (const auto gate : cell.gates) {
        for (std::int64_t o = 0; o < cell.hidden; ++o) {
          const auto row = (d * gates + gate) * cell.hidden + o;
          *to++ = given[static_cast<std::size_t>(row * inputs + i)];
        }
      }
    }
  }
  return builder.new_constant(ordered, {1, cell.directions, inputs, gates, cell.hidden});
}

/// The sum of ONNX's two; where a GRU resets last, that of the recurrent output stands apart.
Result<Place> bias_of(Builder& builder, const Cell& cell, const Node& node) {
  const auto gates = cell.gate_count();
  const std::int64_t rows = gates + (cell.resets_last && !cell.is_lstm ? 1 : 0);
  std::vector<float> bias(static_cast<std::size_t>(cell.directions * rows * cell.hidden), 0);
  if (is_given(node, 3)) {
    const auto given = builder.floats(node.inputs[3]);
    const auto at = [&](std::int64_t d, std::int64_t gate, std::int64_t o) {
      return given[static_cast<std::size_t>((d * 2 * gates + gate) * cell.hidden + o)];
    };
    auto to = bias.begin();
    for (std::int64_t d = 0; d < cell.directions; ++d) {
      for (std::int64_t g = 0; g < rows; ++g) {
        for (std::int64_t o = 0; o < cell.hidden; ++o) {
          const bool apart = rows > gates && g + 1 >= gates;
          const auto gate = g < gates ? cell.gates[static_cast<std::size_t>(g)] : gates - 1;
          *to++ = !apart      ? at(d, gate, o) + at(d, gates + gate, o)
                  : g < gates ? at(d, gate, o)
                              : at(d, gates + gate, o);
        }
      }
    }
  }
  return builder.new_constant(bias, {1, cell.directions, rows, cell.hidden});
}

/// The tensors of one primitive, by the names of its arguments.
struct Tensors {
  Place x, weights, recurrence, bias;
  std::optional<Place> h, c;  ///< States before the first step; nought where they are empty.
  Layout all;                 ///< [steps, batch, directions * hidden]
  Layout state;               ///< [1, directions, batch, hidden]
  bool wants_state = false;
};

Result<Place> state_of(Builder& builder, const Node& node, std::size_t input, const Dims& dims) {
  if (!is_given(node, input)) {
    return builder.new_constant(std::vector<float>(static_cast<std::size_t>(count_of(dims)), 0),
                                dims);
  }
  PENSTOCK_TRY(const Place given, builder.plain_place(node.inputs[input]));
  return builder.reshaped(given, dims);
}

Result<Tensors> tensors_of(Builder& builder, const Cell& cell, const Node& node) {
  Tensors tensors;
  PENSTOCK_TRY(tensors.x, builder.plain_place(node.inputs[0]));
  PENSTOCK_TRY(tensors.weights, weights_of(builder, cell, node.inputs[1], cell.features));
  PENSTOCK_TRY(tensors.recurrence, weights_of(builder, cell, node.inputs[2], cell.hidden));
  PENSTOCK_TRY(tensors.bias, bias_of(builder, cell, node));
  const Dims dims = {1, cell.directions, cell.batch, cell.hidden};
  if (is_given(node, 5) || is_given(node, 6) || is_small(cell)) {
    PENSTOCK_TRY(tensors.h, state_of(builder, node, 5, dims));
    if (cell.is_lstm) {
      PENSTOCK_TRY(tensors.c, state_of(builder, node, 6, dims));
    }
  }
  PENSTOCK_TRY(tensors.all, builder.plain({cell.steps, cell.batch, cell.directions * cell.hidden}));
  PENSTOCK_TRY(tensors.state, builder.plain(dims));
  tensors.wants_state = is_wanted(node, 1) || is_wanted(node, 2);
  return tensors;
}

Result<Descriptor> describe(Builder& builder, const Cell& cell, const Tensors& tensors) {
  PENSTOCK_TRY(const auto attributes, builder.attributes(nullptr));
  PENSTOCK_TRY(const auto weights, builder.any(tensors.weights.layout.dims()));
  PENSTOCK_TRY(const auto recurrence, builder.any(tensors.recurrence.layout.dims()));
  const auto before = tensors.h ? tensors.state.get() : nullptr;
  const auto after = tensors.wants_state ? tensors.state.get() : nullptr;
  return builder.describe([&](dnnl_primitive_desc_t* raw) {
    const auto& api = builder.api();
    const auto cpu = builder.engine().cpu;
    const auto x = tensors.x.layout.get();
    const auto bias = tensors.bias.layout.get();
    const auto all = tensors.all.get();
    if (cell.is_lstm) {
      return api.lstm_forward_primitive_desc_create(
          raw, cpu, dnnl_forward_inference, cell.direction, x, before, before, weights.get(),
          recurrence.get(), nullptr, nullptr, bias, all, after, after, 0, attributes.get());
    }
    const auto create = cell.resets_last ? api.lbr_gru_forward_primitive_desc_create
                                         : api.gru_forward_primitive_desc_create;
    return create(raw, cpu, dnnl_forward_inference, cell.direction, x, before, weights.get(),
                  recurrence.get(), bias, all, after, 0, attributes.get());
  });
}

/// [steps, batch, directions * hidden] as ONNX's [steps, directions, batch, hidden].
Status define_all(Builder& builder, const Cell& cell, const Place& all, ValueId result) {
  PENSTOCK_TRY(const Place apart,
               builder.reshaped(all, {cell.steps, cell.batch, cell.directions, cell.hidden}));
  auto view = apart.layout.permuted({0, 2, 1, 3});
  if (!view) return unsupported("this layout is not transposed");
  builder.define(result, {apart.buffer, apart.offset, *std::move(view)});
  return {};
}

/// The states after the last step have places of their own; the operator may give them or not.
Status define_states(Builder& builder, const Node& node, const std::vector<Place>& states) {
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (!is_wanted(node, i + 1)) continue;
    const ValueId result = node.outputs[i + 1];
    PENSTOCK_TRY(Place view, builder.reshaped(states[i], builder.dims(result)));
    builder.define(result, std::move(view));
  }
  return {};
}

Status append_small(Builder& builder, const Cell& cell, const Node& node, const Tensors& tensors,
                    const Place& all) {
  std::vector<Place> places = {tensors.x, tensors.weights, tensors.recurrence, tensors.bias,
                               *tensors.h};
  std::vector<Place> states = {builder.new_place(tensors.state)};
  if (cell.is_lstm) {
    places.push_back(*tensors.c);
    states.push_back(builder.new_place(tensors.state));
  }
  places.push_back(all);
  places.insert(places.end(), states.begin(), states.end());
  builder.append_kernel(recurrence_kernel(cell), std::move(places));
  return define_states(builder, node, states);
}

Status append_primitive(Builder& builder, const Cell& cell, const Node& node,
                        const Tensors& tensors, const Place& all) {
  PENSTOCK_TRY(const auto descriptor, describe(builder, cell, tensors));
  std::vector<Argument> arguments = {
      {DNNL_ARG_SRC_LAYER, tensors.x}, {DNNL_ARG_BIAS, tensors.bias}, {DNNL_ARG_DST_LAYER, all}};
  for (const auto& [name, from] : {std::pair(DNNL_ARG_WEIGHTS_LAYER, tensors.weights),
                                   std::pair(DNNL_ARG_WEIGHTS_ITER, tensors.recurrence)}) {
    PENSTOCK_TRY(const auto wanted, builder.layout_of(descriptor, dnnl_query_exec_arg_md, name));
    PENSTOCK_TRY(Place packed, builder.reordered(from, wanted));
    arguments.push_back({name, std::move(packed)});
  }
  if (tensors.h) arguments.push_back({DNNL_ARG_SRC_ITER, *tensors.h});
  if (tensors.c) arguments.push_back({DNNL_ARG_SRC_ITER_C, *tensors.c});
  std::vector<Place> states;
  for (const int name : {DNNL_ARG_DST_ITER, DNNL_ARG_DST_ITER_C}) {
    if (!tensors.wants_state || (name == DNNL_ARG_DST_ITER_C && !cell.is_lstm)) continue;
    states.push_back(builder.new_place(tensors.state));
    arguments.push_back({name, states.back()});
  }
  PENSTOCK_CHECK_OK(builder.append(descriptor, std::move(arguments)));
  return define_states(builder, node, states);
}

}  // namespace

Status lower_recurrence(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  PENSTOCK_TRY(const Cell cell, cell_of(builder, node));
  PENSTOCK_TRY(const Tensors tensors, tensors_of(builder, cell, node));
  const Place all = builder.new_place(tensors.all);
  const auto append = is_small(cell) ? append_small : append_primitive;
  PENSTOCK_CHECK_OK(append(builder, cell, node, tensors, all));
  if (is_wanted(node, 0)) PENSTOCK_CHECK_OK(define_all(builder, cell, all, node.outputs[0]));
  return {};
}

}  // namespace penstock::onednn
