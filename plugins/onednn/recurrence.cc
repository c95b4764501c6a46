#include "recurrence.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels.h"

namespace penstock::onednn {
namespace {

constexpr std::int64_t kMostProducts = 2048;  ///< Of a step.

using Sums = std::array<float, kMostProducts>;  ///< Of each unit of each gate, gate after gate.

/// Of one direction, and of one row of its batch.
struct Row {
  const float *weights, *recurrence, *bias;
  float *h, *c;  ///< States, before and after a step.
};

/// sums[j] += the sum over i of values[i] * matrix[i][j], of `count` columns from `first` on of
/// rows of `stride`.
void multiply(const float* values, std::int64_t rows, const float* matrix, std::int64_t stride,
              float* sums, std::int64_t first, std::int64_t count) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const float value = values[i];
    const float* const row = matrix + i * stride + first;
    for (std::int64_t j = 0; j < count; ++j) sums[first + j] += value * row[j];
  }
}

float sigmoid(float value) {
  return 1 / (1 + std::exp(-value));
}

/// Gates in the library's order: input, forget, cell, output.
void step_lstm(const Cell& cell, const Row& row, const float* x, Sums& sums) {
  const auto hidden = cell.hidden;
  const auto width = 4 * hidden;
  std::copy_n(row.bias, width, sums.begin());
  multiply(x, cell.features, row.weights, width, sums.data(), 0, width);
  multiply(row.h, hidden, row.recurrence, width, sums.data(), 0, width);
  for (std::int64_t i = 0; i < hidden; ++i) {
    const float* const gate = &sums[static_cast<std::size_t>(i)];
    row.c[i] = sigmoid(gate[hidden]) * row.c[i] + sigmoid(gate[0]) * std::tanh(gate[2 * hidden]);
    row.h[i] = sigmoid(gate[3 * hidden]) * std::tanh(row.c[i]);
  }
}

/// Gates: update, reset, output. What the output takes of the state is reset before its weights,
/// or after them.
void step_gru(const Cell& cell, const Row& row, const float* x, Sums& sums, Sums& state) {
  const auto hidden = cell.hidden;
  const auto width = 3 * hidden;
  const auto output = 2 * hidden;  // Where the last gate begins.
  std::copy_n(row.bias, width, sums.begin());
  multiply(x, cell.features, row.weights, width, sums.data(), 0, width);
  multiply(row.h, hidden, row.recurrence, width, sums.data(), 0, output);
  for (std::int64_t i = 0; i < output; ++i) {
    auto& gate = sums[static_cast<std::size_t>(i)];
    gate = sigmoid(gate);
  }
  const float* const reset = &sums[static_cast<std::size_t>(hidden)];
  if (cell.resets_last) {
    std::copy_n(row.bias + width, hidden, state.begin() + output);
    multiply(row.h, hidden, row.recurrence, width, state.data(), output, hidden);
    for (std::int64_t i = 0; i < hidden; ++i) {
      sums[static_cast<std::size_t>(output + i)] +=
          reset[i] * state[static_cast<std::size_t>(output + i)];
    }
  } else {
    for (std::int64_t i = 0; i < hidden; ++i) {
      state[static_cast<std::size_t>(i)] = reset[i] * row.h[i];
    }
    multiply(state.data(), hidden, row.recurrence, width, sums.data(), output, hidden);
  }
  for (std::int64_t i = 0; i < hidden; ++i) {
    const float update = sums[static_cast<std::size_t>(i)];
    const float made = std::tanh(sums[static_cast<std::size_t>(output + i)]);
    row.h[i] = (1 - update) * made + update * row.h[i];
  }
}

bool runs_backwards(const Cell& cell, std::int64_t direction) {
  return direction == 1 || cell.direction == dnnl_unidirectional_right2left;
}

}  // namespace

bool is_small(const Cell& cell) {
  return cell.batch * cell.gate_count() * cell.hidden * (cell.features + cell.hidden) <=
         kMostProducts;
}

Kernel recurrence_kernel(const Cell& cell) {
  return [cell](std::span<std::byte* const> data) {
    const std::size_t states = cell.is_lstm ? 2 : 1;
    const std::size_t written = 4 + states;
    const auto width = cell.gate_count() * cell.hidden;
    const auto bias = width + (cell.resets_last && !cell.is_lstm ? cell.hidden : 0);
    for (std::size_t i = 0; i < states; ++i) {
      std::copy_n(as<const float>(data[4 + i]), cell.directions * cell.batch * cell.hidden,
                  as<float>(data[written + 1 + i]));
    }
    Sums sums{};
    Sums state{};
    for (std::int64_t d = 0; d < cell.directions; ++d) {
      for (std::int64_t step = 0; step < cell.steps; ++step) {
        const auto at = runs_backwards(cell, d) ? cell.steps - 1 - step : step;
        for (std::int64_t b = 0; b < cell.batch; ++b) {
          const auto unit = (d * cell.batch + b) * cell.hidden;
          const Row row{.weights = as<const float>(data[1]) + d * cell.features * width,
                        .recurrence = as<const float>(data[2]) + d * cell.hidden * width,
                        .bias = as<const float>(data[3]) + d * bias,
                        .h = as<float>(data[written + 1]) + unit,
                        .c = cell.is_lstm ? as<float>(data[written + 2]) + unit : nullptr};
          const float* const x = as<const float>(data[0]) + (at * cell.batch + b) * cell.features;
          cell.is_lstm ? step_lstm(cell, row, x, sums) : step_gru(cell, row, x, sums, state);
          std::copy_n(row.h, cell.hidden,
                      as<float>(data[written]) +
                          ((at * cell.batch + b) * cell.directions + d) * cell.hidden);
        }
      }
    }
    return Status();
  };
}

}  // namespace penstock::onednn
