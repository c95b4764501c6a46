// The nodes of a model, at every depth, that an engine's plugin must look at before it compiles.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/tensor/tensor.h"

namespace penstock::graph {

/// A node, with the types of the values that it reads and makes as far as inference tells them from
/// the model's inputs: what the file says of other shapes is not believed.
/// Omitted ones have no name.
struct OutlinedNode {
  using Value = std::pair<std::string, Type>;
  std::vector<Where> place;
  std::string op;
  bool nested = false;     ///< In a branch or a loop, which a frame may pass by.
  bool is_result = false;  ///< An output of its graph is its own.
  std::vector<Value> inputs;
  std::vector<Value> outputs;
  /// Those inputs that are initialisers or made by a Constant, with their number where it is one
  /// of type int64.
  std::map<std::string, std::optional<std::int64_t>> constants;
};

struct Outline {
  std::vector<OutlinedNode::Value> inputs;  ///< Each open dimension has a symbol, here and where
  std::vector<OutlinedNode> nodes;          ///< it goes on into a node's values.
};

/// Nodes of the operators `ops` of ONNX and ONNX Runtime, those of nested graphs and of functions
/// too; where there are none, nothing. Reads no large weights and no external data, so that it
/// costs little beside a compilation.
/// \param file  where it is empty, `bytes` are the model.
/// \error kDataLoss, kInvalidArgument  no model, or one that cannot be looked at.
Result<Outline> outline(const std::filesystem::path& file, std::string_view bytes,
                        std::span<const std::string_view> ops);

}  // namespace penstock::graph
