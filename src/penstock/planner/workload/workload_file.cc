// Parses with nlohmann/json; of each object the first wrong field is told with its place.
#include "penstock/planner/workload/workload_file.h"

#include <cmath>
#include <limits>
#include <unordered_map>

#include <nlohmann/json.hpp>

#include "penstock/base/nesting.h"
#include "penstock/planner/problem/problem.h"
#include "penstock/planner/workload/workload.h"

namespace penstock::planner {
namespace {

using Json = nlohmann::json;

constexpr int kMostId = std::numeric_limits<int>::max();

/// The text around the place where it stops being JSON.
Error syntax_error(std::string_view text, std::size_t byte) {
  constexpr std::size_t kBefore = 30, kAfter = 10;
  const auto begin = byte > kBefore ? byte - kBefore : 0;
  std::string near(text.substr(std::min(begin, text.size()), byte - begin + kAfter));
  for (char& c : near) {
    if (c < ' ' || c > '~') c = ' ';
  }
  return invalid_argument("not JSON: at byte ", byte, ", near '", near, "'");
}

Result<Json> parse_json(std::string_view text) {
  PENSTOCK_CHECK_OK(check_nesting(text));
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    return syntax_error(text, error.byte);
  } catch (const Json::out_of_range& error) {
    const std::string_view what = error.what();  // Ends with the number in quotes.
    const auto number = what.substr(std::min(what.find('\''), what.size()));
    return invalid_argument("a number is too large: ", number);
  }
}

/// One object of the document; the first thing wrong in it is kept.
class Fields {
 public:
  Fields(const Json& json, std::string place) : json_(json), place_(std::move(place)) {
    if (!json_.is_object()) fail(invalid_argument(place_, ": expected an object"));
  }

  /// A finite number >= 0; `or_else` where the field may be absent.
  double cost(const char* name, std::optional<double> or_else = {}) {
    const auto* field = find(name, or_else.has_value());
    if (field == nullptr) return or_else.value_or(0);
    if (!field->is_number() || !std::isfinite(field->get<double>())) {
      return refuse(name, "a finite number", *field), 0;
    }
    if (field->get<double>() < 0) return refuse(name, "0 or more", *field), 0;
    return field->get<double>();
  }

  int integer(const char* name, int lowest, int highest) {
    const auto* field = find(name, false);
    if (field == nullptr) return lowest;
    const bool whole = field->is_number() && field->get<double>() >= lowest &&
                       field->get<double>() <= highest &&
                       std::trunc(field->get<double>()) == field->get<double>();
    if (!whole) {
      return refuse(name, concat("a whole number from ", lowest, " to ", highest), *field), lowest;
    }
    return static_cast<int>(field->get<double>());
  }

  bool flag(const char* name, bool or_else) {
    const auto* field = find(name, true);
    if (field == nullptr) return or_else;
    if (field->is_boolean()) return field->get<bool>();
    if (field->is_number() && (*field == 0 || *field == 1)) return *field == 1;
    return refuse(name, "0, 1, true or false", *field), or_else;
  }

  std::optional<std::int64_t> colour(const char* name) {
    const auto* field = find(name, true);
    if (field == nullptr || field->is_null()) return std::nullopt;
    constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
    const bool large = field->is_number_unsigned() && field->get<std::uint64_t>() > kMost;
    if (!field->is_number_integer() || large) {
      return refuse(name, concat("a whole number up to ", kMost), *field), std::nullopt;
    }
    return field->get<std::int64_t>();
  }

  std::string text(const char* name) {
    const auto* field = find(name, true);
    return field != nullptr && field->is_string() ? field->get<std::string>() : std::string();
  }

  const Json& list(const char* name, bool optional = false) {
    static const Json kNone = Json::array();
    const auto* field = find(name, optional);
    if (field == nullptr) return kNone;
    if (!field->is_array()) return refuse(name, "a list", *field), kNone;
    return *field;
  }

  void fail(Error error) {
    if (!error_) error_ = std::move(error);
  }
  void call(std::string place) { place_ = std::move(place); }
  [[nodiscard]] const std::string& place() const { return place_; }
  [[nodiscard]] std::optional<Error>& error() { return error_; }

 private:
  const Json* find(const char* name, bool optional) {
    if (!json_.is_object()) return nullptr;
    const auto field = json_.find(name);
    if (field != json_.end()) return &*field;
    if (!optional) fail(invalid_argument(place_, ": '", name, "' is missing"));
    return nullptr;
  }

  void refuse(const char* name, std::string_view expected, const Json& found) {
    constexpr std::size_t kMost = 40;
    auto shown = found.is_structured() ? std::string(found.type_name())
                                       : found.dump(-1, ' ', true, Json::error_handler_t::replace);
    if (shown.size() > kMost) shown = shown.substr(0, kMost) + "...";
    fail(invalid_argument(place_, ": '", name, "': expected ", expected, ", found ", shown));
  }

  const Json& json_;
  std::string place_;
  std::optional<Error> error_;
};

/// `modes` of a device type: [{"name", "launch"}].
Result<std::vector<WorkloadMode>> parse_modes(const Json& list, const std::string& place) {
  std::vector<WorkloadMode> modes;
  for (const auto& item : list) {
    Fields fields(item, concat(place, ": modes[", modes.size(), "]"));
    modes.push_back({fields.text("name"), fields.cost("launch", 0)});
    if (modes.back().name.empty()) {
      fields.fail(invalid_argument(fields.place(), ": 'name' is missing"));
    }
    if (fields.error()) return *std::move(fields.error());
  }
  return modes;
}

/// `deviceTypes`: [{"name", "count", "size", "modes"}]; without `size` memory has no cap.
Result<std::vector<WorkloadType>> parse_types(const Json& list) {
  std::vector<WorkloadType> types;
  for (const auto& item : list) {
    Fields fields(item, concat("deviceTypes[", types.size(), "]"));
    WorkloadType type;
    type.name = fields.text("name");
    type.count = fields.integer("count", 0, kMostDevices);
    type.memory = item.contains("size") ? fields.cost("size") : kInfinite;
    if (type.name.empty()) fields.fail(invalid_argument(fields.place(), ": 'name' is missing"));
    const auto& modes = fields.list("modes", true);
    if (fields.error()) return *std::move(fields.error());
    PENSTOCK_TRY(type.modes, parse_modes(modes, fields.place()));
    types.push_back(std::move(type));
  }
  return types;
}

/// A time for each mode of each type; null: not supported.
std::vector<double> parse_times(Fields& fields, const std::vector<WorkloadType>& types) {
  std::size_t modes = 0;
  for (const auto& type : types) modes += std::max<std::size_t>(1, type.modes.size());
  std::vector<double> times;
  for (const auto& item : fields.list("latencies")) {
    const bool time = item.is_number() && std::isfinite(item.get<double>()) && item >= 0;
    if (!time && !item.is_null()) {
      fields.fail(invalid_argument(fields.place(), ": 'latencies[", times.size(),
                                   "]': expected a finite number of 0 or more, or null"));
    }
    times.push_back(time ? item.get<double>() : kInfinite);
  }
  if (times.size() != modes) {
    fields.fail(invalid_argument(
        fields.place(), ": 'latencies': expected ", modes, " times, one for each of 'deviceTypes'",
        modes > types.size() ? " and its modes" : "", ", found ", times.size()));
  }
  return times;
}

Result<WorkloadNode> parse_node(const Json& json, std::size_t place, const WorkloadFile& file) {
  Fields fields(json, concat("nodes[", place, "]"));
  WorkloadNode node;
  node.id = fields.integer("id", -kMostId, kMostId);
  node.name = fields.text("name");
  if (!fields.error()) fields.call(shown(node));
  node.backward = fields.flag("isBackwardNode", false);
  if (file.own_types) {
    node.times = parse_times(fields, file.types);
  } else {
    const bool accelerated = fields.flag("supportedOnFpga", true);
    const double cpu = fields.cost("cpuLatency"), accelerator = fields.cost("fpgaLatency");
    node.times = {accelerated ? accelerator : kInfinite, cpu};
  }
  node.bytes = fields.cost("size");
  node.colour = fields.colour("colorClass");
  if (fields.error()) return *std::move(fields.error());
  return node;
}

using Index = std::unordered_map<int, int>;  // Node id -> index.

Result<WorkloadEdge> parse_edge(const Json& json, std::size_t place, const Index& index) {
  Fields fields(json, concat("edges[", place, "]"));
  const int source = fields.integer("sourceId", -kMostId, kMostId);
  const int target = fields.integer("destId", -kMostId, kMostId);
  if (!fields.error()) {
    fields.call(concat(fields.place(), " (", source, " to ", target, ")"));
    for (const int id : {source, target}) {
      if (index.contains(id)) continue;
      fields.fail(invalid_argument(fields.place(), ": there is no node ", id));
    }
  }
  WorkloadEdge edge;
  edge.cost = fields.cost("cost");
  edge.bytes = fields.cost("size", 0);
  if (fields.error()) return *std::move(fields.error());
  edge.from = index.at(source);
  edge.to = index.at(target);
  return edge;
}

/// The out-edges of a node are one tensor and cost the same.
Status check_costs(const WorkloadFile& file) {
  constexpr double kNoise = 1e-9;  // Relative; of decimal numbers written and read.
  std::vector<const WorkloadEdge*> first(file.nodes.size(), nullptr);
  for (const auto& edge : file.edges) {
    auto& other = first[static_cast<std::size_t>(edge.from)];
    if (other == nullptr) other = &edge;
    if (std::abs(edge.cost - other->cost) <= kNoise * std::max(edge.cost, other->cost)) continue;
    return invalid_argument(shown(file.nodes[static_cast<std::size_t>(edge.from)]),
                            ": its out-edges differ in 'cost', ", other->cost, " and ", edge.cost,
                            ", though they carry one tensor");
  }
  return {};
}

Result<std::vector<std::vector<int>>> parse_sets(const Json& list, const char* name) {
  std::vector<std::vector<int>> sets;
  for (const auto& item : list) {
    Fields fields(item, concat(name, "[", sets.size(), "]"));
    sets.emplace_back();
    for (const auto& id : fields.list("nodes")) {
      if (!id.is_number_integer() || std::abs(id.get<double>()) > kMostId) {
        return invalid_argument(fields.place(), ": expected node ids, whole numbers up to ",
                                kMostId, ", found ",
                                id.is_number() ? id.dump() : std::string(id.type_name()));
      }
      sets.back().push_back(id.get<int>());
    }
    if (fields.error()) return *std::move(fields.error());
  }
  return sets;
}

}  // namespace

std::string shown(const WorkloadNode& node) {
  constexpr std::size_t kMost = 60;
  if (node.name.empty()) return concat("node ", node.id);
  return concat("node ", node.id, " ('", node.name.substr(0, kMost), "')");
}

Result<WorkloadFile> parse_workload_file(std::string_view text) {
  PENSTOCK_TRY(const auto json, parse_json(text));
  Fields fields(json, "the workload");
  WorkloadFile file;
  file.own_types = json.is_object() && json.contains("deviceTypes");
  if (file.own_types) {
    PENSTOCK_TRY(file.types, parse_types(fields.list("deviceTypes")));
  } else {
    const double memory = fields.cost("maxSizePerFPGA");
    file.types = {{"accelerator", fields.integer("maxFPGAs", 0, kMostDevices), memory, true},
                  {"cpu", fields.integer("maxCPUs", 0, kMostDevices), kInfinite, false}};
  }
  const auto& nodes = fields.list("nodes");
  const auto& edges = fields.list("edges");
  if (fields.error()) return *std::move(fields.error());
  if (nodes.empty()) return invalid_argument("the workload: 'nodes' is empty");
  Index index;
  for (const auto& item : nodes) {
    PENSTOCK_TRY(auto node, parse_node(item, file.nodes.size(), file));
    if (!index.emplace(node.id, static_cast<int>(file.nodes.size())).second) {
      return invalid_argument(shown(node), ": its id is used twice");
    }
    file.nodes.push_back(std::move(node));
  }
  for (const auto& item : edges) {
    PENSTOCK_TRY(const auto edge, parse_edge(item, file.edges.size(), index));
    file.edges.push_back(edge);
  }
  PENSTOCK_CHECK_OK(check_costs(file));
  return file;
}

Result<WorkloadSets> parse_workload_sets(std::string_view text) {
  PENSTOCK_TRY(const auto json, parse_json(text));
  Fields fields(json, "the split");
  const auto& accelerators = fields.list("fpgas");
  const auto& cpus = fields.list("cpus", true);
  if (fields.error()) return *std::move(fields.error());
  WorkloadSets sets;
  PENSTOCK_TRY(sets.accelerators, parse_sets(accelerators, "fpgas"));
  PENSTOCK_TRY(sets.cpus, parse_sets(cpus, "cpus"));
  return sets;
}

}  // namespace penstock::planner
