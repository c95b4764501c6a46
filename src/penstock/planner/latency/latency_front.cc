// Keeps the set of blocks as bits with an exclusive-or hash, and lists the blocks that are ready.
#include "penstock/planner/latency/latency_front.h"

#include <algorithm>

#include "penstock/planner/problem/index.h"

namespace penstock::planner {

LatencyFront::LatencyFront(const LatencyModel& of, const LatencyIdeals& among)
    : model(of), ideals(among), place(at(of.groups), kOutside) {}

void LatencyFront::enter(int to) {
  for (const int g : border_) place[at(g)] = kOutside;
  const auto& at_ideal = ideals.ideal(to);
  ideal = to;
  labels = at_ideal.labels;
  blocks = at_ideal.blocks;
  key = at_ideal.key;
  size = at_ideal.size;
  border_ = at_ideal.border;
  for (std::size_t i = 0; i < border_.size(); ++i) place[at(border_[i])] = static_cast<int>(i);
}

void LatencyFront::change(int block, int more) {
  const auto b = static_cast<unsigned>(block);
  blocks[b / 64] ^= std::uint64_t{1} << (b % 64);
  key ^= ideals.key(block);
  size += more;
}

bool LatencyFront::has(int block) const {
  const auto b = static_cast<unsigned>(block);
  return ((blocks[b / 64] >> (b % 64)) & 1U) != 0;
}

bool LatencyFront::ready(int block) const {
  return std::ranges::all_of(model.before[block], [&](int b) { return has(b); });
}

std::vector<int> LatencyFront::available() const {
  std::vector<int> found;
  for (int b = 0; b < model.blocks; ++b) {
    if (!has(b) && ready(b)) found.push_back(b);
  }
  return found;
}

LatencyLabel LatencyFront::follow(int parent, int to, int call) const {
  LatencyLabel made;
  made.code = ideals.label(parent).code;
  made.done = ideals.label(parent).done;
  made.bound = ideals.label(parent).bound;
  made.ideal = to;
  made.parent = parent;
  made.call = call;
  return made;
}

}  // namespace penstock::planner
