// Checks a problem part by part, and splits a pinned device off as a type of its own.
#include "penstock/planner/problem/problem.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "penstock/planner/problem/components.h"
#include "penstock/planner/problem/index.h"

namespace penstock::planner {
namespace {

bool is_cost(double number) {
  return std::isfinite(number) && number >= 0;
}
bool is_cost_or_infinite(double number) {
  return number >= 0;
}  // False for NaN.

bool in_range(int index, std::size_t size) {
  return index >= 0 && static_cast<std::size_t>(index) < size;
}

Status check_types(const Problem& problem) {
  std::set<std::string> names;
  bool any = false;
  for (const auto& type : problem.types) {
    if (!is_cost_or_infinite(type.memory)) {
      return invalid_argument("device type '", type.name, "': expected memory of 0 or more bytes, ",
                              "found ", type.memory);
    }
    if (type.unlimited && !type.devices.empty()) {
      return invalid_argument("device type '", type.name, "': unlimited, yet names device '",
                              type.devices.front(), "'");
    }
    any = any || type.unlimited || !type.devices.empty();
    for (const auto& device : type.devices) {
      if (!names.insert(device).second) {
        return invalid_argument("device '", device, "': listed twice");
      }
    }
  }
  return any ? Status() : invalid_argument("there is no device to plan for");
}

Status check_modes(const Problem& problem) {
  for (const auto& mode : problem.modes) {
    if (!in_range(mode.type, problem.types.size())) {
      return invalid_argument("mode '", mode.name, "': device type ", mode.type, " is none of the ",
                              problem.types.size());
    }
    if (!is_cost(mode.launch)) {
      return invalid_argument("mode '", mode.name, "': expected a launch cost of 0 or more, found ",
                              mode.launch);
    }
  }
  return {};
}

/// Whether some device of the mode's type exists.
bool exists(const Problem& problem, const Mode& mode) {
  const auto& type = problem.types[at(mode.type)];
  return type.unlimited || !type.devices.empty();
}

Status check_group(const Problem& problem, const Group& group) {
  if (group.time.size() != problem.modes.size()) {
    return invalid_argument("group '", group.name, "': expected one time for each of the ",
                            problem.modes.size(), " modes, found ", group.time.size());
  }
  if (!is_cost(group.memory)) {
    return invalid_argument("group '", group.name, "': expected 0 or more bytes, found ",
                            group.memory);
  }
  bool supported = false;
  double most = 0;  // Of the devices that support it.
  for (std::size_t m = 0; m < problem.modes.size(); ++m) {
    if (!is_cost_or_infinite(group.time[m])) {
      return invalid_argument("group '", group.name, "': expected a time of 0 or more in mode '",
                              problem.modes[m].name, "', found ", group.time[m]);
    }
    if (group.time[m] == kInfinite || !exists(problem, problem.modes[m])) continue;
    supported = true;
    most = std::max(most, problem.types[at(problem.modes[m].type)].memory);
  }
  if (!supported) return invalid_argument("group '", group.name, "': no device supports it");
  if (group.memory > most) {
    return invalid_argument("group '", group.name, "': needs ", group.memory,
                            " bytes, more than any device that supports it has (", most,
                            "); give them more memory (--memory), of hosts in their file");
  }
  return {};
}

Status check_value(const Problem& problem, const Value& value) {
  for (const int group : value.consumers) {
    if (!in_range(group, problem.groups.size()) || group == value.producer) {
      return invalid_argument("value '", value.name, "': group ", group, " cannot be a consumer");
    }
  }
  if (!in_range(value.producer, problem.groups.size())) {
    return invalid_argument("value '", value.name, "': group ", value.producer,
                            " cannot be the producer");
  }
  if (!is_cost(value.bytes) || !is_cost(value.transfer_time)) {
    return invalid_argument("value '", value.name,
                            "': expected bytes and transfer time of 0 or more, found ", value.bytes,
                            " and ", value.transfer_time);
  }
  return {};
}

Status check_links(const Problem& problem) {
  if (problem.links.empty()) return {};
  const auto types = problem.types.size();
  bool square = problem.links.size() == types;
  for (const auto& row : problem.links) square = square && row.size() == types;
  if (!square) {
    return invalid_argument("expected a link for each pair of the ", types, " device types");
  }
  for (std::size_t from = 0; from < types; ++from) {
    for (std::size_t to = 0; to < types; ++to) {
      const auto& link = problem.links[from][to];
      if (is_cost(link.latency) && link.bandwidth > 0) continue;
      return invalid_argument("link from '", problem.types[from].name, "' to '",
                              problem.types[to].name,
                              "': expected a latency of 0 or more and a bandwidth above 0, found ",
                              link.latency, " and ", link.bandwidth);
    }
  }
  return {};
}

Status check_order(const Problem& problem) {
  const auto count = problem.groups.size();
  for (const auto& [before, after] : problem.order) {
    if (in_range(before, count) && in_range(after, count)) continue;
    return invalid_argument("order: the pair (", before, ", ", after, ") names none of the ", count,
                            " groups");
  }
  const auto circle = find_circle(static_cast<int>(count), problem.order);
  if (!circle.empty()) {
    return invalid_argument("group '", problem.groups[at(circle.front())].name,
                            "': has to run before itself, in a circle of ", circle.size(),
                            " group(s)");
  }
  for (const auto& set : problem.colocated) {
    for (const int group : set) {
      if (in_range(group, count)) continue;
      return invalid_argument("colocated: there is no group ", group, " among the ", count);
    }
  }
  return {};
}

/// What all groups take together must still be a number.
Status check_sums(const Problem& problem) {
  double time = 0, bytes = 0;
  for (const auto& group : problem.groups) {
    for (const double own : group.time) time += own < kInfinite ? own : 0;
    bytes += group.memory;
  }
  for (const auto& value : problem.values) {
    time += value.transfer_time * 2 * static_cast<double>(value.consumers.size() + 1);
    bytes += value.bytes * static_cast<double>(value.consumers.size() + 1);
  }
  if (std::isfinite(time) && std::isfinite(bytes)) return {};
  return invalid_argument("the groups' ", std::isfinite(time) ? "bytes" : "times",
                          " are too large to be added up; use a larger unit");
}

/// Index of the type that has `device`, or -1.
int type_of(const Problem& problem, const std::string& device) {
  for (std::size_t t = 0; t < problem.types.size(); ++t) {
    if (std::ranges::count(problem.types[t].devices, device) > 0) return static_cast<int>(t);
  }
  return -1;
}

/// Makes `device` of type `old` a type of its own, with copies of its modes and links; returns it.
int split_off(Problem& problem, int old, const std::string& device) {
  auto type = problem.types[at(old)];
  std::erase(problem.types[at(old)].devices, device);
  type.name = device;
  type.devices = {device};
  problem.types.push_back(std::move(type));
  const int added = static_cast<int>(problem.types.size()) - 1;
  const auto modes = problem.modes.size();
  for (std::size_t m = 0; m < modes; ++m) {
    if (problem.modes[m].type != old) continue;
    auto mode = problem.modes[m];
    mode.type = added;
    problem.modes.push_back(std::move(mode));
    for (auto& group : problem.groups) group.time.push_back(double{group.time[m]});
  }
  for (auto& row : problem.links) row.push_back(Link{row[at(old)]});
  if (!problem.links.empty()) problem.links.push_back(std::vector<Link>(problem.links[at(old)]));
  return added;
}

/// The first of them, where there are many.
std::string device_names(const Problem& problem) {
  constexpr std::size_t kMost = 16;
  std::vector<std::string> names;
  for (const auto& type : problem.types) {
    names.insert(names.end(), type.devices.begin(), type.devices.end());
  }
  const auto shown = std::min(names.size(), kMost);
  const auto more = names.size() - shown;
  names.resize(shown);
  return join(names, ", ") + (more > 0 ? concat(" and ", more, " more") : std::string());
}

}  // namespace

double transfer_time(const Problem& problem, const Value& value, int from, int to) {
  if (problem.links.empty()) return value.transfer_time;
  const auto& link = problem.links[at(from)][at(to)];
  return value.transfer_time + link.latency + value.bytes / link.bandwidth;
}

Status validate(const Problem& problem) {
  if (problem.groups.empty()) return invalid_argument("there is no group to plan for");
  PENSTOCK_CHECK_OK(check_types(problem));
  PENSTOCK_CHECK_OK(check_modes(problem));
  for (const auto& group : problem.groups) PENSTOCK_CHECK_OK(check_group(problem, group));
  for (const auto& value : problem.values) PENSTOCK_CHECK_OK(check_value(problem, value));
  PENSTOCK_CHECK_OK(check_links(problem));
  PENSTOCK_CHECK_OK(check_sums(problem));
  return check_order(problem);
}

Result<Problem> pin(Problem problem, int group, const std::string& device) {
  if (!in_range(group, problem.groups.size())) {
    return make_error(Code::kOutOfRange, "pin: there is no group ", group, " among the ",
                      problem.groups.size());
  }
  int type = type_of(problem, device);
  if (type < 0) {
    return not_found("pin: there is no device '", device, "'; expected one of ",
                     device_names(problem));
  }
  if (problem.types[at(type)].devices.size() > 1) type = split_off(problem, type, device);
  bool supported = false;
  auto& pinned = problem.groups[at(group)];
  for (std::size_t m = 0; m < problem.modes.size(); ++m) {
    if (problem.modes[m].type != type) pinned.time[m] = kInfinite;
    supported = supported || pinned.time[m] < kInfinite;
  }
  if (!supported) {
    return invalid_argument("pin: group '", pinned.name, "' does not run on device '", device, "'");
  }
  return problem;
}

}  // namespace penstock::planner
