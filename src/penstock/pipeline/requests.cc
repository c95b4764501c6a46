// CPUs, options, models and batched models of each instance; what an engine said of them.
#include "penstock/pipeline/requests.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>

#include "penstock/device/topology.h"

namespace penstock::pipeline {
namespace {

// Those that the plan names for stages on CPUs of this machine.
std::vector<int> cpus_of(const plan::Plan& plan) {
  std::vector<int> cpus;
  for (const auto& stage : plan.stages) {
    for (const auto& place : places_of(stage)) {
      if (place.is_local_cpu()) cpus.insert(cpus.end(), place.cpus.begin(), place.cpus.end());
    }
  }
  std::ranges::sort(cpus);
  cpus.erase(std::ranges::unique(cpus).begin(), cpus.end());
  return cpus;
}

// The thread here of an instance that computes elsewhere: where it disturbs no stage, if it can.
std::vector<int> host_cpus_for(const State& state, const plan::Stage& stage) {
  if (!stage.host_cpus.empty()) return stage.host_cpus;
  const auto present = device::inherited_cpus();
  std::vector<int> free;
  std::ranges::set_difference(present, cpus_of(state.plan), std::back_inserter(free));
  return free.empty() ? present : free;
}

Status check_accepted(const Stage& stage, const device::Device& device) {
  for (const auto& partition : stage.partitions) {
    const auto& backend = device.is_remote() ? partition.remote : partition.backend;
    if (backend->accepts(device)) continue;
    return make_error(Code::kUnimplemented, "device '", device::to_string(device), "': backend '",
                      partition.plan->backend,
                      "' does not run there; use CPUs of this machine, such as 'cpu:0', or a "
                      "backend that does");
  }
  return {};
}

// Other machines that run stages of the plan.
std::vector<std::string> workers_of(const plan::Plan& plan) {
  std::set<std::string> hosts;
  for (const auto& stage : plan.stages) {
    for (const auto& place : places_of(stage)) {
      if (place.is_remote() && place.kind != device::Device::Kind::kServer)
        hosts.insert(place.host);
    }
  }
  return {hosts.begin(), hosts.end()};
}

backend::CompileRequest request_for(const State& state, const std::filesystem::path& folder,
                                    const plan::Stage& stage, const plan::Partition& partition,
                                    const device::Device& device) {
  backend::CompileRequest request;
  if (!partition.model.empty()) request.file = folder / partition.model;
  request.device = device;
  request.threads = device.is_local_cpu() ? static_cast<int>(device.cpus.size()) : 1;
  request.replicas = static_cast<int>(stage.devices.size());
  request.flush_denormals = stage.flush_denormals;
  request.options = partition.options;
  const auto add_options = [&](std::string_view backend) {
    const auto extra = state.options.backend_options.find(std::string(backend));
    if (extra == state.options.backend_options.end()) return;
    for (const auto& [key, value] : extra->second) request.options[key] = value;
  };
  add_options(partition.backend);
  if (device.is_remote()) {
    request.backend = partition.backend;
    if (partition.served) request.served = plan::to_string(*partition.served);
    request.peers = workers_of(state.plan);
    add_options(plan::kRemoteBackend);
  }
  for (const auto& file : state.plan.custom_ops) request.custom_ops.push_back(folder / file);
  return request;
}

// Whether the error names the file, which it then names by its path in the package.
bool rename(Error& error, const std::filesystem::path& file, const std::string& in_package) {
  bool found = false;
  for (auto& place : error.places) {
    if (place.name != file) continue;
    place.name = in_package;
    found = true;
  }
  return found;
}

}  // namespace

std::vector<int> cpus_for(const State& state, const plan::Stage& stage,
                          const device::Device& device) {
  if (!device.is_local_cpu()) return host_cpus_for(state, stage);
  if (stage.pinned) return device.cpus;
  return cpus_of(state.plan);  // Free to move among all CPUs that the plan names.
}

Result<std::vector<backend::CompileRequest>> requests_for(const State& state,
                                                          const std::filesystem::path& folder,
                                                          const Stage& made,
                                                          const device::Device& device) {
  const plan::Stage& stage = *made.plan;
  PENSTOCK_CHECK_OK(check_accepted(made, device));
  PENSTOCK_CHECK_OK(device::check_available(device));
  std::vector<backend::CompileRequest> requests;
  for (const auto& partition : stage.partitions) {
    requests.push_back(request_for(state, folder, stage, partition, device));
  }
  for (const int frames : made.batch_sizes) {
    for (std::size_t p = 0; p < stage.partitions.size(); ++p) {
      const auto& batched = stage.partitions[p].batched;
      requests.push_back(requests[p]);
      requests.back().file =
          folder / std::ranges::find(batched, frames, &plan::BatchedModel::frames)->model;
    }
  }
  return requests;
}

std::uintmax_t bytes_of_models(const std::vector<backend::CompileRequest>& requests) {
  std::uintmax_t bytes = 0;
  for (const auto& request : requests) {
    for (const auto& file :
         {request.file, std::filesystem::path(request.file.string() + ".data")}) {
      std::error_code absent;
      const auto size = std::filesystem::file_size(file, absent);
      if (!absent) bytes += size;
    }
  }
  return bytes;
}

Error blame_model(Error error, const State& state, const std::filesystem::path& folder,
                  const plan::Stage& stage, const std::vector<backend::CompileRequest>& requests) {
  bool of_a_model = false;
  for (std::size_t p = 0; p < requests.size(); ++p) {
    const auto& partition = stage.partitions[p % stage.partitions.size()];
    if (partition.backend == plan::kFunctionBackend) continue;
    of_a_model |= rename(error, requests[p].file,
                         requests[p].file.lexically_relative(folder).generic_string());
    for (std::size_t i = 0; i < state.plan.custom_ops.size(); ++i) {
      rename(error, requests[p].custom_ops[i], state.plan.custom_ops[i]);
    }
  }
  const bool refused = error.code == Code::kUnimplemented || error.code == Code::kUnknown ||
                       error.code == Code::kInvalidArgument;
  if (!of_a_model || !refused) return error;
  if (error.code == Code::kInvalidArgument) {
    return std::move(error).adding(
        "; repair the model, or export it again; another version of the engine or another backend "
        "may take it ('penstock backends' shows those that are here)");
  }
  return std::move(error).adding(
      "; try another version of the engine or another backend ('penstock backends' shows those "
      "that are here)");
}

}  // namespace penstock::pipeline
