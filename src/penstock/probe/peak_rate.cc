// Sums the threads' rates over their CPU time; a round is quiet if each had its CPU throughout.
#include "penstock/probe/peak_rate.h"

#include <algorithm>
#include <cmath>

namespace penstock::probe {
namespace {

constexpr double kQuiet = 0.95;           // Of a round's time, which each thread had its CPU.
constexpr double kMostPeakSeconds = 0.3;  // Once a round was quiet.
constexpr double kLeastPatience =
    0.15;                              // Seconds; a thread may have to wait for its CPU that long.
constexpr int kVainRounds = 12;        // So many without a better one: that was the best.
constexpr int kFewestPeakRounds = 12;  // However long they take.
constexpr double kBetter = 1.005;

}  // namespace

PeakRate peak_rate_of(const std::vector<PeakTurn>& turns) {
  PeakRate rate{0, true};
  double begin = INFINITY, end = 0;
  for (const auto& turn : turns) {
    begin = std::min(begin, turn.begin);
    end = std::max(end, turn.end);
    rate.per_second += turn.amount / turn.computed;
  }
  for (const auto& turn : turns) rate.quiet &= turn.computed >= kQuiet * (end - begin);
  return rate;
}

void BestRate::add(const PeakRate& round) {
  ++rounds_;
  any_ = std::max(any_, round.per_second);
  const bool better = round.quiet && round.per_second > quiet_ * kBetter;
  // One that was cut into and did no more says as much once there is a quiet one.
  if (quiet_ > 0) vain_ = better ? 0 : vain_ + 1;
  if (round.quiet) quiet_ = std::max(quiet_, round.per_second);
}

bool BestRate::wants_more(double seconds) const {
  if (vain_ >= kVainRounds) return false;
  return rounds_ < kFewestPeakRounds || seconds <= (quiet_ > 0 ? kMostPeakSeconds : patience_);
}

double BestRate::patience_left(double seconds) const {
  return quiet_ > 0 ? patience_ : std::max(kLeastPatience, patience_ - seconds);
}

std::size_t bytes_to_read(std::size_t share, std::size_t nearer) {
  constexpr std::size_t kBeyond = 4;
  return nearer == 0 ? share / 2 : std::min(share / 2, kBeyond * nearer);
}

void raise_nearer(std::vector<cost::Peaks::Level>& levels) {
  for (std::size_t i = levels.size(); i > 1; --i) {
    auto& nearer = levels[i - 2].bytes_per_second;
    nearer = std::max(nearer, levels[i - 1].bytes_per_second);
  }
}

}  // namespace penstock::probe
