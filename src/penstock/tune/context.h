// Context: what the steps of a build share, and how they share its time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/cost/activations.h"
#include "penstock/cost/profiler.h"
#include "penstock/device/device.h"
#include "penstock/graph/graph.h"
#include "penstock/graph/weight_store.h"
#include "penstock/plan/package.h"
#include "penstock/session/session.h"
#include "penstock/tune/accelerators.h"
#include "penstock/tune/budget.h"
#include "penstock/tune/build.h"
#include "penstock/tune/contest.h"
#include "penstock/tune/copies.h"
#include "penstock/tune/gate.h"
#include "penstock/tune/parts.h"
#include "penstock/tune/room.h"
#include "penstock/tune/runner.h"
#include "penstock/tune/shortlist.h"
#include "penstock/tune/simple.h"
#include "penstock/tune/way.h"

namespace penstock::tune {

/// The engine that tells what is right.
inline constexpr const char* kSureEngine = "onnxruntime";

/// Of random frames other than those that are measured: see stands_other_sizes().
struct OtherSizes {
  plan::Package package;        ///< The network in one stage, of these sizes.
  measure::Ring ring;           ///< Empty: the network takes no others.
  std::optional<Gate> gate;     ///< Refers to both.
  std::set<std::size_t> right;  ///< Entries of the contest that were judged.
};

/// Made by prepare(); what is optional or a pointer is there from then on. Borrows what it is made
/// with. One thread.
struct Context {
  Context(const graph::Graph& network, const Options& asked, const backend::Registry& registry,
          cost::Database& costs);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// The network as it was imported, or the file as it is, which is imported when it is asked for.
  Result<const graph::Graph*> graph_of(bool as_is);
  /// Tells a person what is being done.
  void say(const std::string& what) const;

  /// "the budget of 60 s", and where it is a share that nobody gave, that it is one.
  [[nodiscard]] std::string budget_text() const;
  [[nodiscard]] double spent() const { return budget.spent(); }
  [[nodiscard]] bool out_of_time() const { return options.stopped() || spent() > latest_start(1); }
  /// What is left is for the last comparison.
  [[nodiscard]] bool must_compare() const {
    return spent() > options.budget_seconds - comparison_seconds();
  }
  /// When so many more plans can still be run before calls of several frames are tried, where the
  /// user allows these, and before the last comparison.
  [[nodiscard]] double latest_start(int plans) const;
  /// What the search leaves for choosing and running calls of several frames, a share of the budget
  /// at most; 0 where each call is to take one.
  [[nodiscard]] double batches_seconds() const;
  /// About what it takes to measure how many frames the best plan's calls should take, once there
  /// is one.
  [[nodiscard]] double choosing_seconds() const;
  /// About what it takes to run one more plan, with a model to compile for each number of frames.
  [[nodiscard]] double batched_entry_seconds() const;
  /// Of the last comparison: for which it runs, and about what it takes with one more plan that
  /// answers it.
  [[nodiscard]] double final_seconds() const;
  [[nodiscard]] double comparison_seconds() const;
  /// About what it takes to have a first plan, before one is known.
  [[nodiscard]] double first_plan_seconds() const;
  /// Of compiling, or of one run, that are no hang yet: by the budget, but enough for what takes a
  /// few times as long as the engine that tells what is right. Before that one was tried, its own.
  [[nodiscard]] double silence_seconds() const;

  /// Of the whole network: what writes a state has one instance.
  [[nodiscard]] bool has_replicas() const { return options.states.empty() && devices.size() > 1; }
  /// Whether there is room for the whole network on each device by that cover, where it may stand
  /// so.
  [[nodiscard]] bool fits_on_each(const Cover& cover) const;
  /// Whether two plans, each a copy on each device, cannot stand side by side.
  [[nodiscard]] bool is_one_at_a_time() const { return !room->holds(2 * devices.size()); }
  /// Frames per second by what one takes, on each device or in one call on the CPUs of all.
  [[nodiscard]] double rate(double seconds, bool on_each) const;

  const graph::Graph& graph;
  ModelFile file;  ///< As it is, but with its bound inputs constant.
  std::shared_ptr<const graph::WeightStore> weights;  ///< Of the clean import.
  plan::Package whole;      ///< The network in one stage, with its states.
  double pack_seconds = 0;  ///< Of writing that.
  const Options& options;
  const backend::Registry& backends;
  cost::Database& database;
  const Budget budget;
  Shortlist shortlist;
  /// Tells that a frame has not ended for cost::kLongRun; but once. Any thread.
  const std::function<void()> tell_long_run;
  std::vector<device::Device> devices;     ///< Of CPUs.
  std::vector<std::string> kinds;          ///< Of the devices.
  std::vector<Accelerators> accelerators;  ///< Beside the CPUs, those that are alike together.
  bool on_cpus = true;  ///< Plans may have stages on the devices; else on accelerators alone.
  std::vector<Way> ways;
  std::optional<Room> room;
  Copies copies;  ///< By the ways' backends.
  measure::Ring ring;
  cost::Activations::Kept kept = cost::Activations::Kept::kSizes;  ///< Of what nodes make,
  std::optional<cost::Activations> activations;                    ///< of the first frames.
  std::optional<Gate> gate;
  std::unique_ptr<OtherSizes> other_sizes;  ///< Once a plan was judged on them.
  std::optional<Pipelines> runners;
  std::optional<Contest> contest;
  std::unique_ptr<cost::Profiler> profiler;
  std::optional<Parts> parts;
  std::optional<Simple> simple;
  /// Notes of this build alone: what is remembered answers a build that did not ask for them too.
  std::vector<std::string> notes;
  Report report;

 private:
  std::optional<graph::Graph> as_is_;
};

/// That no plan is left, with the reasons of all.
Error no_plan(const Context& context);

}  // namespace penstock::tune
