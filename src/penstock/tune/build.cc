// Recalls what was chosen before, or searches by the steps; then reports and writes the package.
#include "penstock/tune/build.h"

#include <algorithm>
#include <ctime>
#include <iterator>

#include "penstock/base/option_name.h"
#include "penstock/base/run_in_thread.h"
#include "penstock/plan/calls.h"
#include "penstock/plan/package.h"
#include "penstock/session/refused_node.h"
#include "penstock/session/session.h"
#include "penstock/tune/context.h"
#include "penstock/tune/describe.h"
#include "penstock/tune/last_comparison.h"
#include "penstock/tune/limits.h"
#include "penstock/tune/other_sizes.h"
#include "penstock/tune/outcome.h"
#include "penstock/tune/prepare.h"
#include "penstock/tune/proposals.h"
#include "penstock/tune/recall.h"
#include "penstock/tune/steps.h"

namespace penstock::tune {
namespace {

class Build {
 public:
  Build(const graph::Graph& graph, const Options& options, const backend::Registry& backends,
        cost::Database& database)
      : context_(graph, options, backends, database), proposals_(context_) {}

  Result<Report> run();

 private:
  Status search();
  Status search_until_stopped();
  Status describe_chosen();
  Result<bool> recall();
  Result<bool> run_recalled(Outcome outcome);
  Result<bool> measure_again(const Stale& stale);
  Result<Stale> stale_now(const Outcome& outcome);
  Status keep_recalled(Outcome outcome, const Stale& stale);
  void compare_with_limit(const graph::Graph& graph, const Contestant& chosen);
  void remember();
  void let_go();
  Status write();
  [[nodiscard]] const Entry& chosen() const {
    return context_.contest->entries()[*context_.contest->best()];
  }

  Context context_;
  Proposals proposals_;
  cost::PlanKey question_;  ///< Reads all weights: made once.
  Stale stale_;             ///< Why this search is made again.
};

Status Build::search() {
  if (context_.on_cpus) PENSTOCK_CHECK_OK(try_whole_networks(context_, proposals_));
  PENSTOCK_CHECK_OK(try_accelerators(context_, proposals_));
  const double mandatory = context_.spent();
  if (context_.on_cpus) {
    PENSTOCK_CHECK_OK(try_groupings(context_, proposals_));
    PENSTOCK_CHECK_OK(try_covers(context_, proposals_));
    PENSTOCK_CHECK_OK(try_beside_accelerators(context_, proposals_));
    PENSTOCK_CHECK_OK(try_pipelines(context_, proposals_));
  }
  if (!context_.contest->best()) return no_plan(context_);
  PENSTOCK_CHECK_OK(try_batches(context_, proposals_));
  context_.say("running the best plans once more");
  PENSTOCK_CHECK_OK(context_.contest->run_off(context_.options.budget_seconds -
                                              context_.comparison_seconds() - context_.spent()));
  context_.say("checking the parts of the best plan");
  PENSTOCK_CHECK_OK(check_parts(context_));
  const double before = context_.spent();
  PENSTOCK_CHECK_OK(compare_with_simple(context_, proposals_));
  context_.report.minimum_seconds = mandatory + context_.spent() - before;
  return {};
}

/// Of all that has run and may be asked no more: the package takes its room, on disk and in memory.
void Build::let_go() {
  context_.contest->rest();
  context_.simple->rest();
  context_.profiler->rest();
  context_.profiler->options().weights = nullptr;
  context_.other_sizes.reset();
  context_.whole.files.reset();
  context_.weights.reset();
}

Status Build::write() {
  PENSTOCK_TRY(const auto* graph, context_.graph_of(chosen().contestant.as_is));
  auto split = split_options(chosen(), context_.report, context_.options.custom_ops);
  split.frames = &context_.ring;
  const auto& options = context_.options;
  const auto written = split_model(*graph, split, {.streams = options.streams}, options.output,
                                   context_.backends, options.states);
  if (!written) return written.error();
  for (const auto& note : plan::separate_draws(*written)) options.warn(note);
  return {};
}

/// What an earlier search with no less time chose and reported. \returns whether there was one.
Result<bool> Build::recall() {
  const auto& options = context_.options;
  question_ = question_of(context_.graph, options, context_.devices, context_.ways,
                          context_.backends, context_.ring, context_.profiler->topology());
  question_.device += text_of(context_.accelerators);
  if (options.refresh) return false;
  PENSTOCK_TRY(const auto known, context_.database.find(question_));
  if (!known) return false;
  auto outcome = outcome_from_json(known->text);
  if (!outcome || outcome->budget_seconds < options.budget_seconds ||
      outcome->most_parts < options.most_parts) {
    return false;
  }
  return run_recalled(*std::move(outcome));
}

/// Whether it still holds, beside the simple ways.
Result<bool> Build::run_recalled(Outcome outcome) {
  if (!outcome.stale.why.empty()) return measure_again(outcome.stale);
  PENSTOCK_TRY(const auto place, context_.contest->enter(outcome.contestant));
  if (!context_.contest->entries()[place].way.failure.empty()) return false;
  PENSTOCK_TRY(const bool stands, stands_other_sizes(context_));
  if (!stands) return false;
  auto stale = stale_now(outcome);
  if (!stale && stale.error().code != Code::kCancelled) {
    context_.simple->rest();
    return false;
  }
  context_.report.interrupted = !stale;
  if (!stale) stale = Stale();
  const bool has_time =
      context_.spent() + outcome.minimum_seconds <= context_.options.budget_seconds;
  if (!stale->why.empty() && has_time) return measure_again(*stale);
  PENSTOCK_CHECK_OK(keep_recalled(std::move(outcome), *stale));
  return true;
}

/// By two comparisons one after the other: a moment may deceive. \error as run_simple()
Result<Stale> Build::stale_now(const Outcome& outcome) {
  Stale found;
  for (int i = 0; i < 2; ++i) {
    PENSTOCK_CHECK_OK(run_simple(context_, context_.final_seconds()));
    found = stale(outcome.report.comparison, context_.report.now, context_.ways, outcome.settled);
    if (found.why.empty()) break;
  }
  return found;
}

/// What was chosen is taken. Where it does not hold and the budget leaves no time to search again,
/// the next build does.
Status Build::keep_recalled(Outcome outcome, const Stale& stale) {
  PENSTOCK_TRY(const auto measured_at, context_.database.measured_at(question_));
  if (!stale.why.empty()) {
    outcome.stale = stale;
    (void)context_.database.put(question_, {{1 / outcome.report.period_seconds}, to_json(outcome)});
  }
  auto& report = context_.report;
  outcome.report.now = std::move(report.now);
  outcome.report.interrupted = report.interrupted;
  report = std::move(outcome.report);
  report.due_again = stale.why;
  report.model = model_name(context_.graph);  // The same bytes may lie under another name by now.
  report.age_seconds = static_cast<double>(std::time(nullptr) - measured_at.value_or(0));
  report.minimum_seconds = context_.spent();
  return {};
}

/// What was chosen does not hold any more, nor does what led to it. \returns false
Result<bool> Build::measure_again(const Stale& stale) {
  context_.say("measuring again: " + stale.why);
  stale_ = stale;
  context_.report = {};
  context_.report.measured_again = stale.why;
  context_.profiler->options().refresh = true;
  context_.simple->rest();
  start_contest(context_, true);
  return false;
}

/// With the machine's peaks, which are measured once, in some tenths of a second, whatever has been
/// spent. Without them the report has no limit, and says so.
void Build::compare_with_limit(const graph::Graph& graph, const Contestant& chosen) {
  const auto& stages = chosen.split.stages;
  context_.say("measuring what the machine could do at most");
  context_.parts->measure_in_any_case();
  Roofs roofs;
  const auto peaks_of = [&](const device::Device& device) -> Result<cost::Peaks> {
    PENSTOCK_TRY(auto peaks, context_.profiler->peaks(device));
    if (peaks) return *std::move(peaks);
    return make_error(Code::kCancelled, "stopped before its peaks were measured");
  };
  const auto measured = [&]() -> Status {
    for (const auto& alike : context_.accelerators) {
      PENSTOCK_CHECK_OK(peaks_of(alike.devices.front()));
    }
    for (const auto& stage : stages) {
      PENSTOCK_TRY(auto peaks, peaks_of(stage.devices.front()));
      roofs.stages.push_back(std::move(peaks));
    }
    PENSTOCK_TRY(roofs.machine, peaks_of(union_of(context_.devices)));
    return {};
  }();
  if (measured) {
    return describe_limits(context_.activations->sized(graph), stages, chosen.batches, roofs,
                           context_.report);
  }
  context_.report.notes.push_back("what the machine could do at most is not known: " +
                                  measured.error().message());
}

void Build::remember() {
  auto& report = context_.report;
  const bool latency = context_.options.goal == Goal::kLatency;
  const auto better = better_than_plan(report.comparison, context_.ways, latency);
  const bool settled = better && !stale_.way.empty();
  if (settled) {
    report.notes.push_back(
        concat("a second search found no plan as fast as the simple way '", better->name, "'"));
  }
  const Outcome outcome{.contestant = chosen().contestant,
                        .report = report,
                        .budget_seconds = context_.options.budget_seconds,
                        .most_parts = context_.options.most_parts,
                        .minimum_seconds = report.minimum_seconds,
                        .settled = settled};
  // A row that the database does not take must not lose the run.
  (void)context_.database.put(question_, {{1 / report.period_seconds}, to_json(outcome)});
}

/// Where it is stopped, the best plan until then is chosen.
Status Build::search_until_stopped() {
  auto done = search();
  if (done && !context_.options.stopped()) return {};
  const bool stopped = context_.options.stopped() || done.error().code == Code::kCancelled;
  if (!stopped) return std::move(done).error();
  if (!context_.contest->best()) {
    return make_error(Code::kCancelled, "stopped before any plan was measured");
  }
  auto& report = context_.report;
  report.interrupted = true;
  report.notes.push_back("stopped before all was measured: the best plan until then");
  report.comparison.plan = chosen().way;
  return {};
}

Status Build::describe_chosen() {
  auto& report = context_.report;
  const auto& contestant = chosen().contestant;
  PENSTOCK_TRY(const auto* graph, context_.graph_of(contestant.as_is));
  describe({*graph, context_.options, context_.devices, context_.kinds, *context_.contest,
            *context_.parts, *context_.gate, context_.accelerators, context_.on_cpus},
           report);
  if (auto left_out = context_.shortlist.sentence(context_.budget_text()); !left_out.empty()) {
    report.notes.push_back(std::move(left_out));
  }
  compare_with_limit(*graph, contestant);
  return {};
}

Result<Report> Build::run() {
  PENSTOCK_CHECK_OK(prepare(context_));
  PENSTOCK_TRY(const bool recalled, recall());
  auto& report = context_.report;
  if (!recalled) {
    PENSTOCK_CHECK_OK(search_until_stopped());
    PENSTOCK_CHECK_OK(describe_chosen());
    if (!report.interrupted) remember();
  }
  std::ranges::copy(context_.notes, std::back_inserter(report.notes));
  let_go();
  context_.say("writing the package");
  context_.options.on_write();
  PENSTOCK_CHECK_OK(write());
  report.seconds = context_.spent();
  report.measured_plans = context_.contest->measured();
  report.measured_parts = static_cast<int>(context_.profiler->measured());
  return std::move(report);
}

/// Where there can be none.
Status check_most_frames(const Options& options) {
  if (options.most_frames == 1) return {};
  if (options.most_frames < 1 || options.most_frames > partition::kMostFrames) {
    return invalid_argument(OptionName::kBatch, ": expected 1 to ", partition::kMostFrames,
                            " frames, found ", options.most_frames);
  }
  if (options.goal == Goal::kLatency) {
    return invalid_argument(OptionName::kBatch,
                            ": in a call of several frames each waits for all; "
                            "expected the goal throughput, found latency");
  }
  if (options.states.empty()) return {};
  return invalid_argument(OptionName::kBatch,
                          ": frames of one stream with states come one after the other, so that no "
                          "call has several; leave it out (",
                          in_words_of_caller("'split --batch --streams'", "split"),
                          " lets streams share calls)");
}

}  // namespace

Result<int> to_most_frames(const partition::Batches& batches) {
  if (batches.empty()) return 1;
  const auto& [stage, asked] = *batches.begin();
  if (batches.size() == 1 && stage.empty() && asked.wait.count() == 0) return asked.frames;
  return invalid_argument(OptionName::kBatch,
                          ": build measures for each of the stages that it "
                          "chooses how many frames a call takes; expected one number, N, auto or "
                          "auto:N, without a stage or a wait");
}

Result<Report> build_model(const graph::Graph& graph, const Options& options,
                           const backend::Registry& backends, cost::Database& database) {
  PENSTOCK_CHECK_OK(plan::check_target(options.output));
  PENSTOCK_CHECK_OK(check_most_frames(options));
  auto built = run_in_thread([&] { return Build(graph, options, backends, database).run(); });
  if (!built) return name_refused_node(std::move(built).error(), graph);
  return built;
}

}  // namespace penstock::tune
