// Adds up the weights of stages, once for each that holds them.
#include "penstock/tune/copies.h"

#include <limits>

#include "penstock/collage/rules.h"
#include "penstock/pipeline/sharing.h"

namespace penstock::tune {
namespace {

double weights_in(const graph::Graph& graph, const std::vector<graph::NodeId>& nodes) {
  double bytes = 0;
  for (const auto node : nodes) bytes += static_cast<double>(graph::weight_bytes_of(graph, node));
  return bytes;
}

}  // namespace

Result<Copies> Copies::of(const std::vector<Way>& ways, const backend::Registry& backends) {
  std::set<std::string> sharing;
  for (const auto& way : ways) {
    PENSTOCK_TRY(const auto backend, backends.find(way.backend));
    PENSTOCK_TRY(
        const auto weights,
        collage::parse_weights(backend->rules(), "rules of backend '" + way.backend + "'"));
    if (weights == collage::Weights::kShared) sharing.insert(way.backend);
  }
  return Copies(std::move(sharing));
}

double Copies::bytes_of(const graph::Graph& graph, const partition::ChosenStage& stage) const {
  const double all = weights_in(graph, stage.nodes);
  double shared = 0;
  for (const auto& part : stage.parts) {
    if (sharing_.contains(part.backend)) shared += weights_in(graph, part.nodes);
  }
  double bytes = 0;
  bool held = false;  // By an instance before.
  for (const auto& device : stage.devices) {
    if (!device.is_local_cpu()) continue;
    bytes += held && pipeline::compiled_once(device, all) ? all - shared : all;
    held = true;
  }
  return bytes;
}

double Copies::bytes_of(const graph::Graph& graph, const partition::ChosenStages& split) const {
  double bytes = 0;
  for (const auto& stage : split.stages) bytes += bytes_of(graph, stage);
  return bytes;
}

HostMemory host_memory(std::optional<std::uint64_t> available, Copies copies) {
  constexpr double kPacked = 2;
  const double bytes = available ? static_cast<double>(*available) / kPacked
                                 : std::numeric_limits<double>::infinity();
  return {bytes, std::move(copies)};
}

}  // namespace penstock::tune
