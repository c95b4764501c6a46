#include "penstock/cli/report_text.h"

#include <algorithm>

#include "penstock/base/error.h"
#include "penstock/cli/text.h"

namespace penstock::cli {
namespace {

/// `chosen`: the worth of the plan that was chosen, measured with these.
std::string ways_table(const std::vector<tune::WayReport>& ways, double chosen, bool latency) {
  Table table(
      {"way", ">frames/s", ">latency", ">chosen is", ">spread", ">of the tolerance", "what"});
  std::string failed;
  for (const auto& way : ways) {
    if (!way.failure.empty()) {
      failed += concat(way.name, ": left out: ", way.failure, "\n");
      continue;
    }
    const double rate = way.frames_per_second;
    table.add({way.name, number(rate, rate < 100 ? 2 : 0),
               way.latency_seconds > 0 ? duration(way.latency_seconds * 1e9) : "",
               way.worth(latency) > 0 ? number(chosen / way.worth(latency), 2) + " x" : "",
               number(way.spread * 100, 1) + " %",
               way.hash.empty() ? "" : number(way.worst_ratio * 100, 1) + " %", way.what});
  }
  return (table.empty() ? "" : table.print()) + failed;
}

/// Exporters give nodes names of hundreds of letters.
std::string shortened(const std::string& label) {
  constexpr std::size_t kMost = 80;
  if (label.size() <= kMost) return label;
  return concat(label.substr(0, kMost / 2), "...", label.substr(label.size() - kMost / 2));
}

std::string trial_text(const tune::TrialReport& trial) {
  if (!trial.failure.empty()) return concat(trial.backend, ": ", trial.failure);
  return concat(trial.backend, " ", duration(trial.seconds * 1e9), " (", duration(trial.low * 1e9),
                " to ", duration(trial.high * 1e9),
                trial.pieces > 1 ? concat(", the sum of ", trial.pieces, " pieces") : "", ")");
}

}  // namespace

std::string report_text(const tune::Report& report) {
  const bool latency = report.goal == "latency";
  std::string text = concat("model '", report.model, "', goal ", report.goal, ", devices");
  for (const auto& device : report.devices) text += " " + device;
  text += concat("\nchosen: ", report.chosen, ", ",
                 duration((latency ? report.latency_seconds : report.period_seconds) * 1e9),
                 latency ? " from push to pop, measured" : " a frame, measured");
  if (report.lower_bound_seconds > 0 && !latency) {
    text += concat("; no plan with each stage on one of the devices, by these costs, is under ",
                   duration(report.lower_bound_seconds * 1e9), ": gap ",
                   number(report.gap() * 100, 1), " %");
  }
  text += "\n";
  if (report.simple.size() > 1) {
    text += "\nsimple ways, on the file as it is:\n" +
            ways_table(report.simple, report.simple.back().worth(latency), latency);
  }
  const auto own = std::ranges::find(report.ways, report.chosen, &tune::WayReport::name);
  text += "\nplans:\n" +
          ways_table(report.ways, own == report.ways.end() ? 0 : own->worth(latency), latency);
  text += "\npartitions of the chosen plan:\n";
  for (const auto& part : report.parts) {
    text += concat("stage", part.stage, ": ", part.backend, " runs ", shortened(part.label), " (",
                   part.nodes.size(),
                   part.nodes.size() == 1 ? " node): " : " nodes): ", part.reason, "\n");
    for (const auto& trial : part.trials) text += "    " + trial_text(trial) + "\n";
  }
  text += "\nallowed in the outputs:\n";
  for (const auto& output : report.outputs) {
    text += concat("  '", output.name, "': ", output.allowed, "\n");
  }
  for (const auto& note : report.notes) text += "note: " + note + "\n";
  return text;
}

}  // namespace penstock::cli
