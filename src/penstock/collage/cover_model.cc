// Checks the problem, tabulates hand-over costs, and bounds the rest by node prices (LP duality).
#include "penstock/collage/cover_model.h"

#include <algorithm>
#include <cmath>

namespace penstock::collage {
namespace {

constexpr std::size_t kMostPlaces = 64;

std::size_t size(int number) {
  return static_cast<std::size_t>(number);
}

/// Vigna's splitmix64: keys whose sums tell sets of parts apart.
std::uint64_t mixed(std::uint64_t i) {
  i += 0x9e3779b97f4a7c15U;
  i = (i ^ (i >> 30U)) * 0xbf58476d1ce4e5b9U;
  i = (i ^ (i >> 27U)) * 0x94d049bb133111ebU;
  return i ^ (i >> 31U);
}

Status check_values(const CoverProblem& problem) {
  for (std::size_t v = 0; v < problem.values.size(); ++v) {
    const auto& value = problem.values[v];
    if (!(value.bytes >= 0) || !std::isfinite(value.bytes)) {
      return invalid_argument("value ", v, ": expected bytes >= 0, found ", value.bytes);
    }
    if (value.producer < -1 || value.producer >= problem.nodes) {
      return invalid_argument("value ", v, ": its producer ", value.producer, " is no node");
    }
    for (const int consumer : value.consumers) {
      if (consumer > value.producer && consumer >= 0 && consumer < problem.nodes) continue;
      return invalid_argument("value ", v, ": its consumer ", consumer,
                              " is no node behind its producer ", value.producer);
    }
  }
  return {};
}

Status check_candidates(const CoverProblem& problem) {
  const NodeSet none(size(problem.nodes));
  for (std::size_t c = 0; c < problem.candidates.size(); ++c) {
    const auto& candidate = problem.candidates[c];
    if (candidate.cost < 0) {
      return invalid_argument("candidate ", c, ": expected a cost >= 0, found ", candidate.cost);
    }
    bool fits = candidate.nodes.same_size(none) && !candidate.nodes.empty();
    candidate.nodes.each([&](std::size_t node) { fits = fits && node < size(problem.nodes); });
    if (!fits) return invalid_argument("candidate ", c, ": expected nodes below ", problem.nodes);
    if (candidate.place.backend < 0) {
      return invalid_argument("candidate ", c, ": expected a backend >= 0, found ",
                              candidate.place.backend);
    }
  }
  return {};
}

}  // namespace

Result<CoverModel> CoverModel::create(const CoverProblem& problem) {
  if (problem.nodes < 0) return invalid_argument("expected nodes >= 0, found ", problem.nodes);
  PENSTOCK_CHECK_OK(check_values(problem));
  PENSTOCK_CHECK_OK(check_candidates(problem));
  CoverModel model;
  model.problem_ = &problem;
  model.nodes_ = size(problem.nodes);
  model.set_places();
  if (model.places_.size() > kMostPlaces) {
    return invalid_argument("expected at most ", kMostPlaces - 1,
                            " pairs of backend and layout, found ", model.places_.size() - 1);
  }
  for (const auto& value : problem.values) {
    model.consumers_.emplace_back(model.nodes_);
    for (const int consumer : value.consumers) model.consumers_.back().add(size(consumer));
  }
  model.set_parts();
  model.set_hand_overs();
  if (model.negative_) {
    return invalid_argument("expected transitions of cost >= 0, found a negative one");
  }
  model.set_prices();
  return model;
}

void CoverModel::set_places() {
  for (const auto& candidate : problem_->candidates) places_.push_back(candidate.place);
  places_.emplace_back();
  std::ranges::sort(places_);  // Outside has the lowest backend.
  places_.erase(std::ranges::unique(places_).begin(), places_.end());
}

/// What a candidate reads and makes, and what its own outputs cost.
Part CoverModel::part_of_candidate(int c) {
  const auto& candidate = problem_->candidates[size(c)];
  Part part;
  part.candidate = c;
  part.place =
      static_cast<int>(std::ranges::lower_bound(places_, candidate.place) - places_.begin());
  part.cost = candidate.cost;
  part.nodes = candidate.nodes;
  part.before = NodeSet(nodes_);
  part.key = mixed(size(c));
  for (std::size_t v = 0; v < problem_->values.size(); ++v) {
    const auto& value = problem_->values[v];
    const auto id = static_cast<int>(v);
    if (value.producer < 0 || !part.nodes.has(size(value.producer))) {
      if (!consumers_[v].intersects(part.nodes)) continue;
      part.reads.push_back(id);
      if (value.producer >= 0) part.before.add(size(value.producer));
      continue;
    }
    if (!consumers_[v].is_subset_of(part.nodes)) part.makes.push_back(id);
    if (!value.leaves || !problem_->transition) continue;
    const double cost = problem_->transition(candidate.place, Place(), value.bytes);
    negative_ = negative_ || cost < 0;
    part.cost += cost;
  }
  return part;
}

void CoverModel::set_parts() {
  part_of_.assign(problem_->candidates.size(), -1);
  parts_with_.resize(nodes_);
  for (std::size_t c = 0; c < problem_->candidates.size(); ++c) {
    if (!std::isfinite(problem_->candidates[c].cost)) continue;
    auto part = part_of_candidate(static_cast<int>(c));
    if (!std::isfinite(part.cost)) continue;
    const auto id = static_cast<int>(parts_.size());
    part_of_[c] = id;
    part.nodes.each([&](std::size_t node) { parts_with_[node].push_back(id); });
    parts_.push_back(std::move(part));
  }
}

double CoverModel::hand_over(int value, int from, int to) const {
  return hand_overs_[(size(value) * places_.size() + size(from)) * places_.size() + size(to)];
}

void CoverModel::set_hand_overs() {
  const auto values = problem_->values.size(), places = places_.size();
  hand_overs_.assign(values * places * places, 0);
  readers_.assign(values, 0);
  same_.assign(values * places, 0);
  for (const auto& part : parts_) {
    for (const int v : part.reads) readers_[size(v)] |= std::uint64_t{1} << size(part.place);
  }
  for (std::size_t v = 0; v < values; ++v) {
    auto* const table = &hand_overs_[v * places * places];
    for (std::size_t from = 0; from < places && problem_->transition; ++from) {
      for (std::size_t to = 0; to < places; ++to) {
        if ((readers_[v] >> to & 1U) == 0) continue;
        const double cost =
            problem_->transition(places_[from], places_[to], problem_->values[v].bytes);
        negative_ = negative_ || cost < 0;
        table[from * places + to] = std::isnan(cost) ? kInfinite : cost;
      }
    }
    for (std::size_t from = 0; from < places; ++from) {
      auto& first = same_[v * places + from];
      while (!std::equal(table + from * places, table + (from + 1) * places,
                         table + size(first) * places)) {
        ++first;
      }
    }
  }
}

/// A feasible dual of the covering problem: where no part costs less than the prices of its nodes
/// together, no cover of the rest costs less than those of its nodes. First each node's least share
/// of a part, then, node by node, as much more as every part allows.
void CoverModel::set_prices() {
  prices_.assign(nodes_, 0);
  std::vector<double> slack;
  slack.reserve(parts_.size());
  for (const auto& part : parts_) slack.push_back(part.cost);
  const auto raise = [&](std::size_t node, double by) {
    prices_[node] += by;
    for (const int p : parts_with_[node]) slack[size(p)] = std::max(slack[size(p)] - by, 0.0);
  };
  std::vector<double> shares(nodes_, kInfinite);
  for (std::size_t node = 0; node < nodes_; ++node) {
    for (const int p : parts_with_[node]) {
      const auto count = static_cast<double>(parts_[size(p)].nodes.count());
      shares[node] = std::min(shares[node], parts_[size(p)].cost / count);
    }
  }
  for (std::size_t node = 0; node < nodes_; ++node) {
    if (shares[node] < kInfinite) raise(node, shares[node]);
  }
  for (std::size_t node = 0; node < nodes_; ++node) {
    double most = kInfinite;
    for (const int p : parts_with_[node]) most = std::min(most, slack[size(p)]);
    if (most < kInfinite) raise(node, most);
  }
  // Sums of prices may exceed a part's cost by rounding: stay below.
  for (double& price : prices_) price *= 1 - 1e-9;
}

State CoverModel::start() const {
  State state{NodeSet(nodes_), {}};
  for (std::size_t v = 0; v < problem_->values.size(); ++v) {
    if (problem_->values[v].producer < 0) remember(state.live, {static_cast<int>(v), 0, 0});
  }
  return state;
}

/// Keeps a value as long as reading it may still cost something.
void CoverModel::remember(std::vector<Live>& live, Live entry) const {
  const auto places = places_.size();
  for (std::size_t to = 0; to < places; ++to) {
    const auto bit = std::uint64_t{1} << to;
    if (hand_over(entry.value, entry.place, static_cast<int>(to)) == 0) entry.handed |= bit;
  }
  if ((readers_[size(entry.value)] & ~entry.handed) == 0) return;
  entry.handed &= readers_[size(entry.value)];
  entry.place = same_[size(entry.value) * places + size(entry.place)];
  live.push_back(entry);
}

/// In any cover without cycles, the part with the first hole, or one that it has to wait for, can
/// come next. Which parts those might be is followed from the hole through all candidates.
std::vector<int> CoverModel::next(const State& state) const {
  std::vector<int> found;
  NodeSet seen(nodes_);
  std::vector<std::size_t> work{state.covered.first_hole()};
  seen.add(work.front());
  while (!work.empty()) {
    const auto node = work.back();
    work.pop_back();
    for (const int p : parts_with_[node]) {
      const auto& part = parts_[size(p)];
      if (part.nodes.intersects(state.covered)) continue;
      if (part.before.is_subset_of(state.covered)) {
        found.push_back(p);
        continue;
      }
      (part.before - state.covered).each([&](std::size_t missing) {
        if (seen.has(missing)) return;
        seen.add(missing);
        work.push_back(missing);
      });
    }
  }
  std::ranges::sort(found);
  found.erase(std::ranges::unique(found).begin(), found.end());
  return found;
}

std::optional<double> CoverModel::add(State& state, const Part& part) const {
  double seconds = part.cost;
  const auto bit = std::uint64_t{1} << size(part.place);
  state.covered |= part.nodes;
  auto made = part.makes.begin();
  std::vector<Live> live;
  live.reserve(state.live.size() + part.makes.size());
  const auto make_before = [&](int value) {
    for (; made != part.makes.end() && *made < value; ++made) {
      remember(live, {*made, part.place, 0});
    }
  };
  for (auto entry : state.live) {
    make_before(entry.value);
    if (std::ranges::binary_search(part.reads, entry.value)) {
      if ((entry.handed & bit) == 0) seconds += hand_over(entry.value, entry.place, part.place);
      entry.handed |= bit;
      if (consumers_[size(entry.value)].is_subset_of(state.covered)) continue;
    }
    remember(live, entry);
  }
  make_before(static_cast<int>(problem_->values.size()));
  state.live = std::move(live);
  if (!std::isfinite(seconds)) return std::nullopt;
  return seconds;
}

double CoverModel::bound(const State& state) const {
  double sum = 0;
  for (std::size_t node = 0; node < nodes_; ++node) {
    if (!state.covered.has(node)) sum += prices_[node];
  }
  return sum;
}

Result<Cover> CoverModel::evaluate(std::vector<int> candidates) const {
  std::ranges::sort(candidates);
  NodeSet covered(nodes_);
  for (const int c : candidates) {
    if (c < 0 || size(c) >= part_of_.size()) return invalid_argument("no candidate ", c);
    if (part_of(c) < 0) return invalid_argument("candidate ", c, " has no finite cost");
    const auto& nodes = parts_[size(part_of(c))].nodes;
    if (nodes.intersects(covered)) {
      return invalid_argument(name_of((nodes & covered).first()), " is covered twice");
    }
    covered |= nodes;
  }
  if (covered.first_hole() < nodes_) {
    return invalid_argument(name_of(covered.first_hole()), " is not covered");
  }
  Cover cover{{}, 0};
  State state = start();
  while (!candidates.empty()) {
    const auto ready = std::ranges::find_if(candidates, [&](int c) {
      return parts_[size(part_of(c))].before.is_subset_of(state.covered);
    });
    if (ready == candidates.end()) {
      return invalid_argument("candidates ",
                              join(candidates, ", ", [](int c) { return concat(c); }),
                              " wait for each other in a cycle");
    }
    const auto seconds = add(state, parts_[size(part_of(*ready))]);
    if (!seconds) return invalid_argument("candidate ", *ready, " cannot be handed what it reads");
    cover.cost += *seconds;
    cover.candidates.push_back(*ready);
    candidates.erase(ready);
  }
  return cover;
}

std::string CoverModel::name_of(std::size_t node) const {
  if (node < problem_->names.size()) return concat("node '", problem_->names[node], "'");
  return concat("node ", node);
}

Error CoverModel::why_none(const NodeSet& reached) const {
  for (std::size_t node = 0; node < nodes_; ++node) {
    if (!parts_with_[node].empty()) continue;
    int unknown = 0, infinite = 0;
    for (const auto& candidate : problem_->candidates) {
      if (!candidate.nodes.has(node)) continue;
      std::isnan(candidate.cost) ? ++unknown : ++infinite;
    }
    if (unknown + infinite == 0) return not_found(name_of(node), ": no backend takes it");
    return not_found(name_of(node), ": no backend runs it; of the candidates that hold it, ",
                     infinite, " cannot run and ", unknown, " have no known cost");
  }
  return not_found(name_of(reached.first_hole()),
                   ": no set of candidates covers it and every other node once without waiting for "
                   "each other in a cycle, or values cannot be handed over");
}

}  // namespace penstock::collage
