// What a build found out, as values: printed, drawn, and kept in the package as build.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/plan/package.h"

namespace penstock::tune {

/// A way to run the network that was measured end to end.
struct WayReport {
  std::string name;  ///< "openvino on each core"
  std::string what;  ///< "2 replicas of 1 stage", "the file as it is, its default threads"
  std::string hash;  ///< Of its plan; empty for a simple way.
  double frames_per_second = 0;
  double latency_seconds = 0;  ///< Of one frame at a time; 0 where it was not measured.
  double spread = 0;           ///< Of the rounds, relative: half of what the middle half spans.
  std::vector<double> rounds;  ///< Of each round, worth() for the goal; ways in turn have as many.
  double worst_ratio = 0;      ///< Of the tolerance, against the reference; 0 for a simple way.
  std::string failure;         ///< Why it was left out; empty where it was not.

  /// What is to be large: frames per second or, where latency counts, one over it.
  [[nodiscard]] double worth(bool latency) const {
    if (!latency) return frames_per_second;
    return latency_seconds > 0 ? 1 / latency_seconds : 0;
  }
};

/// What the chosen plan was measured with.
struct Comparison {
  WayReport plan;
  std::vector<WayReport> simple;  ///< Those a user would have tried; none: only the plan ran.

  /// As it is printed and kept: the simple ways, then the plan.
  [[nodiscard]] std::vector<WayReport> listed() const;
  /// \pre  as listed() gives it, not empty
  static Comparison of(std::vector<WayReport> listed);
};

/// One backend's trial of a part.
struct TrialReport {
  std::string backend;
  double seconds = 0, low = 0, high = 0;  ///< 95 % confidence interval of one run's time.
  int pieces = 1;                         ///< Timed by themselves, that this is the sum of.
  std::string failure;
};

/// A partition of the chosen plan.
struct PartReport {
  int stage = 0;
  std::string backend;
  std::string label;       ///< "conv1 .. relu4"
  std::vector<int> nodes;  ///< Indices in the imported graph.
  std::vector<TrialReport> trials;
  std::string reason;        ///< Why this backend.
  double seconds = 0;        ///< Of its nodes together; 0: not compared with a limit.
  double limit_seconds = 0;  ///< That its device needs at least, by itself; 0: not known.
  std::string bound;         ///< "computing" or "moving": what the limit is of. Empty: not known.
};

/// A node as the page draws it.
struct NodeReport {
  std::string name, op;
  std::vector<int> inputs;  ///< Nodes whose values it reads, all before it.
  int stage = 0;
  std::string backend;
  double seconds = 0;  ///< Its share of its part's measured time.
  double limit_seconds =
      0;  ///< That its part's device needs for it at least; 0: nothing, or not known.
};

/// Values of one frame that one part makes and another reads.
struct HandoverReport {
  int from = 0, to = 0;  ///< Among Report::parts.
  double bytes = 0;      ///< At the bound of open dimensions.
};

/// What the machine could do, and where the plan's time goes.
struct LimitReport {
  double seconds = 0;  ///< Of a frame on all devices together at their peaks; 0: not known.
  std::string bound;   ///< "computing" or "moving": what takes that long.
  double flops = 0;    ///< fp32 operations of a frame, a multiplication and an addition two.
  double flops_per_second = 0;  ///< All devices' peak.
  double bytes = 0;             ///< That have to move for a frame.
  double bytes_per_second = 0;  ///< All devices' peak, from the level that holds so many.
  std::string level;            ///< "L3", "memory"
  int workers = 0;              ///< Of all stages: each has this much time, a period, for a frame.
  std::vector<HandoverReport> handovers;
};

/// What was allowed in an output, by the judge.
struct OutputReport {
  std::string name;
  std::string allowed;
  std::string doubt;  ///< Why wrong values could pass; empty: they could not.
};

/// One call of a worker. Seconds from the begin of the trace; what reaches over its ends is there.
struct SpanReport {
  std::uint64_t frame = 0;
  double ready = 0, start = 0, end = 0;  ///< As in pipeline::Span.
};

struct LaneReport {
  std::string name;  ///< "stage0/1 on cpu:3"
  std::vector<SpanReport> spans;
};

/// A piece of the chosen plan's steady state, when it last ran beside the simple ways.
struct TraceReport {
  double seconds = 0;             ///< 0: too few frames came for one.
  int frames = 0;                 ///< That came out in it; 0: not counted by an older version.
  std::vector<LaneReport> lanes;  ///< One for each worker.
};

struct Report {
  std::string model;
  std::string goal;  ///< "throughput" or "latency"
  std::vector<std::string> devices;
  std::string chosen;           ///< The name of a way.
  std::vector<WayReport> ways;  ///< Plans, in the order in which they were measured.
  Comparison comparison;        ///< The chosen plan in turn with the simple ways.
  std::vector<PartReport> parts;
  std::vector<NodeReport> nodes;
  double period_seconds = 0;       ///< Measured: what the plan predicts.
  double latency_seconds = 0;      ///< Measured, goal latency only.
  double lower_bound_seconds = 0;  ///< Of the period, by the costs measured; 0: none.
  double tolerance = 0;            ///< Relative error that was allowed.
  std::vector<OutputReport> outputs;
  TraceReport trace;
  LimitReport limit;
  std::vector<std::string> notes;  ///< Failures, refusals, budgets: one sentence each.
  std::string node;                ///< Of an application, whose network this is the build of.
  std::vector<Report> networks;    ///< Of an application, by itself; these have none.

  /// Of the measured period over the bound; 0: no bound.
  [[nodiscard]] double gap() const {
    return lower_bound_seconds > 0 ? period_seconds / lower_bound_seconds - 1 : 0;
  }

  /// Of what the machine could do, the share that the plan does; 0: not known.
  [[nodiscard]] double fraction_of_limit() const {
    const double measured = goal == "latency" ? latency_seconds : period_seconds;
    return measured > 0 ? limit.seconds / measured : 0;
  }

  // What differs from run to run, and is not kept:
  Comparison now;              ///< As `comparison`, measured in this build.
  std::string measured_again;  ///< Why what was chosen earlier was not taken; empty: nothing was.
  std::string due_again;       ///< Why the next build measures again; empty: it need not.
  double age_seconds = 0;      ///< Of what was chosen earlier and is taken.
  double seconds = 0;          ///< Of the build.
  double minimum_seconds = 0;  ///< What importing, whole networks and the simple ways needed.
  int measured_parts = 0;      ///< In this build.
  int measured_plans = 0;      ///< In this build.
  bool interrupted = false;    ///< Stopped before all was measured.
};

/// As build.json has it: what the database gives again, so that the same database gives the same
/// bytes.
std::string to_json(const Report& report);
/// \error kDataLoss, kFailedPrecondition  not such a text, or of another version: names what is
/// wrong.
Result<Report> report_from_json(std::string_view text);

/// What a package of build_model() says of itself.
/// \error kNotFound  the package was made otherwise; and those of load_package().
Result<Report> read_report(const std::filesystem::path& package);
Result<Report> read_report(const plan::Package& package);

/// One self-contained HTML page, without links to elsewhere: the network drawn in layers, what was
/// tried on each part and why, the ways that were measured, the trace. web/ has its program.
std::string to_html(const Report& report);

}  // namespace penstock::tune
