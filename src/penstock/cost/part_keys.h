// PartKeys: by which the database finds what a part costs.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/cost/database.h"
#include "penstock/cost/elsewhere.h"
#include "penstock/cost/part.h"
#include "penstock/device/topology.h"

namespace penstock::cost {

/// A device as costs know it: the machine's fingerprint and device::place_of() it. Devices of one
/// key take the same time.
std::string device_key(const device::Topology& topology, const device::Device& device);

/// Two devices as a link knows them: their keys, and what they have in common.
std::string link_key(const device::Topology& topology, const device::Device& from,
                     const device::Device& to);

/// "alone", or "crowded+N" with what the N neighbours share with the device: device::shared_with().
std::string condition_of(const device::Topology& topology, const device::Device& device,
                         const std::vector<device::Device>& neighbours);

/// As device_key() of one that is no CPUs: the machine's fingerprint, its place and its name.
std::string accelerator_key(const device::Topology& topology, const device::Device& device,
                            const std::string& name);

/// \error kInvalidArgument  not CPUs of this machine
Status check_device(const device::Device& device);

/// Of a chain, the names by which tensors pass from model to model are part of what it is.
std::string wiring(const Part& part);

/// Remembers hashes of graphs and files. Borrows what it is made with. One thread.
class PartKeys {
 public:
  /// `elsewhere`: the machine of `topology` and its engines; null: this one.
  PartKeys(const backend::Registry& backends, const device::Topology& topology,
           const Elsewhere* elsewhere = nullptr)
      : backends_(backends), topology_(topology), elsewhere_(elsewhere) {}

  /// \error kInvalidArgument  a part has no model, or a device that is not of this machine; and of
  ///        files that cannot be read
  Result<PartKey> key_of(const Part& part);
  /// "onnxruntime" -> "1.31.0"; empty where it is not there.
  std::string engine_version(const std::string& backend);
  /// The graph is about to go.
  void forget(const graph::Graph& graph) { hashers_.erase(&graph); }

 private:
  struct Hashers {
    graph::Hasher contents, types;
  };

  Result<std::string> hash_of_file(const std::filesystem::path& file);
  /// With its weights, and with their types.
  Result<std::pair<std::string, std::string>> hashes_of(const PartModel& model);
  Result<std::string> options_text(const Part& part);

  const backend::Registry& backends_;
  const device::Topology& topology_;
  const Elsewhere* elsewhere_;
  std::map<const graph::Graph*, Hashers> hashers_;
  std::map<std::filesystem::path, std::string> file_hashes_;
  std::map<std::string, std::string> versions_;
};

}  // namespace penstock::cost
