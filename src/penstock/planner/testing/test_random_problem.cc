// Draws types, groups, graph, memory caps, links and a pin in turn from one Mersenne twister.
#include "penstock/planner/testing/test_random_problem.h"

#include <algorithm>
#include <numeric>

#include "penstock/planner/problem/index.h"

namespace penstock::planner {
namespace {

class Maker {
 public:
  Maker(std::uint64_t seed, const RandomOptions& options) : options_(options), random_(seed) {}

  Problem run() {
    put_types();
    put_groups();
    put_graph();
    if (options_.memory) cap_memory();
    if (options_.links) put_links();
    if (options_.colocated) problem_.colocated = {{below(options_.groups), below(options_.groups)}};
    problem_.frames_in_flight = options_.frames;
    if (options_.pinned) pin_one();
    return std::move(problem_);
  }

 private:
  int below(int end) { return static_cast<int>(random_() % static_cast<std::uint64_t>(end)); }
  bool chance(int percent) { return below(100) < percent; }
  double number() {  // About 1 on average.
    return options_.whole_numbers ? below(3) : 0.001 * below(2000);
  }

  void put_types() {
    for (std::size_t t = 0; t < options_.devices.size(); ++t) {
      DeviceType type;
      type.name = concat("type", t);
      for (int d = 0; d < options_.devices[t]; ++d)
        type.devices.push_back(concat(type.name, ":", d));
      if (options_.overlap) type.overlap = static_cast<Overlap>(below(3));
      type.pays_transfers = !(options_.free_transfers && t + 1 == options_.devices.size());
      problem_.types.push_back(std::move(type));
      for (int m = 0; m < options_.modes_per_type; ++m) {
        problem_.modes.push_back(
            {concat("type", t, "/", m), static_cast<int>(t), options_.launch ? 0.3 * number() : 0});
      }
    }
    if (!options_.unlimited) return;
    problem_.types.push_back({"unlimited", {}, true, kInfinite, Overlap::kSerial, false});
    problem_.modes.push_back({"unlimited", static_cast<int>(problem_.types.size()) - 1, 0});
  }

  void put_groups() {
    std::vector<double> speed;
    for (const auto& mode : problem_.modes) {
      const bool slow = problem_.types[at(mode.type)].unlimited;
      speed.push_back(slow ? 3 : options_.whole_numbers ? 1 + below(2) : 0.5 + number());
    }
    for (int g = 0; g < options_.groups; ++g) {
      Group group;
      group.name = concat("g", g);
      group.nodes = {100 + g};
      group.memory = chance(20) ? 0 : 1 + below(9);
      const double work = chance(15) ? 0 : 0.25 + number();
      for (const double factor : speed) {
        const double affinity = options_.whole_numbers ? 1 : 0.5 + number();
        group.time.push_back(work * factor * affinity);
      }
      const int kept = below(static_cast<int>(speed.size()));  // In one mode it runs at least.
      for (std::size_t m = 0; m < speed.size() && options_.unsupported; ++m) {
        if (m != at(kept) && chance(20)) group.time[m] = kInfinite;
      }
      problem_.groups.push_back(std::move(group));
    }
  }

  void put_graph() {
    const int count = options_.groups;
    std::vector<int> label(at(count));  // Hides the topological order.
    std::iota(label.begin(), label.end(), 0);
    std::ranges::shuffle(label, random_);
    const int percent = std::vector{15, 30, 60}[at(below(3))];
    for (int i = 0; i < count; ++i) {
      std::vector<int> readers;
      for (int j = i + 1; j < count; ++j) {
        if (!chance(percent) && !(j == i + 1 && chance(50))) continue;
        readers.push_back(label[at(j)]);
        problem_.order.emplace_back(label[at(i)], label[at(j)]);
      }
      put_value(label[at(i)], readers);
      if (readers.size() > 1 && chance(30)) put_value(label[at(i)], {readers.back()});
      if (chance(10)) put_value(label[at(i)], readers);
      if (options_.backward && i > 0 && chance(50)) put_value(label[at(i)], {label[at(below(i))]});
    }
  }

  void put_value(int producer, std::vector<int> readers) {
    const double bytes = chance(20) ? 0 : 1 + below(4);
    const double time = chance(20) ? 0 : options_.communication * number();
    problem_.values.push_back(
        {concat("v", problem_.values.size()), producer, std::move(readers), bytes, time});
  }

  void cap_memory() {
    double total = 0, most = 0;
    for (const auto& group : problem_.groups) {
      total += group.memory;
      most = std::max(most, group.memory);
    }
    for (const auto& value : problem_.values) total += options_.frames ? value.bytes : 0;
    const double count = std::accumulate(options_.devices.begin(), options_.devices.end(), 0);
    for (auto& type : problem_.types) {
      if (type.unlimited) continue;
      type.memory = std::max(most, (0.9 + 0.01 * below(100)) * total / count);
    }
  }

  void put_links() {
    const auto types = problem_.types.size();
    problem_.links.assign(types, std::vector<Link>(types));
    for (auto& row : problem_.links) {
      for (auto& link : row) {
        link.latency = 0.2 * options_.communication * number();
        link.bandwidth = (1 + below(9)) / std::max(options_.communication, 1e-3);
      }
    }
  }

  void pin_one() {
    std::vector<std::string> devices;
    for (const auto& type : problem_.types) {
      devices.insert(devices.end(), type.devices.begin(), type.devices.end());
    }
    const auto& device = devices[at(below(static_cast<int>(devices.size())))];
    auto pinned = pin(problem_, below(options_.groups), device);
    if (pinned && validate(*pinned)) problem_ = *std::move(pinned);  // Else it does not run there.
  }

  const RandomOptions& options_;
  std::mt19937_64 random_;
  Problem problem_;
};

}  // namespace

Problem random_problem(std::uint64_t seed, const RandomOptions& options) {
  return Maker(seed, options).run();
}

}  // namespace penstock::planner
