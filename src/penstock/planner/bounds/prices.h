// Prices of device time: what turns "the rest does not fit on the devices left" into one sum.
#pragma once

#include <span>
#include <vector>

#include "penstock/planner/problem/instance.h"

namespace penstock::planner {

/// A price for each type's device time, and what the cheapest device would charge for each group.
///
/// A period T buys each device T of time, so groups R run on devices with counts n_t within T only
/// if
///   sum over R of group + what crosses R's border <= T * sum over t of price_t * n_t.
/// True for any prices; those of fractional_prices() make it sharp (LP duality).
struct Prices {
  std::vector<double> type;     ///< [type] kInfinite: taken to have no devices.
  std::vector<double> group;    ///< [group] 0 where no priced type supports it: see `lacks`.
  std::vector<char> lacks;      ///< [group] 1 where no priced type supports it.
  std::vector<double> receive;  ///< [value] Paid at least once by the stages that read it.
  std::vector<double> send;     ///< [value] Paid by the stage that writes it.
  bool lacking = false;         ///< Whether any group lacks.
  bool is_memory = false;       ///< Bytes in place of time: a device offers price_t, whatever T is.

  /// What the devices left offer within `period`; kInfinite where a type without price is left.
  [[nodiscard]] double capacity(std::span<const int> left, double period) const;
};

/// What follows from the prices of the types.
Prices price_groups(const Instance& instance, std::vector<double> type_prices);

/// Prices that nearly maximise (sum over groups of min over modes of price * time) / (sum of price
/// * count) over the types in `allowed`: a Lagrangian of the fractional assignment. Any stop is
/// valid.
std::vector<double> fractional_prices(const Instance& instance, const std::vector<bool>& allowed);

/// Price systems worth asking: all types, all but one for each type, and memory.
std::vector<Prices> make_prices(const Instance& instance);

inline constexpr int kMostPrices = 5;  ///< make_prices() gives no more.

/// The period that no split can beat: the dearest group, and the fractional bound of each price;
/// the first with `replicas` divided by the devices. kInfinite: some group, or the memory of all,
/// fits nowhere.
double period_bound(const Instance& instance, std::span<const Prices> prices, bool replicas);

}  // namespace penstock::planner
