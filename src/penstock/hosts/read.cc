// hosts.yaml, field by field.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "penstock/hosts/hosts.h"
#include "penstock/yaml/field.h"

namespace penstock::hosts {
namespace {

using yaml::Field;

/// What a host and the file's `defaults` may say of a connection.
void read_connection(const Field& field, std::map<std::string, std::string>& connection) {
  for (const char* name : {"root_file", "certificate_file", "key_file", "token_file"}) {
    if (const auto file = field.find(name)) {
      std::error_code ignored;
      connection[name] = std::filesystem::absolute(file->existing_path(), ignored).string();
    }
  }
  if (const auto tls = field.find("tls")) connection["tls"] = tls->boolean() ? "true" : "false";
}

/// {bandwidth, up, down, latency}
Link read_link(const Field& field) {
  field.only({"bandwidth", "up", "down", "latency"});
  Link link;
  if (const auto both = field.find("bandwidth")) {
    if (field.find("up") || field.find("down")) both->fail("expected it or 'up' and 'down'");
    link.up = link.down = both->take(parse_bandwidth(both->string()));
  }
  if (const auto up = field.find("up")) link.up = up->take(parse_bandwidth(up->string()));
  if (const auto down = field.find("down")) link.down = down->take(parse_bandwidth(down->string()));
  if (const auto time = field.find("latency"))
    link.latency = time->take(parse_duration(time->string()));
  return link;
}

std::vector<device::Device> read_local_devices(const Field& field) {
  auto devices = field.take(device::parse_devices(field.string()));
  for (const auto& device : devices) {
    if (!device.is_local_cpu()) {
      field.fail(concat("expected CPUs such as cpu:0-3, found '", device::to_string(device), "'"));
    }
  }
  if (auto apart = device::check_disjoint(devices); !apart) field.fail(apart.error().message());
  return devices;
}

/// {macs: 2e10, bytes: 1e10, node: 2e-6}, any of them, over the defaults; or a number: so many
/// times the speed of those.
cost::Figures read_speed(const Field& field) {
  if (field.is_mapping()) {
    field.only({"macs", "bytes", "node"});
    std::vector<std::string> parts;
    field.each_named([&](const std::string& name, const Field& value) {
      parts.push_back(concat(name, "=", value.string()));
    });
    return field.take(cost::parse_figures(join(parts, ",")));
  }
  const double times = field.positive();
  cost::Figures figures;
  figures.macs_per_second *= times;
  figures.bytes_per_second *= times;
  figures.seconds_per_node /= times;
  return figures;
}

class Reader {
 public:
  Hosts read(const Field& field) {
    if (field.is_nothing()) field.fail("expected hosts, found an empty file");
    field.only({"penstock_hosts", "defaults", "caller", "uplinks", "hosts"});
    const auto version = field.find("penstock_hosts");
    if (!version) {
      field.fail("expected 'penstock_hosts: 1', the version of the format, found none");
    } else if (version->string() != "1") {
      version->fail_expected("1, the version of the format");
    }
    if (const auto defaults = field.find("defaults")) {
      defaults->only({"root_file", "certificate_file", "key_file", "token_file", "tls"});
      read_connection(*defaults, defaults_);
    }
    if (const auto uplinks = field.find("uplinks")) {
      uplinks->each_named([&](const std::string& name, const Field& link) {
        hosts_.uplinks.push_back({name, read_link(link)});
      });
    }
    if (const auto caller = field.find("caller")) read_caller(*caller);
    if (const auto list = field.find("hosts")) {
      list->each_named([&](const std::string& name, const Field& host) { read_host(name, host); });
      if (hosts_.hosts.empty()) list->fail("expected one host or more, found none");
    } else {
      field.fail("hosts: missing");
    }
    return std::move(hosts_);
  }

 private:
  std::string read_uplink(const Field& field) {
    const auto name = field.string();
    std::vector<std::string> names;
    for (const auto& uplink : hosts_.uplinks) names.push_back(uplink.name);
    if (std::ranges::find(names, name) == names.end()) {
      field.fail(concat("expected one of 'uplinks' (", join(names, ", "), "), found '", name, "'"));
    }
    return name;
  }

  void read_caller(const Field& field) {
    field.only({"link", "uplink", "devices", "host_cpus"});
    auto& caller = hosts_.caller;
    if (const auto link = field.find("link")) caller.link = read_link(*link);
    if (const auto uplink = field.find("uplink")) caller.uplink = read_uplink(*uplink);
    if (const auto devices = field.find("devices")) caller.devices = read_local_devices(*devices);
    if (const auto cpus = field.find("host_cpus")) {
      for (const auto& device : read_local_devices(*cpus)) {
        caller.host_cpus.insert(caller.host_cpus.end(), device.cpus.begin(), device.cpus.end());
      }
      std::ranges::sort(caller.host_cpus);
    }
  }

  void read_host(const std::string& name, const Field& field) {
    field.only({"address", "root_file", "certificate_file", "key_file", "token_file", "tls",
                "devices", "cpus", "quota", "memory", "kind", "speed", "link", "uplink"});
    Host host;
    host.name = name;
    host.connection = defaults_;
    read_connection(field, host.connection);
    if (const auto address = field.find("address")) {
      host.address = address->string();
      if (!device::is_host(host.address)) address->fail_expected("host:port");
      for (const auto& other : hosts_.hosts) {
        if (other.address == host.address) {
          address->fail(concat("'", host.address, "' is the address of '", other.name, "' too"));
        }
      }
    } else {
      field.fail("address: missing");
    }
    if (const auto devices = field.find("devices")) host.devices = read_local_devices(*devices);
    if (const auto cpus = field.find("cpus")) {
      host.cpus = cpus->integer(1, 1 << 16);
      if (!host.devices.empty()) cpus->fail("expected it or 'devices', found both");
    }
    if (const auto quota = field.find("quota")) host.quota = quota->positive();
    if (const auto memory = field.find("memory")) {
      host.memory = memory->take(parse_memory(memory->string()));
    }
    if (const auto kind = field.find("kind")) host.kind = kind->string();
    if (const auto speed = field.find("speed")) host.figures = read_speed(*speed);
    if (const auto link = field.find("link")) host.link = read_link(*link);
    if (const auto uplink = field.find("uplink")) host.uplink = read_uplink(*uplink);
    hosts_.hosts.push_back(std::move(host));
  }

  Hosts hosts_;
  std::map<std::string, std::string> defaults_;
};

}  // namespace

Result<Hosts> read_hosts(const std::filesystem::path& file) {
  Hosts hosts;
  PENSTOCK_CHECK_OK(yaml::read_document(file, "list of hosts",
                                        [&](const Field& top) { hosts = Reader().read(top); }));
  hosts.file = file;
  return hosts;
}

void reach_by(Hosts& hosts, const std::map<std::string, std::string>& options) {
  for (auto& host : hosts.hosts) {
    for (const auto& [key, value] : options) host.connection[key] = value;
  }
}

Status check_connections_alike(const Hosts& hosts) {
  for (const auto& host : hosts.hosts) {
    const auto& first = hosts.hosts.front();
    if (host.connection == first.connection) continue;
    return make_error(Code::kFailedPrecondition, "hosts '", first.name, "' and '", host.name,
                      "' differ in the files or options of their connections: a pipeline has one "
                      "set of them for all hosts; write it under 'defaults'");
  }
  return {};
}

Result<std::vector<device::Device>> devices_of(const Host& host) {
  auto devices = host.devices;
  if (devices.empty()) {
    if (!host.cpus) {
      return make_error(Code::kFailedPrecondition,
                        "neither its CPUs nor its devices are known: have its worker asked, which "
                        "has to run (plan --measure), or write 'cpus: 4' or 'devices: cpu:0-3'")
          .within({Where::kPeer, host.name});
    }
    device::Device all;
    for (int cpu = 0; cpu < *host.cpus; ++cpu) all.cpus.push_back(cpu);
    devices.push_back(std::move(all));
  }
  for (auto& device : devices) device.host = host.address;
  return devices;
}

}  // namespace penstock::hosts
