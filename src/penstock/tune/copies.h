// Copies: how often the instances of a plan hold its weights in the host's memory.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/graph/graph.h"
#include "penstock/partition/split.h"
#include "penstock/tune/way.h"

namespace penstock::tune {

/// Each stage holds its weights once. A replica more holds them again, unless it runs what was
/// compiled once (pipeline::compiled_once()) and its backend's contexts share. Stages on
/// accelerators and on other hosts hold nothing here. A value.
class Copies {
 public:
  Copies() = default;  ///< No backend's contexts share.
  explicit Copies(std::set<std::string> sharing) : sharing_(std::move(sharing)) {}
  /// By what the ways' backends say (docs/rules.md). \error as collage::parse_weights()
  static Result<Copies> of(const std::vector<Way>& ways, const backend::Registry& backends);

  /// Bytes of weights.
  [[nodiscard]] double bytes_of(const graph::Graph& graph,
                                const partition::ChosenStage& stage) const;
  [[nodiscard]] double bytes_of(const graph::Graph& graph,
                                const partition::ChosenStages& split) const;

 private:
  std::set<std::string> sharing_;  // Backends.
};

/// What the host holds.
struct HostMemory {
  /// Of weights, by all stages; infinite: whatever a plan has.
  double bytes = std::numeric_limits<double>::infinity();
  Copies copies = {};
};

/// Half of what is left, as an engine packs weights for itself while it reads them.
HostMemory host_memory(std::optional<std::uint64_t> available, Copies copies);

}  // namespace penstock::tune
