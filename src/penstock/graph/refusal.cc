// Asks the engine for the types of the outputs, with large constants replaced by inputs.
#include "penstock/graph/refusal.h"

#include <cstddef>
#include <utility>

#include "penstock/graph/inference.h"
#include "penstock/graph/model_proto.h"

namespace penstock::graph {
namespace {

constexpr std::size_t kMostAsked = 20'000;

}  // namespace

std::optional<Error> refusal_of(const Graph& graph, const Engine& engine) {
  if (!engine.output_types || graph.nodes.empty() || graph.nodes.size() > kMostAsked) return {};
  const auto model = bytes_of(graph, inference_part(graph));
  if (!model) return {};
  auto types = engine.output_types(*model);
  // Any other error may come of the constants that were left out.
  if (types || types.error().code != Code::kUnimplemented) return {};
  return std::move(types).error();
}

}  // namespace penstock::graph
