// Adapts an instance to frames in flight and unlimited types, and contracts it where that is safe.
#include "penstock/planner/throughput/sides.h"

#include <algorithm>
#include <utility>

#include "penstock/planner/problem/contract.h"
#include "penstock/planner/problem/index.h"

namespace penstock::planner {

std::optional<Instance> make_side(const Problem& problem, Partner partner) {
  auto made = make_instance(problem, partner);
  if (!made) return std::nullopt;
  Instance instance = *std::move(made);
  int devices = 0;
  for (int t = 0; t < instance.types; ++t) {
    if (problem.types[at(t)].unlimited) instance.type_count[at(t)] = 0;
    devices += instance.type_count[at(t)];
  }
  for (int v = 0; v < instance.values && problem.frames_in_flight; ++v) {
    // A value that crosses goes at least one stage on, if it goes forward; at most through all.
    const auto behind = instance.after[instance.producer[at(v)]];
    const auto pins = instance.pins[v];
    const bool forward =
        std::ranges::any_of(pins, [&](int pin) { return std::ranges::binary_search(behind, pin); });
    const double least = forward && pins.size() == 2 ? 2 : 1;
    instance.bytes[at(v)] *= partner == Partner::kLowest ? least : devices;
  }
  return instance;
}

bool is_exact(const Problem& problem, const Instance& low, const Instance& high) {
  return !problem.frames_in_flight && low.receive == high.receive && low.send == high.send;
}

Model make_model(const Problem& problem, const Options& options, Instance instance) {
  Model model;
  model.instance = std::move(instance);
  model.replicas = options.replicas;
  model.latency_cap = options.latency_cap;
  model.holds_transfers = problem.frames_in_flight;
  if (options.latency_cap == kInfinite && !problem.frames_in_flight) {
    model.instance = contract(model.instance);
  }
  model.prices = make_prices(model.instance);
  return model;
}

bool is_chain(const Instance& instance) {
  for (int g = 0; g + 1 < instance.groups; ++g) {
    if (!std::ranges::binary_search(instance.after[g], g + 1)) return false;
  }
  return true;
}

}  // namespace penstock::planner
