// Label setting over ideals by size: each stage is walked once, and prices and dominance prune.
#include "penstock/planner/throughput/frontier.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "penstock/planner/throughput/cursor.h"
#include "penstock/planner/throughput/devices.h"
#include "penstock/planner/throughput/ready_times.h"

namespace penstock::planner {
namespace {

using Capacities = std::array<double, kMostPrices>;

class FrontierSearch {
 public:
  /// `rest`: for the period; null where it says nothing.
  FrontierSearch(const Model& model, const Closure& closure, const RestBound* rest, double period,
                 std::int64_t most_steps, const Budget& budget)
      : model_(model),
        instance_(model.instance),
        closure_(closure),
        rest_(rest),
        period_(period),
        most_steps_(most_steps),
        budget_(budget),
        counts_(instance_),
        cursor_(model),
        store_(instance_.groups),
        labels_(counts_),
        by_size_(at(instance_.groups) + 1),
        words_(at(store_.words()), 0),
        left_(at(instance_.types)) {
    if (model.latency_cap < kInfinite) ready_.emplace(instance_);
  }

  FrontierResult run() {
    FrontierResult result;
    start();
    for (int size = 0; size < instance_.groups && !done(); ++size) {
      for (std::size_t i = 0; i < by_size_[at(size)].size() && !done(); ++i) {
        expand(by_size_[at(size)][i]);
      }
      by_size_[at(size)] = {};
    }
    result.steps = steps_;
    result.reached = goal_ >= 0 ? Reached::kFound : stopped_ ? Reached::kStopped : Reached::kNone;
    if (goal_ >= 0) trace(result);
    return result;
  }

 private:
  /// An ideal that was reached.
  struct State {
    Priced priced;
    std::uint64_t key = 0;
    int sources_begin = 0, sources_end = 0;  ///< With a latency cap: into sources_.
  };
  /// What devices can do: less than the capacities, and no more than lies behind `least_done`.
  struct Reach {
    Capacities capacity{};
    double least_done = 0;
  };
  /// A label that can pay for one more device of the stage's type.
  struct Payer {
    int label = 0;
    std::uint64_t used = 0;
    int left = 0;  ///< Devices of that type.
    Reach reach;   ///< Of what stays when the stage takes one.
  };
  /// One level of the walk over stages: groups that may be added next.
  struct Level {
    std::size_t next = 0, end = 0;  ///< Into open_.
    std::size_t shut = 0;           ///< Size of shut_ when the level began.
  };

  [[nodiscard]] bool done() const { return stopped_ || goal_ >= 0; }

  void start() {
    const auto [ideal, fresh] = store_.find_or_add(words_, 0);
    states_.push_back({});
    by_size_[0].push_back(ideal);
    labels_.add({.ideal = ideal}, 0);
  }

  // --- One ideal ---------------------------------------------------------------------------------

  void expand(int ideal) {
    store_.copy(ideal, words_);
    const auto state = states_[at(ideal)];
    cursor_.move_to(words_, state.priced, state.key);
    ideal_ = ideal;
    for (int m = 0; m < instance_.modes && !done(); ++m) {
      if (instance_.type_count[at(instance_.mode_type[at(m)])] == 0) continue;
      mode_ = m;
      type_ = instance_.mode_type[at(m)];
      if (!gather_payers()) continue;
      cursor_.set_mode(m);
      if (take_forced()) walk();
      while (!cursor_.stage().empty()) cursor_.drop();
    }
  }

  /// The labels that have a device left, and the most that any leaves behind.
  bool gather_payers() {
    payers_.clear();
    loosest_.capacity.fill(0);
    loosest_.least_done = kInfinite;
    most_replicas_ = 0;
    for (int l = labels_.first(ideal_); l >= 0; l = labels_[l].next) {
      Payer payer{l, labels_[l].used, 0, {}};
      payer.left = instance_.type_count[at(type_)] - counts_.count(payer.used, type_);
      if (payer.left == 0) continue;
      payer.reach = reach_of(payer.used + counts_.one(type_));
      for (std::size_t i = 0; i < loosest_.capacity.size(); ++i) {
        loosest_.capacity[i] = std::max(loosest_.capacity[i], payer.reach.capacity[i]);
      }
      loosest_.least_done = std::min(loosest_.least_done, payer.reach.least_done);
      most_replicas_ = std::max(most_replicas_, model_.replicas ? payer.left : 1);
      payers_.push_back(payer);
    }
    set_least_work();
    return !payers_.empty();
  }

  [[nodiscard]] Reach reach_of(std::uint64_t used) {
    Reach found;
    for (int t = 0; t < instance_.types; ++t) {
      left_[at(t)] = instance_.type_count[at(t)] - counts_.count(used, t);
    }
    for (std::size_t i = 0; i < model_.prices.size(); ++i) {
      found.capacity[i] = model_.prices[i].capacity(left_, period_);
    }
    if (rest_ != nullptr) found.least_done = rest_->least_done(left_);
    return found;
  }

  /// Whether devices with this reach may suffice for what lies behind the stage.
  [[nodiscard]] bool suffices(const Reach& reach) const {
    const auto& priced = cursor_.priced();
    if (rest_ != nullptr && priced.work[0] < reach.least_done) return false;
    for (std::size_t i = 0; i < model_.prices.size(); ++i) {
      if (reach.capacity[i] == kInfinite) continue;
      const double all = closure_.total[i];
      const double rest = all - priced.work[i] + priced.cut[i];
      if (rest > reach.capacity[i] + all * kSlack) return false;
      if (priced.lacking[i] < closure_.lacking[i]) return false;
    }
    return true;
  }

  // --- The stages behind it ----------------------------------------------------------------------

  [[nodiscard]] bool grows() const {
    return cursor_.floor() < period_ * most_replicas_ && cursor_.floor_fits_memory();
  }

  bool add(int group) {
    if (!cursor_.supports(group)) return false;
    cursor_.add(group);
    if (++steps_ >= most_steps_ || (steps_ % kStepsPerLook == 0 && budget_.over())) {
      stopped_ = true;
    }
    if (grows() && may_fill()) return true;
    cursor_.drop();
    return false;
  }

  /// Whether the work of some longer stage may be enough: a type's time is worth its price at most.
  /// For price systems of time and the serial load, which each group adds its time to.
  [[nodiscard]] bool may_fill() const {
    if (instance_.type_overlap[at(type_)] != Overlap::kSerial) return true;
    const double left = period_ * most_replicas_ - cursor_.floor();
    for (std::size_t i = 0; i < model_.prices.size(); ++i) {
      const auto& prices = model_.prices[i];
      if (prices.is_memory || prices.type[at(type_)] == kInfinite) continue;
      const double most = cursor_.priced().work[i] + prices.type[at(type_)] * left;
      if (most < least_work_[i]) return false;
    }
    return true;
  }

  /// What any stage must bring the work to, with what comes before it, for `loosest_` to suffice.
  void set_least_work() {
    for (std::size_t i = 0; i < model_.prices.size(); ++i) {
      const double all = closure_.total[i];
      least_work_[i] = all - loosest_.capacity[i] - all * kSlack;
    }
    if (rest_ != nullptr) least_work_[0] = std::max(least_work_[0], loosest_.least_done);
  }

  /// Whether the devices left can not take the group and what stands behind it.
  [[nodiscard]] bool is_forced(int group) const {
    const double most_without = closure_.total[0] - closure_.work[0][at(group)];
    if (rest_ != nullptr && most_without < loosest_.least_done) return true;
    for (std::size_t i = 0; i < model_.prices.size(); ++i) {
      const double capacity = loosest_.capacity[i];
      if (capacity == kInfinite) continue;
      if (closure_.work[i][at(group)] > capacity + closure_.total[i] * kSlack) return true;
      if (closure_.lacks[i][at(group)] != 0) return true;
    }
    return false;
  }

  /// Adds the groups that no stage behind this one can take; false where that is too much.
  bool take_forced() {
    open_.clear();
    shut_.clear();
    levels_.clear();
    const auto available = cursor_.available();
    for (std::size_t w = 0; w < available.size(); ++w) {
      for (Word bits = available[w]; bits != 0; bits &= bits - 1) {
        open_.push_back(static_cast<int>(w) * kWordBits + std::countr_zero(bits));
      }
    }
    for (std::size_t i = 0; i < open_.size();) {
      if (!is_forced(open_[i])) {
        ++i;
        continue;
      }
      const int group = open_[i];
      if (!add(group)) return false;
      open_[i] = open_.back();
      open_.pop_back();
      for (const int after : instance_.after[group]) {
        if (has_bit(cursor_.available(), after)) open_.push_back(after);
      }
    }
    std::ranges::sort(open_);
    return true;
  }

  /// Walks through all stages that contain the forced groups: each group set once, as the sequence
  /// of its groups in ascending order.
  void walk() {
    levels_.push_back({0, open_.size(), 0});
    left_out_.assign(1, 0);
    left_out_words_.assign(tracks_left_out() ? closure_.words : 0, 0);
    if (!cursor_.stage().empty()) emit();
    while (!done()) {
      auto& level = levels_.back();
      if (level.next == level.end) {
        shut_.resize(level.shut);
        levels_.pop_back();
        if (levels_.empty()) return;
        shut(cursor_.stage().back());
        cursor_.drop();
        open_.resize(levels_.back().end);
        continue;
      }
      const int group = open_[level.next++];
      if (!add(group)) {
        shut(group);
        continue;
      }
      descend(group);
      emit();
    }
  }

  /// A level for what may follow `group`: the rest of the level above and what it makes available.
  void descend(int group) {
    const auto above = levels_.back();
    const auto begin = open_.size();
    for (const int after : instance_.after[group]) {
      if (has_bit(cursor_.available(), after)) open_.push_back(after);
    }
    const auto fresh = static_cast<std::ptrdiff_t>(open_.size());
    for (auto i = above.next; i < above.end; ++i) open_.push_back(open_[i]);
    std::inplace_merge(open_.begin() + static_cast<std::ptrdiff_t>(begin), open_.begin() + fresh,
                       open_.end());
    levels_.push_back({begin, open_.size(), shut_.size()});
    if (!tracks_left_out()) return;
    const auto depth = levels_.size() - 1;
    left_out_.resize(depth + 1);
    left_out_[depth] = left_out_[depth - 1];
    left_out_words_.resize((depth + 1) * closure_.words);
    const auto row = left_out_words_.begin() + static_cast<std::ptrdiff_t>(depth * closure_.words);
    std::copy(row - static_cast<std::ptrdiff_t>(closure_.words), row, row);
  }

  /// From now on the level's stages are those without `group`, so without all behind it; there are
  /// none where they leave more than the devices left can take.
  void shut(int group) {
    shut_.push_back(group);
    if (!tracks_left_out()) return;
    const auto depth = levels_.size() - 1;
    double& work = left_out_[depth];
    const auto words = closure_.words;
    Word* all = left_out_words_.data() + depth * words;
    const Word* behind = closure_.behind.data() + at(group) * words;
    const double* own = model_.prices.front().group.data();
    for (std::size_t w = at(group / kWordBits); w < words; ++w) {
      for (Word fresh = behind[w] & ~all[w]; fresh != 0; fresh &= fresh - 1) {
        work += own[w * kWordBits + static_cast<std::size_t>(std::countr_zero(fresh))];
      }
      all[w] |= behind[w];
    }
    const double total = closure_.total[0];
    if (total - work + total * kSlack < least_work_[0]) levels_.back().next = levels_.back().end;
  }

  [[nodiscard]] bool tracks_left_out() const { return closure_.words <= kMostWordsLeftOut; }

  // --- The ideals reached ------------------------------------------------------------------------

  /// Devices that the stage needs; 0 where it may not be.
  [[nodiscard]] int replicas_needed() const {
    if (!cursor_.fits_memory()) return 0;
    const double load = cursor_.load();
    for (int r = 1; r <= most_replicas_; ++r) {
      if (load < period_ * r) return r;
    }
    return 0;
  }

  void emit() {
    const int replicas = replicas_needed();
    if (replicas == 0 || !suffices(loosest_) || is_beaten(replicas)) return;
    int target = -1;
    for (const auto& payer : payers_) {
      if (payer.left < replicas) continue;
      const auto used = payer.used + counts_.one(type_) * static_cast<std::uint64_t>(replicas);
      if (!suffices(replicas == 1 ? payer.reach : reach_of(used))) continue;
      if (target < 0) target = reach();
      Label label{used, target, payer.label, mode_, replicas, -1, 0};
      int times = 0;
      if (ready_) {
        times = append_ready(payer.label, label);
        if (times < 0) continue;
      }
      const bool stays = labels_.add(label, times);
      if (stays && cursor_.size() == instance_.groups) {
        goal_ = labels_.size() - 1;
        return;
      }
    }
  }

  /// Whether another stage, with one group more, serves every continuation as well.
  bool is_beaten(int replicas) {
    if (ready_ || model_.holds_transfers) return false;
    for (auto i = levels_.back().next; i < levels_.back().end; ++i) {
      if (beats(open_[i], replicas)) return true;
    }
    return std::ranges::any_of(shut_, [&](int group) { return beats(group, replicas); });
  }

  bool beats(int group, int replicas) {
    return cursor_.may_pull(group) && cursor_.fits_with(group, period_ * replicas);
  }

  int reach() {
    const auto [ideal, fresh] = store_.find_or_add(cursor_.words(), cursor_.key());
    if (!fresh) return ideal;
    State state{cursor_.priced(), cursor_.key(), 0, 0};
    if (ready_) {
      state.sources_begin = static_cast<int>(sources_.size());
      ready_->append_sources(cursor_.words(), sources_);
      state.sources_end = static_cast<int>(sources_.size());
    }
    states_.push_back(state);
    by_size_[at(cursor_.size())].push_back(ideal);
    return ideal;
  }

  // --- Latency -----------------------------------------------------------------------------------

  [[nodiscard]] std::span<const int> sources(int ideal) const {
    const auto& state = states_[at(ideal)];
    return std::span(sources_).subspan(at(state.sources_begin),
                                       at(state.sources_end - state.sources_begin));
  }

  /// Appends when the sources of the ideal reached are ready; -1 where the cap is broken.
  int append_ready(int parent, Label& label) {
    const auto before = sources(ideal_), behind = sources(label.ideal);
    const int parent_ready = labels_[parent].ready;
    double end = 0;
    for (const int place : ready_->awaited(before, words_, cursor_.words())) {
      end = std::max(end, labels_.times[at(parent_ready + place)]);
    }
    end += cursor_.duration();
    const double cap = model_.latency_cap * (1 + kSlack);
    if (end > cap) return -1;
    for (const int group : behind) {
      if (!has_bit(words_, group) && end + ready_->tail(cursor_.words(), group) > cap) return -1;
    }
    label.ready = static_cast<int>(labels_.times.size());
    std::size_t i = 0;  // Both lists ascend.
    for (const int group : behind) {
      while (i < before.size() && before[i] < group) ++i;
      const bool old = i < before.size() && before[i] == group;
      labels_.times.push_back(old ? labels_.times[at(parent_ready) + i] : end);
    }
    return static_cast<int>(behind.size());
  }

  // --- The answer --------------------------------------------------------------------------------

  void trace(FrontierResult& result) {
    std::vector<Word> after(words_.size());
    DeviceDealer dealer(instance_);
    for (int l = goal_; labels_[l].parent >= 0; l = labels_[l].parent) {
      const auto& label = labels_[l];
      const int before = labels_[label.parent].ideal;
      store_.copy(label.ideal, after);
      store_.copy(before, words_);
      cursor_.move_to(words_, states_[at(before)].priced, states_[at(before)].key);
      cursor_.set_mode(label.mode);
      for (int g = 0; g < instance_.groups; ++g) {
        if (has_bit(after, g) && !has_bit(words_, g)) cursor_.add(g);
      }
      const auto groups = cursor_.stage();
      result.split.stages.push_back(
          {{groups.begin(), groups.end()}, label.mode, dealer.deal(label.mode, label.replicas)});
      result.period = std::max(result.period, cursor_.load() / label.replicas);
      while (!cursor_.stage().empty()) cursor_.drop();
    }
    std::ranges::reverse(result.split.stages);
  }

  static constexpr std::int64_t kStepsPerLook = 512;
  static constexpr std::size_t kMostWordsLeftOut = 16;  // Larger sets cost more than they save.

  const Model& model_;
  const Instance& instance_;
  const Closure& closure_;
  const RestBound* rest_;
  double period_;
  std::int64_t most_steps_;
  const Budget& budget_;
  CountWord counts_;
  Cursor cursor_;
  IdealStore store_;
  LabelStore labels_;
  std::optional<ReadyTimes> ready_;
  std::vector<State> states_;  // By ideal.
  std::vector<int> sources_;
  std::vector<std::vector<int>> by_size_;  // Ideals still to expand.
  std::vector<Word> words_;                // Of the ideal at hand,
  int ideal_ = 0, mode_ = 0, type_ = 0;    // its number, and the stage's mode.
  std::vector<int> left_;
  std::vector<Payer> payers_;
  Reach loosest_;
  Capacities least_work_{};  // Of a stage and all before it.
  int most_replicas_ = 1;
  std::vector<int> open_;  // Groups to add, level by level.
  std::vector<int> shut_;  // Available groups that the levels passed over.
  std::vector<Level> levels_;
  std::vector<Word> left_out_words_;  // [level] Groups behind those that its stages pass over,
  std::vector<double> left_out_;      // and their work in the first price system.
  std::int64_t steps_ = 0;
  bool stopped_ = false;
  int goal_ = -1;  // The label that holds everything.
};

}  // namespace

FrontierResult Frontier::run(double period, std::int64_t most_steps, const Budget& budget) {
  const bool bounded = rest_.possible() && period < kInfinite;
  if (bounded) rest_.set_period(period, budget);
  return FrontierSearch(*model_, closure_, bounded ? &rest_ : nullptr, period, most_steps, budget)
      .run();
}

bool Frontier::refutes(double period, const Budget& budget) {
  if (!rest_.possible()) return false;
  rest_.set_period(period, budget);
  return rest_.refutes();
}

}  // namespace penstock::planner
