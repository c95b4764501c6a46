// Network: the way from each host to each other, and what several of them share.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "penstock/hosts/hosts.h"
#include "penstock/planner/problem/problem.h"

namespace penstock::hosts {

/// Index of the caller among hosts.
inline constexpr int kCaller = -1;

/// What was measured of the way between two: seconds one way, and bytes a second.
struct Measured {
  double latency = 0;
  double bandwidth = planner::kInfinite;
};

/// Of a host's cable.
enum class Direction { kOut, kIn };

struct MeasuredLinks {
  /// (from, to), each an index in Hosts::hosts or kCaller.
  std::map<std::pair<int, int>, Measured> ways;
  /// Bytes a second that all ways of the host share; infinite: seen to share none.
  std::map<std::pair<int, Direction>, double> wires;
};

/// What carries one thing at a time: one direction of a cable.
struct Wire {
  std::string name;  ///< "link of 'a', out"
  double bandwidth = planner::kInfinite;
  bool operator==(const Wire&) const = default;
};

/// A view of the hosts, which outlive it. What the file says of a link is what it carries at most;
/// of a way or a wire that was measured, what was measured holds where it is less.
class Network {
 public:
  Network(const Hosts& hosts, MeasuredLinks measured);

  /// From one host to another, as if they had it for themselves. The same host: free.
  [[nodiscard]] planner::Link way(int from, int to) const;
  /// The wires that a tensor passes on it; several ways may share them.
  [[nodiscard]] std::vector<int> wires(int from, int to) const;
  [[nodiscard]] const std::vector<Wire>& all_wires() const { return wires_; }
  /// Ways of which nothing is known: "caller to 'b'".
  [[nodiscard]] std::vector<std::string> unknown() const;

 private:
  struct End {
    const std::optional<Link>* link;
    const std::string* uplink;
    int out, in;  ///< Wires.
  };
  [[nodiscard]] const End& end(int host) const;
  [[nodiscard]] std::string name_of(int host) const;
  int add_wire(const std::string& name, double bandwidth);
  int add_cable(int host, const std::string& name, Direction direction, double bandwidth);

  const Hosts& hosts_;
  MeasuredLinks measured_;
  std::vector<Wire> wires_;
  std::vector<End> ends_;                               ///< The caller's last.
  std::map<std::string, std::pair<int, int>> uplinks_;  ///< Out and in.
};

}  // namespace penstock::hosts
