// hosts.yaml as it is read or refused, links between hosts, and plans of chains over such hosts.
#include "penstock/hosts/hosts.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/graph/test_support.h"
#include "penstock/hosts/network.h"
#include "penstock/hosts/plan.h"
#include "penstock/hosts/stages.h"
#include "tests/support/temporary_folder.h"

namespace penstock::hosts {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;

class HostsTest : public ::testing::Test {
 protected:
  Result<Hosts> read(const std::string& text) {
    const auto file = folder_.path() / "hosts.yaml";
    std::ofstream(file) << "penstock_hosts: 1\n" << text;
    return read_hosts(file);
  }
  Hosts hosts(const std::string& text) {
    auto hosts = read(text);
    EXPECT_TRUE(hosts) << hosts.error().message();
    return hosts ? *std::move(hosts) : Hosts();
  }
  std::string refusal(const std::string& text) {
    const auto hosts = read(text);
    EXPECT_FALSE(hosts);
    return hosts ? "" : hosts.error().message();
  }
  [[nodiscard]] std::filesystem::path folder() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

TEST_F(HostsTest, HasWhatTheFileSays) {
  std::ofstream(folder() / "token") << "secret\n";
  const auto found = hosts(R"(defaults: {token_file: token}
caller: {link: {bandwidth: 1gbit}, devices: 'cpu:0', host_cpus: 'cpu:1-2'}
uplinks:
  rack: {up: 100mbit, down: 50MB/s, latency: 0.5 ms}
hosts:
  a:
    address: 10.0.0.1:8500
    cpus: 4
    quota: 1.5
    memory: 2 GiB
    kind: board
    speed: 0.5
    link: {bandwidth: 200mbit, latency: 50us}
    uplink: rack
  b: {address: 'b:1', devices: 'cpu:0-1,cpu:2', speed: {macs: 1e9}}
)");
  ASSERT_THAT(found.hosts, SizeIs(2));
  const auto& a = found.hosts[0];
  EXPECT_EQ(a.address, "10.0.0.1:8500");
  EXPECT_THAT(a.connection, ElementsAre(Pair("token_file", (folder() / "token").string())));
  EXPECT_EQ(a.quota, 1.5);
  EXPECT_EQ(a.memory, 2.0 * (1 << 30));
  EXPECT_EQ(a.kind, "board");
  EXPECT_EQ(a.figures->macs_per_second, cost::Figures{}.macs_per_second / 2);
  EXPECT_DOUBLE_EQ(a.link->latency, 5e-5);
  EXPECT_EQ(a.link->up, 25e6);
  EXPECT_EQ(a.link->down, 25e6);
  EXPECT_EQ(device::to_string(devices_of(a)->front()), "10.0.0.1:8500/cpu:0-3");
  EXPECT_THAT(*devices_of(found.hosts[1]), SizeIs(2));
  EXPECT_EQ(found.hosts[1].figures->macs_per_second, 1e9);
  EXPECT_EQ(found.uplinks[0].link.up, 12.5e6);
  EXPECT_EQ(found.uplinks[0].link.down, 50e6);
  EXPECT_THAT(found.caller.host_cpus, ElementsAre(1, 2));
}

TEST_F(HostsTest, AreRefusedWithTheLineOfWhatIsWrong) {
  EXPECT_THAT(refusal("hosts: {}\n"), HasSubstr("hosts.yaml:2: hosts: expected one host or more"));
  EXPECT_THAT(refusal("hosts:\n  a:\n    adress: a:1\n"),
              HasSubstr("hosts.yaml:4: hosts.a.adress: unknown field; expected one of address"));
  EXPECT_THAT(refusal("hosts:\n  a: {address: a}\n"),
              HasSubstr("hosts.yaml:3: hosts.a.address: expected host:port, found 'a'"));
  EXPECT_THAT(refusal("hosts:\n  a: {address: 'a:1'}\n  b: {address: 'a:1'}\n"),
              HasSubstr("hosts.yaml:4: hosts.b.address: 'a:1' is the address of 'a' too"));
  EXPECT_THAT(
      refusal("hosts:\n  a: {address: 'a:1', link: {bandwidth: 20}}\n"),
      HasSubstr("hosts.yaml:3: hosts.a.link.bandwidth: expected a bandwidth such as 200mbit, "
                "1gbit or 25MB/s, found '20'"));
  EXPECT_THAT(refusal("hosts:\n  a: {address: 'a:1', uplink: r}\n"),
              HasSubstr("expected one of 'uplinks' (), found 'r'"));
  EXPECT_THAT(refusal("hosts:\n  a: {address: 'a:1', token_file: none}\n"),
              HasSubstr("hosts.yaml:3: hosts.a.token_file: no such file"));
  EXPECT_THAT(refusal("hosts:\n  a: {address: 'a:1', devices: 'b:1/cpu:0'}\n"),
              HasSubstr("expected CPUs such as cpu:0-3, found 'b:1/cpu:0'"));
}

TEST_F(HostsTest, WithoutCpusHaveNoDevices) {
  const auto found = hosts("hosts:\n  a: {address: 'a:1'}\n");
  const auto devices = devices_of(found.hosts[0]);
  ASSERT_FALSE(devices);
  EXPECT_EQ(devices.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(devices.error().message(), HasSubstr("'cpus: 4'"));
}

constexpr const char* kTwoRacks = R"(caller: {link: {bandwidth: 1gbit, latency: 1ms}}
uplinks:
  far: {bandwidth: 80mbit, latency: 10ms}
hosts:
  a: {address: 'a:1', cpus: 1, link: {bandwidth: 400mbit, latency: 2ms}}
  b: {address: 'b:1', cpus: 1, link: {bandwidth: 160mbit, latency: 3ms}, uplink: far}
  c: {address: 'c:1', cpus: 1, link: {bandwidth: 160mbit, latency: 3ms}, uplink: far}
)";

TEST_F(HostsTest, AreAsFarApartAsTheLinksBetweenThem) {
  const auto found = hosts(kTwoRacks);
  const Network network(found, {.ways = {{{0, kCaller}, {0.5, 1e6}}}, .wires = {}});
  EXPECT_EQ(network.way(kCaller, 0).bandwidth, 50e6);
  EXPECT_DOUBLE_EQ(network.way(kCaller, 0).latency, 3e-3);
  EXPECT_EQ(network.way(0, 1).bandwidth, 10e6);
  EXPECT_DOUBLE_EQ(network.way(0, 1).latency, 15e-3);
  EXPECT_EQ(network.way(1, 2).bandwidth, 20e6);  // Not through what they share.
  EXPECT_DOUBLE_EQ(network.way(1, 2).latency, 6e-3);
  EXPECT_EQ(network.way(0, kCaller).bandwidth, 1e6);  // What was measured is less.
  // A wire that was measured long ago holds back no way that was found faster since.
  const Network stale(
      found, {.ways = {{{0, kCaller}, {0.5, 3e6}}}, .wires = {{{0, Direction::kOut}, 1e6}}});
  EXPECT_EQ(stale.way(0, kCaller).bandwidth, 3e6);
  EXPECT_EQ(network.way(1, 1).bandwidth, planner::kInfinite);
}

TEST_F(HostsTest, OfWhichNothingIsSaidAreToldByName) {
  const auto found = hosts("hosts:\n  a: {address: 'a:1', cpus: 1}\n");
  EXPECT_THAT(Network(found, {}).unknown(), ElementsAre("the caller to 'a'", "'a' to the caller"));
}

/// A chain of `count` products of 64 x 64 matrices: equal work, 16 KiB between any two.
graph::Graph chain(int count) {
  std::string nodes;
  for (int i = 0; i < count; ++i) {
    nodes += concat("t", i + 1, " = MatMul(t", i, ", t", i, ")\n");
  }
  return graph::import_text(concat(R"(<ir_version: 10, opset_import: ["" : 20]>
    g (float[64,64] t0) => (float[64,64] t)",
                                   count, ") {\n", nodes, "}"));
}

SiteAnswer plan(const graph::Graph& graph, const Hosts& hosts, const Known& known = {}) {
  SitePlanOptions options;
  options.costs.figures = {64 * 64 * 64 * 1e3, 1e15, 1e-12, 0};  // 1 ms a node.
  options.search.seconds = 2;
  auto found = plan_over(graph, hosts, known, options);
  EXPECT_TRUE(found) << found.error().message();
  return *std::move(found);
}

/// How many nodes each device has, by its name.
std::map<std::string, std::size_t> shares(const SiteAnswer& found) {
  std::vector<std::string> names;
  for (const auto& type : found.problem.types) {
    names.insert(names.end(), type.devices.begin(), type.devices.end());
  }
  std::map<std::string, std::size_t> shares;
  for (const auto& stage : found.answer.split.stages) {
    shares[names[static_cast<std::size_t>(stage.devices.front())]] += stage.groups.size();
  }
  return shares;
}

TEST_F(HostsTest, GetWorkByTheirSpeedAndQuota) {
  const auto found = plan(chain(7), hosts(R"(hosts:
  a: {address: 'a:1', cpus: 1, link: {bandwidth: 1gbit}}
  b: {address: 'b:1', cpus: 1, link: {bandwidth: 1gbit}, quota: 0.5}
  c: {address: 'c:1', cpus: 1, link: {bandwidth: 1gbit}, quota: 0.25}
caller: {link: {bandwidth: 1gbit}}
)"));
  EXPECT_NEAR(found.answer.cost, 4e-3, 1e-6);
  EXPECT_TRUE(found.answer.proved);
  EXPECT_THAT(shares(found), ::testing::IsSupersetOf({Pair("a:1/cpu:0", 4), Pair("b:1/cpu:0", 2),
                                                      Pair("c:1/cpu:0", 1)}));
}

TEST_F(HostsTest, AreLeftOutWhereTheirLinkWouldBind) {
  // 16 KiB over 8 Mbit/s take 16 ms, the whole network takes 6 ms on one host.
  const auto found = plan(chain(6), hosts(R"(hosts:
  a: {address: 'a:1', cpus: 1, link: {bandwidth: 1gbit}}
  b: {address: 'b:1', cpus: 1, link: {bandwidth: 8mbit}}
caller: {link: {bandwidth: 1gbit}}
)"));
  EXPECT_NEAR(found.answer.cost, 6e-3, 1e-6);
  EXPECT_FALSE(shares(found).contains("b:1/cpu:0"));
}

TEST_F(HostsTest, AreNoPlaceForSomeBaselinesWhichSayWhy) {
  const auto found = plan(chain(4), hosts(R"(hosts:
  a: {address: 'a:1', cpus: 1, link: {bandwidth: 1gbit}}
  b: {address: 'b:1', cpus: 1, link: {bandwidth: 1gbit}}
caller: {link: {bandwidth: 1gbit}}
)"));
  int none = 0;
  for (const auto& baseline : found.answer.baselines) {
    EXPECT_THAT(baseline.why_not, Not(HasSubstr("group"))) << baseline.name;
    if (baseline.name != "replicate_all") continue;
    ++none;
    EXPECT_THAT(baseline.why_not, HasSubstr("the caller's cable, which counts as one, computes"));
  }
  EXPECT_EQ(none, 1);
}

TEST_F(HostsTest, AreToBeAskedWhatDevicesTheyHave) {
  const auto found = hosts("hosts:\n  a: {address: 'a:1'}\n");
  const auto devices = devices_of(found.hosts.front());
  ASSERT_FALSE(devices);
  EXPECT_THAT(devices.error().message(), HasSubstr("(plan --measure), or write 'cpus: 4'"));
}

TEST_F(HostsTest, KeepToTheirMemory) {
  const auto text = [](const std::string& memory) {
    return concat(R"(hosts:
  a: {address: 'a:1', cpus: 1, link: {bandwidth: 1gbit}, memory: )",
                  memory, R"(}
  b: {address: 'b:1', cpus: 1, link: {bandwidth: 1gbit}, quota: 0.01}
caller: {link: {bandwidth: 1gbit}}
)");
  };
  const auto small = plan(chain(4), hosts(text("40KiB")));  // Two frames of 16 KiB and no more.
  EXPECT_TRUE(shares(small).contains("b:1/cpu:0") || small.answer.cost > 0.1);
  EXPECT_NEAR(plan(chain(4), hosts(text("1GiB"))).answer.cost, 4e-3, 1e-6);
}

TEST_F(HostsTest, TellWhichLinkBinds) {
  const auto found = plan(chain(4), hosts(R"(hosts:
  a: {address: 'a:1', cpus: 1, link: {bandwidth: 1gbit}}
caller: {link: {up: 8mbit, down: 1gbit}}
)"));
  EXPECT_NEAR(found.answer.cost, 16384 / 1e6, 1e-6);
  EXPECT_EQ(planner::to_string(found.answer.binding), "link of the caller, out");
  EXPECT_EQ(found.wires.front().name, "link of the caller, out");
}

TEST_F(HostsTest, ShareAnUplinkAsOneResource) {
  // Each of b and c would send its 16 KiB through `far` in 4 ms; both together take 8 ms, more than
  // the 6 ms that one host alone takes.
  const auto found = plan(chain(6), hosts(R"(uplinks: {far: {bandwidth: 32mbit}}
hosts:
  b: {address: 'b:1', cpus: 1, link: {bandwidth: 1gbit}, uplink: far}
  c: {address: 'c:1', cpus: 1, link: {bandwidth: 1gbit}, uplink: far}
  d: {address: 'd:1', cpus: 1, link: {bandwidth: 1gbit}}
caller: {link: {bandwidth: 1gbit}}
)"));
  double busiest = 0;
  for (const auto& wire : found.wires) busiest = std::max(busiest, wire.seconds);
  EXPECT_LE(busiest, found.answer.cost * (1 + 1e-9));
  EXPECT_LE(found.answer.cost, 6e-3 * (1 + 1e-9));
  EXPECT_GE(found.answer.cost, found.answer.lower_bound);
}

/// Two hosts of one CPU, of which `b` has half of the time.
constexpr const char* kUnlike = R"(hosts:
  a: {address: 'a:1', cpus: 1, link: {bandwidth: 1gbit}}
  b: {address: 'b:1', cpus: 1, quota: 0.5, link: {bandwidth: 1gbit}}
caller: {link: {bandwidth: 1gbit}}
)";

TEST_F(HostsTest, ComputeLessWhereMessagesTakeTheirTime) {
  const auto all = hosts(kUnlike);
  Known known;
  const auto free = plan(chain(9), all, known);
  EXPECT_NEAR(free.answer.cost, 6e-3, 1e-6);  // Six nodes on `a`, three on `b`.
  // 16 KiB in and as many out of `b`: 0.75 ms of CPU each, 3 ms of its half together.
  known.links.messages = {{1, {0, 0.75e-3 / 16384, 0.75e-3 / 16384}}};
  const auto counted = plan(chain(9), all, known);
  EXPECT_NEAR(counted.answer.cost, 7e-3, 1e-6);  // Seven on `a`: six would give `b` 9 ms.
  const auto busy = std::ranges::find(counted.wires, "CPUs of 'b'", &WireLoad::name);
  ASSERT_NE(busy, counted.wires.end());
  EXPECT_NEAR(busy->seconds, 7e-3, 1e-6);
}

TEST_F(HostsTest, AreBoundByTheirMessages) {
  Known known;
  known.links.messages = {{0, {20e-3, 0, 0}}, {1, {20e-3, 0, 0}}};
  const auto found = plan(chain(2), hosts(kUnlike), known);
  EXPECT_NEAR(found.answer.cost, 42e-3, 1e-6);  // All on `a`: a message in and one out.
  EXPECT_EQ(planner::to_string(found.answer.binding), "CPUs of 'a'");
}

TEST_F(HostsTest, ShareAnUplinkThatWasMeasured) {
  // Each of b and c would send its 16 KiB by a way that has 4 ms for it; both together take 8.
  const auto text = R"(hosts:
  b: {address: 'b:1', cpus: 1, link: {bandwidth: 1gbit}}
  c: {address: 'c:1', cpus: 1, link: {bandwidth: 1gbit}}
  d: {address: 'd:1', cpus: 1, link: {bandwidth: 1gbit}}
caller: {link: {bandwidth: 1gbit}}
)";
  Known known;
  known.links.uplinks = {{{{0, 1}, Direction::kOut}, 4096e3}};
  const auto all = hosts(text);
  const auto found = plan(chain(12), all, known);
  const auto uplink = std::ranges::find(found.wires, "uplink of 'b' and 'c', out", &WireLoad::name);
  if (uplink != found.wires.end()) {
    EXPECT_LE(uplink->seconds, found.answer.cost * (1 + 1e-9));
  }
  EXPECT_LT(found.answer.cost, 12e-3);
  const Network network(all, known.links);
  EXPECT_EQ(network.way(0, 2).bandwidth, 4096e3);
  EXPECT_EQ(network.way(0, 1).bandwidth, 125e6);
}

TEST_F(HostsTest, ShareAWireThatWasMeasured) {
  // Each device of `a` would have 16 KiB in and out within a node's 1 ms by itself, as the ways
  // were measured; all of them together go by a wire that takes 4 ms for each 16 KiB.
  const auto text = R"(hosts: {a: {address: 'a:1', devices: 'cpu:0,cpu:1'}}
)";
  Known known;
  known.links.ways = {{{kCaller, 0}, {0, 1e9}}, {{0, kCaller}, {0, 1e9}}};
  const auto free = plan(chain(2), hosts(text), known);
  EXPECT_TRUE(free.wires.empty());
  known.links.ways[{kCaller, 0}].bandwidth = 4096e3;  // A wire carries what one way has.
  known.links.wires = {{{0, Direction::kIn}, 4096e3}, {{0, Direction::kOut}, planner::kInfinite}};
  const auto shared = plan(chain(2), hosts(text), known);
  ASSERT_FALSE(shared.wires.empty());
  EXPECT_EQ(shared.wires.front().name, "link of 'a', in");
  EXPECT_NEAR(shared.answer.cost, 4e-3, 1e-6);
  EXPECT_EQ(planner::to_string(shared.answer.binding), "link of 'a', in");
}

TEST_F(HostsTest, OfOneKindHaveTheCostsThatWereMeasuredOnOne) {
  Known known;
  known.costs["board"].node_seconds = {2e-3, 2e-3, 2e-3, 2e-3};
  const auto found = plan(chain(4), hosts(R"(hosts:
  a: {address: 'a:1', cpus: 1, kind: board, link: {bandwidth: 1gbit}}
  b: {address: 'b:1', cpus: 1, kind: board, link: {bandwidth: 1gbit}}
caller: {link: {bandwidth: 1gbit}}
)"),
                          known);
  EXPECT_NEAR(found.answer.cost, 4e-3, 1e-6);
  EXPECT_THAT(found.problem.types, SizeIs(3));  // Both hosts are one, and the caller's ends.
}

TEST_F(HostsTest, StandByForEachOther) {
  const auto all = hosts(R"(hosts:
  a: {address: 'a:1', cpus: 1, link: {bandwidth: 1gbit}}
  b: {address: 'b:1', cpus: 1, link: {bandwidth: 1gbit}}
caller: {link: {bandwidth: 1gbit}, host_cpus: 'cpu:3'}
)");
  const auto found = plan(chain(4), all);
  partition::ChosenStages chosen;
  for (const auto& name : {"a:1/cpu:0", "b:1/cpu:0"}) {
    partition::ChosenStage stage;
    stage.nodes = {static_cast<graph::NodeId>(chosen.stages.size())};
    stage.devices = {*device::parse_device(name)};
    chosen.stages.push_back(stage);
  }
  const auto done = equip(chosen, all, found, true);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(device::to_string(chosen.stages[0].standby.front()), "b:1/cpu:0");
  EXPECT_EQ(device::to_string(chosen.stages[1].standby.front()), "a:1/cpu:0");
  EXPECT_THAT(chosen.stages[0].host_cpus, ElementsAre(3));
}

}  // namespace
}  // namespace penstock::hosts
