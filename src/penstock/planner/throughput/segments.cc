// A beam search, one segment at a time, over the place that runs next; equal states are merged.
#include "penstock/planner/throughput/segments.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "penstock/planner/search/random.h"

namespace penstock::planner {
namespace {

constexpr int kBeamCells = 8192;  // States times groups that are looked at together.

/// Some segments, one behind the other, and what may come next.
struct State {
  std::vector<int> missing;  // [group] Groups before it that are not taken.
  std::vector<int> ready;
  std::vector<int> segments_on;  // [device]
  int place = -1;                // Of the last segment,
  int parent = -1;               // the path to the state before it,
  std::vector<int> taken;        // its groups.
  int done = 0;                  // Groups in all segments.
  std::uint64_t key = 0;         // Of the set of these.
};

/// The last segment of a state that went on.
struct Step {
  int parent = -1;
  Segment segment;
};

class Beam {
 public:
  Beam(const Lists& after, const Places& places, const std::vector<int>& place_of, int most)
      : after_(after), places_(places), place_of_(place_of), most_(most) {
    Random random(1);
    for (int g = 0; g < after.size(); ++g) keys_.push_back(random.next());
  }

  SegmentCut run() {
    std::vector<State> level{first()};
    while (!level.empty()) {
      for (auto& state : level) {
        if (state.done == after_.size()) return {path(state), false};
      }
      level = next_level(level);
    }
    return {{}, !pruned_};
  }

 private:
  State first() {
    State state;
    state.missing.assign(at(after_.size()), 0);
    state.segments_on.assign(at(places_.devices()), 0);
    for (const int g : after_.items) ++state.missing[at(g)];
    for (int g = 0; g < after_.size(); ++g) {
      if (state.missing[at(g)] == 0) state.ready.push_back(g);
    }
    return state;
  }

  std::vector<State> next_level(std::vector<State>& level) {
    std::vector<State> next;
    for (auto& state : level) {
      int self = -1;
      if (state.place >= 0) {
        self = static_cast<int>(steps_.size());
        std::ranges::sort(state.taken);
        steps_.push_back({state.parent, {state.place, state.taken}});
      }
      std::vector<char> tried(at(places_.size()), 0);
      for (const int g : state.ready) {
        const int place = place_of_[at(g)];
        if (std::exchange(tried[at(place)], char{1}) != 0) continue;
        if (state.segments_on[at(places_.list[at(place)].device)] >= most_) continue;
        next.push_back(extend(state, place, self));
      }
    }
    keep_best(next);
    return next;
  }

  /// Takes all that can run at the place now.
  [[nodiscard]] State extend(const State& state, int place, int self) const {
    State next = state;
    next.parent = self;
    next.place = place;
    next.taken.clear();
    ++next.segments_on[at(places_.list[at(place)].device)];
    const auto others =
        std::ranges::partition(next.ready, [&](int g) { return place_of_[at(g)] == place; });
    std::vector<int> stack(next.ready.begin(), others.begin());
    next.ready.erase(next.ready.begin(), others.begin());
    while (!stack.empty()) {
      const int group = stack.back();
      stack.pop_back();
      next.taken.push_back(group);
      next.key += keys_[at(group)];
      ++next.done;
      for (const int g : after_[group]) {
        if (--next.missing[at(g)] > 0) continue;
        (place_of_[at(g)] == place ? stack : next.ready).push_back(g);
      }
    }
    return next;
  }

  /// The states with the most groups; of like ones the first.
  void keep_best(std::vector<State>& states) {
    std::ranges::stable_sort(states, [](const State& a, const State& b) {
      return a.done != b.done ? a.done > b.done : a.key < b.key;
    });
    const auto alike = [](const State& a, const State& b) {
      return a.key == b.key && a.place == b.place && a.segments_on == b.segments_on;
    };
    states.erase(std::unique(states.begin(), states.end(), alike), states.end());
    const auto width = at(std::max(1, kBeamCells / std::max(1, after_.size())));
    if (states.size() <= width) return;
    pruned_ = true;
    states.resize(width);
  }

  std::vector<Segment> path(State& last) {
    std::vector<Segment> segments;
    if (last.place >= 0) {
      std::ranges::sort(last.taken);
      segments.push_back({last.place, last.taken});
    }
    for (int i = last.parent; i >= 0; i = steps_[at(i)].parent) {
      segments.push_back(steps_[at(i)].segment);
    }
    std::ranges::reverse(segments);
    return segments;
  }

  const Lists& after_;
  const Places& places_;
  const std::vector<int>& place_of_;
  int most_;
  std::vector<std::uint64_t> keys_;
  std::vector<Step> steps_;
  bool pruned_ = false;
};

}  // namespace

SegmentCut cut_segments(const Lists& after, const Places& places, const std::vector<int>& place_of,
                        int most_per_device) {
  return Beam(after, places, place_of, most_per_device).run();
}

}  // namespace penstock::planner
