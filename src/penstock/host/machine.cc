// Reads host name, topology, free memory and backends, with the rules of those that are available.
#include "penstock/host/machine.h"

#include <array>

#include <unistd.h>

#include "penstock/device/cgroup.h"

namespace penstock::host {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return {};
  return name.data();
}

}  // namespace

Result<MachineFacts> read_machine(const backend::Registry& backends) {
  MachineFacts facts;
  facts.host = host_name();
  PENSTOCK_TRY(facts.topology, device::read_topology());
  facts.memory_left_bytes = device::available_memory().value_or(0);
  for (const auto& backend : backends.all()) {
    BackendFacts one{backend->describe(), {}, {}};
    if (one.description.unavailable.empty()) {
      one.rules = backend->rules();
      one.lower_precisions = backend->lower_precisions();
    }
    facts.backends.push_back(std::move(one));
  }
  return facts;
}

}  // namespace penstock::host
