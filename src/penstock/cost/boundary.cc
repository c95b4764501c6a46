// Times Relu and Abs apart, in one model and as a chain, at four sizes, and fits lines to that.
#include "penstock/cost/boundary.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "penstock/cost/part_keys.h"

namespace penstock::cost {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

// Where nothing is known: an engine's call, and a copy at the speed of one core's memory.
constexpr Line kDefaultCut{1e-6, 1e-10};
constexpr Line kDefaultBeyond{2e-7, 0};
constexpr double kSecondsPerPart = 0.1;

/// [1, C, H, W] of f32, so that engines with layouts of their own have four dimensions to turn.
constexpr std::array<std::array<std::int64_t, 4>, 4> kShapes{
    {{1, 16, 8, 8}, {1, 16, 32, 32}, {1, 16, 128, 128}, {1, 64, 128, 128}}};

double bytes_of_shape(const std::array<std::int64_t, 4>& shape) {
  return static_cast<double>(shape[0] * shape[1] * shape[2] * shape[3]) * sizeof(float);
}

/// x -> Relu -> h -> Abs -> y: no engine drops either, and all have both.
Graph two_nodes(const std::array<std::int64_t, 4>& shape) {
  Graph graph;
  graph.info.name = "boundary";
  graph.info.ir_version = 8;
  // Of 17 there are databases with failures that were none: of other inputs than the parts have.
  graph.info.opsets[""] = 18;
  for (const char* name : {"x", "h", "y"}) {
    graph::Value value;
    value.name = name;
    value.type = Type::tensor(DType::kF32, std::span<const std::int64_t>(shape));
    graph.values.push_back(std::move(value));
  }
  for (const std::uint32_t i : {0U, 1U}) {
    graph::Node node;
    node.op = i == 0 ? "Relu" : "Abs";
    node.name = i == 0 ? "first" : "second";
    node.inputs = {ValueId{i}};
    node.outputs = {ValueId{i + 1}};
    graph.values[i].consumers = {NodeId{i}};
    graph.values[i + 1].producer = NodeId{i};
    graph.nodes.push_back(std::move(node));
  }
  graph.values[0].is_input = true;
  graph.values[2].is_output = true;
  graph.inputs = {ValueId{0}};
  graph.outputs = {ValueId{2}};
  graph.pipeline_stages = {-1, -1};
  return graph;
}

Result<PartModel> model_of(const Graph& graph, std::vector<NodeId> nodes,
                           const std::string& backend) {
  PartModel model;
  PENSTOCK_TRY(auto subgraph, graph::Subgraph::create(graph, nodes));
  model.name = nodes.size() == 2       ? "boundary"
               : nodes[0] == NodeId{0} ? "boundary's source"
                                       : "boundary's target";
  model.subgraph = std::move(subgraph);
  model.backend = backend;
  return model;
}

/// The parts that tell of one boundary: source, target, both in one model of either, the chain.
Result<std::vector<Part>> parts_of(const Graph& graph, const std::string& from,
                                   const std::string& to, const device::Device& device,
                                   const std::vector<device::Device>& neighbours) {
  PENSTOCK_TRY(const auto source, model_of(graph, {NodeId{0}}, from));
  PENSTOCK_TRY(const auto target, model_of(graph, {NodeId{1}}, to));
  PENSTOCK_TRY(const auto whole_from, model_of(graph, {NodeId{0}, NodeId{1}}, from));
  PENSTOCK_TRY(const auto whole_to, model_of(graph, {NodeId{0}, NodeId{1}}, to));
  std::vector<Part> parts;
  for (auto& models : std::vector<std::vector<PartModel>>{
           {source}, {target}, {whole_from}, {whole_to}, {source, target}}) {
    Part part;
    part.models = std::move(models);
    part.device = device;
    part.threads = static_cast<int>(device.cpus.size());
    part.neighbours = neighbours;
    parts.push_back(std::move(part));
  }
  return parts;
}

/// Empty: not everything was measured.
std::optional<Boundary> boundary_of(const std::vector<std::optional<Cost>>& costs) {
  Boundary boundary;
  for (const auto& cost : costs) {
    if (!cost) return std::nullopt;
    if (!boundary.failure) boundary.failure = cost->failure;
  }
  if (boundary.failure) return boundary;
  const double chain = costs[4]->seconds;
  boundary.seconds = chain - costs[0]->seconds - costs[1]->seconds;
  boundary.cut_seconds = chain - (costs[2]->seconds + costs[3]->seconds) / 2;
  boundary.runs = costs[4]->runs;
  return boundary;
}

/// While the profiler knows a graph, and times quickly: these parts are small and many. Their
/// inputs are random: a network's tensors may have the same names.
class Visit {
 public:
  Visit(Profiler& profiler, const Graph& graph)
      : profiler_(profiler),
        graph_(graph),
        seconds_(profiler.options().seconds_per_part),
        activations_(std::exchange(profiler.options().activations, nullptr)) {
    profiler.options().seconds_per_part = std::min(seconds_, kSecondsPerPart);
  }
  ~Visit() {
    profiler_.options().seconds_per_part = seconds_;
    profiler_.options().activations = activations_;
    profiler_.forget(graph_);
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

 private:
  Profiler& profiler_;
  const Graph& graph_;
  double seconds_;
  const Activations* activations_;
};

/// Not known: a failure of this machine's state, such as an engine that is not installed; and what
/// was not given enough.
Result<bool> is_known(Profiler& profiler, const std::vector<Part>& parts) {
  for (const auto& part : parts) {
    PENSTOCK_TRY(const auto cost, profiler.find(part));
    if (!cost || (cost->failure && wants_more(cost->failure->kind))) return false;
  }
  return true;
}

double at(const Line& line, double bytes) {
  return line.intercept + line.slope * bytes;
}

}  // namespace

Result<std::vector<std::pair<double, Boundary>>> measure_boundary(
    Profiler& profiler, const std::string& from, const std::string& to,
    const device::Device& device, const std::vector<device::Device>& neighbours) {
  std::vector<std::pair<double, Boundary>> points;
  const auto place = concat(device_key(profiler.topology(), device), " ",
                            condition_of(profiler.topology(), device, neighbours));
  for (const auto& shape : kShapes) {
    const double bytes = bytes_of_shape(shape);
    BoundaryKey key{from,    profiler.engine_version(from),    to,   profiler.engine_version(to),
                    "plain", static_cast<std::int64_t>(bytes), place};
    std::optional<Boundary> known;
    if (!profiler.options().refresh) {
      PENSTOCK_TRY(known, profiler.database().find(key));
    }
    auto boundary = known;
    // A failure is that of its parts, of which it is known whether they are to be tried again.
    if (!known || known->failure) {
      const Graph graph = two_nodes(shape);
      const Visit visit(profiler, graph);
      PENSTOCK_TRY(const auto parts, parts_of(graph, from, to, device, neighbours));
      PENSTOCK_TRY(const auto costs, profiler.measure(parts));
      boundary = boundary_of(costs);
      if (!boundary) return points;
      PENSTOCK_TRY(const bool lasts, is_known(profiler, parts));
      if (!lasts) return points;
      if (boundary != known) PENSTOCK_CHECK_OK(profiler.database().put(key, *boundary));
    }
    if (!boundary->failure) points.emplace_back(bytes, *boundary);
  }
  return points;
}

Result<Boundaries> Boundaries::measure(Profiler& profiler, std::span<const std::string> backends,
                                       const device::Device& device,
                                       const std::vector<device::Device>& neighbours) {
  Boundaries boundaries;
  for (const auto& from : backends) {
    for (const auto& to : backends) {
      PENSTOCK_TRY(const auto points, measure_boundary(profiler, from, to, device, neighbours));
      if (points.empty()) continue;
      std::vector<std::pair<double, double>> beyond_parts, beyond_whole;
      for (const auto& [bytes, boundary] : points) {
        beyond_parts.emplace_back(bytes, boundary.seconds);
        beyond_whole.emplace_back(bytes, boundary.cut_seconds);
      }
      boundaries.lines_[{from, to}] = {robust_line(beyond_parts), robust_line(beyond_whole)};
    }
  }
  return boundaries;
}

double Boundaries::boundary_seconds(const std::string& from, const std::string& to,
                                    double bytes) const {
  return std::max(beyond_parts_seconds(from, to, bytes), 0.0);
}

double Boundaries::beyond_parts_seconds(const std::string& from, const std::string& to,
                                        double bytes) const {
  const auto found = lines_.find({from, to});
  return at(found == lines_.end() ? kDefaultBeyond : found->second.beyond_parts, bytes);
}

double Boundaries::cut_seconds(const std::string& from, const std::string& to, double bytes) const {
  const auto found = lines_.find({from, to});
  return at(found == lines_.end() ? kDefaultCut : found->second.beyond_whole, bytes);
}

bool Boundaries::knows(const std::string& from, const std::string& to) const {
  return lines_.contains({from, to});
}

}  // namespace penstock::cost
