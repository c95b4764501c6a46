// Lays groups out in columns by depth, and writes the graph and the devices' bars as SVG text.
#include "penstock/planner/report/svg.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include "penstock/base/markup.h"
#include "penstock/planner/problem/index.h"
#include "penstock/planner/report/explain.h"

namespace penstock::planner {
namespace {

constexpr double kMargin = 20, kLabel = 130, kBarHeight = 16, kBarStep = 24, kBarWidth = 900,
                 kLegend = 200;
constexpr double kGraphWidth = 1500, kNarrowestColumn = 6, kMostStep = 40, kRow = 14, kDot = 4.5;

/// Hues far apart for neighbours in number: steps of the golden angle. Grey for no device.
std::string colour(int device) {
  if (device < 0) return "#888";
  return concat("hsl(", (device * 137) % 360, ",65%,50%)");
}

struct Point {
  double x = 0, y = 0;
};

/// For each group its depth: the longest way to it by the order.
std::vector<int> depths(const Problem& problem) {
  const auto count = problem.groups.size();
  std::vector<std::vector<int>> after(count);
  std::vector<int> missing(count, 0), depth(count, 0), ready;
  for (const auto& pair : problem.order) {
    after[at(pair.first)].push_back(pair.second);
    ++missing[at(pair.second)];
  }
  for (std::size_t g = 0; g < count; ++g) {
    if (missing[g] == 0) ready.push_back(static_cast<int>(g));
  }
  while (!ready.empty()) {
    const int group = ready.back();
    ready.pop_back();
    for (const int next : after[at(group)]) {
      depth[at(next)] = std::max(depth[at(next)], depth[at(group)] + 1);
      if (--missing[at(next)] == 0) ready.push_back(next);
    }
  }
  return depth;
}

/// Columns by depth; within a column by the mean place of what each group reads.
std::vector<Point> lay_out(const Problem& problem) {
  const auto depth = depths(problem);
  const int columns = 1 + *std::ranges::max_element(depth);
  std::vector<std::vector<int>> column(at(columns)), before(problem.groups.size());
  for (std::size_t g = 0; g < depth.size(); ++g) {
    column[at(depth[g])].push_back(static_cast<int>(g));
  }
  for (const auto& pair : problem.order) before[at(pair.second)].push_back(pair.first);
  const double step = std::clamp(kGraphWidth / columns, kNarrowestColumn, kMostStep);
  std::vector<Point> points(problem.groups.size());
  for (int c = 0; c < columns; ++c) {
    auto& groups = column[at(c)];
    std::vector<double> wish(problem.groups.size(), 0);
    for (const int group : groups) {
      for (const int other : before[at(group)]) wish[at(group)] += points[at(other)].y;
      const auto count = before[at(group)].size();
      if (count > 0) wish[at(group)] /= static_cast<double>(count);
    }
    std::ranges::stable_sort(groups, {}, [&](int group) { return wish[at(group)]; });
    for (std::size_t row = 0; row < groups.size(); ++row) {
      const double middle = 0.5 * static_cast<double>(groups.size() - 1);
      points[at(groups[row])] = {kMargin + step * (c + 0.5),
                                 kRow * (static_cast<double>(row) - middle)};
    }
  }
  const auto top = std::ranges::min_element(points, {}, &Point::y)->y;
  for (auto& point : points) point.y += 2 * kMargin - top;
  return points;
}

class Picture {
 public:
  Picture(const Problem& problem, const Options& options, const Answer& answer)
      : problem_(problem), options_(options), answer_(answer), devices_of_(problem.groups.size()) {
    for (const auto& stage : answer.split.stages) {
      for (const int group : stage.groups) devices_of_[at(group)] = stage.devices;
    }
    for (const auto& type : problem.types) {
      names_.insert(names_.end(), type.devices.begin(), type.devices.end());
    }
  }

  std::string run() {
    const auto points = lay_out(problem_);
    double right = kMargin + kLabel + kBarWidth, bottom = 0;
    for (const auto& point : points) {
      right = std::max(right, point.x);
      bottom = std::max(bottom, point.y);
    }
    draw_graph(points);
    const double end = draw_loads(bottom + 2 * kMargin);
    const double width = right + kMargin, height = end + kMargin;
    std::ostringstream svg;
    svg << R"(<svg xmlns="http://www.w3.org/2000/svg" width=")" << width << R"(" height=")"
        << height << R"(" viewBox="0 0 )" << width << " " << height
        << "\" font-family=\"sans-serif\" font-size=\"12\">\n<defs>\n"
        << mixes_.str() << "</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        << body_.str() << "</svg>\n";
    return std::move(svg).str();
  }

 private:
  void text(double x, double y, const std::string& words) {
    body_ << "<text x=\"" << x << "\" y=\"" << y << "\">" << escape_markup(words) << "</text>\n";
  }

  [[nodiscard]] std::string names_of(const std::vector<int>& devices) const {
    if (devices.empty()) return "an unlimited type";
    return join(devices, ", ", [&](int device) { return names_[at(device)]; });
  }

  /// One device's colour, or all colours of replicas side by side.
  std::string fill(const std::vector<int>& devices) {
    if (devices.size() <= 1) return colour(devices.empty() ? -1 : devices.front());
    const auto id = "mix-" + join(devices, "-", [](int device) { return std::to_string(device); });
    if (!mixed_.insert(id).second) return "url(#" + id + ")";
    mixes_ << "<linearGradient id=\"" << id << "\">";
    const auto share = 1 / static_cast<double>(devices.size());
    for (std::size_t i = 0; i < devices.size(); ++i) {
      for (const auto end : {i, i + 1}) {
        mixes_ << "<stop offset=\"" << static_cast<double>(end) * share << "\" stop-color=\""
               << colour(devices[i]) << "\"/>";
      }
    }
    mixes_ << "</linearGradient>\n";
    return "url(#" + id + ")";
  }

  void draw_graph(const std::vector<Point>& points) {
    body_ << "<g stroke=\"#bbb\" stroke-width=\"0.7\">\n";
    for (const auto& value : problem_.values) {
      const auto& from = points[at(value.producer)];
      for (const int consumer : value.consumers) {
        const auto& to = points[at(consumer)];
        body_ << "<line x1=\"" << from.x << "\" y1=\"" << from.y << "\" x2=\"" << to.x << "\" y2=\""
              << to.y << "\"/>\n";
      }
    }
    body_ << "</g>\n";
    for (std::size_t g = 0; g < points.size(); ++g) {
      body_ << "<circle cx=\"" << points[g].x << "\" cy=\"" << points[g].y << "\" r=\"" << kDot
            << "\" fill=\"" << fill(devices_of_[g]) << "\"><title>"
            << escape_markup(problem_.groups[g].name) << " on "
            << escape_markup(names_of(devices_of_[g])) << "</title></circle>\n";
    }
  }

  /// Returns where it ends.
  double draw_loads(double top) {
    const bool throughput = options_.goal == Goal::kThroughput;
    text(kMargin, top,
         concat("period ", time_text(answer_.evaluation.period), ", latency ",
                time_text(answer_.evaluation.latency), ", lower bound of the ",
                throughput ? "period " : "latency ", time_text(answer_.lower_bound)));
    double longest = std::max(answer_.lower_bound, answer_.cost);
    for (const auto& load : answer_.evaluation.devices) {
      longest = std::max({longest, load.load, load.compute + load.in + load.out});
    }
    const double scale = longest > 0 ? kBarWidth / longest : 0;
    double y = top + kMargin;
    for (std::size_t d = 0; d < names_.size(); ++d, y += kBarStep) draw_bar(d, y, scale);
    const Mark goal{throughput ? "period" : "latency", "#c00", answer_.cost};
    const Mark bound{"bound", "#000", answer_.lower_bound};
    double x = kMargin + kLabel;
    for (const auto& mark : {goal, bound}) {
      draw_line(mark, kMargin + kLabel + mark.cost * scale, top + kMargin, y);
      draw_line(mark, x, y + kMargin, y + kMargin + kBarHeight);
      text(x + kMargin / 2, y + kMargin + kBarHeight - 4,
           concat(mark.name, " ", time_text(mark.cost)));
      x += kLegend;
    }
    return y + kMargin + kBarHeight;
  }

  [[nodiscard]] std::string time_text(double time) const {
    return cost_text(time, problem_.in_seconds);
  }

  struct Mark {
    const char* name;
    const char* stroke;
    double cost;
  };

  void draw_line(const Mark& mark, double x, double top, double bottom) {
    body_ << "<line class=\"" << mark.name << R"(" x1=")" << x << R"(" y1=")" << top << R"(" x2=")"
          << x << R"(" y2=")" << bottom << R"(" stroke=")" << mark.stroke
          << R"(" stroke-dasharray="4 3"><title>)" << mark.name << " " << time_text(mark.cost)
          << "</title></line>\n";
  }

  void draw_bar(std::size_t device, double y, double scale) {
    const auto& load = answer_.evaluation.devices[device];
    text(kMargin, y + kBarHeight - 4, names_[device]);
    double x = kMargin + kLabel;
    const std::pair<double, const char*> parts[] = {
        {load.compute, "1"}, {load.in, "0.55"}, {load.out, "0.3"}};
    for (const auto& [length, opacity] : parts) {
      body_ << "<rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << length * scale
            << "\" height=\"" << kBarHeight << "\" fill=\"" << colour(static_cast<int>(device))
            << "\" fill-opacity=\"" << opacity << "\"><title>compute " << time_text(load.compute)
            << ", in " << time_text(load.in) << ", out " << time_text(load.out) << ", load "
            << time_text(load.load) << "</title></rect>\n";
      x += length * scale;
    }
  }

  const Problem& problem_;
  const Options& options_;
  const Answer& answer_;
  std::vector<std::vector<int>> devices_of_;  // [group] Of its stage; empty: unlimited.
  std::vector<std::string> names_;            // Of the devices.
  std::set<std::string> mixed_;
  std::ostringstream mixes_, body_;
};

}  // namespace

std::string to_svg(const Problem& problem, const Options& options, const Answer& answer) {
  return Picture(problem, options, answer).run();
}

}  // namespace penstock::planner
