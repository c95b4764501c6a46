#include "empty.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "penstock/graph/outline.h"

namespace penstock::openvino {
namespace {

constexpr std::array<std::string_view, 7> kLookedAt = {"Constant", "Expand", "Gather", "GRU",
                                                       "LSTM",     "Loop",   "RNN"};

bool is_empty(const Type& type) {
  return type.kind == Type::Kind::kTensor && type.ranked &&
         std::ranges::any_of(type.dims,
                             [](const Dim& dim) { return dim.fixed() && dim.size == 0; });
}

Status refuse_empty(const graph::OutlinedNode& node) {
  for (const auto* list : {&node.inputs, &node.outputs}) {
    for (const auto& [name, type] : *list) {
      // An Expand by a shape without numbers changes nothing.
      if (node.op == "Expand" && list == &node.inputs && &name == &list->back().first) continue;
      if (name.empty() || !is_empty(type)) continue;
      return make_error(Code::kUnimplemented,
                        "OpenVINO does not run it on tensors without elements, found '", name, "' ",
                        type)
          .within(node.place);
    }
  }
  return {};
}

/// Exporters write the largest integer for a loop that a condition alone ends.
constexpr std::int64_t kMostSteps = 1'000'000;

Status refuse_endless(const graph::OutlinedNode& node) {
  const auto refused = [&](const auto&... words) {
    return make_error(Code::kUnimplemented, words...).within(node.place);
  };
  const std::string steps = node.inputs.empty() ? std::string() : node.inputs.front().first;
  if (steps.empty()) {
    return refused(
        "OpenVINO cannot be told to end a run, and nothing but a condition ends this loop");
  }
  const auto constant = node.constants.find(steps);
  const auto number = constant == node.constants.end() ? -1 : constant->second.value_or(-1);
  if (number < 0) {
    return refused("OpenVINO never ends a loop of fewer than 0 steps, and '", steps,
                   "', their number, is no constant of 0 or more");
  }
  if (number <= kMostSteps) return {};
  return refused("OpenVINO cannot be told to end a run, and '", steps,
                 "', the number of this loop's steps, is over ", kMostSteps);
}

Status refuse_empty_result(const graph::OutlinedNode& node) {
  const auto& [name, type] = node.outputs.front();
  if (!node.nested || !node.is_result || !is_empty(type)) return {};
  return make_error(Code::kUnimplemented,
                    "OpenVINO makes one element of a constant without elements, and '", name,
                    "', a result of its branch or loop, is one")
      .within(node.place);
}

}  // namespace

Status refuse_nodes(const backend::CompileRequest& request) {
  const auto outline = graph::outline(request.file, request.bytes, kLookedAt);
  if (!outline) return {};
  for (const auto& node : outline->nodes) {
    PENSTOCK_CHECK_OK(node.op == "Loop"       ? refuse_endless(node)
                      : node.op == "Constant" ? refuse_empty_result(node)
                                              : refuse_empty(node));
  }
  return {};
}

}  // namespace penstock::openvino
