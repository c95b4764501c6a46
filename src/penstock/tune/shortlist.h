// Shortlist: which ways of running the whole network there is time to try, and which were left out.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "penstock/tune/budget.h"

namespace penstock::tune {

/// An engine may take a minute to compile a network of 100,000 nodes, and each way compiles it
/// anew: when it is tried, when it runs in the contest, and when it is compared. What takes no
/// longer than kCheapSeconds is done whatever the budget says; of the rest, what leaves room for
/// what has to follow it. Borrows the budget. One thread.
class Shortlist {
 public:
  static constexpr double kCheapSeconds = 5;

  explicit Shortlist(const Budget& budget) : budget_(budget) {}

  /// A trial of the whole network on the backend took so long, whatever its end.
  void tried(const std::string& backend, double seconds);
  /// The longest that one took; 0: none is known.
  [[nodiscard]] double trial_seconds(const std::string& backend) const;

  /// When the next trial on the backend has to end, so that `rest` seconds are left. The moment is
  /// past where an earlier trial on it took longer than there is time for.
  [[nodiscard]] Budget::Clock::time_point trial_until(const std::string& backend,
                                                      double rest) const;
  /// Whether what cannot be ended once it has begun, and takes about so long, leaves `rest`
  /// seconds.
  [[nodiscard]] bool has_room_for(double seconds, double rest) const;

  /// Noted once.
  void leave_out(const std::string& what);
  /// "the budget of 60 s was too short for: a, b"; empty where nothing was left out. `budget`: its
  /// beginning.
  [[nodiscard]] std::string sentence(const std::string& budget) const;

 private:
  const Budget& budget_;
  std::map<std::string, double> trials_;  ///< Seconds by backend.
  std::vector<std::string> left_out_;
};

}  // namespace penstock::tune
