// Compares bytes for each set of supporting types; best-fit decreasing tells if segments help.
#include "penstock/planner/throughput/memory.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "penstock/base/option_name.h"
#include "penstock/base/words.h"
#include "penstock/planner/problem/fits.h"
#include "penstock/planner/problem/index.h"
#include "penstock/planner/problem/instance.h"

namespace penstock::planner {
namespace {

using Types = std::vector<bool>;  // [type]

bool has_devices(const DeviceType& type) {
  return type.unlimited || !type.devices.empty();
}

/// The types with devices that support the group.
Types types_of(const Problem& problem, const Group& group) {
  Types types(problem.types.size(), false);
  for (std::size_t m = 0; m < problem.modes.size(); ++m) {
    const auto type = at(problem.modes[m].type);
    if (group.time[m] < kInfinite && has_devices(problem.types[type])) types[type] = true;
  }
  return types;
}

Types all_types(const Problem& problem) {
  Types types;
  for (const auto& type : problem.types) types.push_back(has_devices(type));
  return types;
}

double memory_of(const Problem& problem, const Types& types) {
  double bytes = 0;
  for (std::size_t t = 0; t < types.size(); ++t) {
    const auto& type = problem.types[t];
    if (!types[t]) continue;
    if (type.unlimited) return kInfinite;
    for (std::size_t d = 0; d < type.devices.size(); ++d) bytes += type.memory;
  }
  return bytes;
}

/// "2 'accelerator' of 10 and 1 'cpu' of 20 bytes (40 together)".
std::string devices_text(const Problem& problem, const Types& types) {
  std::vector<std::string> kinds;
  for (std::size_t t = 0; t < types.size(); ++t) {
    const auto& type = problem.types[t];
    if (types[t]) {
      kinds.push_back(concat(type.devices.size(), " '", type.name, "' of ", type.memory));
    }
  }
  return concat(join(kinds, " and "), " bytes (", memory_of(problem, types), " together)");
}

/// What must go to devices of some types.
struct Load {
  int groups = 0;
  double bytes = 0;
  std::string largest;  ///< Its name,
  double most = 0;      ///< and bytes.
};

Load load_of(const Problem& problem, const Types& types) {
  Load load;
  for (const auto& group : problem.groups) {
    const auto own = types_of(problem, group);
    bool only = true;
    for (std::size_t t = 0; t < types.size(); ++t) only = only && (types[t] || !own[t]);
    if (!only) continue;
    ++load.groups;
    load.bytes += group.memory;
    if (load.groups > 1 && group.memory <= load.most) continue;
    load.largest = group.name;
    load.most = group.memory;
  }
  return load;
}

/// Whether the groups go into the devices in any order, the largest first, each where least room is
/// left.
bool fit_in_any_order(const Problem& problem) {
  auto free = problem;
  free.order.clear();
  const auto instance = make_instance(free, Partner::kHighest);
  if (!instance) return false;
  std::vector<std::vector<double>> room;  // [type][device]
  room.reserve(problem.types.size());
  for (const auto& type : problem.types) room.emplace_back(type.devices.size(), type.memory);
  std::vector<int> groups(at(instance->groups));
  std::iota(groups.begin(), groups.end(), 0);
  std::ranges::stable_sort(groups, std::greater<>(),
                           [&](int g) { return instance->memory[at(g)]; });
  return std::ranges::all_of(groups, [&](int g) {
    const double needed = instance->memory[at(g)];
    double* tightest = nullptr;
    for (int m = 0; m < instance->modes; ++m) {
      if (instance->time_of(g, m) == kInfinite) continue;
      for (double& left : room[at(instance->mode_type[at(m)])]) {
        if (fits(needed, left) && (tightest == nullptr || left < *tightest)) tightest = &left;
      }
    }
    if (tightest == nullptr) return false;
    *tightest -= needed;
    return true;
  });
}

}  // namespace

Status check_memory(const Problem& problem) {
  const auto all = all_types(problem);
  std::set<Types> sets{all};
  for (const auto& group : problem.groups) sets.insert(types_of(problem, group));
  for (const auto& types : sets) {
    const auto load = load_of(problem, types);
    if (fits(load.bytes, memory_of(problem, types))) continue;
    const auto which = types == all ? "groups" : "groups that nothing else supports";
    return make_error(Code::kFailedPrecondition, "no plan exists: ", load.groups, " ", which,
                      " (the largest is '", load.largest, "') need ", load.bytes,
                      " bytes together, more than ", devices_text(problem, types),
                      "; give each more memory, or add such devices");
  }
  return {};
}

std::string undivided_text(const Problem& problem, const Options& options) {
  const auto all = all_types(problem);
  const auto load = load_of(problem, all);
  auto text = concat(counted(load.groups, "group"), " of ", load.bytes,
                     " bytes together (the largest, '", load.largest, "', of ", load.most, ")",
                     problem.frames_in_flight ? ", with the frames in flight between them," : "",
                     " cannot be divided among ", devices_text(problem, all));
  const bool one = options.segments_per_device == 1;
  if (one && !problem.frames_in_flight && fit_in_any_order(problem)) {
    return concat(text, "; several segments per device (", OptionName::kSegmentsPerDevice,
                  ") would fit");
  }
  return text + "; give each more memory, or add devices";
}

}  // namespace penstock::planner
