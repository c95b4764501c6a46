// Prints a table of outputs with what was allowed, logs problems, and chooses the exit code.
#include "penstock/cli/show_verdict.h"

#include <spdlog/spdlog.h>

#include "penstock/base/printable.h"
#include "penstock/base/words.h"
#include "penstock/cli/command.h"
#include "penstock/cli/interrupt.h"
#include "penstock/cli/text.h"
#include "penstock/measure/judge.h"
#include "penstock/tune/report.h"

namespace penstock::cli {
namespace {

std::string_view headline(measure::Finding finding) {
  if (finding == measure::Finding::kRight) return "verified: ";
  return finding == measure::Finding::kWrong ? "not verified: " : "inconclusive: ";
}

}  // namespace

std::string verdict_text(const measure::VerifyReport& report) {
  std::string text = "hashes: as in plan.json\nreference: " + printable(report.reference) + "\n";
  Table table({"output", "verdict", ">values", ">outside the tolerance", ">largest error",
               ">of the tolerance"});
  for (const auto& output : report.verdict.outputs) {
    table.add({output.allowed.output,
               report.compared_none() ? "-" : std::string(measure::to_string(output.finding)),
               std::to_string(output.values), std::to_string(output.mismatches),
               concat(output.largest_error), number(output.worst_ratio * 100, 1) + " %"});
  }
  text += table.print();
  if (!report.other_sizes.empty()) {
    text +=
        concat("sizes are open: frames of ", printable(report.other_sizes), " were tried too\n");
  }
  text += "allowed:\n";
  for (const auto& output : report.verdict.outputs) {
    text += printable(concat("  '", output.allowed.output, "': ", measure::explain(output)));
    if (output.scale != 1) {
      text += concat("; told by random numbers ", output.scale,
                     " times as large, as all usual ones give it about the same");
    }
    text += "\n";
  }
  const auto dropped = report.dropped == 0 ? "" : concat(" (", report.dropped, " dropped)");
  const auto unjudged = report.unjudged == 0 ? "" : concat(" (", report.unjudged, " not judged)");
  return text + concat(headline(report.finding()), counted(report.frames, "frame"), dropped,
                       unjudged, ", ", counted(report.problem_count(), "problem"),
                       report.interrupted ? " (interrupted)\n" : "\n");
}

void log_findings(const measure::VerifyReport& report) {
  for (const auto& problem : report.problems()) spdlog::error("{}", problem);
  if (report.unjudged > 0) spdlog::warn("inconclusive: {}", report.why_unjudged);
  if (report.unjudged == report.frames && report.frames > 0) return;
  for (const auto& output : report.verdict.outputs) {
    if (output.finding == measure::Finding::kInconclusive) {
      spdlog::warn("inconclusive: {}", output.reason);
    }
  }
}

int verdict_code(const measure::VerifyReport& report) {
  if (report.interrupted) return interrupt_code();
  if (report.finding() == measure::Finding::kRight) return kOk;
  return report.finding() == measure::Finding::kWrong ? kFailed : kInconclusive;
}

Tolerance tolerance_of(const plan::Package& package) {
  const auto built = tune::read_report(package);
  return built ? Tolerance::of(built->tolerance) : Tolerance();
}

}  // namespace penstock::cli
