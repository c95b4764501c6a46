// Which elements of their input Slice and Pad take.
#pragma once

#include "penstock/lower/operands.h"

namespace penstock::lower {

/// Integers of an input, or of the attribute that it was in older opsets.
/// \error kUnimplemented  the input is not constant
Result<std::vector<std::int64_t>> numbers(const graph::Graph& graph, const graph::Node& node,
                                          std::size_t input, const char* attribute,
                                          std::vector<std::int64_t> otherwise);

/// By dimension of the input: the first element, and how far it is to the next one.
struct Slices {
  Dims begin, steps;
};

/// Of a Slice of a tensor of `dims`. \error as numbers()
Result<Slices> slices_of(const graph::Graph& graph, const graph::Node& node, const Dims& dims);

/// By dimension: how many elements a Pad puts in front and behind; fewer than none are taken away.
struct Pads {
  Dims before, after;
};

/// \error as numbers()
Result<Pads> pads_of(const graph::Graph& graph, const graph::Node& node, std::size_t rank);

}  // namespace penstock::lower
