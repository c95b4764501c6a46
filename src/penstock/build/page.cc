// The report as one HTML page.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "penstock/base/markup.h"
#include "penstock/build/report.h"

namespace penstock::build {
namespace {

constexpr double kColumn = 16, kRow = 15, kMargin = 20;
constexpr double kLeastRadius = 3, kMostRadius = 7;

constexpr const char* kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Penstock build</title><style>
body { font: 14px/1.4 system-ui, sans-serif; margin: 2em; color: #222; }
table { border-collapse: collapse; margin: 0.5em 0 1.5em; }
th, td { padding: 0.2em 0.8em; text-align: left; border-bottom: 1px solid #ddd; }
td.n { text-align: right; font-variant-numeric: tabular-nums; }
.graph { overflow-x: auto; border: 1px solid #ddd; }
.key { display: inline-block; width: 0.9em; height: 0.9em; border-radius: 50%; margin: 0 0.3em 0 1em; }
.failed { color: #a00; }
</style></head><body>
)";

std::string duration(double seconds) {
  std::ostringstream text;
  text.precision(4);
  const bool small = seconds < 0.01;
  text << seconds * (small ? 1e6 : 1e3) << (small ? " us" : " ms");
  return text.str();
}

/// Hues a golden angle apart: far from each other for any few.
std::string color(std::size_t number, int lightness) {
  const auto hue = std::fmod(210 + 137.508 * static_cast<double>(number), 360);
  std::ostringstream text;
  text << "hsl(" << std::lround(hue) << ",65%," << lightness << "%)";
  return text.str();
}

std::vector<std::string> backends_of(const Report& report) {
  std::set<std::string> names;
  for (const auto& node : report.nodes) names.insert(node.backend);
  return {names.begin(), names.end()};
}

struct Spot {
  double x = 0, y = 0;
};

/// By the longest path from an input, and in the order of the listing within a column.
std::vector<Spot> lay_out(const std::vector<NodeReport>& nodes) {
  std::vector<int> depth(nodes.size(), 0);
  std::map<int, int> filled;
  std::vector<Spot> places;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const int input : nodes[i].inputs) {
      depth[i] = std::max(depth[i], depth[static_cast<std::size_t>(input)] + 1);
    }
    places.push_back({kMargin + kColumn * depth[i], kMargin + kRow * filled[depth[i]]++});
  }
  return places;
}

void draw_graph(std::ostream& out, const Report& report, const std::vector<std::string>& backends) {
  const auto places = lay_out(report.nodes);
  double width = 0, height = 0, longest = 1e-12;
  for (const auto& place : places) {
    width = std::max(width, place.x + kMargin);
    height = std::max(height, place.y + kMargin);
  }
  for (const auto& node : report.nodes) longest = std::max(longest, node.seconds);
  out << "<div class=\"graph\"><svg width=\"" << width << "\" height=\"" << height << "\">\n";
  for (std::size_t i = 0; i < places.size(); ++i) {
    for (const int input : report.nodes[i].inputs) {
      const auto& from = places[static_cast<std::size_t>(input)];
      out << "<line x1=\"" << from.x << "\" y1=\"" << from.y << "\" x2=\"" << places[i].x
          << "\" y2=\"" << places[i].y << "\" stroke=\"#ccc\"/>\n";
    }
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto& node = report.nodes[i];
    const auto backend =
        static_cast<std::size_t>(std::ranges::find(backends, node.backend) - backends.begin());
    const double radius =
        kLeastRadius + (kMostRadius - kLeastRadius) * std::sqrt(node.seconds / longest);
    out << "<circle cx=\"" << places[i].x << "\" cy=\"" << places[i].y << "\" r=\"" << radius
        << "\" fill=\"" << color(backend, 60) << "\" stroke=\""
        << color(static_cast<std::size_t>(node.stage) + 5, 30) << "\" stroke-width=\"1.5\"><title>"
        << i << " " << escape_markup(node.name) << " (" << escape_markup(node.op) << "), stage"
        << node.stage << ", " << escape_markup(node.backend) << ", " << duration(node.seconds)
        << "</title></circle>\n";
  }
  out << "</svg></div>\n<p>Fill: backend.";
  for (std::size_t i = 0; i < backends.size(); ++i) {
    out << "<span class=\"key\" style=\"background:" << color(i, 60) << "\"></span>"
        << escape_markup(backends[i]);
  }
  out << ". Edge: stage. Size: time; rest the mouse on a node for it.</p>\n";
}

/// `chosen`: the worth of the plan that was chosen, measured with these.
void write_ways(std::ostream& out, const std::vector<WayReport>& ways, double chosen,
                bool latency) {
  out << "<table><tr><th>way<th>frames/s<th>latency<th>chosen is<th>what</tr>\n";
  for (const auto& way : ways) {
    out << "<tr><td>" << escape_markup(way.name);
    if (!way.failure.empty()) {
      out << "<td colspan=\"4\" class=\"failed\">left out: " << escape_markup(way.failure)
          << "</tr>\n";
      continue;
    }
    std::ostringstream ratio;
    ratio.precision(3);
    if (way.worth(latency) > 0) ratio << chosen / way.worth(latency) << " x";
    out << "<td class=\"n\">" << std::round(way.frames_per_second * 100) / 100 << "<td class=\"n\">"
        << (way.latency_seconds > 0 ? duration(way.latency_seconds) : "") << "<td class=\"n\">"
        << ratio.str() << "<td>" << escape_markup(way.what) << "</tr>\n";
  }
  out << "</table>\n";
}

void write_parts(std::ostream& out, const std::vector<PartReport>& parts) {
  out << "<table><tr><th>stage<th>nodes<th>backend<th>tried<th>reason</tr>\n";
  for (const auto& part : parts) {
    out << "<tr><td>stage" << part.stage << "<td>" << escape_markup(part.label) << "<td>"
        << escape_markup(part.backend) << "<td>";
    for (const auto& trial : part.trials) {
      out << escape_markup(trial.backend) << ": "
          << (trial.failure.empty() ? duration(trial.seconds) : escape_markup(trial.failure));
      if (trial.failure.empty() && trial.pieces > 1) out << " in " << trial.pieces << " pieces";
      out << "<br>";
    }
    out << "<td>" << escape_markup(part.reason) << "</tr>\n";
  }
  out << "</table>\n";
}

void write_chosen(std::ostream& out, const Report& report) {
  const bool latency = report.goal == "latency";
  out << "<p>Goal " << escape_markup(report.goal) << ", devices";
  for (const auto& device : report.devices) out << " " << escape_markup(device);
  out << ". Chosen: <b>" << escape_markup(report.chosen) << "</b>, "
      << duration(latency ? report.latency_seconds : report.period_seconds)
      << (latency ? " from push to pop, measured" : " a frame, measured");
  if (report.lower_bound_seconds > 0 && !latency) {
    out << "; by the measured costs no plan is under " << duration(report.lower_bound_seconds)
        << ", gap " << std::round(report.gap() * 1000) / 10 << " %";
  }
  out << ".</p>\n";
}

/// Each table by what was measured with it.
void write_tables(std::ostream& out, const Report& report) {
  const bool latency = report.goal == "latency";
  const auto own = std::ranges::find(report.ways, report.chosen, &WayReport::name);
  out << "<h2>Simple ways, on the file as it is</h2>\n";
  write_ways(out, report.simple, report.simple.empty() ? 0 : report.simple.back().worth(latency),
             latency);
  out << "<h2>Plans</h2>\n";
  write_ways(out, report.ways, own == report.ways.end() ? 0 : own->worth(latency), latency);
}

}  // namespace

std::string to_html(const Report& report) {
  std::ostringstream out;
  out << kHead << "<h1>" << escape_markup(report.model) << "</h1>\n";
  write_chosen(out, report);
  draw_graph(out, report, backends_of(report));
  out << "<h2>Partitions</h2>\n";
  write_parts(out, report.parts);
  write_tables(out, report);
  if (!report.notes.empty()) out << "<h2>Notes</h2>\n<ul>\n";
  for (const auto& note : report.notes) out << "<li>" << escape_markup(note) << "\n";
  if (!report.notes.empty()) out << "</ul>\n";
  out << "</body></html>\n";
  return out.str();
}

}  // namespace penstock::build
