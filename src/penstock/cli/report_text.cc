// Tables of ways and parts, and where a frame's time goes beside the machine's limit.
#include "penstock/cli/report_text.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/base/words.h"
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

std::string percent(double fraction) {
  return number(fraction * 100, fraction < 0.1 ? 1 : 0) + " %";
}

/// Nodes, or parts, that have something in common.
struct TimeShare {
  std::string name;
  int count = 0;
  double seconds = 0;
  double compared = 0, limit = 0;  ///< Of those whose limit is known: the time, and the limit.
};

/// By the name, longest first.
template <typename Item, typename NameOf>
std::vector<TimeShare> shares_of(const std::vector<Item>& items, NameOf name_of) {
  std::vector<TimeShare> shares;
  for (const auto& item : items) {
    const auto name = name_of(item);
    auto at = std::ranges::find(shares, name, &TimeShare::name);
    if (at == shares.end()) at = shares.insert(at, {.name = name});
    ++at->count;
    at->seconds += item.seconds;
    if (item.limit_seconds <= 0) continue;
    at->compared += item.seconds;
    at->limit += item.limit_seconds;
  }
  std::ranges::stable_sort(shares, std::greater(), &TimeShare::seconds);
  return shares;
}

void add_shares(const std::vector<TimeShare>& shares, std::string_view what, double all,
                Table& table) {
  constexpr std::size_t kMost = 8;
  for (std::size_t i = 0; i < std::min(shares.size(), kMost); ++i) {
    const auto& share = shares[i];
    table.add(
        {percent(share.seconds / all), duration(share.seconds * 1e9),
         share.compared > 0 ? percent(share.limit / share.compared) : "-",
         concat(what, " ", share.name, share.count > 1 ? concat(" (", share.count, ")") : "")});
  }
}

std::string handovers_text(const tune::Report& report) {
  constexpr std::size_t kMost = 8;
  auto handovers = report.limit.handovers;
  std::ranges::stable_sort(handovers, std::greater(), &tune::HandoverReport::bytes);
  const auto part = [&](int place) {
    const auto& one = report.parts[static_cast<std::size_t>(place)];
    return concat("part ", place, " (stage", one.stage, ", ", one.backend, ")");
  };
  std::string text;
  for (std::size_t i = 0; i < std::min(handovers.size(), kMost); ++i) {
    text += concat("  ", part(handovers[i].from), " to ", part(handovers[i].to), ": ",
                   bytes(static_cast<std::uint64_t>(handovers[i].bytes)), " a frame\n");
  }
  if (handovers.size() > kMost)
    text += concat("  and ", handovers.size() - kMost, " smaller ones\n");
  return text.empty() ? "" : "hand-overs:\n" + text;
}

/// "1.25 GFLOP", "640 kFLOP"
std::string operations(double count) {
  if (count >= 1e9) return number(count * 1e-9, 3) + " GFLOP";
  if (count >= 1e6) return number(count * 1e-6, 3) + " MFLOP";
  if (count >= 1e3) return number(count * 1e-3, 3) + " kFLOP";
  return number(count, 0) + " FLOP";
}

/// The whole beside what the machine could do, and what the time of a frame is spent on.
std::string limit_text(const tune::Report& report) {
  const auto& limit = report.limit;
  if (limit.seconds <= 0 && limit.workers > 0) {
    return "\nhow far from the limit: not known: no operation and no byte of a frame is counted\n";
  }
  if (limit.seconds <= 0) {
    return "\nhow far from the limit: not known; 'penstock build' tells it of what it builds now\n";
  }
  std::string text =
      concat("\nhow far from the limit: ", percent(report.fraction_of_limit()),
             " of what the devices together could do, whose limit is ",
             duration(limit.seconds * 1e9), " a frame by ", limit.bound, ":\n  ",
             operations(limit.flops), " of fp32 at ", number(limit.flops_per_second * 1e-9, 1),
             " GFLOP/s, and ", bytes(static_cast<std::uint64_t>(limit.bytes)), " to move at ",
             number(limit.bytes_per_second * 1e-9, 1), " GB/s from ", limit.level, "\n");
  double busy = 0;
  for (const auto& part : report.parts) busy += part.seconds;
  const double all =
      report.goal == "latency" ? report.latency_seconds : report.period_seconds * limit.workers;
  const auto whose = report.goal == "latency" || limit.workers == 1
                         ? std::string()
                         : concat(limit.workers, " workers' ");
  text += concat("where the ", whose, "time of a frame goes, ", duration(all * 1e9), ":\n");
  Table table({">share", ">time", ">of the limit", "what"});
  add_shares(shares_of(report.nodes, [](const auto& node) { return node.op; }), "operators", all,
             table);
  add_shares(shares_of(report.parts, [](const auto& part) { return part.backend; }), "engine", all,
             table);
  const double rest = std::max(all - busy, 0.0);
  table.add({percent(rest / all), duration(rest * 1e9), "", "waiting and handing over"});
  return text + table.print() + handovers_text(report);
}

/// Where a simple way passed the plan in the last comparison: by the medians of its rounds.
std::string faster_text(const tune::Comparison& comparison, bool latency, std::string_view advice) {
  const auto worth = [&](const tune::WayReport& way) {
    return way.failure.empty() ? way.worth(latency) : 0;
  };
  const auto best = std::ranges::max_element(comparison.simple, {}, worth);
  if (best == comparison.simple.end() || worth(*best) <= comparison.plan.worth(latency)) return "";
  return concat("in this comparison the simple way '", best->name, "' was ",
                number((worth(*best) / comparison.plan.worth(latency) - 1) * 100, 1),
                " % faster than the chosen plan; ", advice, "\n");
}

}  // namespace

std::string report_text(const tune::Report& report, std::string_view advice) {
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
  const auto& [plan, simple] = report.comparison;
  if (!simple.empty()) {
    text += "\nsimple ways, on the file as it is:\n" +
            ways_table(report.comparison.listed(), plan.worth(latency), latency) +
            (plan.worth(latency) > 0 ? faster_text(report.comparison, latency, advice) : "");
  }
  const auto own = std::ranges::find(report.ways, report.chosen, &tune::WayReport::name);
  text += "\nplans:\n" +
          ways_table(report.ways, own == report.ways.end() ? 0 : own->worth(latency), latency);
  text += "\npartitions of the chosen plan:\n";
  for (const auto& part : report.parts) {
    text += concat("stage", part.stage, ": ", part.backend, " runs ", shortened(part.label), " (",
                   counted(part.nodes.size(), "node"), "): ", part.reason,
                   part.limit_seconds > 0 && part.seconds > 0
                       ? concat("; ", percent(part.limit_seconds / part.seconds),
                                " of what its device could do, by ", part.bound)
                       : "",
                   "\n");
    for (const auto& trial : part.trials) text += "    " + trial_text(trial) + "\n";
  }
  text += limit_text(report);
  text += "\nallowed in the outputs:\n";
  for (const auto& output : report.outputs) {
    text += concat("  '", output.name, "': ", output.allowed, "\n");
  }
  for (const auto& note : report.notes) text += "note: " + note + "\n";
  return text;
}

}  // namespace penstock::cli
