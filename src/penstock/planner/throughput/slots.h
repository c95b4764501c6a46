// Slots: ordered places, each of which is one stage; how searches keep to a cap on stages.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "penstock/planner/problem/split.h"
#include "penstock/planner/search/loads.h"
#include "penstock/planner/search/multilevel.h"
#include "penstock/planner/search/random.h"

namespace penstock::planner {

/// Groups at places.
struct Arrangement {
  Places places;
  std::vector<int> place_of;  ///< [group]
};

/// The split's groups at their devices and modes, where `places` has no order. Absent where the
/// split does not have each of the instance's groups on one device, or has replicas.
std::optional<std::vector<int>> place_groups(const Instance& instance, const Places& places,
                                             const Split& split);

/// The split's stages as slots, and between them empty slots of drawn devices and modes: at most
/// `most_per_device` on a device and as many as there are groups. Absent where the split does not
/// have each of the instance's groups in one stage, or has replicas.
std::optional<Arrangement> deal_slots(const Instance& instance, const Split& split,
                                      int most_per_device, Random& random);

/// `each` slots of drawn modes for each device, in drawn order, and the groups in their numbering
/// cut to slots of even time. Absent where a slot does not support its groups.
std::optional<Arrangement> draw_slots(const Instance& instance, int each, Random& random);

/// A round of multi-level annealing: groups move between slots, those of `split` or, where there is
/// none or `options.fresh` says so, drawn ones. `offer` is told the best, as a split of the
/// problem; where `judged`, each better one on the way, and only what it accepts stays.
void anneal_slots(const Instance& instance, const std::optional<Split>& split, int most_per_device,
                  bool judged, LevelOptions options, Random& random, const Budget& budget,
                  const std::function<bool(const Split&)>& offer);

/// The slots that are not empty as stages of the instance's groups.
Split slots_split(const Places& places, const std::vector<int>& place_of);

}  // namespace penstock::planner
