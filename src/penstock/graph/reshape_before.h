// A model in which some operators read what they read first through a Reshape.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/base/result.h"

namespace penstock::graph {

/// The target of the Reshape in front of each node of the operator: 0 keeps a dimension, -1 is what
/// is left. One of both kinds changes nothing, and fails where a dimension that is kept is 0.
struct ReshapeRule {
  std::string_view op;
  std::vector<std::int64_t> target;
};

struct Reshaped {
  std::string bytes;                       ///< The serialised onnx.ModelProto.
  std::vector<std::vector<Where>> places;  ///< Of the nodes behind a Reshape, by its number.
};

/// A Reshape's name, before its number.
inline constexpr std::string_view kReshapeName = "penstock reshape ";

/// At every depth, in functions too. External data stay where they are.
/// \param file  where it is empty, `bytes` are the model.
/// \error kDataLoss, kResourceExhausted  no model, or one over protobuf's 2 GB.
Result<Reshaped> with_reshapes(const std::filesystem::path& file, std::string_view bytes,
                               const std::vector<ReshapeRule>& rules);

}  // namespace penstock::graph
