// Groups hosts that are alike and solves; where what they share binds, solves again with it slowed.
#include "penstock/hosts/plan.h"

#include <algorithm>
#include <set>

#include "penstock/planner/problem/index.h"

namespace penstock::hosts {
namespace {

using planner::at;
using planner::Problem;
using planner::Split;

// --- Devices in classes ------------------------------------------------------------------------

/// Hosts whose devices are of one class: each has one device, and all is alike.
bool alike(const Hosts& hosts, const Network& network, int a, int b) {
  const auto &one = hosts.hosts[at(a)], &other = hosts.hosts[at(b)];
  const bool same = one.kind == other.kind && one.quota == other.quota &&
                    one.memory == other.memory &&
                    one.figures.has_value() == other.figures.has_value() &&
                    (!one.figures || *one.figures == *other.figures);
  if (!same) return false;
  const auto equal = [](const planner::Link& x, const planner::Link& y) {
    return x.latency == y.latency && x.bandwidth == y.bandwidth;
  };
  if (!equal(network.way(a, b), network.way(b, a))) return false;
  for (int host = kCaller; host < static_cast<int>(hosts.hosts.size()); ++host) {
    if (host == a || host == b) continue;
    if (!equal(network.way(a, host), network.way(b, host)) ||
        !equal(network.way(host, a), network.way(host, b))) {
      return false;
    }
  }
  return true;
}

cost::NodeCosts costs_of(const Host& host, const Known& known,
                         const cost::GraphProblemOptions& options) {
  const auto measured = known.costs.find(host.kind);
  if (measured != known.costs.end()) return measured->second;
  if (!host.figures) return options;
  cost::NodeCosts costs;
  costs.figures = *host.figures;
  costs.figures.seconds_per_transfer = options.figures.seconds_per_transfer;
  return costs;
}

/// Classes of devices, and for each the hosts of its devices.
struct Classes {
  std::vector<cost::DeviceClass> classes;
  std::vector<std::vector<int>> hosts;
};

Result<Classes> classes_of(const Hosts& hosts, const Network& network, const Known& known,
                           const cost::GraphProblemOptions& options) {
  Classes made;
  for (int h = 0; h < static_cast<int>(hosts.hosts.size()); ++h) {
    const auto& host = hosts.hosts[at(h)];
    PENSTOCK_TRY(const auto devices, devices_of(host));
    for (const auto& device : devices) {
      const auto fits = [&](std::size_t c) {
        const auto& one = made.classes[c];
        if (one.devices.front().cpus.size() != device.cpus.size()) return false;
        // Devices of one host exchange tensors in its memory, those of two do not.
        return devices.size() == 1 && made.hosts[c].front() != h &&
               devices_of(hosts.hosts[at(made.hosts[c].front())])->size() == 1 &&
               std::ranges::all_of(made.hosts[c],
                                   [&](int other) { return alike(hosts, network, other, h); });
      };
      std::size_t c = 0;
      while (c < made.classes.size() && !fits(c)) ++c;
      if (c == made.classes.size()) {
        cost::DeviceClass fresh;
        fresh.name = devices.size() == 1 ? host.name : device::to_string(device);
        fresh.costs = costs_of(host, known, options);
        fresh.share = share_of(host, devices, device);
        if (host.memory) fresh.memory = *host.memory / static_cast<double>(devices.size());
        fresh.overlap = planner::Overlap::kFullDuplex;
        made.classes.push_back(std::move(fresh));
        made.hosts.emplace_back();
      }
      made.classes[c].devices.push_back(device);
      made.hosts[c].push_back(h);
    }
  }
  for (const auto& device : hosts.caller.devices) {
    cost::DeviceClass local;
    local.name = device::to_string(device);
    local.costs = options;
    local.memory = options.memory;
    local.overlap = planner::Overlap::kFullDuplex;
    local.devices = {device};
    made.classes.push_back(std::move(local));
    made.hosts.push_back({kCaller});
  }
  return made;
}

/// By how many times wires carry less than they do, and hosts compute more slowly.
struct Slowed {
  std::vector<double> wires;
  std::vector<double> hosts;
};

/// Classes of hosts, and the ways between them.
cost::Site site_of(Classes classes, const Network& network, const Slowed& slowed,
                   bool with_latency) {
  for (std::size_t c = 0; c < classes.classes.size(); ++c) {
    double most = 1;
    for (const int host : classes.hosts[c]) {
      if (host != kCaller) most = std::max(most, slowed.hosts[at(host)]);
    }
    classes.classes[c].share /= most;
  }
  classes.hosts.push_back({kCaller});
  cost::Site site{std::move(classes.classes), {}};
  for (const auto& from : classes.hosts) {
    auto& row = site.links.emplace_back();
    for (const auto& to : classes.hosts) {
      const bool same_class = &from == &to && from.size() > 1;
      const int a = from.front(), b = same_class ? to[1] : to.front();
      auto link = network.way(a, b);
      if (!with_latency) link.latency = 0;
      for (const int wire : network.wires(a, b)) {
        link.bandwidth = std::min(link.bandwidth,
                                  network.all_wires()[at(wire)].bandwidth / slowed.wires[at(wire)]);
      }
      row.push_back(link);
    }
  }
  return site;
}

// --- Wires ----------------------------------------------------------------------------------

double busiest(const std::vector<WireLoad>& wires) {
  return wires.empty() ? 0 : wires.front().seconds;
}

/// The period with what wires need, and what binds it.
void count_wires(planner::Answer& answer, const std::vector<WireLoad>& wires) {
  using Kind = planner::Binding::Kind;
  const double seconds = busiest(wires);
  // Of a device whose only way is a wire that none shares, the wire says more than the device; the
  // hand-over of a tensor is no part of the wire's time.
  constexpr double kNearly = 0.99;
  const bool moving = answer.binding.kind == Kind::kIn || answer.binding.kind == Kind::kOut;
  const double least = answer.evaluation.period * (moving ? kNearly : 1);
  if (seconds > 0 && seconds >= least) {
    answer.evaluation.period = std::max(answer.evaluation.period, seconds);
    answer.binding = {Kind::kLink, wires.front().name, ""};
  }
  answer.cost = answer.evaluation.period;
}

class Planning {
 public:
  Planning(const graph::Graph& graph, const Hosts& hosts, const Known& known,
           const SitePlanOptions& options)
      : graph_(graph),
        hosts_(hosts),
        options_(options),
        network_(hosts, known.links),
        known_(known) {}

  Result<SiteAnswer> run() {
    PENSTOCK_TRY(classes_, classes_of(hosts_, network_, known_, options_.costs));
    PENSTOCK_TRY(problem_, problem_with(as_they_are()));
    const bool throughput = options_.search.goal == planner::Goal::kThroughput;
    const planner::Budget budget(options_.search.seconds, options_.search.interrupted);
    auto search = options_.search;
    if (throughput) search.seconds /= 2;
    PENSTOCK_TRY(auto answer, planner::solve(problem_, search));
    SiteAnswer found{problem_, std::move(answer), {}};
    add_one_host(found.answer);
    say_why_not(found.answer);
    if (!throughput) {
      found.wires = loads(found.answer.split);
      return found;
    }
    const auto others = split_answers(found.answer, budget);
    choose(found, others);
    return found;
  }

 private:
  [[nodiscard]] Slowed as_they_are() const {
    return {std::vector<double>(network_.all_wires().size(), 1),
            std::vector<double>(hosts_.hosts.size(), 1)};
  }

  Result<Problem> problem_with(const Slowed& slowed) {
    const bool with_latency = options_.search.goal == planner::Goal::kLatency ||
                              options_.search.latency_cap < planner::kInfinite;
    auto site = site_of(classes_, network_, slowed, with_latency);
    return cost::problem_of(graph_, site, options_.costs);
  }

  [[nodiscard]] std::vector<WireLoad> loads(const Split& split) const {
    return loads_of(problem_, split, hosts_, network_);
  }

  /// The period of a split with its wires; infinite where it is none.
  [[nodiscard]] double period_of(const Split& split) const {
    const auto found = planner::evaluate(problem_, split);
    if (!found.violations.empty() || !planner::keeps_cap(options_.search, found)) {
      return planner::kInfinite;
    }
    return std::max(found.period, busiest(loads(split)));
  }

  /// What of the split is busier than its period says is slowed down by as much.
  void slow_down(const Split& split, const std::vector<WireLoad>& wires, Slowed& slowed) const {
    const auto evaluation = planner::evaluate(problem_, split);
    const double best = evaluation.period;
    const auto load = [&](const std::string& name) {
      const auto found = std::ranges::find(wires, name, &WireLoad::name);
      return found == wires.end() ? 0 : found->seconds;
    };
    for (std::size_t i = 0; i < slowed.wires.size(); ++i) {
      const double seconds = load(network_.all_wires()[i].name);
      if (seconds > best) slowed.wires[i] *= 1.05 * seconds / best;
    }
    for (std::size_t h = 0; h < slowed.hosts.size(); ++h) {
      const double seconds = load(cpus_of(hosts_.hosts[h]));
      const double computed = most_computed(evaluation, hosts_.hosts[h]);
      if (seconds > best && computed > 0) slowed.hosts[h] = std::max(seconds / computed, 1.0);
    }
  }

  /// Of the host's devices the one that computes the longest.
  [[nodiscard]] double most_computed(const planner::Evaluation& evaluation,
                                     const Host& host) const {
    double most = 0;
    int index = 0;
    for (const auto& type : problem_.types) {
      for (const auto& name : type.devices) {
        const double computed = evaluation.devices[at(index++)].compute;
        const auto device = device::parse_device(name);
        if (device && device->host == host.address) most = std::max(most, computed);
      }
    }
    return most;
  }

  /// Splits that were found where what is too busy was said to be slower.
  std::vector<Split> split_answers(const planner::Answer& first, const planner::Budget& budget) {
    std::vector<Split> found;
    auto slowed = as_they_are();
    auto split = first.split;
    constexpr int kRounds = 5;
    for (int round = 0; round < kRounds && !budget.over(); ++round) {
      const double best = planner::evaluate(problem_, split).period;
      const auto wires = loads(split);
      if (busiest(wires) <= best) break;
      slow_down(split, wires, slowed);
      auto search = options_.search;
      search.seconds = budget.left() / (kRounds - round);
      search.report = nullptr;
      auto problem = problem_with(slowed);
      if (!problem) break;
      auto answer = planner::solve_unexplained(*problem, search);
      if (!answer) break;
      split = answer->split;
      found.push_back(split);
    }
    return found;
  }

  /// The best of all that are known, whole networks on one host among them.
  void choose(SiteAnswer& found, const std::vector<Split>& others) {
    auto& answer = found.answer;
    auto candidates = others;
    for (auto& baseline : answer.baselines) {
      if (!baseline.competes() || !baseline.split) continue;
      baseline.evaluation.period =
          std::max(baseline.evaluation.period, busiest(loads(*baseline.split)));
      candidates.push_back(*baseline.split);
    }
    if (answer.runner_up) candidates.push_back(answer.runner_up->split);
    double best = period_of(answer.split);
    for (const auto& split : candidates) {
      const double period = period_of(split);
      if (period >= best) continue;
      best = period;
      planner::replace_split(problem_, options_.search, split, answer);
    }
    found.wires = loads(answer.split);
    answer.evaluation = planner::evaluate(problem_, answer.split);
    answer.binding =
        planner::find_binding(problem_, options_.search, answer.split, answer.evaluation);
    if (answer.runner_up) answer.runner_up->cost = period_of(answer.runner_up->split);
    count_wires(answer, found.wires);
    planner::settle(answer);
  }

  /// The whole network on the best device: the planner's own baseline has the caller's ends on it.
  void add_one_host(planner::Answer& answer) const {
    const auto single =
        std::ranges::find(answer.baselines, "single_device", &planner::Baseline::name);
    if (single == answer.baselines.end()) return;
    const auto sends = end_of(cost::kCallerSends), gets = end_of(cost::kCallerGets);
    const int nodes = static_cast<int>(graph_.nodes.size());
    int device = -1;
    for (std::size_t t = 0; t < problem_.types.size(); ++t) {
      for (std::size_t i = 0; i < problem_.types[t].devices.size(); ++i) {
        ++device;
        if (device == sends.device || device == gets.device) continue;
        planner::Stage whole{{}, mode_of(t), {device}};
        for (int node = 0; node < nodes; ++node) whole.groups.push_back(node);
        Split split{{{{nodes}, sends.mode, {sends.device}},
                     std::move(whole),
                     {{nodes + 1}, gets.mode, {gets.device}}}};
        planner::Baseline made{"single_device", split, planner::evaluate(problem_, split), true,
                               ""};
        const auto& violations = made.evaluation.violations;
        if (!violations.empty()) made.why_not = violations.front();
        const bool better = made.why_not.empty() &&
                            (!single->competes() || period_of(split) < period_of(*single->split));
        if (better) *single = std::move(made);
      }
    }
  }

  /// The caller's ends are devices and groups of the problem, of which nobody wrote anything.
  void say_why_not(planner::Answer& answer) const {
    const auto sends = end_of(cost::kCallerSends), gets = end_of(cost::kCallerGets);
    const int inputs = static_cast<int>(graph_.nodes.size()), outputs = inputs + 1;
    const auto mixes_ends = [&](const planner::Stage& stage) {
      return std::ranges::any_of(stage.devices, [&](int device) {
        return std::ranges::any_of(stage.groups, [&](int group) {
          return (group == inputs) != (device == sends.device) ||
                 (group == outputs) != (device == gets.device);
        });
      });
    };
    for (auto& baseline : answer.baselines) {
      if (baseline.why_not.empty() || !baseline.split) continue;
      if (!std::ranges::any_of(baseline.split->stages, mixes_ends)) continue;
      baseline.why_not =
          "over hosts there is none: it gives work to every device, and the caller's cable, which "
          "counts as one, computes nothing";
    }
  }

  struct End {
    int device = 0, mode = 0;
  };
  /// The device of this name, and its type's mode.
  [[nodiscard]] End end_of(std::string_view name) const {
    int device = 0;
    for (std::size_t t = 0; t < problem_.types.size(); ++t) {
      for (const auto& each : problem_.types[t].devices) {
        if (each == name) return {device, mode_of(t)};
        ++device;
      }
    }
    return {};
  }
  [[nodiscard]] int mode_of(std::size_t type) const {
    const auto found =
        std::ranges::find(problem_.modes, static_cast<int>(type), &planner::Mode::type);
    return static_cast<int>(found - problem_.modes.begin());
  }

  const graph::Graph& graph_;
  const Hosts& hosts_;
  const SitePlanOptions& options_;
  const Network network_;
  const Known& known_;
  Classes classes_;
  Problem problem_;
};

}  // namespace

Result<SiteAnswer> plan_over(const graph::Graph& graph, const Hosts& hosts, const Known& known,
                             const SitePlanOptions& options) {
  return Planning(graph, hosts, known, options).run();
}

}  // namespace penstock::hosts
