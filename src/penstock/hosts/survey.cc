// Asks each host, measures each pair's link, keeps links in the database, fills in missing facts.
#include "penstock/hosts/survey.h"

#include <algorithm>

namespace penstock::hosts {
namespace {

void add(MeasuredLinks& links, int from, int to, const WayBothWays& way) {
  links[{from, to}] = {way.latency, way.there};
  links[{to, from}] = {way.latency, way.back};
}

void measure_ways(const Hosts& hosts, Survey& made) {
  const auto keep = [&](int from, int to, Result<WayBothWays> way) {
    if (way) {
      add(made.links, from, to, *way);
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

/// What stands for a machine where links are kept.
std::string key_of(const Hosts& hosts, int host) {
  return host == kCaller ? "caller" : hosts.hosts[static_cast<std::size_t>(host)].address;
}
constexpr const char* kKeptAs = "hosts";  // Beside links within machines, which have fingerprints.

}  // namespace

MeasuredLinks known_links(cost::Database& database, const Hosts& hosts) {
  MeasuredLinks links;
  const int count = static_cast<int>(hosts.hosts.size());
  for (int from = kCaller; from < count; ++from) {
    for (int to = kCaller; to < count; ++to) {
      if (from == to) continue;
      const auto found = database.find_link(key_of(hosts, from), key_of(hosts, to), kKeptAs);
      if (!found || !*found) continue;
      links[{from, to}] = {(*found)->latency_seconds, (*found)->bytes_per_second};
    }
  }
  return links;
}

Status keep_links(cost::Database& database, const Hosts& hosts, const MeasuredLinks& links) {
  for (const auto& [ends, way] : links) {
    PENSTOCK_CHECK_OK(database.put_link(key_of(hosts, ends.first), key_of(hosts, ends.second),
                                        kKeptAs, {way.latency, way.bandwidth}));
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
  if (links) measure_ways(hosts, made);
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
