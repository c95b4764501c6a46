// Network: the way from each host to each other, and what several of them share.
#pragma once

#include <map>
#include <optional>
#include <set>
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

/// CPU seconds of a host, all threads of its worker together, that its messages take.
struct MessageCosts {
  double message = 0;   ///< Each, to it and its answer.
  double byte_in = 0;   ///< Each byte that it gets.
  double byte_out = 0;  ///< Each byte that it sends.
  bool operator==(const MessageCosts&) const = default;
};

/// Of a host's cable, or of an uplink.
enum class Direction { kOut, kIn };

/// Two of an index in Hosts::hosts or kCaller: of a way, from and to.
using Ends = std::pair<int, int>;
/// Of the way out of a host to a peer, or of the way in from it.
Ends ends_of(int host, int peer, Direction direction);

struct MeasuredLinks {
  std::map<Ends, Measured> ways;
  /// Bytes a second that all ways of the host share; infinite: known to share none.
  std::map<std::pair<int, Direction>, double> wires = {};
  std::map<int, MessageCosts> messages = {};  ///< By host.
  /// Bytes a second that the ways of two hosts (in ascending order) to others share, or those from
  /// others; infinite: seen to share none.
  std::map<std::pair<Ends, Direction>, double> uplinks = {};
};

/// What carries one thing at a time: one direction of a cable.
struct Wire {
  std::string name;  ///< "link of 'a', out"
  double bandwidth = planner::kInfinite;
  bool operator==(const Wire&) const = default;
};

/// A view of the hosts, which outlive it. What the file says of a link is what it carries at most;
/// of a way or a wire that was measured, what was measured holds where it is less. Hosts that were
/// seen to share an uplink have one, which carries what passes between them and others.
class Network {
 public:
  Network(const Hosts& hosts, MeasuredLinks measured);

  /// From one host to another, as if they had it for themselves. The same host: free.
  [[nodiscard]] planner::Link way(int from, int to) const;
  /// The wires that a tensor passes on it; several ways may share them.
  [[nodiscard]] std::vector<int> wires(int from, int to) const;
  [[nodiscard]] int wires_in_common(Ends one, Ends other) const;
  [[nodiscard]] const std::vector<Wire>& all_wires() const { return wires_; }
  /// What messages take of each host's CPUs, where it was measured.
  [[nodiscard]] const std::map<int, MessageCosts>& messages() const { return measured_.messages; }
  /// Ways of which nothing is known: "caller to 'b'".
  [[nodiscard]] std::vector<std::string> unknown() const;

 private:
  struct End {
    const std::optional<Link>* link;
    const std::string* uplink;
    int out, in;  ///< Wires.
  };
  /// Of hosts that were seen to share it, whichever pairs of them were tried.
  struct MeasuredUplink {
    std::set<int> hosts;
    Direction direction;
    int wire;
  };
  [[nodiscard]] const End& end(int host) const;
  [[nodiscard]] std::string name_of(int host) const;
  int add_wire(const std::string& name, double bandwidth);
  void add_measured_uplinks();
  [[nodiscard]] bool passes(int from, int to, const MeasuredUplink& uplink) const;
  int add_cable(int host, const std::string& name, Direction direction, double bandwidth);

  const Hosts& hosts_;
  MeasuredLinks measured_;
  std::vector<Wire> wires_;
  std::vector<End> ends_;                               ///< The caller's last.
  std::map<std::string, std::pair<int, int>> uplinks_;  ///< Of the file: out and in.
  std::vector<MeasuredUplink> measured_uplinks_;
};

}  // namespace penstock::hosts
