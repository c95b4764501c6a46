// Asks workers to move bytes for a while, one way after the other and then both ways at once.
#include "penstock/hosts/transfers.h"

#include <algorithm>

namespace penstock::hosts {
namespace {

constexpr double kAsOne = 1.25;      // Times one alone: apart it would be 1.5 at least.
constexpr double kComparable = 0.5;  // Of the faster one's bandwidth.
constexpr double kBytes = 4 << 20;   // Of the slower one: 64 pieces to be counted.
constexpr double kShortestTransfer = 0.25, kLongestTransfer = 2;  // Seconds.

Worker::Rate begin(const Hosts& hosts, const WorkerOf& worker, const Transfer& transfer,
                   double seconds) {
  auto& asked = *worker(transfer.asked);
  const bool sends = transfer.ends.first == transfer.asked;
  const int peer = sends ? transfer.ends.second : transfer.ends.first;
  if (peer == kCaller) return asked.moving(!sends, seconds);
  return asked.moving_to(hosts.hosts[static_cast<std::size_t>(peer)].address, sends, seconds);
}

}  // namespace

bool Rates::shared() const {
  return together <= kAsOne * std::max(one_alone, other_alone);
}

double Rates::wire() const {
  // What one has alone the wire carries in any case.
  return shared() ? std::max({one_alone, other_alone, together}) : planner::kInfinite;
}

bool comparable(double one, double other) {
  return std::min(one, other) >= kComparable * std::max(one, other);
}

double seconds_to_compare(const MeasuredLinks& links, Ends one, Ends other) {
  const double slower = std::min(links.ways.at(one).bandwidth, links.ways.at(other).bandwidth);
  return 3 * std::clamp(kBytes / slower, kShortestTransfer, kLongestTransfer);
}

Result<Rates> compare(const Hosts& hosts, const MeasuredLinks& links, const WorkerOf& worker,
                      const Transfer& one, const Transfer& other) {
  const double seconds = seconds_to_compare(links, one.ends, other.ends) / 3;
  Rates rates;
  PENSTOCK_TRY(rates.one_alone, begin(hosts, worker, one, seconds)());
  PENSTOCK_TRY(rates.other_alone, begin(hosts, worker, other, seconds)());
  const auto first = begin(hosts, worker, one, seconds);
  const auto second = begin(hosts, worker, other, seconds);
  const auto first_rate = first(), second_rate = second();  // Both are waited for.
  PENSTOCK_CHECK_OK(first_rate);
  PENSTOCK_CHECK_OK(second_rate);
  rates.together = *first_rate + *second_rate;
  return rates;
}

}  // namespace penstock::hosts
