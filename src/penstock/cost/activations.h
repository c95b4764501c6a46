// Activations: what a network's tensors hold for frames that the user gave.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
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
  /// The graph's inputs; `frames` hold one tensor for each, in their order. `digest` names them.
  static Result<Activations> of_inputs(const graph::Graph& graph,
                                       std::span<const std::vector<Tensor>> frames,
                                       std::string digest);

  /// Runs the frames, and keeps what each node makes too. `weights`: of the graph's, or null.
  /// \error as the backend's
  Status record(const graph::Graph& graph, backend::Backend& backend,
                const std::vector<std::filesystem::path>& custom_ops,
                const graph::WeightStore* weights = nullptr);

  [[nodiscard]] const std::string& digest() const { return digest_; }
  /// Of a tensor, one file for each frame; empty where none is known.
  [[nodiscard]] std::vector<std::filesystem::path> files_of(const std::string& tensor) const;

 private:
  Status keep(std::size_t frame, const std::string& tensor, const Tensor& value);

  std::shared_ptr<const std::filesystem::path> folder_;
  std::string digest_;
  std::vector<std::vector<Tensor>> frames_;
  std::map<std::string, std::vector<std::filesystem::path>> files_;
};

}  // namespace penstock::cost
