// Estimates each plan's rate from the CPU speeds seen; moves for a lasting gain, back after a loss.
#include "penstock/follow/choice.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "penstock/base/quantile.h"

namespace penstock::follow {
namespace {

constexpr std::size_t kLooks = 3;       ///< That must agree,
constexpr std::size_t kManyLooks = 12;  ///< and of which most must, where it is about little.
constexpr double kSettleSeconds = 1;    ///< After a move, in which frames of both plans run.
constexpr double kGain = 1.05;          ///< Expected of a candidate that ran before,
constexpr double kGainUntried = 1.10;   ///< of one that did not,
constexpr double kLittleGain = 1.02;    ///< and by most of many looks of one that ran before.
constexpr double kFair = 0.5;           ///< Of a CPU, beside one neighbour that wants all of it.
constexpr double kFirstBar = 30;        ///< Seconds; doubled each time that it is needed again,
constexpr double kLongestBar = 480;     ///< up to this.
constexpr double kNewest = 0.2;         ///< Least weight of a look in what a plan is worth.

double pace_of(const std::vector<int>& cpus, const std::map<int, double>& paces) {
  double least = std::numeric_limits<double>::infinity();
  for (const int cpu : cpus) {
    const auto found = paces.find(cpu);
    least = std::min(least, found == paces.end() ? 0 : found->second);
  }
  return cpus.empty() ? 0 : least;
}

}  // namespace

void Choice::Bar::raise(double at) {
  seconds = std::clamp(2 * seconds, kFirstBar, kLongestBar);
  until = at + seconds;
}

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

void Choice::learn(const Seen& seen, double at) {
  const double should = expected(candidates_[running_], seen.paces);
  if (should <= 0) return;
  auto& known = known_[running_];
  const double now = seen.frames_per_second / should;
  known.at = at;
  const double weight = std::max(1.0 / ++known.looks, kNewest);
  known.worth = (1 - weight) * known.worth.value_or(0) + weight * now;
}

/// By what it was, or what the one of its family was that ran last.
std::optional<double> Choice::worth_of(std::size_t candidate) const {
  if (known_[candidate].worth || candidates_[candidate].family.empty()) {
    return known_[candidate].worth;
  }
  const Known* last = nullptr;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (!known_[i].worth || candidates_[i].family != candidates_[candidate].family) continue;
    if (last == nullptr || known_[i].at > last->at) last = &known_[i];
  }
  return last == nullptr ? std::nullopt : last->worth;
}

void Choice::put(std::size_t candidate, Candidate made) {
  if (candidate == candidates_.size()) {
    candidates_.push_back(std::move(made));
    known_.emplace_back();
    return;
  }
  candidates_[candidate] = std::move(made);
  known_[candidate] = {};
}

std::map<int, double> Choice::paces() const {
  Paces paces;
  if (recent_.size() < kLooks) return paces;
  const auto last = recent_.end() - kLooks;
  for (const auto& [cpu, newest] : recent_.back().paces) {
    std::vector<double> seen;
    for (auto look = last; look != recent_.end(); ++look) {
      const auto found = look->paces.find(cpu);
      if (found != look->paces.end()) seen.push_back(found->second);
    }
    if (seen.size() == kLooks) paces.emplace(cpu, median(std::move(seen)));
  }
  return paces;
}

/// What a move to it is expected to gain; 1: none is due. What never ran is supposed to be worth
/// what runs is. \pre there are kLooks looks or more
double Choice::due_gain(std::size_t candidate, double at) const {
  const auto& known = known_[candidate].worth;
  const double worth = worth_of(candidate).value_or(known_[running_].worth.value_or(1));
  std::vector<double> gains;
  for (const auto& seen : recent_) {
    gains.push_back(worth * expected(candidates_[candidate], seen.paces) / seen.frames_per_second);
  }
  const double least = *std::min_element(gains.end() - kLooks, gains.end());
  if (least > (known ? kGain : kGainUntried)) return least;
  const bool lasts = known && least > 1 && gains.size() == kManyLooks && at >= little_after_;
  const double usual = median(std::move(gains));
  return lasts && usual > kLittleGain ? usual : 1;
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
  for (auto seen = recent_.end() - std::min(kLooks, recent_.size()); seen != recent_.end();
       ++seen) {
    rates.push_back(seen->frames_per_second);
  }
  return median(rates);
}

/// Where every look since the move had fewer frames than there were before.
std::optional<Move> Choice::way_back(double at) {
  const auto trial = *std::exchange(trial_, std::nullopt);
  for (const auto& seen : recent_) {
    if (seen.frames_per_second >= trial.frames_per_second) return std::nullopt;
  }
  known_[running_].guess.raise(at);
  return Move{trial.from, trial.frames_per_second / median_rate(), true};
}

std::optional<Move> Choice::best_move(double at) const {
  Move best{running_};
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (i == running_ || at < known_[i].start.until) continue;
    if (at < known_[i].guess.until && is_guessed(i)) continue;
    const double gain = due_gain(i, at);
    if (gain > best.gain) best = {i, gain};
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
  if (recent_.size() > kManyLooks) recent_.pop_front();
  learn(recent_.back(), look.at);
  if (recent_.size() < kLooks) return std::nullopt;
  if (trial_) {
    if (const auto back = way_back(look.at)) return back;
  }
  return best_move(look.at);
}

void Choice::refuse(std::size_t candidate, double at) {
  known_[candidate].start.raise(at);
}

void Choice::moved(const Move& move, double at) {
  trial_.reset();
  known_[move.to].start = {};
  if (!move.back) trial_ = Trial{running_, median_rate()};
  const bool little = move.gain <= kGain;
  little_seconds_ = little ? std::clamp(2 * little_seconds_, kFirstBar, kLongestBar) : 0;
  little_after_ = at + little_seconds_;
  running_ = move.to;
  settled_at_ = at + kSettleSeconds;
  recent_.clear();
}

}  // namespace penstock::follow
