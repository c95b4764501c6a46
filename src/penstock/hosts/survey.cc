// Asks each host, measures links and what they share, keeps links in the database, fills in facts.
#include "penstock/hosts/survey.h"

#include <algorithm>

namespace penstock::hosts {
namespace {

void add_way(MeasuredLinks& links, int from, int to, const WayBothWays& way) {
  links.ways[{from, to}] = {way.latency, way.there};
  links.ways[{to, from}] = {way.latency, way.back};
}

void measure_ways(const Hosts& hosts, const SurveyLimits& limits, Survey& made) {
  const auto keep = [&](int from, int to, Result<WayBothWays> way) {
    if (way) {
      add_way(made.links, from, to, *way);
    } else {
      made.failed.push_back(std::move(way).error());
    }
  };
  for (std::size_t i = 0; i < hosts.hosts.size(); ++i) {
    auto& one = made.hosts[i];
    if (!one.worker || limits.stopped()) continue;
    auto way = one.worker->way();
    if (way && way->messages) made.links.messages[static_cast<int>(i)] = *way->messages;
    keep(kCaller, static_cast<int>(i), std::move(way));
    for (std::size_t j = i + 1; j < hosts.hosts.size(); ++j) {
      if (!made.hosts[j].worker || limits.stopped()) continue;
      keep(static_cast<int>(i), static_cast<int>(j), one.worker->way_to(hosts.hosts[j].address));
    }
  }
}

/// An earlier survey may have taken an uplink for the own wire of a host of which all peers are
/// behind it: nothing tells of that wire now.
void forget_wires_behind_uplinks(const Hosts& hosts, MeasuredLinks& links) {
  auto without = links;
  without.uplinks.clear();
  for (int host = kCaller; host < static_cast<int>(hosts.hosts.size()); ++host) {
    for (const auto direction : {Direction::kOut, Direction::kIn}) {
      if (peers_to_try(hosts, links, host, direction)) continue;
      if (!peers_to_try(hosts, without, host, direction)) continue;
      links.wires[{host, direction}] = planner::kInfinite;
    }
  }
}

void measure_wires(const Hosts& hosts, const SurveyLimits& limits, Survey& made) {
  const auto worker = [&](int host) {
    return made.hosts[static_cast<std::size_t>(host)].worker.get();
  };
  // Two peers of a host behind one uplink would be taken for ways that share the host's own wire.
  made.uplinks = measure_uplinks(hosts, made.links, worker, limits, made.failed);
  made.sharing = measure_sharing(hosts, made.links, worker, limits, made.failed);
  forget_wires_behind_uplinks(hosts, made.links);
  for (const auto& seen : made.sharing) {
    made.links.wires[{seen.hosts.front(), seen.direction}] = seen.rates.wire();
  }
}

/// What stands for a machine where links are kept.
std::string key_of(const Hosts& hosts, int host) {
  return host == kCaller ? "caller" : hosts.hosts[static_cast<std::size_t>(host)].address;
}
constexpr const char* kKeptAs = "hosts";  // Beside links within machines, which have fingerprints.
/// The other end of a wire that several ways share. None shared is kept as 0 bytes a second.
constexpr const char* kSeveral = "several at once";

/// The other end of what messages take of a host's CPU time. As a link into the host it has seconds
/// of a message in place of the latency, and the inverse of a byte's in place of the bandwidth; as
/// one out of the host the latter.
constexpr const char* kMessages = "messages";

/// Of a time for each byte and back; 0: it takes none.
double inverse(double figure) {
  return figure > 0 ? 1 / figure : 0;
}

/// Both ends of a wire as they are kept; `ends`: the host's, or both hosts' of an uplink.
class WireKeys {
 public:
  WireKeys(std::string ends, Direction direction) : from_(std::move(ends)), to_(kSeveral) {
    if (direction == Direction::kIn) std::swap(from_, to_);
  }
  /// Bytes a second; nullopt where none are known.
  [[nodiscard]] std::optional<double> find(cost::Database& database) const {
    const auto found = database.find_link(from_, to_, kKeptAs);
    if (!found || !*found) return std::nullopt;
    const double kept = (*found)->bytes_per_second;
    return kept > 0 ? kept : planner::kInfinite;
  }
  [[nodiscard]] Status keep(cost::Database& database, double bandwidth) const {
    const double kept = bandwidth < planner::kInfinite ? bandwidth : 0;
    return database.put_link(from_, to_, kKeptAs, {0, kept});
  }

 private:
  std::string from_, to_;
};

WireKeys keys_of(const Hosts& hosts, int host, Direction direction) {
  return {key_of(hosts, host), direction};
}
WireKeys keys_of(const Hosts& hosts, Ends pair, Direction direction) {
  const auto one = key_of(hosts, pair.first), other = key_of(hosts, pair.second);
  const auto& [less, more] = std::minmax(one, other);  // Whichever comes first in a file.
  return {concat(less, " and ", more), direction};
}

}  // namespace

void add(MeasuredLinks& known, const MeasuredLinks& newer) {
  for (const auto& [ends, way] : newer.ways) known.ways[ends] = way;
  for (const auto& [end, bandwidth] : newer.wires) known.wires[end] = bandwidth;
  for (const auto& [host, costs] : newer.messages) known.messages[host] = costs;
  for (const auto& [pair, bandwidth] : newer.uplinks) known.uplinks[pair] = bandwidth;
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
    const auto in = database.find_link(kMessages, key_of(hosts, from), kKeptAs);
    const auto out = database.find_link(key_of(hosts, from), kMessages, kKeptAs);
    if (in && *in && out && *out) {
      links.messages[from] = {(*in)->latency_seconds, inverse((*in)->bytes_per_second),
                              inverse((*out)->bytes_per_second)};
    }
    for (const auto direction : {Direction::kOut, Direction::kIn}) {
      const auto wire = keys_of(hosts, from, direction).find(database);
      if (wire) links.wires[{from, direction}] = *wire;
      for (int other = from + 1; other < count; ++other) {
        const auto uplink = keys_of(hosts, Ends(from, other), direction).find(database);
        if (uplink) links.uplinks[{{from, other}, direction}] = *uplink;
      }
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
    PENSTOCK_CHECK_OK(keys_of(hosts, end.first, end.second).keep(database, bandwidth));
  }
  for (const auto& [pair, bandwidth] : links.uplinks) {
    PENSTOCK_CHECK_OK(keys_of(hosts, pair.first, pair.second).keep(database, bandwidth));
  }
  for (const auto& [host, costs] : links.messages) {
    const auto key = key_of(hosts, host);
    PENSTOCK_CHECK_OK(
        database.put_link(kMessages, key, kKeptAs, {costs.message, inverse(costs.byte_in)}));
    PENSTOCK_CHECK_OK(database.put_link(key, kMessages, kKeptAs, {0, inverse(costs.byte_out)}));
  }
  return {};
}

Survey survey(const Hosts& hosts, const Reach& reach, const SurveyLimits& limits) {
  std::vector<std::string> peers;
  for (const auto& host : hosts.hosts) peers.push_back(host.address);
  Survey made;
  for (const auto& host : hosts.hosts) {
    auto& one = made.hosts.emplace_back();
    if (limits.stopped()) {
      one.error = make_error(Code::kCancelled, "stopped before it was asked");
      continue;
    }
    auto worker = reach(host, peers);
    if (worker) {
      one.worker = *std::move(worker);
    } else {
      one.error = std::move(worker).error();
    }
  }
  measure_ways(hosts, limits, made);
  measure_wires(hosts, limits, made);
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
