// Tuner: keeps a running pipeline at the plan that is the best now.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/follow/choice.h"
#include "penstock/follow/idle.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/plan/package.h"

namespace penstock::follow {

class Replanner;
struct Variant;

inline constexpr double kLeastShare = 0.001, kMostShare = 0.5;

/// One plan that took another's place, or could not.
struct Swap {
  double seconds = 0;    ///< Since the tuner began.
  std::string from, to;  ///< Names of candidates.
  double gain = 1;       ///< Frames per second over those before, as expected.
  bool back = false;     ///< The swap before was none for the better.
  std::string refused;   ///< Why it could not be; empty: it was done.
};

struct Report {
  std::vector<std::string> candidates;  ///< Empty as long as it learns what stages take.
  std::string running;
  std::vector<Swap> swaps;
  double start_seconds = 0;  ///< That starting plans took.
  std::string ended;         ///< Why it does nothing any more; empty: it does.
};

/// Watches a pipeline once a second. Where the CPUs' paces change (a neighbour comes or goes, CPUs
/// are taken away), and another plan of the same models would give more frames by more than the
/// noise of the last seconds, it lets that take the place of what runs, and takes it back where
/// frames come more slowly. See Choice for what it expects of plans. Plans are variants_of() what
/// ran first, and what it plans by the paces of the moment, as plans_for() does: of these the last
/// 16 that differ.
///
/// Stages' own times come from the plan (plan::Stage::predicted_seconds), else from the first
/// seconds in which the pipeline is full; nothing should disturb it then.
/// \threads  all functions may be called from any thread.
class Tuner {
 public:
  struct Setting {
    /// Lets a plan of a folder take the place of what runs: Pipeline::replace() with the registry
    /// and the options that the pipeline was started with. Called on a thread of the tuner's.
    std::function<Status(const plan::Plan&, const std::filesystem::path&)> replace;
    /// Of the machine's time: what each CPU is asked for whether it is idle, and what starting
    /// plans may take, of the time so far and ten minutes ahead.
    double share = 0.02;
    /// Plans besides, with inputs and outputs as those of what runs; their stages' times are known.
    std::vector<plan::Package> others;
    std::function<void(const Swap&)> swapped = [](const Swap&) {};  ///< On the tuner's thread.
  };

  /// `package`: what runs. Its folder is read at each swap.
  /// \error kInvalidArgument     the share is out of range, or one of the others cannot take the
  ///                             place of what runs (as Pipeline::replace() says), or does not tell
  ///                             what its stages take: names it.
  /// \error kFailedPrecondition  another tuner watches the pipeline, and was not stopped.
  /// \error kResourceExhausted   no thread is left.
  static Result<std::unique_ptr<Tuner>> start(std::shared_ptr<pipeline::Pipeline> pipeline,
                                              plan::Package package, Setting setting);
  Tuner(const Tuner&) = delete;
  Tuner& operator=(const Tuner&) = delete;
  ~Tuner();

  /// What runs stays. Waits for a swap in progress.
  void stop();
  [[nodiscard]] Report report() const;

 private:
  using Clock = std::chrono::steady_clock;
  /// What a candidate is.
  struct Plan {
    std::string name;
    plan::Plan plan;
    std::size_t package = 0;                     // Of packages_: whose folder it reads.
    std::vector<std::vector<std::size_t>> from;  // As Variant::from.
  };
  struct Snapshot {
    double at = 0;
    pipeline::Stats stats;
  };

  Tuner(std::shared_ptr<pipeline::Pipeline> pipeline, plan::Package package, Setting setting);
  void run();
  void watch();
  void end(const char* why) noexcept;
  void release();
  [[nodiscard]] std::string reason_to_end() const;
  void look();
  void learn(const Look& look);
  void choose(std::vector<double> seconds);
  [[nodiscard]] Candidate candidate_of(const Plan& made) const;
  void plan_anew();
  void put(Variant variant);
  void tell_candidates();
  void swap(const Move& move);
  void note(Swap swap);
  void watch_idle();
  [[nodiscard]] double now() const;
  [[nodiscard]] bool can_afford() const;

  Setting setting_;
  std::vector<plan::Package> packages_;   // What ran first, then the others.
  std::vector<Plan> plans_;               // The candidates.
  std::vector<Look> learning_;            // Until the stages' times are known.
  std::vector<double> seconds_;           // Of the stages of the plan that ran first; from then on.
  std::optional<Choice> choice_;          // From then on.
  std::unique_ptr<Replanner> replanner_;  // From then on.
  std::size_t planned_ = 0;               // Candidates that it has put in, of which the first is
  std::size_t first_planned_ = 0;         // this one.
  std::optional<Snapshot> before_;        // Of the plan that runs.
  std::shared_ptr<pipeline::Pipeline> pipeline_;
  std::shared_ptr<const void> claim_;      // That it alone watches the pipeline.
  std::shared_ptr<const plan::Plan> put_;  // What runs, unless others replace it too.
  std::optional<double> longest_start_;
  IdleProbe probe_;
  const Clock::time_point begin_ = Clock::now();
  std::thread thread_;

  mutable std::mutex mutex_;  // Guards all below.
  std::condition_variable woken_;
  bool stopping_ = false;
  Report report_;
};

}  // namespace penstock::follow
