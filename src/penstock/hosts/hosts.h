// Hosts: the machines that a network may run on, and the links between them.
// A plain value, read from a file that a person writes (docs/hosts.md).
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/cost/analytic.h"
#include "penstock/device/device.h"
#include "penstock/planner/problem/problem.h"

namespace penstock::hosts {

/// A cable, seen from its host. Seconds, and bytes a second.
struct Link {
  double latency = 0;  ///< One way.
  double up = planner::kInfinite;
  double down = planner::kInfinite;
  bool operator==(const Link&) const = default;
};

/// What several hosts reach all others by. What they send each other does not go through it.
struct Uplink {
  std::string name;
  Link link;
};

struct Host {
  std::string name;
  std::string address;  ///< "host:port"
  /// The files and options of its connection, as the backend of such devices takes them:
  /// "root_file", "certificate_file", "key_file", "token_file", "tls".
  std::map<std::string, std::string> connection;
  std::vector<device::Device> devices;   ///< Without the address. Empty: all its CPUs as one.
  std::optional<int> cpus;               ///< How many it has, where no device is named.
  std::optional<double> quota;           ///< CPUs' time that it may take, as in 0.5.
  std::optional<double> memory;          ///< Bytes, of all its devices together.
  std::string kind;                      ///< Hosts of one kind compute alike. Empty: not known.
  std::optional<cost::Figures> figures;  ///< What one of its CPUs does.
  std::optional<Link> link;
  std::string uplink;  ///< Name of one of Hosts::uplinks, or empty.
};

/// This machine, as the one that sends frames and gets results.
struct Caller {
  std::optional<Link> link;
  std::string uplink;
  std::vector<device::Device> devices;  ///< Its own CPUs that take part.
  std::vector<int> host_cpus;           ///< Where the threads of stages elsewhere run.
};

struct Hosts {
  std::filesystem::path file;
  std::vector<Host> hosts;  ///< In the file's order; names and addresses are unique.
  std::vector<Uplink> uplinks;
  Caller caller;
};

/// \error kNotFound         no such file, or one that it names.
/// \error kInvalidArgument  what is wrong, with its line.
Result<Hosts> read_hosts(const std::filesystem::path& file);

/// Every host is reached as `options` of the backend `remote` say; where they say nothing, as its
/// file did.
void reach_by(Hosts& hosts, const std::map<std::string, std::string>& options);

/// A pipeline has one set of options for all its connections. \error kFailedPrecondition  two hosts
/// differ in theirs.
Status check_connections_alike(const Hosts& hosts);

/// The host's devices with its address. \error kFailedPrecondition  neither its devices nor how
/// many CPUs it has is known: ask its worker, or write them.
Result<std::vector<device::Device>> devices_of(const Host& host);

/// "200mbit", "1.5 Gbit/s", "25MB/s": bytes a second; "0.2 ms", "50us": seconds; "2 GiB", "512MB":
/// bytes. \error kInvalidArgument
Result<double> parse_bandwidth(const std::string& text);
Result<double> parse_duration(const std::string& text);
Result<double> parse_memory(const std::string& text);

}  // namespace penstock::hosts
