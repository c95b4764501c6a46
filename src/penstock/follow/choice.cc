#include "penstock/follow/choice.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "penstock/base/quantile.h"

namespace penstock::follow {
namespace {

constexpr std::size_t kLooks = 3;      ///< That must agree.
constexpr double kSettleSeconds = 1;   ///< After a move, in which frames of both plans run.
constexpr double kGain = 1.05;         ///< Expected of a candidate that ran before,
constexpr double kGainUntried = 1.10;  ///< and of one that did not.
constexpr double kFair = 0.5;          ///< Of a CPU, beside one neighbour that wants all of it.
constexpr double kFirstBar = 30;       ///< Seconds; doubled with each move that is taken back,
constexpr double kLongestBar = 480;    ///< up to this.
constexpr double kNewest = 0.5;        ///< Weight of the newest look in what a plan is worth.

double pace_of(const std::vector<int>& cpus, const std::map<int, double>& paces) {
  double least = std::numeric_limits<double>::infinity();
  for (const int cpu : cpus) {
    const auto found = paces.find(cpu);
    least = std::min(least, found == paces.end() ? 0 : found->second);
  }
  return cpus.empty() ? 0 : least;
}

}  // namespace

/// The CPUs of the plan that runs by their stages' times; the others by what is idle there, and as
/// fast as the fastest of those: the machine as a whole may have changed since the plan was made.
Choice::Seen Choice::measure(const Look& look) const {
  Seen seen{.frames_per_second = look.frames_per_second, .paces = {}, .guesses = {}};
  const auto& stages = candidates_[running_].stages;
  double fastest = 0;
  for (std::size_t s = 0; s < std::min(stages.size(), look.seconds.size()); ++s) {
    for (std::size_t i = 0; i < std::min(stages[s].places.size(), look.seconds[s].size()); ++i) {
      if (look.seconds[s][i] <= 0) continue;
      const double pace = stages[s].seconds / look.seconds[s][i];
      fastest = std::max(fastest, pace);
      for (const int cpu : stages[s].places[i]) {
        const auto [place, fresh] = seen.paces.emplace(cpu, pace);
        if (!fresh) place->second = std::min(place->second, pace);
      }
    }
  }
  for (const auto& [cpu, idle] : look.idle) {
    const double pace = fastest * std::max(idle, kFair);
    if (seen.paces.emplace(cpu, pace).second && idle < kFair) seen.guesses.emplace(cpu, pace);
  }
  return seen;
}

/// Frames per second: those of the stage, or the CPU, that takes longest.
double Choice::expected(const Candidate& candidate, const Paces& paces) const {
  double period = 0;
  std::map<int, double> loads;
  for (const auto& stage : candidate.stages) {
    double rate = 0;
    for (const auto& cpus : stage.places) rate += pace_of(cpus, paces) / stage.seconds;
    if (rate <= 0) return 0;
    // Each instance takes as many of the frames as it can, so that all are busy alike.
    for (const auto& cpus : stage.places) {
      for (const int cpu : cpus) period = std::max(period, loads[cpu] += 1 / rate);
    }
  }
  return period > 0 ? 1 / period : 0;
}

void Choice::learn(const Seen& seen) {
  const double should = expected(candidates_[running_], seen.paces);
  if (should <= 0) return;
  auto& worth = known_[running_].worth;
  const double now = seen.frames_per_second / should;
  worth = worth ? (1 - kNewest) * *worth + kNewest * now : now;
}

/// The least that the last looks expect. What never ran is supposed to be worth what runs is.
double Choice::gain_of(std::size_t candidate) const {
  const double worth = known_[candidate].worth.value_or(known_[running_].worth.value_or(1));
  double least = std::numeric_limits<double>::infinity();
  for (const auto& seen : recent_) {
    const double rate = worth * expected(candidates_[candidate], seen.paces);
    if (seen.frames_per_second > 0) least = std::min(least, rate / seen.frames_per_second);
  }
  return least == std::numeric_limits<double>::infinity() ? 0 : least;
}

bool Choice::is_guessed(std::size_t candidate) const {
  for (const auto& stage : candidates_[candidate].stages) {
    for (const auto& cpus : stage.places) {
      for (const int cpu : cpus) {
        if (recent_.back().guesses.contains(cpu)) return true;
      }
    }
  }
  return false;
}

double Choice::median_rate() const {
  std::vector<double> rates;
  for (const auto& seen : recent_) rates.push_back(seen.frames_per_second);
  return median(rates);
}

/// Where every look since the move had fewer frames than there were before.
std::optional<Move> Choice::way_back(double at) {
  const auto trial = *std::exchange(trial_, std::nullopt);
  for (const auto& seen : recent_) {
    if (seen.frames_per_second >= trial.frames_per_second) return std::nullopt;
  }
  auto& known = known_[running_];
  known.bar_seconds = std::clamp(2 * known.bar_seconds, kFirstBar, kLongestBar);
  known.barred_until = at + known.bar_seconds;
  return Move{trial.from, trial.frames_per_second / median_rate(), true};
}

std::optional<Move> Choice::best_move(double at) const {
  Move best{running_};
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (i == running_ || known_[i].refused) continue;
    if (at < known_[i].barred_until && is_guessed(i)) continue;
    const double gain = gain_of(i);
    if (gain > (known_[i].worth ? kGain : kGainUntried) && gain > best.gain) best = {i, gain};
  }
  return best.to == running_ ? std::nullopt : std::optional(best);
}

std::optional<Move> Choice::see(const Look& look) {
  if (look.at < settled_at_) return std::nullopt;
  if (!look.full || look.frames_per_second <= 0) {
    recent_.clear();
    return std::nullopt;
  }
  recent_.push_back(measure(look));
  if (recent_.size() > kLooks) recent_.pop_front();
  learn(recent_.back());
  if (recent_.size() < kLooks) return std::nullopt;
  if (trial_) {
    if (const auto back = way_back(look.at)) return back;
  }
  return best_move(look.at);
}

void Choice::moved(const Move& move, double at) {
  trial_.reset();
  if (!move.back) trial_ = Trial{running_, median_rate()};
  running_ = move.to;
  settled_at_ = at + kSettleSeconds;
  recent_.clear();
}

}  // namespace penstock::follow
