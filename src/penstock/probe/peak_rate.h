// The rate of threads that work at once, where others may take their CPUs.
#pragma once

#include <cstddef>
#include <vector>

#include "penstock/cost/peaks.h"

namespace penstock::probe {

/// What one thread did in a round, in seconds since any time that is the same for all.
struct PeakTurn {
  double begin = 0, end = 0;
  double computed = 0;  ///< Of that, what the thread had of its CPU.
  double amount = 0;    ///< Of floating point operations, or of bytes.
};

struct PeakRate {
  double per_second = 0;  ///< Of all threads, each over the time that it had of its CPU.
  bool quiet = true;  ///< Nobody else took a CPU meanwhile, and all threads were at work at once.
};

/// Of a round. \pre  each turn computed for some time
PeakRate peak_rate_of(const std::vector<PeakTurn>& turns);

/// The most that one quiet round did in a second; where others left none, of what the threads did
/// in the time that they had. Knows no clock: seconds are since its first round.
class BestRate {
 public:
  /// For so many seconds it waits for a quiet round, and for a few rounds at least.
  explicit BestRate(double patience) : patience_(patience) {}

  void add(const PeakRate& round);
  /// Whether another round may be better.
  [[nodiscard]] bool wants_more(double seconds) const;
  [[nodiscard]] double per_second() const { return quiet_ > 0 ? quiet_ : any_; }
  /// What is left of the patience for the rates that follow: others who left no quiet round for one
  /// leave none for the next.
  [[nodiscard]] double patience_left(double seconds) const;

 private:
  double patience_;
  double quiet_ = 0, any_ = 0;
  int rounds_ = 0;
  int vain_ = 0;  ///< Since the best one.
};

/// How much of a cache is read, of which a CPU has `share` bytes, behind one of which it has
/// `nearer` (0: it is the first): four times that, so that hardly any of it is in the nearer one,
/// but half of the share at most. The rest is for what the program and the system have there, and
/// of a cache that is shared with other guests of the host nobody knows how much is left.
std::size_t bytes_to_read(std::size_t share, std::size_t nearer);

/// Nearest first. What a level holds can be read at least as fast as from those behind it: where
/// less was seen, others had the cache meanwhile.
void raise_nearer(std::vector<cost::Peaks::Level>& levels);

}  // namespace penstock::probe
