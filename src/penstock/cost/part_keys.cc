// Builds a key from hashes of graphs and files, engine versions, the device and sorted options.
#include "penstock/cost/part_keys.h"

#include <algorithm>

#include "penstock/backend/request.h"
#include "penstock/base/hash.h"
#include "penstock/base/version.h"
#include "penstock/device/place.h"

namespace penstock::cost {
namespace {

std::string inputs_text(const graph::Subgraph& subgraph) {
  return join(subgraph.inputs(), ",",
              [&](graph::ValueId id) { return to_string(bound(subgraph.graph().value(id).type)); });
}

std::string shapes_text(const Part& part) {
  return join(part.shapes, ",", [](const auto& shape) {
    return concat(shape.first, "=",
                  join(shape.second, "x", [](std::int64_t n) { return std::to_string(n); }));
  });
}

Status check_part(const Part& part) {
  if (part.models.empty()) return invalid_argument("part: expected at least one model");
  for (const auto& model : part.models) {
    if (!model.subgraph && model.file.empty()) {
      return invalid_argument("part '", model.name, "': expected a subgraph or a file");
    }
  }
  if (part.device.is_accelerator()) return {};
  PENSTOCK_CHECK_OK(check_device(part.device));
  for (const auto& device : part.neighbours) PENSTOCK_CHECK_OK(check_device(device));
  return {};
}

}  // namespace

std::string name_of(const Part& part) {
  return join(part.models, " + ", [](const PartModel& model) { return model.name; });
}

Type bound(Type type) {
  for (auto& dim : type.dims) {
    if (!dim.fixed()) dim = {dim.likely(), "", Dim::kOpen};
  }
  return type;
}

std::string wiring(const Part& part) {
  std::string text;
  for (const auto& model : part.models) {
    if (!model.subgraph) continue;
    const auto name = [&](graph::ValueId id) { return model.subgraph->graph().value(id).name; };
    text += concat(join(model.subgraph->inputs(), ",", name), "->",
                   join(model.subgraph->outputs(), ",", name), ";");
  }
  return text;
}

Status check_device(const device::Device& device) {
  if (device.is_local_cpu() && !device.cpus.empty()) return {};
  return invalid_argument("device '", device::to_string(device),
                          "': expected CPUs of this machine, such as 'cpu:0'");
}

std::string accelerator_key(const device::Topology& topology, const device::Device& device,
                            const std::string& name) {
  return concat(topology.fingerprint, "/", device::to_string(device), name.empty() ? "" : " ",
                name);
}

std::string device_key(const device::Topology& topology, const device::Device& device) {
  return concat(topology.fingerprint, "/", device::place_of(topology, device),
                device::limits_of(topology, device.cpus));
}

std::string link_key(const device::Topology& topology, const device::Device& from,
                     const device::Device& to) {
  return concat(device_key(topology, from), " to ", device_key(topology, to), " sharing ",
                device::shared_with(topology, from, {to}));
}

std::string condition_of(const device::Topology& topology, const device::Device& device,
                         const std::vector<device::Device>& neighbours) {
  if (neighbours.empty()) return "alone";
  const auto shared = device::shared_with(topology, device, neighbours);
  return concat("crowded+", neighbours.size(), shared.empty() ? "" : " ", shared);
}

Result<std::string> PartKeys::hash_of_file(const std::filesystem::path& file) {
  auto& hash = file_hashes_[file];
  if (!hash.empty()) return hash;
  PENSTOCK_TRY(const auto bytes, sha256_of_file(file));
  return hash = "file-" + bytes;
}

Result<std::pair<std::string, std::string>> PartKeys::hashes_of(const PartModel& model) {
  if (!model.subgraph) {
    PENSTOCK_TRY(const auto hash, hash_of_file(model.file));
    return std::pair(hash, hash);
  }
  using Constants = graph::Hasher::Constants;
  const auto& graph = model.subgraph->graph();
  auto at = hashers_.find(&graph);
  if (at == hashers_.end()) {
    at = hashers_
             .emplace(&graph, Hashers{graph::Hasher(graph, Constants::kContents),
                                      graph::Hasher(graph, Constants::kTypes)})
             .first;
  }
  return std::pair(at->second.contents.hash(*model.subgraph),
                   at->second.types.hash(*model.subgraph));
}

std::string PartKeys::engine_version(const std::string& backend) {
  const auto known = versions_.find(backend);
  if (known != versions_.end()) return known->second;
  if (elsewhere_ != nullptr) return versions_[backend] = elsewhere_->engine_version(backend);
  const auto found = backends_.find(backend);
  auto version = found ? (*found)->describe().engine_version : std::string();
  // What a plugin makes of its engine changes with Penstock.
  if (!version.empty()) version += concat(", penstock ", penstock::version());
  return versions_[backend] = version;
}

Result<std::string> PartKeys::options_text(const Part& part) {
  std::vector<std::string> libraries;
  for (const auto& library : part.custom_ops) {
    PENSTOCK_TRY(auto hash, hash_of_file(library));
    libraries.push_back(std::move(hash));
  }
  const auto keys = [](const PartModel& model) {
    return join(model.options, ";",
                [](const auto& option) { return option.first + "=" + option.second; });
  };
  std::string text = join(part.models, "|", keys);
  if (part.flush_denormals) text += " flush_denormals";
  if (!libraries.empty()) text += " custom_ops=" + join(libraries, ",");
  return text;
}

Result<PartKey> PartKeys::key_of(const Part& part) {
  PENSTOCK_CHECK_OK(check_part(part));
  PartKey key;
  std::vector<std::string> models, structures, inputs, precisions, names, engines;
  for (const auto& model : part.models) {
    PENSTOCK_TRY(auto hashes, hashes_of(model));
    models.push_back(std::move(hashes.first));
    structures.push_back(std::move(hashes.second));
    inputs.push_back(model.subgraph ? inputs_text(*model.subgraph) : shapes_text(part));
    precisions.emplace_back(backend::to_string(model.precision));
    names.push_back(model.backend);
    engines.push_back(engine_version(model.backend));
  }
  key.model = models.front();
  key.structure = structures.front();
  if (models.size() > 1) {
    key.model = sha256_of("chain " + join(models, " ") + wiring(part));
    key.structure = sha256_of("chain " + join(structures, " ") + wiring(part));
  }
  key.inputs = join(inputs, "+");
  key.precision = join(precisions, "+");
  key.backend = join(names, "+");
  key.engine = join(engines, "+");
  key.threads = part.threads;
  if (part.device.is_accelerator()) {
    PENSTOCK_TRY(const auto backend, backends_.find(part.models.front().backend));
    key.device = accelerator_key(topology_, part.device, backend->device_name(part.device));
    key.condition = condition_of(topology_, part.device, {});
  } else {
    key.device = device_key(topology_, part.device);
    key.condition = condition_of(topology_, part.device, part.neighbours);
  }
  PENSTOCK_TRY(key.options, options_text(part));
  return key;
}

}  // namespace penstock::cost
