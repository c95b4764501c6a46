// Recurrence: LSTM and GRU by loops, for steps so small that the library's cost more than they do.
#pragma once

#include <vector>

#include "program.h"

namespace penstock::onednn {

/// What an LSTM's or a GRU's attributes and shapes say.
struct Cell {
  bool is_lstm = false;
  bool resets_last = false;  ///< GRU's linear_before_reset.
  dnnl_rnn_direction_t direction = dnnl_unidirectional_left2right;
  std::int64_t steps = 0, batch = 0, features = 0, hidden = 0, directions = 1;
  /// The gate of ONNX that is the library's gate g.
  std::vector<std::int64_t> gates;

  [[nodiscard]] std::int64_t gate_count() const { return std::ssize(gates); }
};

/// Whether a step has fewer products than the library would do in what its step costs besides
/// (0.7 us on an AMD EPYC).
bool is_small(const Cell& cell);

/// All steps of all directions. Its arguments, in C order: x [steps, batch, features], weights
/// [directions, features, gates, hidden], those of the state before [directions, hidden, gates,
/// hidden], bias [directions, gates, hidden] with one gate more where a GRU resets last (that of
/// the last gate's state), the states h, and c of an LSTM, before the first step [directions,
/// batch, hidden]; it writes all of h [steps, batch, directions, hidden], then the states as they
/// are after the last step. \pre is_small(cell)
Kernel recurrence_kernel(const Cell& cell);

}  // namespace penstock::onednn
