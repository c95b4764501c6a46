// How an array that has a tensor's values in another shape or order is made to fit it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace penstock {

/// "(2, 3)"; of no numbers "()".
std::string in_brackets(std::span<const std::int64_t> numbers);

/// What numpy's user calls to give `found`, of as many elements, the wanted shape, so that each
/// element keeps its meaning: a picture whose colours come last is not told to be read as one whose
/// colours come first.
std::string reshaping(const std::vector<std::int64_t>& wanted, std::span<const std::int64_t> found);

}  // namespace penstock
