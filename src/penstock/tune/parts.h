// Parts: the pieces of a network, and what each backend takes for them and for runs of them.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/collage/candidates.h"
#include "penstock/collage/cover.h"
#include "penstock/collage/rules.h"
#include "penstock/collage/units.h"
#include "penstock/cost/boundary.h"
#include "penstock/cost/profiler.h"
#include "penstock/tune/build.h"
#include "penstock/tune/plans.h"
#include "penstock/tune/room.h"
#include "penstock/tune/way.h"

namespace penstock::tune {

/// A part that a way of computing may take, and what is known of it.
struct Trial {
  collage::Candidate candidate;
  std::size_t way = 0;             ///< Among Parts::ways().
  std::optional<cost::Cost> cost;  ///< None: not measured.
  bool checked = false;            ///< That it computes what it should.

  /// Infinite where it failed, NaN where it was not measured.
  [[nodiscard]] double seconds() const;
};

/// Which of the other devices run the same while something is timed on the device: a few of those
/// that have the most in common with it, as each is another copy to compile and to hold. None where
/// it is an accelerator.
std::vector<device::Device> neighbours_of(const device::Topology& topology,
                                          const device::Device& device,
                                          const std::vector<device::Device>& devices);

/// Measured on the first of the devices, with as many threads as it has CPUs, while the same runs
/// on its neighbours_of() the others: as the pipeline will have it. Each measurement is in a
/// process of its own, so that a crash is only a reason against the part. Borrows what it is made
/// with. One thread.
class Parts {
 public:
  using Clock = std::chrono::steady_clock;

  struct Setting {
    const graph::Graph& graph;
    const Options& options;
    const std::vector<device::Device>& devices;
    const std::vector<Way>& ways;
    const backend::Registry& backends;
    cost::Profiler& profiler;
    const Room& room;  ///< Neighbours are no more than it holds copies of the part.
  };
  /// Nothing is measured yet.
  /// \error kInvalidArgument  a backend's rules, or the user's, are no rules
  static Result<Parts> create(const Setting& setting);

  [[nodiscard]] const std::vector<Way>& ways() const { return ways_; }
  void check_within(const Tolerance& tolerance) { tolerance_ = tolerance; }

  /// Whether its rules let the way have the whole network.
  [[nodiscard]] bool takes_whole(std::size_t way) const { return whole_.contains(way); }
  /// Seconds of a frame where the way runs the whole network on one device while the others do too,
  /// or on all CPUs at once; none where it cannot, which is noted.
  Result<std::optional<double>> whole_seconds(std::size_t way);
  Result<std::optional<double>> wide_seconds(std::size_t way);
  /// Seconds of a frame of another form of the whole network on the device; none: it cannot.
  Result<std::optional<double>> form_seconds(const graph::Graph& form, const Way& way,
                                             const device::Device& device);
  /// A plan of the whole network failed: it is no rival and no bound.
  void refuse_whole(const Way& way, cost::Failure reason);
  /// Seconds of a cover's parts, one after the other as a stage runs them; infinite: it cannot;
  /// none: the time was up.
  Result<std::optional<double>> chain_seconds(const Cover& cover);
  /// Seconds of the cover on the first of these devices while it runs on some others, with as many
  /// threads as that has CPUs.
  Result<std::optional<double>> group_seconds(const Cover& cover,
                                              const std::vector<device::Device>& alike);
  /// Runs a plan's stages, each on every kind of device where it will stand. \returns
  /// whether all can run and are allowed(); none: the time was up.
  Result<std::optional<bool>> stages_run(const std::vector<partition::ChosenStage>& stages);

  /// The stages' parts, where at least one stage is faster by one backend for all of it: between
  /// stages, a change of backend costs nothing extra. None: no stage is.
  Result<std::optional<Cover>> faster_stages(const std::vector<partition::ChosenStage>& stages);
  /// Whether the user's rules, where there are any for its backend, yield the part.
  [[nodiscard]] bool allowed(const partition::ChosenPart& part) const;

  /// From now on whatever has been spent.
  void measure_in_any_case();
  /// From now on no more than so many.
  void measure_at_most(std::int64_t count);
  /// Measures so long, and that share of the count; then what is asked for stays unknown.
  void measure_until(Clock::time_point deadline, double share = 1);
  [[nodiscard]] bool over() const { return profiler_->over(); }

  /// Makes pieces of about equal weight of the nodes', and candidates of runs of them. What was
  /// measured stays known.
  Status cut(const std::vector<double>& node_weights);
  [[nodiscard]] const collage::Units& pieces() const { return units_; }
  /// Each piece by itself, each way.
  Status measure_pieces();
  [[nodiscard]] std::optional<double> piece_seconds(std::size_t way, std::size_t piece) const;

  [[nodiscard]] const std::vector<Trial>& trials() const { return trials_; }
  Status measure(std::size_t trial);
  /// Against ONNX Runtime without optimisation; a trial that differs has failed.
  Status check(std::size_t trial);
  /// Seconds of a trial that is not measured, by its pieces; infinite where one of them failed.
  [[nodiscard]] double estimate(const Trial& trial) const;
  /// Measures what handing values from backend to backend costs, for problem().
  Status measure_boundaries();
  /// The trials, by their numbers, as candidates of a cover, with what is known by now.
  [[nodiscard]] collage::CoverProblem problem() const;
  [[nodiscard]] Cover cover_of(const collage::Cover& cover) const;

  /// What was measured of these nodes; infinite: nothing, or it failed.
  [[nodiscard]] double seconds_of(const Way& way, const std::vector<graph::NodeId>& nodes) const;
  /// By the analytic model, of each node.
  [[nodiscard]] const std::vector<double>& analytic_seconds() const { return analytic_; }
  /// Seconds of each node in the cover, on one device: measured parts, shared among their nodes as
  /// the measured pieces and the analytic model say.
  [[nodiscard]] std::vector<double> node_seconds(const Cover& cover) const;
  /// Seconds of each node where the way runs what it takes of the network, by the measured pieces
  /// and by the measured region of most work; infinite where it takes nothing, or was not measured.
  [[nodiscard]] std::vector<double> claimed_seconds(std::size_t way) const;
  /// Measures that region: of the candidates that are not all of the network the one of most work.
  Status measure_largest(std::size_t way);
  /// Seconds that no cover of the parts measured takes less than, on one device; 0: not known.
  [[nodiscard]] double least_cover() const;
  /// That takes the least by what was measured, as parts; empty: nothing covers the network.
  [[nodiscard]] Cover cheapest_cover() const;
  /// Of each device: what the cover takes there over what Place::seconds_on() says without paces,
  /// timed as a whole once for each kind of device. 1 where it is of the first one's kind, or could
  /// not be timed.
  Result<std::vector<double>> paces_of(const Cover& cover, const std::vector<double>& node_seconds);

  /// What was measured of these nodes, each way; of them as one, or else of the pieces that they
  /// are. On a stage's devices: where these have another number of CPUs, of the nodes as one there.
  [[nodiscard]] std::vector<TrialReport> trials_of(
      const std::vector<graph::NodeId>& nodes, const std::vector<device::Device>& devices) const;
  /// One sentence for each part that failed, in order.
  [[nodiscard]] const std::vector<std::string>& failures() const { return failures_; }
  /// Why the part does not compute what ONNX Runtime without optimisation does; empty: it does, or
  /// nothing can be said of it alone. Tried on the first of the devices, or on `device` where that
  /// is an accelerator.
  Result<std::string> failure_of(const partition::ChosenPart& part, const device::Device& device);

 private:
  Parts() = default;
  Status read_rules(const backend::Registry& registry);
  [[nodiscard]] Result<cost::Part> part_of(const std::vector<graph::NodeId>& nodes,
                                           const Way& way) const;
  [[nodiscard]] Result<cost::Part> part_of(cost::PartModel model, const Way& way) const;
  [[nodiscard]] const collage::Rule& rule_of(const Way& way) const;
  void place(cost::Part& part, const device::Device& device,
             const std::vector<device::Device>& beside) const;
  [[nodiscard]] bool has_too_many_nodes() const;
  [[nodiscard]] Result<std::vector<collage::Candidate>> candidates_of(std::size_t way) const;
  [[nodiscard]] std::string kind_of(const device::Device& device) const;
  Result<std::optional<Cover>> faster_stage(const partition::ChosenStage& stage);
  Result<std::optional<cost::Cost>> measure_chain(const Cover& cover, const device::Device& device);
  Result<std::optional<cost::Cost>> measure_chain(const Cover& cover, const device::Device& device,
                                                  const std::vector<device::Device>& beside);
  Status measure(const std::vector<std::size_t>& trials);
  [[nodiscard]] Result<collage::Covers> known_covers() const;
  void fail(std::size_t trial, const cost::Failure& failure);
  void tell_once(std::string failure);
  [[nodiscard]] TrialReport trial_of(std::size_t way,
                                     const std::vector<graph::NodeId>& nodes) const;
  [[nodiscard]] TrialReport trial_on(std::size_t way, const std::vector<graph::NodeId>& nodes,
                                     const std::vector<device::Device>& devices) const;
  /// What was measured of these nodes; null: nothing.
  [[nodiscard]] const Trial* find(const Way& way, const std::vector<graph::NodeId>& nodes) const;

  const graph::Graph* graph_ = nullptr;
  const Options* options_ = nullptr;
  std::vector<device::Device> devices_;
  std::vector<std::string> kinds_;  ///< Of the devices.
  std::vector<Way> ways_;
  cost::Profiler* profiler_ = nullptr;
  const Room* room_ = nullptr;
  std::int64_t begun_ = 0;         ///< Measurements before those that count;
  std::int64_t most_ = INT64_MAX;  ///< and of those that do, so many.
  Tolerance tolerance_;
  std::vector<collage::Rule> rules_;         ///< Of each way.
  std::set<std::string> ruled_;              ///< Backends whose rules are the user's.
  std::vector<collage::NodeSet> supported_;  ///< Of the backends that take only some nodes.
  std::vector<double> analytic_;
  collage::Units units_;
  collage::CoverProblem problem_;  ///< Without candidates.
  std::vector<Trial> trials_;
  std::vector<Trial> earlier_;  ///< Measured, and of pieces that are no more.
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> single_;  ///< (way, piece) -> trial.
  std::map<std::size_t, std::size_t> whole_;                           ///< way -> trial.
  std::optional<cost::Boundaries> boundaries_;
  std::map<std::string, int> hangs_;  ///< By backend.
  double least_chain_ = 0;            ///< Seconds of a cover timed as a whole; 0: none was.
  std::vector<std::string> failures_;
};

}  // namespace penstock::tune
