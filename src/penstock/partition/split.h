// Splitting by hand: cuts and pins -> stages -> package.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/device/device.h"
#include "penstock/graph/graph.h"
#include "penstock/partition/batches.h"
#include "penstock/partition/lanes.h"
#include "penstock/plan/package.h"
#include "penstock/plan/plan.h"

namespace penstock::graph {
class WeightStore;
}

namespace penstock::partition {

/// What one backend runs of a chosen stage.
struct ChosenPart {
  std::string backend;
  std::map<std::string, std::string> options;
  std::vector<graph::NodeId> nodes;
  bool operator==(const ChosenPart&) const = default;
};

/// A stage given whole, such as the planner chooses it.
struct ChosenStage {
  std::vector<graph::NodeId> nodes;
  std::vector<device::Device> devices;  ///< One for each replica.
  /// Its nodes, each once, in the order of execution; empty: one part, of SplitOptions::backend.
  std::vector<ChosenPart> parts;
  std::vector<int> host_cpus = {};           ///< As plan::Stage::host_cpus.
  std::vector<device::Device> standby = {};  ///< As plan::Stage::standby.
  double predicted_seconds = 0;              ///< As plan::Stage::predicted_seconds.
};

/// Each ends a stage after the named node, the producer of the named tensor, or the node of that
/// index ("12"). Taken in topological order; N cuts give N+1 stages.
struct Cuts {
  std::vector<std::string> nodes;
};

/// Node name or index -> device: nodes pinned to one device form a stage of it.
struct Pins {
  std::vector<std::pair<std::string, device::Device>> nodes;
};

/// Stages from the file's own `pipeline_stage` annotations.
struct Annotations {};

/// All nodes, each once, in stages that stand in topological order, with their devices.
struct ChosenStages {
  std::vector<ChosenStage> stages;
  plan::Prediction prediction;
};

/// What says where the stages are.
using SplitBy = std::variant<Cuts, Pins, Annotations, ChosenStages>;

/// The one of these that a user gave; none: no cuts. \error kInvalidArgument  they gave several.
Result<SplitBy> split_by(std::vector<std::string> cuts,
                         std::vector<std::pair<std::string, device::Device>> pins,
                         bool annotations);

struct SplitOptions {
  SplitBy by;
  int replicas = 1;                     ///< Of every stage; all of them: plan::kMostInstances.
  std::vector<device::Device> devices;  ///< Dealt to stage instances in turn; empty: one per CPU.
  /// They take over the frames of stages on other machines, or on accelerators, that are lost.
  std::vector<device::Device> standby;
  std::string backend = "onnxruntime";
  std::map<std::string, std::string> backend_options;
  std::vector<std::filesystem::path> custom_ops;
  /// Their models are written beside those of one frame, all where measurement is to say:
  /// split_model() makes a number of that.
  Batches batches;
  Lanes lanes;  ///< Calls in flight of each instance.
  bool pinned = true;
  bool flush_denormals = false;  ///< Of every stage; else where a constant holds denormals.
  std::map<std::string, std::string> files;  ///< More of the package: path in it -> contents.
  /// Of the graph's: a package of a while has links of it instead of weights of its own, as it
  /// holds those of all stages. Borrowed; null: none.
  const graph::WeightStore* weights = nullptr;
  /// Models for several frames are checked and timed on these, one or more, which hold a value for
  /// each of the plan's inputs. Borrowed; null: on random ones.
  const std::vector<std::vector<Tensor>>* frames = nullptr;
};

/// The node sets of the stages, in topological order of the stages.
/// \error kNotFound         a cut or pin names no node: near names are offered; for a name that the
///                          import folded or removed, the message says what took its place.
/// \error kFailedPrecondition  a cut or pin is an index and the import could fold nothing.
/// \error kInvalidArgument  a stage would be empty, pins make a cycle (the cycle is named), or
///                          chosen stages (or a stage's parts) leave out or repeat a node, or read
///                          from a later one.
Result<std::vector<std::vector<graph::NodeId>>> assign_stages(const graph::Graph& graph,
                                                              const SplitOptions& options);

/// The plan of given stages, each one part; model files are named "stages/<i>.onnx" but not
/// written.
Result<plan::Plan> make_plan(const graph::Graph& graph,
                             const std::vector<std::vector<graph::NodeId>>& stages,
                             const SplitOptions& options);

/// The stages that are asked for a batch by measurement and cannot take several frames in one call,
/// and why: names the node. \error as assign_stages() and make_plan()
Result<std::map<std::string, Error>> stages_without_batch(const graph::Graph& graph,
                                                          const SplitOptions& options);

/// assign_stages, make_plan, and the package written to `target` (folder or .zip).
/// \error kFailedPrecondition  a stage cannot take several frames in one call: names the node, as
///                             graph::batched() does. kNotFound: no stage of a batch's name.
Result<plan::Plan> split(const graph::Graph& graph, const SplitOptions& options,
                         const std::filesystem::path& target, plan::Origin origin);

}  // namespace penstock::partition
