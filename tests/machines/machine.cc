#include "tests/machines/machine.h"

#include <algorithm>
#include <random>
#include <utility>

#include "tests/support/made_up_topologies.h"

namespace penstock::machines {
namespace {

using planner::Problem;

Machine machine_of(std::string name, device::Topology topology) {
  auto groupings = device::groupings_of(topology);
  return {std::move(name), std::move(topology), std::move(groupings)};
}

class Maker {
 public:
  Maker(const Machine& machine, const Network& network, std::uint64_t seed)
      : machine_(machine), network_(network), random_(seed) {
    draw_laws();
  }

  Problem run() {
    put_types();
    put_groups();
    put_order();
    if (network_.has_caps) put_caps();
    return std::move(problem_);
  }

 private:
  double between(double low, double high) {
    return low + (high - low) * static_cast<double>(random_() % 1000) / 1000;
  }

  /// Of two engines: one that scales well, one that is faster on one CPU.
  void draw_laws() {
    for (const double pace : {1.0, between(0.7, 1)}) {
      auto& laws = laws_.emplace_back();
      laws.speedup = pace == 1 ? between(0.6, 0.95) : between(0.1, 0.6);
      laws.sibling = between(0, 0.6);
      laws.kinds = {{"0", between(1, 3)}, {"1", 1}};
      laws.cache = between(0, 4e6);
      laws.bandwidth = between(1e9, 2e10);
      laws.seconds = {{"*", pace}};
    }
  }

  void put_types() {
    const auto& kinds = machine_.groupings.kinds;
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      planner::DeviceType type;
      type.name = concat("kind", k);
      for (const auto& device : kinds[k].devices) {
        type.devices.push_back(concat(type.name, ":", to_string(device)));
      }
      problem_.types.push_back(std::move(type));
      for (std::size_t law = 0; law < laws_.size(); ++law) {
        problem_.modes.push_back({concat("kind", k, "/", law), static_cast<int>(k), 0});
      }
      const auto& use = machine_.groupings.uses[kinds[k].use];
      spots_.push_back(
          synthetic::spot_of(machine_.topology, kinds[k].devices.front().cpus, use.cpus));
    }
    problem_.links.assign(kinds.size(), std::vector<planner::Link>(kinds.size(), {1e-5, 1e10}));
  }

  void put_groups() {
    for (int g = 0; g < network_.groups; ++g) {
      planner::Group group;
      group.name = concat("g", g);
      group.nodes = {g};
      group.memory = between(1e4, 8e6);
      const double seconds = between(0.0002, 0.004);
      for (std::size_t m = 0; m < problem_.modes.size(); ++m) {
        const auto& laws = laws_[m % laws_.size()];
        group.time.push_back(laws.seconds_of(seconds * laws.seconds.at("*") * between(0.9, 1.1),
                                             group.memory, spots_[m / laws_.size()]));
      }
      problem_.groups.push_back(std::move(group));
    }
  }

  void put_order() {
    std::vector<planner::Value> values;
    for (int g = 0; g < network_.groups; ++g) {
      values.push_back({concat("v", g), g, {}, between(0, network_.transfers * 0.002 * 1e10), 0});
    }
    for (int g = 1; g < network_.groups; ++g) {
      bool reads = false;
      for (int other = g; other-- > 0;) {
        const bool first = network_.chain ? other + 1 == g : random_() % 3 == 0;
        if (!first && !(other == 0 && !reads)) continue;
        if (network_.chain && reads) break;
        reads = true;
        values[static_cast<std::size_t>(other)].consumers.push_back(g);
        problem_.order.emplace_back(other, g);
      }
    }
    problem_.values = std::move(values);
  }

  void put_caps() {
    double sum = 0, largest = 0;
    for (const auto& group : problem_.groups) {
      sum += group.memory;
      largest = std::max(largest, group.memory);
    }
    for (auto& type : problem_.types) type.memory = std::max(largest, sum * between(0.4, 0.8));
  }

  const Machine& machine_;
  const Network& network_;
  std::mt19937_64 random_;
  std::vector<synthetic::Settings> laws_;
  std::vector<synthetic::Spot> spots_;  ///< Of each type.
  Problem problem_;
};

}  // namespace

Machine two_nodes() {
  return machine_of("2 x 32 cores", usable_machine("pack:2 numa:1 l3:1 core:32 pu:1"));
}

Machine fast_and_slow() {
  return machine_of("8 fast + 8 slow", penstock::fast_and_slow());
}

Machine siblings() {
  return machine_of("4 cores of 2", usable_machine("numa:1 l3:1 l2:4 core:1 pu:2"));
}

Machine quota() {
  auto topology = usable_machine("numa:1 l3:1 l2:4 core:1 pu:2");
  topology.cpu_quota = 2.5;
  return machine_of("quota of 2.5", std::move(topology));
}

Problem problem_of(const Machine& machine, const Network& network, std::uint64_t seed) {
  return Maker(machine, network, seed).run();
}

}  // namespace penstock::machines
