// Models each link and uplink as two wires; finds the wires, bandwidth and latency of each way.
#include "penstock/hosts/network.h"

#include <algorithm>

namespace penstock::hosts {

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
}

int Network::add_wire(const std::string& name, double bandwidth) {
  wires_.push_back({name, bandwidth});
  return static_cast<int>(wires_.size()) - 1;
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
  passed.push_back(b.in);
  return passed;
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
