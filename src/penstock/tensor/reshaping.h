// How an array that has a tensor's values in another shape, order or type is made to fit it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "penstock/tensor/datatype.h"
#include "penstock/tensor/tensor.h"

namespace penstock {

/// "(2, 3)"; of no numbers "()".
std::string in_brackets(std::span<const std::int64_t> numbers);

/// What numpy's user calls to give `found`, of as many elements, the wanted shape, so that each
/// element keeps its meaning: a picture whose colours come last is not told to be read as one whose
/// colours come first.
std::string reshaping(const std::vector<std::int64_t>& wanted, std::span<const std::int64_t> found);

/// "convert it with .astype('int64')"; empty where numpy itself has no such type.
std::string converting(DType dtype);

/// Whether a tensor of `type` takes pictures, as floats, and `found` is one as it is read from a
/// file: u8, height, width, three channels.
bool is_unprepared_picture(const Type& type, const Tensor& found);

}  // namespace penstock
