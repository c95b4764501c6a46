// Raises the prices of overloaded types in ever smaller steps, and keeps those of the best bound.
#include "penstock/planner/bounds/prices.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "penstock/planner/problem/fits.h"
#include "penstock/planner/problem/index.h"

namespace penstock::planner {
namespace {

constexpr int kMostRounds = 120;       // Of price changes,
constexpr int kLeastRounds = 12;       // fewer where each takes long.
constexpr int kPriceWork = 1'000'000;  // Times looked at in all rounds.
constexpr int kTypesLeftOut = 3;       // With more types only the prices of all are kept.

/// The cheapest mode for a group at these prices; -1 where none supports it.
int cheapest_mode(const Instance& instance, std::span<const double> type_prices, int group) {
  int best = -1;
  double least = kInfinite;
  for (int m = 0; m < instance.modes; ++m) {
    const double price = type_prices[at(instance.mode_type[at(m)])];
    const double time = instance.time_of(group, m);
    if (price == kInfinite || time == kInfinite) continue;
    if (best < 0 || price * time < least) {
      least = price * time;
      best = m;
    }
  }
  return best;
}

bool has_mode(const Instance& instance, int type) {
  return std::ranges::find(instance.mode_type, type) != instance.mode_type.end();
}

/// Types with prices, and each group's time on them in its best mode.
struct PricedTimes {
  PricedTimes(const Instance& instance, std::span<const double> type_prices) {
    std::vector<int> column(at(instance.types), -1);
    for (int t = 0; t < instance.types; ++t) {
      if (type_prices[at(t)] == kInfinite) continue;
      column[at(t)] = static_cast<int>(types.size());
      types.push_back(t);
    }
    times.assign(at(instance.groups) * types.size(), kInfinite);
    for (int g = 0; g < instance.groups; ++g) {
      for (int m = 0; m < instance.modes; ++m) {
        const int c = column[at(instance.mode_type[at(m)])];
        if (c < 0) continue;
        auto& least = times[at(g) * types.size() + at(c)];
        least = std::min(least, instance.time_of(g, m));
      }
    }
  }

  std::vector<int> types;
  std::vector<double> times;  ///< [group * types + place in `types`]
};

/// The fractional bound of the prices and, for each type, the load of one device at them.
double bound_at(const Instance& instance, const PricedTimes& priced,
                std::span<const double> type_prices, std::vector<double>& load) {
  const std::size_t columns = priced.types.size();
  std::vector<double> price(columns), sum(columns, 0);
  double capacity = 0, work = 0;
  for (std::size_t c = 0; c < columns; ++c) {
    price[c] = type_prices[at(priced.types[c])];
    capacity += price[c] * instance.type_count[at(priced.types[c])];
  }
  for (auto times = priced.times.begin(); times != priced.times.end();
       times += static_cast<std::ptrdiff_t>(columns)) {
    std::size_t best = 0;
    double least = kInfinite;
    for (std::size_t c = 0; c < columns; ++c) {
      const double cost = price[c] * times[static_cast<std::ptrdiff_t>(c)];
      if (cost < least) least = cost, best = c;
    }
    if (least == kInfinite) continue;
    work += least;
    sum[best] += times[static_cast<std::ptrdiff_t>(best)];
  }
  std::ranges::fill(load, 0);
  for (std::size_t c = 0; c < columns; ++c) {
    load[at(priced.types[c])] = sum[c] / instance.type_count[at(priced.types[c])];
  }
  return capacity > 0 ? work / capacity : 0;
}

/// What a stage pays at least for a value's end, over the types that add transfers to their load.
double least_end(const Instance& instance, std::span<const double> type_prices,
                 std::span<const double> cost, int value) {
  double least = kInfinite;
  for (int t = 0; t < instance.types; ++t) {
    if (type_prices[at(t)] == kInfinite || !has_mode(instance, t)) continue;
    if (instance.type_overlap[at(t)] != Overlap::kSerial) return 0;
    least = std::min(least, type_prices[at(t)] * cost[at(value, instance.types, t)]);
  }
  return least == kInfinite ? 0 : least;
}

/// Memory as a price system; nothing where a type has memory without limit.
std::optional<Prices> price_memory(const Instance& instance) {
  Prices prices;
  prices.type = instance.type_memory;
  for (int t = 0; t < instance.types; ++t) {
    if (instance.type_count[at(t)] > 0 && prices.type[at(t)] == kInfinite) return std::nullopt;
  }
  prices.group = instance.memory;
  prices.lacks.assign(at(instance.groups), 0);
  prices.receive.assign(at(instance.values), 0);
  prices.send = prices.receive;
  prices.is_memory = true;
  return prices;
}

}  // namespace

double Prices::capacity(std::span<const int> left, double period) const {
  double sum = 0;
  for (std::size_t t = 0; t < left.size(); ++t) {
    if (left[t] > 0) sum += type[t] * left[t];
  }
  return is_memory || sum == 0 ? sum : sum * period;
}

Prices price_groups(const Instance& instance, std::vector<double> type_prices) {
  Prices prices;
  prices.type = std::move(type_prices);
  for (int g = 0; g < instance.groups; ++g) {
    const int mode = cheapest_mode(instance, prices.type, g);
    const bool lacks = mode < 0;
    prices.group.push_back(
        lacks ? 0 : prices.type[at(instance.mode_type[at(mode)])] * instance.time_of(g, mode));
    prices.lacks.push_back(lacks ? 1 : 0);
    prices.lacking = prices.lacking || lacks;
  }
  for (int v = 0; v < instance.values; ++v) {
    prices.receive.push_back(least_end(instance, prices.type, instance.receive, v));
    prices.send.push_back(least_end(instance, prices.type, instance.send, v));
  }
  return prices;
}

std::vector<double> fractional_prices(const Instance& instance, const std::vector<bool>& allowed) {
  std::vector<double> prices(at(instance.types), kInfinite), load(at(instance.types));
  int open = 0;
  for (int t = 0; t < instance.types; ++t) {
    if (!allowed[at(t)] || instance.type_count[at(t)] == 0 || !has_mode(instance, t)) continue;
    prices[at(t)] = 1;
    ++open;
  }
  auto best = prices;
  const PricedTimes priced(instance, prices);
  double best_bound = bound_at(instance, priced, prices, load);
  const int rounds =
      std::clamp(kPriceWork / (instance.groups * instance.modes), kLeastRounds, kMostRounds);
  for (int round = 0; round < rounds && open > 1; ++round) {
    // Raise the price of what is asked for too much, in ever smaller steps.
    double mean = 0;
    for (int t = 0; t < instance.types; ++t) mean += prices[at(t)] < kInfinite ? load[at(t)] : 0;
    mean /= open;
    if (mean <= 0) break;
    const double step = 0.5 / (1 + 0.25 * round);
    for (int t = 0; t < instance.types; ++t) {
      if (prices[at(t)] == kInfinite) continue;
      prices[at(t)] *= std::exp(step * std::clamp((load[at(t)] - mean) / mean, -1.0, 1.0));
    }
    const double bound = bound_at(instance, priced, prices, load);
    if (bound > best_bound) {
      best_bound = bound;
      best = prices;
    }
  }
  return best;
}

std::vector<Prices> make_prices(const Instance& instance) {
  std::vector<bool> allowed(at(instance.types), true);
  std::vector<Prices> prices{price_groups(instance, fractional_prices(instance, allowed))};
  if (auto memory = price_memory(instance)) prices.push_back(*std::move(memory));
  if (instance.types == 1 || instance.types > kTypesLeftOut) return prices;
  for (int t = 0; t < instance.types; ++t) {
    if (instance.type_count[at(t)] == 0) continue;
    allowed[at(t)] = false;
    prices.push_back(price_groups(instance, fractional_prices(instance, allowed)));
    allowed[at(t)] = true;
  }
  return prices;
}

double period_bound(const Instance& instance, std::span<const Prices> prices, bool replicas) {
  double bound = 0;
  for (int g = 0; g < instance.groups; ++g) {
    double least = kInfinite;
    for (int m = 0; m < instance.modes; ++m) {
      const int count = instance.type_count[at(instance.mode_type[at(m)])];
      if (count == 0 || instance.time_of(g, m) == kInfinite) continue;
      const double load = instance.time_of(g, m) + instance.mode_launch[at(m)];
      least = std::min(least, replicas ? load / count : load);
    }
    bound = std::max(bound, least);
  }
  for (const auto& price : prices) {
    const double capacity = price.capacity(instance.type_count, 1);
    double work = 0;
    for (const double group : price.group) work += group;
    if (price.is_memory && !fits(work, capacity)) return kInfinite;
    if (price.is_memory) continue;
    if (capacity < kInfinite && capacity > 0) bound = std::max(bound, work / capacity);
  }
  return bound;
}

}  // namespace penstock::planner
