// Models links and uplinks as a wire for each direction; finds what each way passes and carries.
#include "penstock/hosts/network.h"

#include <algorithm>

namespace penstock::hosts {

Ends ends_of(int host, int peer, Direction direction) {
  return direction == Direction::kOut ? Ends(host, peer) : Ends(peer, host);
}

Network::Network(const Hosts& hosts, MeasuredLinks measured)
    : hosts_(hosts), measured_(std::move(measured)) {
  const auto add_end = [&](int host, const std::optional<Link>& link, const std::string& uplink) {
    const auto file = link.value_or(Link());
    const auto name = name_of(host);
    const int out = add_cable(host, "link of " + name + ", out", Direction::kOut, file.up);
    const int in = add_cable(host, "link of " + name + ", in", Direction::kIn, file.down);
    ends_.push_back({&link, &uplink, out, in});
  };
  int number = 0;
  for (const auto& host : hosts.hosts) add_end(number++, host.link, host.uplink);
  add_end(kCaller, hosts.caller.link, hosts.caller.uplink);
  for (const auto& [name, link] : hosts.uplinks) {
    const int out = add_wire("uplink '" + name + "', out", link.up);
    uplinks_[name] = {out, add_wire("uplink '" + name + "', in", link.down)};
  }
  add_measured_uplinks();
}

int Network::add_wire(const std::string& name, double bandwidth) {
  wires_.push_back({name, bandwidth});
  return static_cast<int>(wires_.size()) - 1;
}

void Network::add_measured_uplinks() {
  struct Group {
    std::set<int> hosts;
    Direction direction;
    double bandwidth;
  };
  std::vector<Group> groups;
  for (const auto& [pair, bandwidth] : measured_.uplinks) {
    if (bandwidth == planner::kInfinite) continue;
    Group joined{{pair.first.first, pair.first.second}, pair.second, bandwidth};
    std::erase_if(groups, [&](const Group& group) {
      const bool one =
          group.direction == joined.direction &&
          std::ranges::any_of(group.hosts, [&](int host) { return joined.hosts.contains(host); });
      if (!one) return false;
      joined.hosts.insert(group.hosts.begin(), group.hosts.end());
      joined.bandwidth = std::max(joined.bandwidth, group.bandwidth);
      return true;
    });
    groups.push_back(std::move(joined));
  }
  for (auto& [shared_by, direction, bandwidth] : groups) {
    std::vector<std::string> names;
    for (const int host : shared_by) names.push_back(name_of(host));
    const char* way = direction == Direction::kOut ? ", out" : ", in";
    const int wire = add_wire("uplink of " + join(names, " and ") + way, bandwidth);
    measured_uplinks_.push_back({std::move(shared_by), direction, wire});
  }
}

bool Network::passes(int from, int to, const MeasuredUplink& uplink) const {
  const bool out = uplink.direction == Direction::kOut;
  if (!uplink.hosts.contains(out ? from : to) || uplink.hosts.contains(out ? to : from)) {
    return false;
  }
  // What has clearly more goes another way: the other end is on this side of the uplink.
  constexpr double kClearly = 1.25;
  const auto way = measured_.ways.find({from, to});
  return way == measured_.ways.end() ||
         way->second.bandwidth <=
             kClearly * wires_[static_cast<std::size_t>(uplink.wire)].bandwidth;
}

int Network::add_cable(int host, const std::string& name, Direction direction, double bandwidth) {
  const auto measured = measured_.wires.find({host, direction});
  if (measured == measured_.wires.end()) return add_wire(name, bandwidth);
  // The wire may have been measured before its ways were: what one of them has it carries.
  double carried = measured->second;
  for (const auto& [ends, way] : measured_.ways) {
    const int end = direction == Direction::kOut ? ends.first : ends.second;
    if (end == host) carried = std::max(carried, way.bandwidth);
  }
  return add_wire(name, std::min(bandwidth, carried));
}

const Network::End& Network::end(int host) const {
  return host == kCaller ? ends_.back() : ends_[static_cast<std::size_t>(host)];
}

std::string Network::name_of(int host) const {
  return host == kCaller ? "the caller"
                         : "'" + hosts_.hosts[static_cast<std::size_t>(host)].name + "'";
}

std::vector<int> Network::wires(int from, int to) const {
  if (from == to) return {};
  const auto &a = end(from), &b = end(to);
  std::vector<int> passed{a.out};
  if (*a.uplink != *b.uplink) {
    if (!a.uplink->empty()) passed.push_back(uplinks_.at(*a.uplink).first);
    if (!b.uplink->empty()) passed.push_back(uplinks_.at(*b.uplink).second);
  }
  for (const auto& uplink : measured_uplinks_) {
    if (passes(from, to, uplink)) passed.push_back(uplink.wire);
  }
  passed.push_back(b.in);
  return passed;
}

int Network::wires_in_common(Ends one, Ends other) const {
  const auto passed = wires(one.first, one.second), others = wires(other.first, other.second);
  return static_cast<int>(std::ranges::count_if(
      passed, [&](int wire) { return std::ranges::find(others, wire) != others.end(); }));
}

planner::Link Network::way(int from, int to) const {
  planner::Link way;
  if (from == to) return way;
  for (const int wire : wires(from, to)) {
    way.bandwidth = std::min(way.bandwidth, wires_[static_cast<std::size_t>(wire)].bandwidth);
  }
  const auto measured = measured_.ways.find({from, to});
  if (measured != measured_.ways.end()) {
    way.bandwidth = std::min(way.bandwidth, measured->second.bandwidth);
    way.latency = measured->second.latency;
    return way;
  }
  for (const int host : {from, to}) {
    if (*end(host).link) way.latency += (*end(host).link)->latency;
    const auto& uplink = *end(host).uplink;
    if (uplink.empty() || *end(from).uplink == *end(to).uplink) continue;
    const auto found = std::ranges::find(hosts_.uplinks, uplink, &Uplink::name);
    way.latency += found->link.latency;
  }
  return way;
}

std::vector<std::string> Network::unknown() const {
  std::vector<std::string> ways;
  const int count = static_cast<int>(hosts_.hosts.size());
  for (int from = kCaller; from < count; ++from) {
    for (int to = kCaller; to < count; ++to) {
      if (from != to && way(from, to).bandwidth == planner::kInfinite) {
        ways.push_back(name_of(from) + " to " + name_of(to));
      }
    }
  }
  return ways;
}

}  // namespace penstock::hosts
