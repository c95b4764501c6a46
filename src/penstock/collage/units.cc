// Units are the best cuts of one depth-first order, by dynamic programming over priced cut places.
#include "penstock/collage/units.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "penstock/collage/wiring.h"

namespace penstock::collage {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::Value;

constexpr std::size_t kMostCutPlaces = 700;  // Where the dynamic program may cut.
// Beside the sum of squares of the units' shares of the time, which even units make least: what a
// second and each further value at a boundary counts, and what time is worth that a backend loses
// because it takes its unit only in part, and each piece of a unit that does not touch the others.
// Shares of the whole time.
constexpr double kFurtherValue = 2e-3;
constexpr double kLostTime = 0.5;
constexpr double kPiece = 5e-3;

/// A topological order that follows each branch to its end before it begins the next.
std::vector<std::size_t> depth_first(const Wiring& wiring) {
  std::vector<std::size_t> waits(wiring.size()), stack, order;
  for (std::size_t i = wiring.size(); i-- > 0;) {
    waits[i] = wiring.producers(i).size();
    if (waits[i] == 0) stack.push_back(i);
  }
  while (!stack.empty()) {
    const auto node = stack.back();
    stack.pop_back();
    order.push_back(node);
    const auto& readers = wiring.readers(node);
    for (auto reader = readers.rbegin(); reader != readers.rend(); ++reader) {
      if (--waits[*reader] == 0) stack.push_back(*reader);
    }
  }
  return order;
}

/// Cuts of one order. A place p is before the node at position p.
class Cutter {
 public:
  Cutter(const Graph& graph, std::span<const double> seconds, std::span<const NodeSet> supported,
         const UnitLimits& limits);
  /// Ascending; the last is the end.
  std::vector<std::size_t> best_ends();
  [[nodiscard]] const std::vector<std::size_t>& order() const { return order_; }

 private:
  void weigh(std::span<const double> seconds, std::span<const NodeSet> supported);
  void price_cuts();
  [[nodiscard]] std::vector<std::size_t> places() const;
  [[nodiscard]] std::vector<int> pieces(std::size_t begin) const;
  [[nodiscard]] double unit_cost(std::size_t begin, std::size_t end) const;

  struct Support {
    std::vector<double> share;  // Of the time that the backend takes, up to each place.
    std::vector<int> missing;   // Nodes that it does not, up to each place.
  };

  const Graph* graph_;
  const UnitLimits* limits_;
  Wiring wiring_;
  std::vector<std::size_t> order_;
  std::vector<std::size_t> position_;  // Of each node in the order.
  double total_ = 0;
  std::vector<double> share_;  // Of the time, up to each place.
  std::vector<Support> supports_;
  std::vector<double> cuts_;  // Price of each place; infinite: never there.
};

Cutter::Cutter(const Graph& graph, std::span<const double> seconds,
               std::span<const NodeSet> supported, const UnitLimits& limits)
    : graph_(&graph),
      limits_(&limits),
      wiring_(Wiring::of(graph)),
      order_(depth_first(wiring_)),
      position_(order_.size()) {
  for (std::size_t p = 0; p < order_.size(); ++p) position_[order_[p]] = p;
  weigh(seconds, supported);
  price_cuts();
}

void Cutter::weigh(std::span<const double> seconds, std::span<const NodeSet> supported) {
  const auto weight = [&](std::size_t node) {
    const double one = node < seconds.size() ? seconds[node] : 0;
    return std::isfinite(one) && one > 0 ? one : 0;
  };
  for (const auto node : order_) total_ += weight(node);
  const bool even = total_ == 0;  // Nothing is known: all nodes count the same.
  if (even) total_ = static_cast<double>(order_.size());
  share_.assign(1, 0);
  supports_.assign(supported.size(), {{0}, {0}});
  for (const auto node : order_) {
    const double own = (even ? 1 : weight(node)) / total_;
    share_.push_back(share_.back() + own);
    for (std::size_t b = 0; b < supported.size(); ++b) {
      const bool takes = supported[b].has(node);
      auto& support = supports_[b];
      support.share.push_back(support.share.back() + (takes ? own : 0));
      support.missing.push_back(support.missing.back() + (takes ? 0 : 1));
    }
  }
}

void Cutter::price_cuts() {
  const auto count = order_.size();
  std::vector<double> bytes(count + 1, 0), values(count + 1, 0), never(count + 1, 0);
  for (const Value& value : graph_->values) {
    if (!value.producer || value.consumers.empty()) continue;
    std::size_t last = 0;
    for (const auto consumer : value.consumers) {
      last = std::max(last, position_[index(consumer)]);
    }
    const auto add = [&](std::vector<double>& sums, double by) {
      sums[position_[index(*value.producer)] + 1] += by;
      sums[last + 1] -= by;
    };
    add(bytes, static_cast<double>(value.type.max_bytes().value_or(0)));
    add(values, 1);
    if (value.type.kind != Type::Kind::kTensor) add(never, 1);
  }
  for (auto* const sums : {&bytes, &values, &never}) {
    std::partial_sum(sums->begin(), sums->end(), sums->begin());
  }
  cuts_.assign(count + 1, 0);
  for (std::size_t p = 1; p < count; ++p) {
    const double seconds =
        bytes[p] * limits_->seconds_per_byte + values[p] * limits_->seconds_per_value;
    cuts_[p] =
        never[p] > 0 ? kInfinite : seconds / total_ + kFurtherValue * std::max(values[p] - 1, 0.0);
  }
}

/// All places, or the cheapest of each of many stretches of about equal time and length.
std::vector<std::size_t> Cutter::places() const {
  const auto count = order_.size();
  std::vector<std::size_t> kept{0};
  std::size_t stretch = 0;
  for (std::size_t p = 1; p < count; ++p) {
    if (cuts_[p] == kInfinite) continue;
    const double done = (share_[p] + static_cast<double>(p) / static_cast<double>(count)) / 2;
    const auto now = count <= kMostCutPlaces
                         ? p
                         : 1 + static_cast<std::size_t>(done * static_cast<double>(kMostCutPlaces));
    if (now != stretch) {
      kept.push_back(p);
    } else if (cuts_[p] < cuts_[kept.back()]) {
      kept.back() = p;
    }
    stretch = now;
  }
  kept.push_back(count);
  return kept;
}

/// Of a unit from `begin` up to each place: how many pieces do not touch each other.
std::vector<int> Cutter::pieces(std::size_t begin) const {
  const auto count = order_.size();
  std::vector<int> pieces(count + 1, 0);
  std::vector<std::size_t> leader(count);
  std::iota(leader.begin(), leader.end(), std::size_t{0});
  const auto find = [&](std::size_t p) {
    while (leader[p] != p) p = leader[p] = leader[leader[p]];
    return p;
  };
  for (std::size_t p = begin; p < count; ++p) {
    pieces[p + 1] = pieces[p] + 1;
    for (const auto from : wiring_.producers(order_[p])) {
      if (position_[from] < begin) continue;
      const auto other = find(position_[from]);
      if (other == p) continue;
      leader[other] = p;
      --pieces[p + 1];
    }
  }
  return pieces;
}

double Cutter::unit_cost(std::size_t begin, std::size_t end) const {
  const double share = share_[end] - share_[begin];
  double cost = share * share + cuts_[begin];
  for (const auto& support : supports_) {
    if (support.missing[end] == support.missing[begin]) continue;
    cost += kLostTime * (support.share[end] - support.share[begin]);
  }
  return cost;
}

std::vector<std::size_t> Cutter::best_ends() {
  const auto where = places();
  const auto count = where.size();
  const auto most = std::clamp<std::size_t>(limits_->max_units, 1, count - 1);
  // best[k][p]: of k + 1 units up to place p; from[k][p]: where the last of them begins.
  std::vector<std::vector<double>> best(most, std::vector<double>(count, kInfinite));
  std::vector<std::vector<std::size_t>> from(most, std::vector<std::size_t>(count, 0));
  for (std::size_t q = 0; q + 1 < count; ++q) {  // best[..][q] is final: all before it is done.
    const auto pieces_to = pieces(where[q]);
    for (std::size_t p = q + 1; p < count; ++p) {
      const double last =
          unit_cost(where[q], where[p]) + kPiece * std::max(pieces_to[where[p]] - 1, 0);
      if (q == 0) best[0][p] = last;
      for (std::size_t k = 1; k < most && q > 0; ++k) {
        if (best[k - 1][q] + last >= best[k][p]) continue;
        best[k][p] = best[k - 1][q] + last;
        from[k][p] = q;
      }
    }
  }
  std::size_t units = 0;
  for (std::size_t k = 1; k < most; ++k) {
    if (best[k].back() < best[units].back()) units = k;
  }
  std::vector<std::size_t> ends;
  for (std::size_t p = count - 1, k = units + 1; k-- > 0; p = from[k][p]) ends.push_back(where[p]);
  std::ranges::reverse(ends);
  return ends;
}

int unit_of(const Units& units, NodeId node) {
  return units.of_node[index(node)];
}

}  // namespace

Units each_node(const Graph& graph) {
  Units units;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    units.nodes.push_back({static_cast<NodeId>(i)});
    units.of_node.push_back(static_cast<int>(i));
  }
  return units;
}

Units make_units(const Graph& graph, std::span<const double> seconds,
                 std::span<const NodeSet> supported, const UnitLimits& limits) {
  Units units;
  units.of_node.resize(graph.nodes.size());
  if (graph.nodes.empty()) return units;
  Cutter cutter(graph, seconds, supported, limits);
  std::size_t begin = 0;
  for (const auto end : cutter.best_ends()) {
    auto& members = units.nodes.emplace_back();
    for (; begin < end; ++begin) {
      const auto node = cutter.order()[begin];
      units.of_node[node] = static_cast<int>(units.nodes.size()) - 1;
      members.push_back(static_cast<NodeId>(node));
    }
    std::ranges::sort(members);
  }
  return units;
}

CoverProblem cover_problem(const Graph& graph, const Units& units) {
  CoverProblem problem;
  problem.nodes = static_cast<int>(units.size());
  for (const auto& members : units.nodes) {
    const auto& first = graph.node(members.front()).name;
    const auto& last = graph.node(members.back()).name;
    problem.names.push_back(members.size() == 1 ? first : concat(first, "' to '", last));
  }
  for (const Value& value : graph.values) {
    if (value.constant && !value.is_parameter) continue;
    CoverValue between;
    between.producer = value.producer ? unit_of(units, *value.producer) : -1;
    between.leaves = value.is_output;
    between.bytes = static_cast<double>(value.type.max_bytes().value_or(0));
    for (const auto consumer : value.consumers) {
      const int unit = unit_of(units, consumer);
      if (unit != between.producer) between.consumers.push_back(unit);
    }
    std::ranges::sort(between.consumers);
    between.consumers.erase(std::ranges::unique(between.consumers).begin(),
                            between.consumers.end());
    if (between.leaves || !between.consumers.empty()) problem.values.push_back(std::move(between));
  }
  return problem;
}

}  // namespace penstock::collage
