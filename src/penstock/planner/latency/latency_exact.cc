// Expands ideals by size, by blocks on cores and by calls, and offers each complete sequence.
#include "penstock/planner/latency/latency_exact.h"

#include <algorithm>

#include "penstock/planner/latency/latency_calls.h"
#include "penstock/planner/problem/index.h"

namespace penstock::planner {
namespace {

class ExactSearch {
 public:
  ExactSearch(const LatencyModel& model, const LatencyTails& tails, double limit,
              const OfferSteps& offer, const Budget& budget)
      : model_(model),
        tails_(tails),
        offer_(offer),
        budget_(budget),
        ideals_(model, tails, limit),
        front_(model, ideals_),
        calls_(
            front_, ideals_, tails, [this](LatencyLabel label) { put(std::move(label)); },
            [this] { return stopped(); }),
        end_(at(model.groups), 0) {}

  LatencyProof run() {
    const std::vector<std::uint64_t> none(at(model_.blocks) / 64 + 1, 0);
    LatencyLabel root;
    root.ideal = ideals_.find(none, 0, 0);
    root.bound = tails_.bound();
    ideals_.put(std::move(root));
    for (int size = 0; size < model_.blocks; ++size) {
      for (std::size_t i = 0; i < ideals_.of_size(size).size(); ++i) {
        if (!stopped()) expand(ideals_.of_size(size)[i]);
        if (stopped_) return {false, ideals_.open_bound(size, i), false};
      }
    }
    return {true, ideals_.limit(), ideals_.limit() == kInfinite};
  }

 private:
  bool stopped() {
    stopped_ = stopped_ || budget_.over() || ideals_.full();
    return stopped_;
  }

  void expand(int from) {
    if (ideals_.ideal(from).labels.empty()) return;
    front_.enter(from);
    const auto next = front_.available();
    for (const int block : next) step_on_cores(block);
    for (std::size_t m = 0; m < model_.calls.size(); ++m) calls_.run(static_cast<int>(m), next);
  }

  void step_on_cores(int block) {
    const auto members = model_.members[block];
    const auto no_core = [&](int g) { return model_.core_time[at(g)] == kInfinite; };
    if (std::ranges::any_of(members, no_core)) return;
    front_.add(block);
    const int to = ideals_.find(front_.blocks, front_.key, front_.size);
    front_.remove(block);
    for (const int l : front_.labels) {
      LatencyLabel made = front_.follow(l, to, -1);
      for (const int g : members) {
        end_[at(g)] = start_on_core(block, g, ideals_.label(l)) + model_.core_time[at(g)];
        made.done = std::max(made.done, end_[at(g)]);
      }
      for (const int g : ideals_.ideal(to).border) {
        const int place = front_.place[at(g)];
        made.end.push_back(place >= 0 ? front_.end(l, place) : end_[at(g)]);
      }
      put(std::move(made));
    }
  }

  /// Waits for what is before it and for whatever it reads that has been written by then.
  [[nodiscard]] double start_on_core(int block, int group, const LatencyLabel& label) const {
    double start = 0;
    const auto wait = [&](int other) {
      const int place = front_.place[at(other)];
      if (place >= 0) start = std::max(start, label.end[at(place)]);
      if (model_.block_of[at(other)] == block) start = std::max(start, end_[at(other)]);
    };
    for (const int other : model_.earlier[group]) wait(other);
    for (const int v : model_.reads[group]) {
      if (model_.block_of[at(model_.producer[at(v)])] != block) wait(model_.producer[at(v)]);
    }
    return start;
  }

  void put(LatencyLabel label) {
    const int to = label.ideal;
    if (!ideals_.put(std::move(label)) || ideals_.ideal(to).size < model_.blocks) return;
    std::vector<LatencyStep> steps;
    for (int l = ideals_.last_label(); ideals_.label(l).parent >= 0; l = ideals_.label(l).parent) {
      const auto& after = ideals_.ideal(ideals_.label(l).ideal);
      const auto& before = ideals_.ideal(ideals_.label(ideals_.label(l).parent).ideal);
      LatencyStep step{{}, ideals_.label(l).call};
      for (int b = 0; b < model_.blocks; ++b) {
        if (after.has(b) && !before.has(b)) step.blocks.push_back(b);
      }
      steps.insert(steps.begin(), std::move(step));
    }
    const double done = ideals_.label(ideals_.last_label()).done;
    ideals_.lower_limit(std::min(done, offer_(steps)));
  }

  const LatencyModel& model_;
  const LatencyTails& tails_;
  const OfferSteps& offer_;
  const Budget& budget_;
  LatencyIdeals ideals_;
  LatencyFront front_;
  LatencyCalls calls_;
  bool stopped_ = false;
  std::vector<double> end_;  // [group] Of the block that is placed on cores.
};

}  // namespace

LatencyProof prove_latency(const LatencyModel& model, const LatencyTails& tails, double limit,
                           const OfferSteps& offer, const Budget& budget) {
  return ExactSearch(model, tails, limit, offer, budget).run();
}

}  // namespace penstock::planner
