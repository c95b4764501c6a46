// Divides counted operations and bytes by measured peaks, and adds up the bytes handed over.
#include "penstock/tune/limits.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "penstock/backend/backend.h"
#include "penstock/cost/work.h"
#include "penstock/partition/stage_name.h"

namespace penstock::tune {
namespace {

using graph::Graph;
using graph::ValueId;

constexpr double kToldShare = 0.01;  // Of the operations: less is not worth a sentence.

const char* bound_of(const cost::Limit& limit) {
  return limit.by_memory ? "moving" : "computing";
}

/// Whether it computes in other numbers than the model's, of which no peak is known.
bool is_lower(const partition::ChosenPart& part) {
  const auto precision = part.options.find(backend::kPrecisionOption);
  return precision != part.options.end() && precision->second != "f32";
}

/// The work of a stage's parts, in their order.
std::vector<cost::PartWork> works_of(const Graph& graph, const partition::ChosenStage& stage,
                                     int frames) {
  std::vector<cost::PartWork> works;
  for (const auto& part : stage.parts) works.push_back(cost::work_of(graph, part.nodes, frames));
  return works;
}

/// A stage comes back to its bytes with every frame: they are where all of them have room.
const cost::Peaks::Level& level_of(const cost::Peaks& peaks,
                                   const std::vector<cost::PartWork>& works) {
  double bytes = 0;
  for (const auto& work : works) bytes += work.all.bytes;
  return *peaks.level_of(bytes);
}

void describe_part(const cost::PartWork& work, double flops_per_second, double bytes_per_second,
                   PartReport& part, std::vector<NodeReport>& nodes) {
  const auto limit = cost::limit_of(work.all, flops_per_second, bytes_per_second);
  part.limit_seconds = limit.seconds;
  part.bound = bound_of(limit);
  for (std::size_t i = 0; i < part.nodes.size(); ++i) {
    nodes[static_cast<std::size_t>(part.nodes[i])].limit_seconds =
        cost::limit_of(work.nodes[i], flops_per_second, bytes_per_second).seconds;
  }
}

void describe_whole(const cost::Work& work, const cost::Peaks& peaks, LimitReport& whole) {
  const auto& level = *peaks.level_of(work.bytes);
  const auto limit = cost::limit_of(work, peaks.flops_per_second(), level.bytes_per_second);
  whole.seconds = limit.seconds;
  whole.bound = bound_of(limit);
  whole.flops = work.flops;
  whole.flops_per_second = peaks.flops_per_second();
  whole.bytes = work.bytes;
  whole.bytes_per_second = level.bytes_per_second;
  whole.level = level.name;
}

/// Which part makes each node's values, by its place in the report.
std::vector<int> makers_of(const Graph& graph, const Report& report) {
  std::vector<int> makers(graph.nodes.size(), -1);
  for (std::size_t i = 0; i < report.parts.size(); ++i) {
    for (const int node : report.parts[i].nodes) {
      makers[static_cast<std::size_t>(node)] = static_cast<int>(i);
    }
  }
  return makers;
}

/// Values that one part makes and another reads, in the order of the parts.
std::vector<HandoverReport> handovers_of(const Graph& graph, const Report& report) {
  const auto makers = makers_of(graph, report);
  std::map<std::pair<int, int>, double> bytes;
  for (const auto& value : graph.values) {
    if (!value.producer) continue;
    const int from = makers[graph::index(*value.producer)];
    std::set<int> readers;
    for (const auto reader : value.consumers) readers.insert(makers[graph::index(reader)]);
    for (const int to : readers) {
      if (to == from || to < 0 || from < 0) continue;
      bytes[{from, to}] += static_cast<double>(value.type.max_bytes().value_or(0));
    }
  }
  std::vector<HandoverReport> handovers;
  for (const auto& [parts, size] : bytes) handovers.push_back({parts.first, parts.second, size});
  return handovers;
}

/// What the figures leave out.
void note_what_is_left_out(const cost::Work& all, double lower_flops, Report& report) {
  const double flops = all.flops + all.other_flops + lower_flops;
  const auto share = [&](double part) { return concat(std::lround(part / flops * 100), " %"); };
  if (flops > 0 && all.other_flops > kToldShare * flops) {
    report.notes.push_back(
        concat("the limit leaves out ", share(all.other_flops),
               " of the operations, which are on integers or on numbers of other "
               "widths than fp32: no peak of these is measured"));
  }
  if (flops > 0 && lower_flops > kToldShare * flops) {
    report.notes.push_back(
        concat("the limit leaves out ", share(lower_flops),
               " of the operations, which parts of a lower precision do: no peak "
               "of it is measured"));
  }
  if (all.uncounted > 0) {
    report.notes.push_back(
        concat("the limit leaves out what ", all.uncounted,
               all.uncounted == 1 ? " operator computes" : " operators compute",
               ": open shapes, nested graphs or operators of other domains hide it"));
  }
}

}  // namespace

void describe_limits(const Graph& graph, const std::vector<partition::ChosenStage>& stages,
                     const partition::Batches& batches, const Roofs& roofs, Report& report) {
  std::vector<graph::NodeId> counted;
  int most_frames = 1;
  double lower_flops = 0;
  std::size_t place = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    report.limit.workers += static_cast<int>(stages[s].devices.size());
    const int frames = partition::asked_of(batches, partition::stage_name(s)).frames;
    most_frames = std::max(most_frames, frames);
    const auto works = works_of(graph, stages[s], frames);
    const double flops_per_second = roofs.stages[s].flops_per_second();
    const double bytes_per_second = level_of(roofs.stages[s], works).bytes_per_second;
    for (std::size_t i = 0; i < works.size(); ++i) {
      auto& part = report.parts[place++];
      for (const int node : part.nodes) {
        part.seconds += report.nodes[static_cast<std::size_t>(node)].seconds;
      }
      if (is_lower(stages[s].parts[i])) {
        lower_flops += works[i].all.flops;
        continue;
      }
      const auto& nodes = stages[s].parts[i].nodes;
      counted.insert(counted.end(), nodes.begin(), nodes.end());
      describe_part(works[i], flops_per_second, bytes_per_second, part, report.nodes);
    }
  }
  // What parts hand over could stay in registers: of the whole, only its own border must move.
  const auto all = cost::work_of(graph, counted, most_frames).all;
  describe_whole(all, roofs.machine, report.limit);
  report.limit.handovers = handovers_of(graph, report);
  note_what_is_left_out(all, lower_flops, report);
}

}  // namespace penstock::tune
