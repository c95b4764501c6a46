// Equal states become one by hashing; each keeps the K cheapest sets of parts that lead to it.
#include "penstock/collage/cover_tree.h"

#include <algorithm>

namespace penstock::collage {

std::size_t CoverTree::Hash::operator()(int id) const {
  const auto& state = (*records)[static_cast<std::size_t>(id)].state;
  std::size_t sum = NodeSet::Hash()(state.covered);
  for (const auto& live : state.live) {
    sum = (sum ^ static_cast<std::size_t>(live.value)) * 0xff51afd7ed558ccdU;
    sum = (sum ^ static_cast<std::size_t>(live.place) ^ live.handed) * 0xc4ceb9fe1a85ec53U;
  }
  return sum;
}

bool CoverTree::Equal::operator()(int a, int b) const {
  return (*records)[static_cast<std::size_t>(a)].state ==
         (*records)[static_cast<std::size_t>(b)].state;
}

CoverTree::CoverTree(const CoverModel& model, int covers)
    : model_(&model),
      covers_(static_cast<std::size_t>(std::max(covers, 1))),
      ids_(16, Hash{&records_}, Equal{&records_}) {
  Step start;
  start.state = intern(model.start());
  start.bound = records_.front().bound;
  steps_.push_back(start);
}

int CoverTree::intern(State state) {
  const auto id = static_cast<int>(records_.size());
  records_.push_back({std::move(state), 0, {}});
  const auto [at, added] = ids_.insert(id);
  if (!added) {
    records_.pop_back();
    return *at;
  }
  records_.back().bound = model_->bound(records_.back().state);
  return id;
}

bool CoverTree::admit(Record& record, const Cost& cost, std::uint64_t key) const {
  auto& best = record.best;
  if (std::ranges::find(best, key, &std::pair<Cost, std::uint64_t>::second) != best.end()) {
    return false;
  }
  if (best.size() == covers_) {
    if (best.back().first <= cost) return false;
    best.pop_back();
  }
  const auto at = std::ranges::upper_bound(best, cost, {}, &std::pair<Cost, std::uint64_t>::first);
  best.insert(at, {cost, key});
  return true;
}

bool CoverTree::stale(int id) const {
  if (step(id).part < 0) return false;
  const auto& best = record_of(id).best;
  return std::ranges::find(best, step(id).key, &std::pair<Cost, std::uint64_t>::second) ==
         best.end();
}

int CoverTree::extend(int id, int part) {
  const auto& added = model_->parts()[static_cast<std::size_t>(part)];
  State state = state_of(id);
  const auto seconds = model_->add(state, added);
  if (!seconds) return -1;
  Step next;
  next.part = part;
  next.parent = id;
  next.cost = {step(id).cost.seconds + *seconds, step(id).cost.parts + 1};
  next.key = step(id).key + added.key;
  next.state = intern(std::move(state));
  auto& record = records_[static_cast<std::size_t>(next.state)];
  if (!admit(record, next.cost, next.key)) return -1;
  next.bound = next.cost.seconds + record.bound;
  steps_.push_back(next);
  return static_cast<int>(steps_.size()) - 1;
}

std::vector<int> CoverTree::candidates_of(int id) const {
  std::vector<int> list;
  for (; step(id).part >= 0; id = step(id).parent) {
    list.push_back(model_->parts()[static_cast<std::size_t>(step(id).part)].candidate);
  }
  std::ranges::reverse(list);
  return list;
}

}  // namespace penstock::collage
