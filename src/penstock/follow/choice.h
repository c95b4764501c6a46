// Choice: which of several plans should run now, by what is seen of the one that runs.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace penstock::follow {

/// A plan that could run.
struct Candidate {
  struct Stage {
    double seconds = 0;                    ///< Of a frame in one instance that nothing disturbs.
    std::vector<std::vector<int>> places;  ///< The CPUs of each instance.
  };
  std::string name;
  std::vector<Stage> stages;
  /// Plans of the same are worth the same until they have run themselves; empty: of none.
  std::string family = {};
};

/// What was seen of a second or so.
struct Look {
  double at = 0;  ///< Seconds, by a clock that never goes back.
  double frames_per_second = 0;
  bool full = false;  ///< The busiest stage hardly waited: the plan limits, not what feeds it.
  /// By stage and instance of the plan that runs: seconds of a frame; 0: it had none.
  std::vector<std::vector<double>> seconds;
  /// Of CPUs that the plan that runs leaves alone: the share of their time that nobody uses. Those
  /// where the process may not run are missing.
  std::map<int, double> idle;
};

struct Move {
  std::size_t to = 0;  ///< Which candidate.
  double gain = 1;     ///< Frames per second over those of now, as expected.
  bool back = false;   ///< The move before was none for the better.
};

/// Expects of each candidate what the CPUs' paces now make of its stages' seconds, and of those
/// that ran before what they were worth beside that. A move is due where each of the last looks
/// expects more than the noise of it, or most of many expect a little more of what ran before; it
/// is taken back where frames then come more slowly. Moves for little get rarer and rarer, until
/// one for much tells that the machine is another.
///
/// A pace is 1 where a stage takes its own time, and 0.5 where it takes twice that. How fast a CPU
/// is that nobody here uses is told by what is idle there, but not what a neighbour would leave to
/// who asks for more: half is supposed, as the scheduler gives to equals. What such a guess leads
/// to and is taken back is not tried again for a while.
///
/// A plain value: knows time by what it is told.
class Choice {
 public:
  Choice(std::vector<Candidate> candidates, std::size_t running)
      : candidates_(std::move(candidates)), known_(candidates_.size()), running_(running) {}

  /// What to do now; nothing: to stay.
  std::optional<Move> see(const Look& look);
  /// That move was made. What it takes time to settle is not judged.
  void moved(const Move& move, double at);
  /// That candidate is another now, or, behind the last, one more. \pre  is_free() or behind it
  void put(std::size_t candidate, Candidate made);
  /// Whether it neither runs nor may soon be gone back to.
  [[nodiscard]] bool is_free(std::size_t candidate) const {
    return candidate != running_ && (!trial_ || trial_->from != candidate);
  }
  /// Of the CPUs that the last looks agree on, by their middle one; empty: there are too few looks.
  [[nodiscard]] std::map<int, double> paces() const;
  /// That candidate could not start: it is not proposed for a while, for longer each time.
  void refuse(std::size_t candidate, double at);

  [[nodiscard]] const std::vector<Candidate>& candidates() const { return candidates_; }
  [[nodiscard]] std::size_t running() const { return running_; }

 private:
  using Paces = std::map<int, double>;  // By CPU.
  struct Bar {
    double until = 0;
    double seconds = 0;  // The last time.
    void raise(double at);
  };
  struct Known {
    std::optional<double> worth;  // Frames per second when it ran, over what was expected then.
    int looks = 0;                // That say so,
    double at = 0;                // the last of them.
    Bar guess;                    // Where guesses lead to it,
    Bar start;                    // and in any case.
  };
  struct Seen {
    double frames_per_second = 0;
    Paces paces;
    Paces guesses;  // Of them, those that suppose what a neighbour would leave.
  };
  struct Trial {
    std::size_t from = 0;
    double frames_per_second = 0;  // Before the move.
  };

  [[nodiscard]] Seen measure(const Look& look) const;
  [[nodiscard]] double expected(const Candidate& candidate, const Paces& paces) const;
  void learn(const Seen& seen, double at);
  [[nodiscard]] std::optional<double> worth_of(std::size_t candidate) const;
  [[nodiscard]] double due_gain(std::size_t candidate, double at) const;
  [[nodiscard]] bool is_guessed(std::size_t candidate) const;
  [[nodiscard]] std::optional<Move> way_back(double at);
  [[nodiscard]] std::optional<Move> best_move(double at) const;
  [[nodiscard]] double median_rate() const;

  std::vector<Candidate> candidates_;
  std::vector<Known> known_;  // Beside them.
  std::size_t running_;
  double settled_at_ = 0;
  double little_after_ = 0;     // When a move for little may be made,
  double little_seconds_ = 0;   // and how long none was, the last time.
  std::deque<Seen> recent_;     // Since the last move, or since the pipeline was last full.
  std::optional<Trial> trial_;  // A move that is still judged.
};

}  // namespace penstock::follow
