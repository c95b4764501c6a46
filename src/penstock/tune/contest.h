// Contest: plans run for real, each beside the best so far.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/cost/database.h"
#include "penstock/measure/side.h"
#include "penstock/plan/package.h"
#include "penstock/tune/budget.h"
#include "penstock/tune/build.h"
#include "penstock/tune/decision.h"
#include "penstock/tune/report.h"
#include "penstock/tune/runner.h"

namespace penstock::tune {

/// What is known of it.
struct Entry {
  Contestant contestant;
  WayReport way;
  std::vector<double> stage_seconds;  ///< Of computing one frame, the median, for each stage.
  std::string engines;                ///< "onnxruntime 1.31.1, openvino 2026.4.1"
  Complexity complexity;
  double score = 0;    ///< Frames per second, or frames after one another.
  std::string beside;  ///< Of the plan that it ran in turn with, the hash; kAlone.
  double ratio = 0;    ///< Of its score to that plan's.
  double seconds = 0;  ///< That it took to compile, judge and run it when it was measured.
  /// Why the judge is not sure of it: measure::Verdict::doubts().
  std::map<std::string, std::string> doubts;
  std::vector<std::string> unseen;  ///< Models that the gate did not run, each in a sentence.
  bool cut_short = false;           ///< measure::VerifyReport::cut_short of its judge.
  bool lacks_room = false;          ///< It failed for want of room in the process, or of memory.
};

/// Nothing could stand beside it, though there were others.
inline constexpr const char* kAlone = "alone";

/// The score of a plan that was measured earlier among these entries; none: it has to be measured
/// again. A machine is faster at one moment than at another, so of an earlier moment only the
/// ratio to what ran in turn with it counts; the first entry of all sets the scale.
std::optional<double> score_among(const std::vector<Entry>& entries, const Entry& known);

/// Who has a turn after whom in a round: forwards and backwards in alternation, as what comes first
/// finds the machine otherwise than what comes last.
std::vector<std::size_t> order_of_turns(std::size_t count, int round);

/// A plan that runs, and is measured.
struct Running {
  plan::Package package;
  std::unique_ptr<Runner> runner;
  std::unique_ptr<measure::Side> side;  ///< Null until it is known how many frames it should have.
};

/// Borrows what it is made with. One thread. Knows time by the budget's clock only.
class Contest {
 public:
  struct Setting {
    Runners& runners;
    cost::Database& database;
    const Budget& budget;
    Goal goal = Goal::kThroughput;
    /// What a verdict depends on beside the plan: the tolerance, the engine that tells what is
    /// right, the frames. Known verdicts of others do not count.
    std::string verdict_key;
    std::function<void(const std::string&)> say = [](const std::string&) {};
    std::function<bool()> stopped = [] { return false; };
    bool refresh = false;  ///< Nothing is taken from the database.
    /// There is no room for two: each runs by itself, and ends.
    bool one_at_a_time = false;
  };
  explicit Contest(Setting setting);

  /// Runs the plan beside the best so far, or takes what the database knows of it where that can be
  /// compared (score_among()). A plan that fails is an entry too. \returns its position among
  /// entries().
  /// \error  of the database, the package's folder, or kCancelled.
  Result<std::size_t> enter(Contestant contestant);

  /// Decides among those that are near the best, in so many seconds; one at a time, what they did
  /// by themselves stands. \error as enter()
  Status run_off(double seconds);

  /// Runs two or more in turn, the best so far being the first, until doubt_of() tells of none or
  /// so many rounds are over, and takes the best of them. Nothing where the rounds are too few.
  Status decide(std::vector<std::size_t> contenders, int rounds);

  /// Measures these afresh, in turn with the best, whatever is known of them, and takes the best of
  /// them. In about so many seconds, but in a few rounds in any case. Nothing of those that failed,
  /// or cannot stand beside the best. \error as enter()
  Status challenge(const std::vector<std::size_t>& rivals, double seconds);

  /// The entry failed after all: another is the best now, if any is left; what ran as the best
  /// ends.
  void refuse(std::size_t entry, const std::string& failure);

  /// Whether it did not fail, and more rounds might tell it from the best. \pre best()
  [[nodiscard]] bool is_near_best(std::size_t entry) const;

  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  /// The best entry, if any did not fail.
  [[nodiscard]] std::optional<std::size_t> best() const { return best_; }
  /// The best one that starts, running; those that do not are refused. Null: none is left.
  /// \error of the package's folder; kFailedPrecondition, kResourceExhausted: where others run in
  ///        this process, the best cannot stand beside them, and may well do by itself.
  Result<Running*> run_best(bool beside_others);
  /// What runs as the best ends, until run_best().
  void rest() { running_best_.reset(); }
  [[nodiscard]] int measured() const { return measured_; }
  /// What the last decision left open, as a sentence; empty: nothing.
  [[nodiscard]] const std::string& doubt() const { return doubt_; }
  /// What the entry that took longest took, now or when what the database knows was measured.
  [[nodiscard]] double entry_seconds() const { return entry_seconds_; }
  /// About what starting a plan takes, as far as it had to be compiled.
  [[nodiscard]] double start_seconds() const { return kStartShare * entry_seconds_; }
  /// How often plans take turns: less often where frames are slow. \pre best()
  [[nodiscard]] int rounds() const { return rounds_for(1 / entries_[*best_].score); }

 private:
  static constexpr double kStartShare = 0.2;  ///< Of an entry's time, that starting the plan took.

  /// Under which the database has it.
  [[nodiscard]] cost::PlanKey key_of(const Entry& entry) const;
  /// Takes over what is known. \returns whether anything is that counts here.
  Result<bool> take_known(Entry& entry) const;
  void keep(const Entry& entry);
  Result<Running> start(plan::Package package) const;
  Status measure(Entry& entry, plan::Package package);
  Status race(Entry& entry, Running& running, double frame_seconds);
  [[nodiscard]] bool beats_best(const Entry& entry) const;
  [[nodiscard]] std::vector<std::size_t> near_best() const;
  [[nodiscard]] int rounds_within(double seconds, std::size_t count) const;
  void renew(const std::vector<std::size_t>& of, const std::vector<std::vector<double>>& ratios);
  [[nodiscard]] std::vector<Complexity> complexities_of(const std::vector<std::size_t>& of) const;
  /// [entry][round] The score of each relative to the first's, in turn; none: one failed, and is
  /// refused. Takes out those that cannot stand beside the others.
  Result<std::optional<std::vector<std::vector<double>>>> compare(std::vector<std::size_t>& entries,
                                                                  int rounds);
  void tell_doubt(const std::vector<std::size_t>& contenders,
                  const std::vector<std::vector<double>>& ratios, std::size_t chosen);
  [[nodiscard]] double score_of(measure::Sample& sample) const;
  void add_side(Running& running, double frame_seconds) const;
  [[nodiscard]] measure::Round round_for(double frame_seconds) const;
  [[nodiscard]] static int rounds_for(double frame_seconds);

  Setting setting_;
  std::string machine_;  ///< cost::device_key() of all CPUs that the process may use.
  std::vector<Entry> entries_;
  std::optional<std::size_t> best_;
  std::optional<Running> running_best_;  ///< The best one, once it had to run.
  int measured_ = 0;
  std::string doubt_;
  double entry_seconds_ = 0;
};

/// A hash of what decides how a plan runs: all but its prediction and origin.
std::string hash_of(plan::Plan plan);

}  // namespace penstock::tune
