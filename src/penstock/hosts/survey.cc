// Asks each host, measures links and what they share, keeps them in the database, fills in facts.
#include "penstock/hosts/survey.h"

#include <algorithm>

namespace penstock::hosts {
namespace {

void add_way(MeasuredLinks& links, int from, int to, const WayBothWays& way) {
  links.ways[{from, to}] = {way.latency, way.there};
  links.ways[{to, from}] = {way.latency, way.back};
}

void measure_ways(const Hosts& hosts, Survey& made) {
  const auto keep = [&](int from, int to, Result<WayBothWays> way) {
    if (way) {
      add_way(made.links, from, to, *way);
    } else {
      made.failed.push_back(std::move(way).error());
    }
  };
  for (std::size_t i = 0; i < hosts.hosts.size(); ++i) {
    auto& one = made.hosts[i];
    if (!one.worker) continue;
    keep(kCaller, static_cast<int>(i), one.worker->way());
    for (std::size_t j = i + 1; j < hosts.hosts.size(); ++j) {
      if (!made.hosts[j].worker) continue;
      keep(static_cast<int>(i), static_cast<int>(j), one.worker->way_to(hosts.hosts[j].address));
    }
  }
}

void measure_wires(const Hosts& hosts, Survey& made) {
  const auto worker = [&](int host) {
    return made.hosts[static_cast<std::size_t>(host)].worker.get();
  };
  made.sharing = measure_sharing(hosts, made.links, worker, made.failed);
  for (const auto& seen : made.sharing) {
    made.links.wires[{seen.host, seen.direction}] = seen.wire();
  }
}

/// What stands for a machine where links are kept.
std::string key_of(const Hosts& hosts, int host) {
  return host == kCaller ? "caller" : hosts.hosts[static_cast<std::size_t>(host)].address;
}
constexpr const char* kKeptAs = "hosts";  // Beside links within machines, which have fingerprints.
/// The other end of a wire that several ways share. None shared is kept as 0 bytes a second.
constexpr const char* kSeveral = "several at once";

/// Both ends of a wire as they are kept.
std::pair<std::string, std::string> keys_of(const Hosts& hosts, int host, Direction direction) {
  std::pair<std::string, std::string> keys(key_of(hosts, host), kSeveral);
  if (direction == Direction::kIn) std::swap(keys.first, keys.second);
  return keys;
}

}  // namespace

void add(MeasuredLinks& known, const MeasuredLinks& newer) {
  for (const auto& [ends, way] : newer.ways) known.ways[ends] = way;
  for (const auto& [end, bandwidth] : newer.wires) known.wires[end] = bandwidth;
}

MeasuredLinks known_links(cost::Database& database, const Hosts& hosts) {
  MeasuredLinks links;
  const int count = static_cast<int>(hosts.hosts.size());
  for (int from = kCaller; from < count; ++from) {
    for (int to = kCaller; to < count; ++to) {
      if (from == to) continue;
      const auto found = database.find_link(key_of(hosts, from), key_of(hosts, to), kKeptAs);
      if (!found || !*found) continue;
      links.ways[{from, to}] = {(*found)->latency_seconds, (*found)->bytes_per_second};
    }
    for (const auto direction : {Direction::kOut, Direction::kIn}) {
      const auto [source, target] = keys_of(hosts, from, direction);
      const auto found = database.find_link(source, target, kKeptAs);
      if (!found || !*found) continue;
      const double kept = (*found)->bytes_per_second;
      links.wires[{from, direction}] = kept > 0 ? kept : planner::kInfinite;
    }
  }
  return links;
}

Status keep_links(cost::Database& database, const Hosts& hosts, const MeasuredLinks& links) {
  for (const auto& [ends, way] : links.ways) {
    PENSTOCK_CHECK_OK(database.put_link(key_of(hosts, ends.first), key_of(hosts, ends.second),
                                        kKeptAs, {way.latency, way.bandwidth}));
  }
  for (const auto& [end, bandwidth] : links.wires) {
    const auto [source, target] = keys_of(hosts, end.first, end.second);
    const double kept = bandwidth < planner::kInfinite ? bandwidth : 0;
    PENSTOCK_CHECK_OK(database.put_link(source, target, kKeptAs, {0, kept}));
  }
  return {};
}

Survey survey(const Hosts& hosts, const Reach& reach, bool links) {
  std::vector<std::string> peers;
  for (const auto& host : hosts.hosts) peers.push_back(host.address);
  Survey made;
  for (const auto& host : hosts.hosts) {
    auto worker = reach(host, peers);
    auto& one = made.hosts.emplace_back();
    if (worker) {
      one.worker = *std::move(worker);
    } else {
      one.error = std::move(worker).error();
    }
  }
  if (links) {
    measure_ways(hosts, made);
    measure_wires(hosts, made);
  }
  return made;
}

void complete(Hosts& hosts, const Survey& survey) {
  for (std::size_t i = 0; i < hosts.hosts.size(); ++i) {
    if (!survey.hosts[i].worker) continue;
    auto& host = hosts.hosts[i];
    const auto& said = survey.hosts[i].worker->description();
    if (host.devices.empty() && !host.cpus) {
      device::Device all;
      for (const auto& cpu : said.topology.cpus) all.cpus.push_back(cpu.number);
      std::ranges::sort(all.cpus);
      if (!all.cpus.empty()) host.devices.push_back(std::move(all));
    }
    if (!host.quota) host.quota = said.topology.cpu_quota;
    if (!host.memory && said.memory_left > 0) host.memory = static_cast<double>(said.memory_left);
    if (host.kind.empty()) host.kind = said.topology.fingerprint;
  }
}

}  // namespace penstock::hosts
