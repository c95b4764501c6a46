// What a file is that is no ONNX model: a pointer of Git LFS, a web page, another format.
#pragma once

#include <string_view>

#include "penstock/base/error.h"

namespace penstock::graph {

/// Reasons of what looks like nothing that is known.
inline constexpr std::string_view kIsEmpty = "it is empty";
inline constexpr std::string_view kIsDamaged = "it is truncated, damaged, or of another format";
inline constexpr std::string_view kHoldsNoGraph = "it holds no graph";

/// Says what `bytes`, a whole file, seem to be, and what to do.
/// `otherwise`: the sentence's reason where they look like nothing that is known.
/// \returns kDataLoss
Error not_a_model(std::string_view bytes, std::string_view otherwise);

}  // namespace penstock::graph
