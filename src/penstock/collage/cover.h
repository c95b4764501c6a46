// Cover: the cheapest way to give every node of a network to exactly one backend.
//
// After Collage (Jeon et al., PACT 2022; TVM RFC 62), with what it leaves out: costs of handing
// values over, so that the search knows who made what is still to be read, K best covers, and a
// bound. Plain numbers; knows no graph and no engine. docs/collage.md tells how it works.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/collage/node_set.h"

namespace penstock::collage {

inline constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// Who holds a value, and how it lies in memory. Backends and layouts are the caller's numbers.
struct Place {
  int backend = -1;  ///< -1: outside of the network, where inputs come from and outputs go to.
  int layout = 0;
  auto operator<=>(const Place&) const = default;
};

struct CoverValue {
  int producer = -1;  ///< A node, or -1: an input of the network.
  std::vector<int> consumers;
  bool leaves = false;  ///< An output of the network.
  double bytes = 0;
};

/// A set of nodes that one backend would take as a whole, and its seconds, those of handing over
/// left out.
struct CoverCandidate {
  NodeSet nodes;    ///< Of size `CoverProblem::nodes`; not empty.
  Place place;      ///< Of the values that it makes, and where it wants those that it reads.
  double cost = 0;  ///< >= 0. Infinite (does not run) or NaN (not known): never chosen.
};

struct CoverProblem {
  int nodes = 0;  ///< Numbered such that a producer comes before its consumers.
  std::vector<CoverValue> values;
  std::vector<CoverCandidate> candidates;
  /// Seconds of handing a value of `bytes` from partition to partition, >= 0; infinite or NaN: it
  /// cannot be done. Asked from a place to itself as well: what a boundary within one backend
  /// costs. Absent: free. A value is handed over once to each place that reads it, however many
  /// partitions there do.
  std::function<double(Place from, Place to, double bytes)> transition;
  std::vector<std::string> names;  ///< Of the nodes, for messages; may be empty.
};

struct CoverOptions {
  int covers = 1;  ///< How many of the best are wanted.
  /// Covers known before, as numbers of candidates: never answered with a worse one.
  std::vector<std::vector<int>> known;
  double seconds = kInfinite;         ///< The deadline.
  std::size_t max_states = 300'000;   ///< Partial covers to keep, some hundred bytes each.
  std::function<bool()> interrupted;  ///< Asked often; true ends the search with what is known.
};

struct Cover {
  std::vector<int> candidates;  ///< Each after those that it reads from.
  double cost = kInfinite;
  bool operator==(const Cover&) const = default;
};

struct Covers {
  std::vector<Cover> best;  ///< Cheapest first, all different. Of equal cost: fewer parts first.
  double lower_bound = 0;   ///< No cover costs less. The first one's cost where it is proved best.
  bool complete = false;    ///< The best K are proved, or there are no more.
};

/// The seconds of a cover, and its parts in an order in which they can run.
/// \error kInvalidArgument  a node is covered twice or not at all, a part has no finite cost or
///                          cannot be handed its values, or parts wait for each other in a cycle.
Result<Cover> evaluate_cover(const CoverProblem& problem, std::vector<int> candidates);

/// The cheapest covers whose parts do not wait for each other in a cycle. The same arguments give
/// the same answer, as long as neither the deadline nor `interrupted` ends the search.
/// \error kInvalidArgument  the problem contradicts itself: the message says in what;
///        kNotFound         no cover exists: names the node that nobody covers, and why;
///        kDeadlineExceeded ended before any cover was found.
Result<Covers> find_covers(const CoverProblem& problem, const CoverOptions& options = {});

}  // namespace penstock::collage
