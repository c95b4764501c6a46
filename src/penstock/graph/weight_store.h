// The weights of a graph, once on disk for all models that are written of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "penstock/base/result.h"
#include "penstock/graph/graph.h"

namespace penstock::graph {

/// A file in a temporary folder. Beside each model that is written with it stands a hard link of
/// that file, never of one that a user has: models by the dozen take the room of one, on disk and
/// in the page cache. Removed with the last reference and the last link. Immutable.
class WeightStore {
 public:
  /// The name of the links.
  static constexpr const char* kFileName = "weights.data";
  /// Smaller constants stand in each model.
  static constexpr std::size_t kLeastBytes = 1024;

  /// Writes each content once, in the order of the graph's values, at aligned offsets.
  /// \error kPermissionDenied, kResourceExhausted  it cannot be written.
  static Result<std::shared_ptr<const WeightStore>> create(const Graph& graph);

  /// The offset at which the tensor's bytes stand; none: the store has no such tensor.
  [[nodiscard]] std::optional<std::uint64_t> find(const Tensor& tensor) const;
  /// Whether the folder has the link now: a file system may know none, or be another one.
  [[nodiscard]] bool link_into(const std::filesystem::path& folder) const;
  /// Of the file.
  [[nodiscard]] const std::string& sha256() const { return sha256_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  WeightStore() = default;

  std::shared_ptr<const std::filesystem::path> folder_;
  std::map<std::string, std::uint64_t> offsets_;  ///< By content_hash().
  std::string sha256_;
  std::uint64_t bytes_ = 0;
};

}  // namespace penstock::graph
