// Activations: what a network's tensors hold for the frames it is measured with.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "penstock/backend/backend.h"
#include "penstock/base/result.h"
#include "penstock/graph/graph.h"
#include "penstock/graph/weight_store.h"

namespace penstock::cost {

/// In files, by the tensor's name: parts are timed and compared with these instead of random
/// values. Tensors that are no plain numbers are left out.
class Activations {
 public:
  /// Whose values are kept. Shapes are kept of all.
  enum class Kept : std::uint8_t {
    kAll,
    kInputs,  ///< The graph's inputs; and of what its nodes make as kSizes.
    kSizes,   ///< Of integers that may mean a size or a place, which must fit what they come with.
  };

  /// The graph's inputs; `frames` hold one tensor for each, in their order. `digest` names them in
  /// the keys of costs; empty: costs do not hang on them.
  static Result<Activations> of_inputs(const graph::Graph& graph,
                                       std::span<const std::vector<Tensor>> frames,
                                       std::string digest, Kept kept = Kept::kAll);

  /// Of what all nodes make of a frame like this one, one tensor for each of the graph's inputs:
  /// open dimensions as the frame has them, else their likely size.
  static double bytes_of_all(const graph::Graph& graph, const std::vector<Tensor>& frame);

  /// Runs the frames, and keeps what each node makes too; of sizes only where a node makes one, or
  /// a tensor whose shape its type does not tell. `weights`: of the graph's, or null.
  /// \error as the backend's; kCancelled  a frame took longer than `longest_run`, if that is given
  Status record(const graph::Graph& graph, backend::Backend& backend,
                const std::vector<std::filesystem::path>& custom_ops,
                const graph::WeightStore* weights = nullptr,
                std::optional<std::chrono::nanoseconds> longest_run = {});

  /// The graph with its tensors' open dimensions as they are in the first frame, where that is
  /// known; to count what a frame takes.
  [[nodiscard]] graph::Graph sized(graph::Graph graph) const;

  [[nodiscard]] const std::string& digest() const { return digest_; }
  /// Of a tensor, one file for each frame; empty where none is known.
  [[nodiscard]] std::vector<std::filesystem::path> files_of(const std::string& tensor) const;
  /// Of a tensor in the first frame; null where it is not known.
  [[nodiscard]] const std::vector<std::int64_t>* dims_of(const std::string& tensor) const;

 private:
  Status keep(std::size_t frame, const std::string& tensor, const Tensor& value);

  std::shared_ptr<const std::filesystem::path> folder_;
  std::string digest_;
  std::vector<std::vector<Tensor>> frames_;
  Kept kept_ = Kept::kAll;
  std::map<std::string, std::vector<std::filesystem::path>> files_;
  std::map<std::string, std::vector<std::int64_t>> dims_;
};

}  // namespace penstock::cost
