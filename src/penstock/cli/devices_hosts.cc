// Surveys the hosts of a file, keeps the measured links, and prints them as text or JSON.
#include "penstock/cli/devices_hosts.h"

#include <algorithm>

#include <spdlog/spdlog.h>

#include "penstock/cli/command.h"
#include "penstock/cli/json.h"
#include "penstock/cli/text.h"
#include "penstock/cost/database.h"
#include "penstock/hosts/survey.h"
#include "penstock/site/reach.h"

namespace penstock::cli {
namespace {

std::vector<std::string> devices_text(const hosts::Host& host) {
  std::vector<std::string> names;
  const auto devices = hosts::devices_of(host);
  if (!devices) return names;
  for (const auto& device : *devices) names.push_back(device::to_string(device));
  return names;
}

std::string name_of(const hosts::Hosts& all, int host) {
  return host == hosts::kCaller ? "(here)" : all.hosts[static_cast<std::size_t>(host)].name;
}

Json host_json(const hosts::Host& host, const hosts::Surveyed& found) {
  Json json{{"name", host.name}, {"address", host.address}, {"devices", devices_text(host)}};
  json["reached"] = found.worker != nullptr;
  if (!found.worker) {
    json["error"] = found.error->message();
    return json;
  }
  const auto& said = found.worker->description();
  Json backends = Json::array();
  for (const auto& backend : said.backends) {
    backends.push_back({{"name", backend.name},
                        {"engine_version", backend.engine_version},
                        {"unavailable", backend.unavailable}});
  }
  Json cpus = Json::array();
  for (const auto& cpu : said.topology.cpus) cpus.push_back(cpu.number);
  json["system"] = said.system;
  json["penstock"] = said.penstock;
  json["cpu_model"] = said.topology.cpu_model;
  json["fingerprint"] = said.topology.fingerprint;
  json["cpus"] = std::move(cpus);
  json["cpu_quota"] = host.quota ? Json(*host.quota) : Json(nullptr);
  json["memory_bytes"] = said.topology.memory_bytes;
  json["memory_left_bytes"] = said.memory_left;
  json["backends"] = std::move(backends);
  return json;
}

/// What is told of a host's wire and of an uplink alike.
Json sharing_json(const hosts::Hosts& all, const hosts::Sharing& seen) {
  const auto& rates = seen.rates;
  return {{"direction", seen.direction == hosts::Direction::kOut ? "out" : "in"},
          {"peers", {name_of(all, seen.one), name_of(all, seen.other)}},
          {"alone_bytes_per_second", {rates.one_alone, rates.other_alone}},
          {"together_bytes_per_second", rates.together},
          {"shared", rates.shared()}};
}

Json to_json(const hosts::Hosts& all, const hosts::Survey& survey) {
  Json list = Json::array(), links = Json::array(), sharing = Json::array();
  Json uplinks = Json::array(), failed = Json::array();
  for (std::size_t i = 0; i < all.hosts.size(); ++i) {
    list.push_back(host_json(all.hosts[i], survey.hosts[i]));
    const auto costs = survey.links.messages.find(static_cast<int>(i));
    if (costs == survey.links.messages.end()) continue;
    list.back()["messages"] = {{"cpu_seconds_each", costs->second.message},
                               {"cpu_seconds_per_byte_in", costs->second.byte_in},
                               {"cpu_seconds_per_byte_out", costs->second.byte_out}};
  }
  for (const auto& [ends, way] : survey.links.ways) {
    links.push_back({{"from", name_of(all, ends.first)},
                     {"to", name_of(all, ends.second)},
                     {"latency_seconds", way.latency},
                     {"bytes_per_second", way.bandwidth}});
  }
  for (const auto& error : survey.failed) failed.push_back(error.message());
  for (const auto& seen : survey.sharing) {
    sharing.push_back(sharing_json(all, seen));
    sharing.back()["host"] = name_of(all, seen.hosts.front());
  }
  for (const auto& seen : survey.uplinks) {
    uplinks.push_back(sharing_json(all, seen));
    uplinks.back()["hosts"] = {name_of(all, seen.hosts.front()), name_of(all, seen.hosts.back())};
  }
  return {{"hosts", std::move(list)},
          {"links", std::move(links)},
          {"sharing", std::move(sharing)},
          {"uplinks", std::move(uplinks)},
          {"failed", std::move(failed)}};
}

std::string host_text(const hosts::Host& host, const hosts::Surveyed& found) {
  auto text = concat(host.name, "  ", host.address, "\n");
  if (!found.worker) return text + "  not reached: " + found.error->message() + "\n";
  const auto& said = found.worker->description();
  const auto& topology = said.topology;
  text += concat("  ", topology.cpu_model.empty() ? "unknown CPU" : topology.cpu_model, ", ",
                 bytes(topology.memory_bytes), " of memory, ", bytes(said.memory_left),
                 " left, fingerprint ", topology.fingerprint, ", Penstock ", said.penstock, "\n");
  text += "  devices   " + join(devices_text(host), ", ");
  if (host.quota) text += concat(", with the time of ", number(*host.quota, 2), " CPUs (quota)");
  text += "\n";
  for (const auto& backend : said.backends) {
    text += concat("  backend   ", backend.name, " ",
                   backend.unavailable.empty() ? backend.engine_version
                                               : "is not available: " + backend.unavailable,
                   "\n");
  }
  return text;
}

std::string messages_text(const hosts::MessageCosts& costs) {
  const auto per_megabyte = [](double seconds) { return duration(seconds * 1e6 * 1e9); };
  return concat("  messages  ", duration(costs.message * 1e9), " of CPU time each, ",
                per_megabyte(costs.byte_in), " a MB in, ", per_megabyte(costs.byte_out),
                " a MB out\n");
}

/// One sentence; `shared`: what is said where they share something.
std::string sharing_text(const hosts::Hosts& all, const hosts::Sharing& seen, const char* shared) {
  const bool out = seen.direction == hosts::Direction::kOut;
  const auto rate = [](double bytes) { return number(bytes / 1e6, 1); };
  const auto name = [&](int host) { return name_of(all, host); };
  return concat(join(seen.hosts, " and ", name), out ? ", out to " : ", in from ", name(seen.one),
                " and ", name(seen.other), ": ", rate(seen.rates.one_alone), " and ",
                rate(seen.rates.other_alone), " MB/s alone, ", rate(seen.rates.together),
                " together: ", seen.rates.shared() ? shared : "not shared", "\n");
}

std::string to_text(const hosts::Hosts& all, const hosts::Survey& survey) {
  std::string text;
  for (std::size_t i = 0; i < all.hosts.size(); ++i) {
    text += host_text(all.hosts[i], survey.hosts[i]);
    const auto costs = survey.links.messages.find(static_cast<int>(i));
    if (costs != survey.links.messages.end()) text += messages_text(costs->second);
    text += "\n";
  }
  Table table({"from", "to", ">latency", ">MB/s", ">Mbit/s"});
  for (const auto& [ends, way] : survey.links.ways) {
    table.add({name_of(all, ends.first), name_of(all, ends.second), duration(way.latency * 1e9),
               number(way.bandwidth / 1e6, 1), number(way.bandwidth * 8 / 1e6, 0)});
  }
  if (!table.empty()) text += table.print();
  for (const auto& seen : survey.sharing) text += sharing_text(all, seen, "one wire");
  for (const auto& seen : survey.uplinks) {
    if (seen.rates.shared()) text += sharing_text(all, seen, "one uplink");
  }
  for (const auto& error : survey.failed) text += "not measured: " + error.message() + "\n";
  return text;
}

}  // namespace

Result<int> show_hosts(const std::filesystem::path& file, bool json) {
  PENSTOCK_TRY(auto all, hosts::read_hosts(file));
  PENSTOCK_TRY(const auto reach, site::load_reach());
  const auto survey = hosts::survey(all, reach);
  hosts::complete(all, survey);
  if (auto database = cost::Database::open(cost::Database::default_path())) {
    const auto kept = hosts::keep_links(*database, all, survey.links);
    if (!kept) spdlog::warn("{}", kept.error().message());
  } else {
    spdlog::warn("{}; what was measured now will be forgotten", database.error().message());
  }
  if (json) {
    print_json(to_json(all, survey));
  } else {
    print(to_text(all, survey));
  }
  const bool all_reached =
      std::ranges::all_of(survey.hosts, [](const auto& host) { return host.worker != nullptr; });
  return all_reached && survey.failed.empty() ? kOk : kFailed;
}

}  // namespace penstock::cli
