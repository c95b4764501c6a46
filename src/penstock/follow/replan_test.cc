// Plans for paces against trying all, and Choice following several CPUs that go and come back.
#include "penstock/follow/replan.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/follow/choice.h"
#include "tests/support/fake_backend.h"

namespace penstock::follow {
namespace {

using namespace penstock::testing;  // NOLINT(google-build-using-namespace): test support

/// A chain of so many stages, the first on cpu:0 and so on; a state from `writer` to itself where
/// that is one of them.
plan::Plan chain(int stages, int writer = -1) {
  FakeNetwork network;
  network.input("v0");
  const auto none = [](Inputs, Outputs) -> Status { return {}; };
  if (writer >= 0) network.state_input("s");
  for (int i = 0; i < stages; ++i) {
    const auto in = concat("v", i), out = concat("v", i + 1);
    if (i == writer) {
      network.stage(concat("n", i), {in, "s"}, {out, "t"}, none, 1, {scalar(), scalar()});
    } else {
      network.stage(concat("n", i), {in}, {out}, none);
    }
  }
  network.output(concat("v", stages));
  if (writer >= 0) network.state("t", "s");
  auto plan = network.finish();
  for (int i = 0; i < stages; ++i) {
    plan.stages[static_cast<std::size_t>(i)].devices = {device::Device{.host = {}, .cpus = {i}}};
  }
  return plan;
}

/// Frames per second of the plan that is made of these stages.
double rate_of(const Variant& variant, const std::vector<double>& seconds, const Paces& paces) {
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t s = 0; s < variant.from.size(); ++s) {
    double sum = 0, rate = 0;
    for (const auto from : variant.from[s]) sum += seconds[from];
    for (const auto& device : variant.plan.stages[s].devices) {
      rate += paces.at(device.cpus.front()) / sum;
    }
    least = std::min(least, rate);
  }
  return least;
}

/// Each CPU does one of the runs of stages or nothing; runs are those between the cuts.
class TryingAll {
 public:
  TryingAll(std::vector<double> seconds, Paces paces, int writer)
      : seconds_(std::move(seconds)), paces_(std::move(paces)), writer_(writer) {}

  double best(std::size_t runs) {
    best_ = 0;
    cut(runs, 0, {});
    return best_;
  }

 private:
  void cut(std::size_t runs, std::size_t begin, std::vector<std::size_t> ends) {
    if (runs == 0 && begin == seconds_.size()) deal(ends, std::vector<double>(ends.size()), {}, 0);
    if (runs == 0) return;
    for (auto end = begin + 1; end <= seconds_.size(); ++end) {
      ends.push_back(end);
      cut(runs - 1, end, ends);
      ends.pop_back();
    }
  }

  void deal(const std::vector<std::size_t>& ends, std::vector<double> paces,
            std::vector<int> counts, std::size_t cpu) {
    counts.resize(ends.size());
    if (cpu == paces_.size()) {
      best_ = std::max(best_, rate(ends, paces, counts));
      return;
    }
    deal(ends, paces, counts, cpu + 1);
    for (std::size_t run = 0; run < ends.size(); ++run) {
      auto more = paces;
      auto other = counts;
      more[run] += std::next(paces_.begin(), static_cast<std::ptrdiff_t>(cpu))->second;
      ++other[run];
      deal(ends, more, other, cpu + 1);
    }
  }

  [[nodiscard]] double rate(const std::vector<std::size_t>& ends, const std::vector<double>& paces,
                            const std::vector<int>& counts) const {
    double least = std::numeric_limits<double>::infinity();
    std::size_t begin = 0;
    for (std::size_t run = 0; run < ends.size(); begin = ends[run++]) {
      const bool writes =
          writer_ >= static_cast<int>(begin) && writer_ < static_cast<int>(ends[run]);
      if (writes && counts[run] > 1) return 0;
      const auto from = seconds_.begin();
      const double sum = std::accumulate(from + static_cast<std::ptrdiff_t>(begin),
                                         from + static_cast<std::ptrdiff_t>(ends[run]), 0.0);
      least = std::min(least, paces[run] / sum);
    }
    return least;
  }

  const std::vector<double> seconds_;
  const Paces paces_;
  const int writer_;
  double best_ = 0;
};

TEST(ReplanTest, OfEachNumberOfStagesHasTheBestThatTryingAllFinds) {
  std::mt19937 random(3);
  const auto between = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random() % 1000) / 1000;
  };
  for (int round = 0; round < 60; ++round) {
    const int stages = 1 + static_cast<int>(random() % 4);
    const int writer =
        round % 2 == 0 ? -1 : static_cast<int>(random() % static_cast<unsigned>(stages));
    std::vector<double> seconds;
    Paces paces;
    for (int i = 0; i < stages; ++i) {
      seconds.push_back(between(0.001, 0.01));
      if (random() % 4 != 0) paces[i] = between(0.2, 1);
    }
    const auto plans = plans_for(chain(stages, writer), seconds, paces);
    for (std::size_t runs = 1; runs <= seconds.size(); ++runs) {
      const double best = TryingAll(seconds, paces, writer).best(runs);
      const auto found = std::ranges::find_if(
          plans, [&](const Variant& plan) { return plan.from.size() == runs; });
      ASSERT_EQ(found != plans.end(), best > 0) << round << ", " << runs;
      if (best > 0) {
        EXPECT_NEAR(rate_of(*found, seconds, paces), best, 1e-9 * best) << round;
      }
    }
  }
}

TEST(ReplanTest, APlanIsOneAndNamesWhatStandsWhere) {
  const auto plans = plans_for(chain(3), {1, 1, 8}, {{0, 1}, {1, 1}, {2, 0.5}});
  ASSERT_EQ(plans.size(), 3U);
  EXPECT_EQ(plans[0].name, "n0+n1+n2 on cpu:0, cpu:1, cpu:2");
  EXPECT_EQ(plans[1].name, "n0+n1 on cpu:2 | n2 on cpu:0, cpu:1");
  EXPECT_THAT(plan::violations(plans[1].plan), ::testing::IsEmpty());
  EXPECT_THAT(plans[1].plan.stages[0].outputs, ::testing::ElementsAre("v2"));
}

TEST(ReplanTest, OfManyCpusAreBlocksWithWhichAnyNumberCanBeHad) {
  auto plan = chain(2);
  Paces paces;
  plan.stages[1].devices.clear();
  for (int cpu = 0; cpu < 64; ++cpu) {
    paces[cpu] = 1;
    if (cpu > 0) plan.stages[1].devices.push_back({.host = {}, .cpus = {cpu}});
  }
  const auto plans = plans_for(plan, {11, 53}, paces);
  ASSERT_EQ(plans.size(), 2U);
  EXPECT_EQ(plans[0].plan.stages[0].devices.size(), 64U);
  EXPECT_EQ(plans[1].plan.stages[0].devices.size(), 11U);
  EXPECT_EQ(plans[1].plan.stages[1].devices.size(), 53U);
}

TEST(ReplanTest, PlansAnewWhereAPaceHasChanged) {
  Replanner replanner(chain(2), {1, 1});
  EXPECT_TRUE(replanner.see({}).empty());
  EXPECT_FALSE(replanner.see({{0, 1}, {1, 1}}).empty());
  EXPECT_TRUE(replanner.see({{0, 1.05}, {1, 0.96}}).empty()) << "noise";
  EXPECT_FALSE(replanner.see({{0, 1}, {1, 0.5}}).empty());
  EXPECT_EQ(replanner.see({{0, 1}}).front().name, "n0+n1 on cpu:0");
}

/// Four CPUs and a stage whose instances stand on all of them. The network takes 10 ms.
class FourCpus {
 public:
  FourCpus() : plan_(chain(1)), replanner_(plan_, {kSeconds}), choice_(first(), 0) {
    plan_.stages[0].devices.clear();
    for (int cpu = 0; cpu < 4; ++cpu) {
      plan_.stages[0].devices.push_back({.host = {}, .cpus = {cpu}});
    }
    replanner_ = Replanner(plan_, {kSeconds});
  }

  std::set<int> present{0, 1, 2, 3};

  void pass(int seconds) {
    for (int i = 0; i < seconds; ++i) {
      now_ += 1;
      if (const auto move = choice_.see(look())) {
        choice_.moved(*move, now_);
        continue;
      }
      for (auto& variant : replanner_.see(choice_.paces())) {
        Candidate made{variant.name, {{kSeconds, {}}}, "0"};
        for (const auto& device : variant.plan.stages[0].devices) {
          made.stages[0].places.push_back(device.cpus);
        }
        choice_.put(choice_.candidates().size(), std::move(made));
      }
    }
  }

  [[nodiscard]] std::set<int> running() const {
    std::set<int> cpus;
    for (const auto& place : choice_.candidates()[choice_.running()].stages[0].places) {
      cpus.insert(place.front());
    }
    return cpus;
  }

 private:
  static constexpr double kSeconds = 0.01;
  static std::vector<Candidate> first() {
    return {{"on each", {{kSeconds, {{0}, {1}, {2}, {3}}}}, "0"}};
  }

  /// Instances whose CPU is gone crowd on the others: frames come in order, so each waits for them.
  [[nodiscard]] Look look() const {
    const auto& places = choice_.candidates()[choice_.running()].stages[0].places;
    std::size_t gone = 0;
    for (const auto& place : places) gone += present.contains(place.front()) ? 0 : 1;
    const auto here = places.size() - gone;
    const double waits = gone > 0 ? 0.6 : 1;
    Look look{.at = now_,
              .frames_per_second = waits * static_cast<double>(here) / kSeconds,
              .full = true};
    auto& seconds = look.seconds.emplace_back();
    for (const auto& place : places) {
      seconds.push_back(present.contains(place.front()) ? kSeconds : 0);
    }
    for (const int cpu : present) {
      const auto is_place = [&](const auto& place) { return place.front() == cpu; };
      if (std::ranges::none_of(places, is_place)) look.idle[cpu] = 1;
    }
    return look;
  }

  plan::Plan plan_;
  Replanner replanner_;
  Choice choice_;
  double now_ = 0;
};

TEST(ReplanTest, SeveralCpusThatGoAndComeBackAreFollowed) {
  FourCpus machine;
  machine.pass(10);
  EXPECT_EQ(machine.running(), (std::set{0, 1, 2, 3}));
  machine.present = {0, 3};
  machine.pass(15);
  EXPECT_EQ(machine.running(), (std::set{0, 3}));
  machine.present = {0, 1, 3};
  machine.pass(15);
  EXPECT_EQ(machine.running(), (std::set{0, 1, 3}));
  machine.present = {0, 1, 2, 3};
  machine.pass(15);
  EXPECT_EQ(machine.running(), (std::set{0, 1, 2, 3}));
}

}  // namespace
}  // namespace penstock::follow
