// Index: groups, values and types are ints; containers count in size_t.
#pragma once

#include <cstddef>

namespace penstock::planner {

constexpr std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

/// The place of (row, column) in a flat array with `columns` columns.
constexpr std::size_t at(int row, int columns, int column) {
  return at(row) * at(columns) + at(column);
}

}  // namespace penstock::planner
