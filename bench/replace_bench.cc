// What a swap costs the stream: 100 of them under load at full rate, while both plans share the
// cores. Ends with 1 where a frame is lost, or where results come further apart than the drain of
// the old plan and three periods.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

#include "penstock/pipeline/parker.h"
#include "tests/support/fake_backend.h"

namespace penstock {
namespace {

using namespace penstock::testing;  // NOLINT(google-build-using-namespace): test support
using pipeline::now_ns;
using pipeline::Pipeline;

constexpr int kSwaps = 100;
constexpr std::uint64_t kFramesBetween = 200;
constexpr std::int64_t kWorkNs = 100'000;  // Of each of the two stages.

Function working(float factor) {
  return [factor](Inputs in, Outputs out) -> Status {
    for (const auto end = now_ns() + kWorkNs; now_ns() < end;) {
    }
    out[0]->as<float>()[0] = factor * value_of(*in[0]);
    return {};
  };
}

/// Gives the number of the plan for the input 1.
FakeNetwork network(int number) {
  FakeNetwork made;
  made.input("in")
      .stage("a", {"in"}, {"mid"}, working(1))
      .stage("b", {"mid"}, {"out"}, working(static_cast<float>(number)))
      .output("out");
  return made;
}

struct Came {
  std::uint64_t frame = 0;
  int plan = 0;  // 0: it failed.
  std::int64_t at_ns = 0;
};

/// What a stream was like over all swaps.
struct Found {
  std::vector<std::int64_t> pushed_ns;  // By frame.
  std::vector<Came> results;
};

Found stream(std::vector<FakeNetwork>& networks) {
  Found found;
  auto running = *networks.front().start();
  std::atomic<std::uint64_t> out{0};
  std::atomic<bool> done{false};
  std::thread pusher([&] {
    const std::vector<Tensor> inputs{number(1)};
    while (!done) {
      const auto pushed = running->push(inputs);
      if (!pushed) {
        std::fprintf(stderr, "%s\n", pushed.error().message().c_str());
        break;
      }
      found.pushed_ns.push_back(now_ns());
    }
    running->close();
  });
  std::thread popper([&] {
    for (auto output = running->pop(); output && *output; output = running->pop()) {
      const int plan = (*output)->ok() ? static_cast<int>(value_of((**output)[0])) : 0;
      found.results.push_back({(*output)->number(), plan, now_ns()});
      ++out;
    }
  });
  for (auto& network : networks) {
    const auto before = out.load();
    const bool first = &network == &networks.front();
    if (!first) {
      const Status replaced = running->replace(network.finish(), network.folder, network.registry);
      if (!replaced) std::fprintf(stderr, "%s\n", replaced.error().message().c_str());
    }
    while (!done && out < before + kFramesBetween)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  done = true;
  pusher.join();
  popper.join();
  return found;
}

/// Frames that did not come out in order, once, by the plan before or the next one.
std::uint64_t count_lost(const Found& found) {
  std::uint64_t right = 0;
  int plan = 1;
  for (const auto& result : found.results) {
    const bool in_order = result.frame == right && result.plan >= plan && result.plan <= plan + 1;
    if (!in_order) break;
    plan = result.plan;
    ++right;
  }
  return std::max<std::uint64_t>(found.pushed_ns.size(), found.results.size()) - right;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

int run() {
  std::vector<FakeNetwork> networks;
  for (int i = 0; i <= kSwaps; ++i) networks.push_back(network(i + 1));
  const Found found = stream(networks);
  const auto lost = count_lost(found);
  std::vector<double> gaps_us, drains_us;
  for (std::size_t i = 1; i < found.results.size(); ++i) {
    const auto& before = found.results[i - 1];
    const auto& result = found.results[i];
    gaps_us.push_back(static_cast<double>(result.at_ns - before.at_ns) / 1e3);
    if (result.plan == before.plan) continue;
    // From the last push to the old plan to its last result.
    drains_us.push_back(static_cast<double>(before.at_ns - found.pushed_ns[before.frame]) / 1e3);
  }
  if (gaps_us.empty() || drains_us.empty()) return 1;
  const auto lasted = found.results.back().at_ns - found.results.front().at_ns;
  const double period = static_cast<double>(lasted) / 1e3 / static_cast<double>(gaps_us.size());
  const double longest = *std::ranges::max_element(gaps_us);
  const double bar = median(drains_us) + 3 * period;
  const bool met = lost == 0 && drains_us.size() == kSwaps && longest <= bar;
  std::printf(
      "%zu swaps, %zu frames, lost %llu (bar: 0)\n"
      "period %.1f us (mean), drain of the old plan %.1f us (median)\n"
      "longest gap between results %.1f us (bar: <= %.1f, drain + 3 periods): %s\n",
      drains_us.size(), found.results.size(), static_cast<unsigned long long>(lost), period,
      median(drains_us), longest, bar, met ? "met" : "MISSED");
  return met ? 0 : 1;
}

}  // namespace
}  // namespace penstock

int main() {
  return penstock::run();
}
