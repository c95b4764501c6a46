// Sorts CPUs by kind, node and cache, and deals them to devices that keep to a cache if they fit.
#include "penstock/device/grouping.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "penstock/base/words.h"
#include "penstock/device/place.h"

namespace penstock::device {
namespace {

int count_of(const std::vector<int>& cpus) {
  return static_cast<int>(cpus.size());
}

/// A CPU, and where it stands: those that have much in common are near each other.
struct Seat {
  int kind = 0;
  std::pair<int, int> bin;  ///< NUMA node and last cache.
  std::tuple<int, int, int, int> order;
  int number = 0, core = 0;
};

/// The number of the cache of that level that the CPU has, or -1.
int cache_of(const Topology& topology, int level, int cpu) {
  for (std::size_t i = 0; i < topology.caches.size(); ++i) {
    const auto& cache = topology.caches[i];
    if (cache.level == level && std::ranges::find(cache.cpus, cpu) != cache.cpus.end()) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

/// Of the CPUs, as neighbours follow one another; powerful kinds first.
std::vector<Seat> seats_of(const Topology& topology, const std::vector<int>& cpus) {
  int last = 0;
  for (const auto& cache : topology.caches) last = std::max(last, cache.level);
  std::vector<Seat> seats;
  for (const auto& cpu : topology.cpus) {
    if (std::ranges::find(cpus, cpu.number) == cpus.end()) continue;
    Seat seat;
    seat.kind = cpu.kind;
    seat.bin = {cpu.numa_node, cache_of(topology, last, cpu.number)};
    seat.order = {cpu.package, cpu.numa_node, seat.bin.second, cache_of(topology, 2, cpu.number)};
    seat.number = cpu.number;
    seat.core = cpu.core;
    seats.push_back(seat);
  }
  std::ranges::sort(seats, {}, [](const Seat& seat) {
    return std::tuple(-seat.kind, seat.order, seat.core, seat.number);
  });
  return seats;
}

/// CPUs of one kind of core: for each last cache and NUMA node those that are in use.
struct Pool {
  int kind = 0;
  std::vector<std::vector<int>> bins;

  [[nodiscard]] int cpus() const {
    return std::accumulate(bins.begin(), bins.end(), 0,
                           [](int sum, const auto& bin) { return sum + count_of(bin); });
  }
  [[nodiscard]] int widest_bin() const {
    int widest = 0;
    for (const auto& bin : bins) widest = std::max(widest, count_of(bin));
    return widest;
  }
};

std::vector<Pool> pools_of(const Topology& topology, const std::vector<int>& cpus) {
  std::vector<Pool> pools;
  std::optional<std::pair<int, int>> bin;
  for (const auto& seat : seats_of(topology, cpus)) {
    if (pools.empty() || pools.back().kind != seat.kind) {
      pools.push_back({seat.kind, {}});
      bin.reset();
    }
    auto& bins = pools.back().bins;
    if (bin != seat.bin) bins.emplace_back();
    bin = seat.bin;
    bins.back().push_back(seat.number);
  }
  return pools;
}

/// 1, 2, 4, ... within a bin, the bin, 2, 4, ... bins, the pool; ascending.
std::vector<int> widths_of(const Pool& pool) {
  std::set<int> widths;
  for (int width = 1; width <= pool.widest_bin(); width *= 2) widths.insert(width);
  for (int width = pool.widest_bin(); width <= pool.cpus(); width *= 2) widths.insert(width);
  widths.insert(pool.cpus());
  return {widths.begin(), widths.end()};
}

/// Takes the first `width` CPUs of the bin with the least room for them.
std::optional<std::vector<int>> take_within(std::vector<std::vector<int>>& bins, int width) {
  std::vector<int>* tightest = nullptr;
  for (auto& bin : bins) {
    if (count_of(bin) < width) continue;
    if (tightest == nullptr || bin.size() < tightest->size()) tightest = &bin;
  }
  if (tightest == nullptr) return std::nullopt;
  const auto end = tightest->begin() + width;
  std::vector<int> taken(tightest->begin(), end);
  tightest->erase(tightest->begin(), end);
  return taken;
}

/// Takes bins that follow one another, those that are whole, as far as needed.
std::optional<std::vector<int>> take_across(const Pool& pool, std::vector<std::vector<int>>& bins,
                                            int width) {
  for (std::size_t first = 0; first < bins.size(); ++first) {
    int room = 0;
    std::size_t end = first;
    for (; end < bins.size() && room < width; ++end) {
      if (bins[end].size() != pool.bins[end].size()) break;
      room += count_of(bins[end]);
    }
    if (room < width) continue;
    std::vector<int> taken;
    for (std::size_t i = first; i < end; ++i) {
      const auto wanted = std::min(count_of(bins[i]), width - count_of(taken));
      taken.insert(taken.end(), bins[i].begin(), bins[i].begin() + wanted);
      bins[i].erase(bins[i].begin(), bins[i].begin() + wanted);
    }
    return taken;
  }
  return std::nullopt;
}

/// Devices of the widths, which descend; none: they do not fit without crossing what they may not.
std::optional<std::vector<Device>> deal(const Pool& pool, const std::vector<Share>& shares) {
  auto bins = pool.bins;
  std::vector<std::vector<Device>> dealt(shares.size());
  for (std::size_t i = shares.size(); i-- > 0;) {  // Wide ones first: they leave whole pieces.
    for (int n = 0; n < shares[i].count; ++n) {
      const int width = shares[i].width;
      auto cpus =
          width > pool.widest_bin() ? take_across(pool, bins, width) : take_within(bins, width);
      if (!cpus) return std::nullopt;
      std::ranges::sort(*cpus);
      dealt[i].push_back({.host = {}, .cpus = *std::move(cpus)});
    }
  }
  std::vector<Device> devices;
  for (auto& share : dealt) {
    std::ranges::sort(share, {}, &Device::cpus);
    devices.insert(devices.end(), share.begin(), share.end());
  }
  return devices;
}

std::string text_of(const std::vector<Share>& shares) {
  bool first = true;
  const bool unlike = std::ranges::any_of(
      shares, [&](const Share& share) { return share.kind != shares.front().kind; });
  return join(shares, " + ", [&](const Share& share) {
    const auto what =
        std::exchange(first, false) ? (share.count == 1 ? " device of " : " devices of ") : " of ";
    const auto kind = share.kind == shares.front().kind ? "fastest cores" : "slower cores";
    return concat(share.count, what, counted(share.width, "CPU"),
                  unlike ? concat(" (", kind, ")") : "");
  });
}

/// As many devices of one width as fit.
std::vector<Share> filled(const Pool& pool, int width) {
  auto bins = pool.bins;
  Share share{pool.kind, width, 0};
  while (width > pool.widest_bin() ? take_across(pool, bins, width).has_value()
                                   : take_within(bins, width).has_value()) {
    ++share.count;
  }
  return {share};
}

/// A choice for each pool, as one grouping; none: one of them cannot be dealt.
std::optional<Grouping> grouping_of(const std::vector<Pool>& pools,
                                    const std::vector<std::vector<Share>>& choices) {
  Grouping made;
  for (std::size_t i = 0; i < pools.size(); ++i) {
    auto devices = deal(pools[i], choices[i]);
    if (!devices) return std::nullopt;
    made.shares.insert(made.shares.end(), choices[i].begin(), choices[i].end());
    made.devices.insert(made.devices.end(), devices->begin(), devices->end());
  }
  made.text = text_of(made.shares);
  return made;
}

/// Each combination of one choice for each pool, those whose places in the lists add up to little
/// first; at most `most`.
std::vector<Grouping> combined(const std::vector<Pool>& pools,
                               const std::vector<std::vector<std::vector<Share>>>& choices,
                               std::size_t most) {
  std::size_t reach = 0;  // Of the sum of the places.
  for (const auto& list : choices) reach += list.size();
  std::vector<Grouping> groupings;
  std::vector<std::vector<Share>> chosen(pools.size());
  const auto add = [&](const auto& self, std::size_t pool, std::size_t left) -> void {
    if (groupings.size() >= most) return;
    if (pool == pools.size()) {
      if (left > 0) return;
      if (auto made = grouping_of(pools, chosen)) groupings.push_back(*std::move(made));
      return;
    }
    const bool last = pool + 1 == pools.size();
    for (std::size_t i = last ? left : 0; i <= left && i < choices[pool].size(); ++i) {
      chosen[pool] = choices[pool][i];
      self(self, pool + 1, left - i);
    }
  };
  for (std::size_t sum = 0; sum < reach && groupings.size() < most; ++sum) add(add, 0, sum);
  return groupings;
}

/// Ways to fill so many CPUs with `count` widths of the list, each at least once; ascending.
void fill(const std::vector<int>& widths, std::size_t from, std::size_t count, int cpus,
          std::vector<std::pair<int, int>>& parts,
          const std::function<bool(const std::vector<std::pair<int, int>>&)>& found, bool& go_on) {
  for (std::size_t i = from; i < widths.size() && go_on; ++i) {
    if (count == 1) {
      if (cpus % widths[i] != 0) continue;
      parts.emplace_back(widths[i], cpus / widths[i]);
      go_on = found(parts);
      parts.pop_back();
      continue;
    }
    for (int n = 1; n * widths[i] < cpus && go_on; ++n) {
      parts.emplace_back(widths[i], n);
      fill(widths, i + 1, count - 1, cpus - n * widths[i], parts, found, go_on);
      parts.pop_back();
    }
  }
}

/// At most so many ways to take all of a pool, those of few widths first.
std::vector<std::vector<Share>> fillings(const Pool& pool, std::size_t most) {
  std::vector<std::vector<Share>> ways;
  const auto widths = widths_of(pool);
  bool go_on = most > 0;
  for (std::size_t count = 1; count <= widths.size() && go_on; ++count) {
    std::vector<std::pair<int, int>> parts;
    fill(
        widths, 0, count, pool.cpus(), parts,
        [&](const auto& found) {
          std::vector<Share> shares;
          for (const auto& [width, number] : found) shares.push_back({pool.kind, width, number});
          if (deal(pool, shares)) ways.push_back(std::move(shares));
          return ways.size() < most;
        },
        go_on);
  }
  return ways;
}

/// The first so many, of cores that nothing else is taken of as long as there are such.
std::vector<int> first_of(const Topology& topology, const std::vector<int>& cpus,
                          std::size_t count) {
  std::set<int> cores;
  std::vector<int> taken, siblings;
  for (const auto& seat : seats_of(topology, cpus)) {
    (cores.insert(seat.core).second ? taken : siblings).push_back(seat.number);
  }
  taken.insert(taken.end(), siblings.begin(), siblings.end());
  taken.resize(std::min(count, taken.size()));
  std::ranges::sort(taken);
  return taken;
}

std::vector<int> one_of_each_core(const Topology& topology, const std::vector<int>& cpus) {
  std::set<int> cores;
  std::vector<int> taken;
  for (const auto& seat : seats_of(topology, cpus)) {
    if (cores.insert(seat.core).second) taken.push_back(seat.number);
  }
  std::ranges::sort(taken);
  return taken;
}

std::vector<int> fastest_of(const Topology& topology, const std::vector<int>& cpus) {
  std::vector<int> taken;
  const auto seats = seats_of(topology, cpus);
  for (const auto& seat : seats) {
    if (seat.kind == seats.front().kind) taken.push_back(seat.number);
  }
  std::ranges::sort(taken);
  return taken;
}

/// Of each bin of four or more.
std::vector<int> half_of_each_cache(const Topology& topology, const std::vector<int>& cpus) {
  constexpr std::size_t kLeast = 4;
  std::vector<int> taken;
  for (const auto& pool : pools_of(topology, cpus)) {
    for (const auto& bin : pool.bins) {
      const auto count = bin.size() < kLeast ? bin.size() : bin.size() / 2;
      const auto half = first_of(topology, bin, count);
      taken.insert(taken.end(), half.begin(), half.end());
    }
  }
  std::ranges::sort(taken);
  return taken;
}

}  // namespace

std::vector<Use> uses_of(const Topology& topology) {
  constexpr std::size_t kMostUses = 8;
  const auto allowed = allowed_cpus(topology);
  std::vector<Use> uses;
  const auto add = [&](std::vector<int> cpus, const std::string& text) {
    const bool known = std::ranges::any_of(uses, [&](const Use& use) { return use.cpus == cpus; });
    // One CPU alone is an answer only where there is no other.
    if (known || cpus.empty() || (cpus.size() == 1 && !uses.empty())) return;
    if (uses.size() < kMostUses) uses.push_back({std::move(cpus), text});
  };
  const double quota = topology.cpu_quota.value_or(static_cast<double>(allowed.size()));
  if (quota < static_cast<double>(allowed.size())) {
    for (const double rounded : {std::floor(quota), std::ceil(quota)}) {
      const auto count = static_cast<std::size_t>(std::max(1.0, rounded));
      add(first_of(topology, allowed, count),
          concat(counted(count, "CPU"), " of ", allowed.size(), ", for a quota of ", quota));
    }
    return uses;
  }
  add(allowed, concat(allowed.size() == 1 ? "" : "all ", counted(allowed.size(), "CPU")));
  const auto single = one_of_each_core(topology, allowed);
  add(single, concat("1 CPU of each of ", single.size(), " cores"));
  const auto fastest = fastest_of(topology, allowed);
  add(fastest, concat(counted(fastest.size(), "CPU"), " of the fastest kind"));
  const auto alone = one_of_each_core(topology, fastest);
  add(alone, concat("1 CPU of each of ", alone.size(), " cores of the fastest kind"));
  const auto half = half_of_each_cache(topology, single);
  add(half, concat(counted(half.size(), "CPU"), ", half of each cache's cores"));
  return uses;
}

std::vector<Device> usual_devices(const Topology& topology) {
  const auto allowed = allowed_cpus(topology);
  const auto all = static_cast<double>(allowed.size());
  const double count = std::min(all, std::ceil(topology.cpu_quota.value_or(all)));
  std::vector<Device> devices;
  for (const int cpu : first_of(topology, allowed, static_cast<std::size_t>(count))) {
    devices.push_back({.host = {}, .cpus = {cpu}});
  }
  std::ranges::stable_sort(devices, std::greater{}, [&](const Device& device) {
    return std::ranges::find(topology.cpus, device.cpus.front(), &Cpu::number)->kind;
  });
  return devices;
}

std::vector<Grouping> uniform_groupings(const Topology& topology, const Use& use,
                                        std::size_t most) {
  const auto pools = pools_of(topology, use.cpus);
  std::vector<std::vector<std::vector<Share>>> choices;
  for (const auto& pool : pools) {
    auto& list = choices.emplace_back();
    for (const int width : widths_of(pool)) list.push_back(filled(pool, width));
  }
  auto groupings = combined(pools, choices, most > 1 && pools.size() > 1 ? most - 1 : most);
  if (pools.size() > 1 && groupings.size() < most) {
    groupings.push_back({{},
                         {{.host = {}, .cpus = use.cpus}},
                         concat("1 device of ", counted(use.cpus.size(), "CPU"))});
  }
  return groupings;
}

std::vector<Grouping> mixed_groupings(const Topology& topology, const Use& use, std::size_t most) {
  const auto pools = pools_of(topology, use.cpus);
  std::vector<std::vector<std::vector<Share>>> choices;
  choices.reserve(pools.size());
  for (const auto& pool : pools) choices.push_back(fillings(pool, most));
  return combined(pools, choices, most);
}

}  // namespace penstock::device
