// Makes slots from a split's stages or at random, and turns groups at slots back into stages.
#include "penstock/planner/throughput/slots.h"

#include <algorithm>
#include <utility>

namespace penstock::planner {
namespace {

constexpr int kMostExtra = 2;  // Empty slots that a device gets at once.

/// For each of the problem's groups its stage.
std::vector<int> stages_of(const Split& split) {
  std::vector<int> stage_of;
  for (int s = 0; std::cmp_less(s, split.stages.size()); ++s) {
    for (const int g : split.stages[at(s)].groups) {
      if (at(g) >= stage_of.size()) stage_of.resize(at(g) + 1, -1);
      stage_of[at(g)] = s;
    }
  }
  return stage_of;
}

bool one_device_each(const Split& split) {
  return std::ranges::all_of(split.stages,
                             [](const Stage& stage) { return stage.devices.size() == 1; });
}

std::vector<int> types_of_devices(const Instance& instance) {
  std::vector<int> types;
  for (int t = 0; t < instance.types; ++t) {
    types.insert(types.end(), at(instance.type_count[at(t)]), t);
  }
  return types;
}

/// A mode of the type; -1 where it has none.
int draw_mode(const Instance& instance, int type, Random& random) {
  int drawn = -1, seen = 0;
  for (int m = 0; m < instance.modes; ++m) {
    if (instance.mode_type[at(m)] == type && random.below(++seen) == 0) drawn = m;
  }
  return drawn;
}

}  // namespace

std::optional<std::vector<int>> place_groups(const Instance& instance, const Places& places,
                                             const Split& split) {
  if (!one_device_each(split)) return std::nullopt;
  const auto stage_of = stages_of(split);
  std::vector<int> place_of;
  for (int g = 0; g < instance.groups; ++g) {
    const auto members = instance.members[g];
    const auto& stage = split.stages[at(stage_of[at(members.front())])];
    for (const int member : members) {
      if (split.stages[at(stage_of[at(member)])].devices != stage.devices) return std::nullopt;
    }
    const auto same = [&](const Place& place) {
      return place.device == stage.devices.front() && place.mode == stage.mode;
    };
    const auto found = std::ranges::find_if(places.list, same);
    if (found == places.list.end() || instance.time_of(g, stage.mode) == kInfinite) {
      return std::nullopt;
    }
    place_of.push_back(static_cast<int>(found - places.list.begin()));
  }
  return place_of;
}

std::optional<Arrangement> deal_slots(const Instance& instance, const Split& split,
                                      int most_per_device, Random& random) {
  if (!one_device_each(split)) return std::nullopt;
  Arrangement dealt;
  dealt.places.ordered = true;
  dealt.places.device_type = types_of_devices(instance);
  std::vector<int> slots_on(at(dealt.places.devices()), 0);
  std::vector<std::pair<Place, int>> slots;  // With the stage; -1: empty.
  for (int s = 0; std::cmp_less(s, split.stages.size()); ++s) {
    const auto& stage = split.stages[at(s)];
    slots.push_back({{stage.devices.front(), stage.mode}, s});
    ++slots_on[at(stage.devices.front())];
  }
  for (int d = 0; d < dealt.places.devices(); ++d) {
    const int room = std::min(most_per_device, instance.groups) - slots_on[at(d)];
    for (int i = random.below(std::clamp(room, 0, kMostExtra) + 1); i > 0; --i) {
      const int mode = draw_mode(instance, dealt.places.device_type[at(d)], random);
      if (mode < 0) break;
      const int where = random.below(static_cast<int>(slots.size()) + 1);
      slots.insert(slots.begin() + where, {{d, mode}, -1});
    }
  }
  std::vector<int> slot_of(split.stages.size());
  for (const auto& [place, stage] : slots) {
    if (stage >= 0) slot_of[at(stage)] = dealt.places.size();
    dealt.places.list.push_back(place);
  }
  const auto stage_of = stages_of(split);
  for (int g = 0; g < instance.groups; ++g) {
    const auto members = instance.members[g];
    const int stage = stage_of[at(members.front())];
    for (const int member : members) {
      if (stage_of[at(member)] != stage) return std::nullopt;
    }
    dealt.place_of.push_back(slot_of[at(stage)]);
  }
  return dealt;
}

std::optional<Arrangement> draw_slots(const Instance& instance, int each, Random& random) {
  Arrangement drawn;
  drawn.places.ordered = true;
  drawn.places.device_type = types_of_devices(instance);
  for (int d = 0; d < drawn.places.devices(); ++d) {
    for (int i = 0; i < each; ++i) {
      const int mode = draw_mode(instance, drawn.places.device_type[at(d)], random);
      if (mode >= 0) drawn.places.list.push_back({d, mode});
    }
  }
  auto& list = drawn.places.list;
  for (int i = drawn.places.size(); i > 1; --i)
    std::swap(list[at(i - 1)], list[at(random.below(i))]);
  double total = 0, done = 0;
  for (int g = 0; g < instance.groups; ++g) total += least_time(instance, g);
  for (int g = 0; g < instance.groups; ++g) {
    const double part = total > 0 ? done / total : 0;
    const int slot =
        std::min(drawn.places.size() - 1, static_cast<int>(part * drawn.places.size()));
    if (slot < 0 || instance.time_of(g, list[at(slot)].mode) == kInfinite) return std::nullopt;
    drawn.place_of.push_back(slot);
    done += least_time(instance, g);
  }
  return drawn;
}

void anneal_slots(const Instance& instance, const std::optional<Split>& split, int most_per_device,
                  bool judged, LevelOptions options, Random& random, const Budget& budget,
                  const std::function<bool(const Split&)>& offer) {
  constexpr int kMostDrawn = 4;
  std::optional<Arrangement> from;
  if (split && !options.fresh) from = deal_slots(instance, *split, most_per_device, random);
  if (!from) {
    const int most = std::min(most_per_device, kMostDrawn);
    from = draw_slots(instance, 1 + random.below(most), random);
    options.fresh = true;
  }
  if (!from) return;
  const auto& places = from->places;
  const auto offer_places = [&](const std::vector<int>& place_of) {
    return offer(expand(instance, slots_split(places, place_of)));
  };
  const auto found = anneal_levels(Loads(instance, places, from->place_of), options, random, budget,
                                   judged ? Accept(offer_places) : Accept());
  if (!found.place_of.empty()) offer_places(found.place_of);
}

Split slots_split(const Places& places, const std::vector<int>& place_of) {
  Split split;
  for (const auto& [device, mode] : places.list) split.stages.push_back({{}, mode, {device}});
  for (int g = 0; std::cmp_less(g, place_of.size()); ++g) {
    split.stages[at(place_of[at(g)])].groups.push_back(g);
  }
  std::erase_if(split.stages, [](const Stage& stage) { return stage.groups.empty(); });
  return split;
}

}  // namespace penstock::planner
