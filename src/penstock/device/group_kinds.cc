// Takes kinds from the uniform groupings of each use, and counts them in every grouping.
#include "penstock/device/group_kinds.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace penstock::device {
namespace {

constexpr int kMixed = -1;  ///< Of all kinds of core.

/// The shares, also of a device whose CPUs are of unlike kinds.
std::vector<Share> shares_of(const Grouping& grouping) {
  if (!grouping.shares.empty()) return grouping.shares;
  return {{kMixed, static_cast<int>(grouping.devices.front().cpus.size()), 1}};
}

bool is(const GroupKind& kind, std::size_t use, const Share& share) {
  return kind.use == use && kind.kind == share.kind && kind.width == share.width;
}

/// Each width of each kind of core, with the devices of the uniform grouping that has it.
void add_kinds(const std::vector<Grouping>& uniform, std::size_t use, Groupings& all) {
  for (const auto& grouping : uniform) {
    auto device = grouping.devices.begin();
    for (const auto& share : shares_of(grouping)) {
      const auto end = device + share.count;
      const bool known = std::ranges::any_of(
          all.kinds, [&](const GroupKind& kind) { return is(kind, use, share); });
      if (!known && share.count > 0) {
        all.kinds.push_back({use, share.kind, share.width, {device, end}});
      }
      device = end;
    }
  }
}

std::vector<int> counts_of(const Grouping& grouping, std::size_t use,
                           const std::vector<GroupKind>& kinds) {
  std::vector<int> counts(kinds.size());
  for (const auto& share : shares_of(grouping)) {
    const auto kind = std::ranges::find_if(
        kinds, [&](const GroupKind& candidate) { return is(candidate, use, share); });
    if (kind != kinds.end()) counts[static_cast<std::size_t>(kind - kinds.begin())] += share.count;
  }
  return counts;
}

}  // namespace

Groupings groupings_of(const Topology& topology, std::size_t most) {
  Groupings all;
  all.uses = uses_of(topology);
  std::vector<std::size_t> use_of;
  for (std::size_t use = 0; use < all.uses.size(); ++use) {
    auto uniform = uniform_groupings(topology, all.uses[use], most);
    auto mixed = mixed_groupings(topology, all.uses[use], most);
    add_kinds(uniform, use, all);
    const auto first = all.groupings.size();
    for (auto* list : {&uniform, &mixed}) {
      for (auto& grouping : *list) {
        const bool known = std::any_of(
            all.groupings.begin() + static_cast<std::ptrdiff_t>(first), all.groupings.end(),
            [&](const Grouping& other) { return other.devices == grouping.devices; });
        if (known || grouping.devices.empty() || all.groupings.size() - first >= most) continue;
        all.groupings.push_back(std::move(grouping));
        use_of.push_back(use);
      }
    }
  }
  std::ranges::stable_sort(all.kinds, {}, [](const GroupKind& kind) {
    return std::tuple(kind.use, -kind.kind, kind.width);
  });
  for (std::size_t i = 0; i < all.groupings.size(); ++i) {
    all.counts.push_back(counts_of(all.groupings[i], use_of[i], all.kinds));
  }
  return all;
}

}  // namespace penstock::device
