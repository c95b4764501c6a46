// The contest over invented numbers: plans whose rates are given, on a clock that only they move.
#include "penstock/tune/contest.h"

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace penstock::tune {
namespace {

using testing::HasSubstr;

/// What a plan does.
struct Made {
  std::function<double(double second)> rate;  ///< Frames per second at that moment.
  Error fails_to_start = {};                  ///< No message: it starts.
  int fails_after = -1;                       ///< So many measurements; -1: never.
  bool wrong = false;
  bool open = false;       ///< The judge is not sure of it.
  bool cut_short = false;  ///< The judge had no time to see all of it.
  bool large = false;      ///< Stands alone in the process.
  int stages = 1;
};

/// A machine that runs invented plans, one moment after another.
class Machine final : public Runners {
 public:
  std::map<std::string, Made> plans;
  double second = 0;
  int started = 0;

  [[nodiscard]] Budget budget(double seconds) {
    return Budget(seconds, Budget::Clock::time_point(), [this] {
      return Budget::Clock::time_point(std::chrono::duration_cast<Budget::Clock::duration>(
          std::chrono::duration<double>(second)));
    });
  }

  Result<plan::Package> pack(const Contestant& contestant) override {
    plan::Package package;
    package.plan.model = contestant.name;
    plan::Stage stage;
    stage.name = "stage0";
    stage.devices = {{.host = {}, .cpus = {0}}};
    const auto made = plans.find(contestant.name);
    package.plan.stages.assign(made == plans.end() ? 1 : made->second.stages, stage);
    return package;
  }

  Result<std::unique_ptr<Runner>> start(const plan::Package& package) override {
    const auto& name = package.plan.model;
    const auto& made = plans.at(name);
    if (!made.fails_to_start.reason.empty()) return made.fails_to_start;
    if (running_ > 0 && (made.large || large_runs_)) {
      return make_error(Code::kResourceExhausted, "no memory beside what runs");
    }
    ++started;
    second += 1;  // Of compiling.
    return std::unique_ptr<Runner>(std::make_unique<Invented>(*this, made));
  }

 private:
  class Invented final : public Runner {
   public:
    Invented(Machine& machine, const Made& made) : machine_(machine), made_(made) {
      ++machine_.running_;
      machine_.large_runs_ = machine_.large_runs_ || made.large;
    }
    ~Invented() override {
      --machine_.running_;
      if (made_.large) machine_.large_runs_ = false;
    }
    Result<measure::VerifyReport> judge() override {
      machine_.second += 1 / made_.rate(machine_.second);
      measure::VerifyReport report;
      report.frames = 1;
      report.cut_short = made_.cut_short;
      auto& output = report.verdict.outputs.emplace_back();
      output.worst_ratio = made_.wrong ? 5 : 0.1;
      if (made_.wrong) {
        output.finding = measure::Finding::kWrong;
        output.reason = "'y' is off";
      }
      if (made_.open) {
        output.allowed.output = "y";
        output.finding = measure::Finding::kInconclusive;
        output.reason = "'y' jumps";
      }
      return report;
    }
    std::unique_ptr<measure::Side> side(int) override {
      return std::make_unique<InventedSide>(machine_, made_);
    }
    [[nodiscard]] std::vector<double> stage_seconds() const override {
      return {1 / made_.rate(machine_.second)};
    }

   private:
    Machine& machine_;
    const Made& made_;
  };

  class InventedSide final : public measure::Side {
   public:
    InventedSide(Machine& machine, const Made& made) : machine_(machine), made_(made) {}
    [[nodiscard]] std::string name() const override { return "penstock"; }
    [[nodiscard]] std::string explain() const override { return {}; }
    [[nodiscard]] int in_flight() const override { return 1; }
    Result<measure::Sample> measure(const measure::Round& round) override {
      if (measured_++ == made_.fails_after) return internal_error("a frame failed");
      const double rate = made_.rate(machine_.second);
      machine_.second += std::chrono::duration<double>(round.warm_up + round.measured).count();
      return measure::Sample{rate, {static_cast<float>(1e9 / rate)}};
    }

   private:
    Machine& machine_;
    const Made& made_;
    int measured_ = 0;
  };

  int running_ = 0;
  bool large_runs_ = false;

 public:
  [[nodiscard]] int running() const { return running_; }
};

class RaceTest : public testing::Test {
 protected:
  RaceTest() {
    auto opened = cost::Database::open(folder_.path() / "costs.db");
    EXPECT_TRUE(opened) << opened.error().message();
    database_.emplace(*std::move(opened));
  }

  static Made at(double rate) {
    return {.rate = [rate](double) { return rate; }};
  }
  [[nodiscard]] Contest contest(Goal goal = Goal::kThroughput, bool one_at_a_time = false) {
    return Contest({.runners = machine_,
                    .database = *database_,
                    .budget = budget_,
                    .goal = goal,
                    .verdict_key = "as always",
                    .one_at_a_time = one_at_a_time});
  }
  static std::size_t enter(Contest& contest, const std::string& name) {
    Contestant contestant;
    contestant.name = name;
    const auto place = contest.enter(std::move(contestant));
    EXPECT_TRUE(place) << place.error().message();
    return place ? *place : SIZE_MAX;
  }
  static std::string best_of(const Contest& contest) {
    return contest.best() ? contest.entries()[*contest.best()].way.name : "none";
  }

  const TemporaryFolder folder_;
  Machine machine_;
  Budget budget_ = machine_.budget(60);
  std::optional<cost::Database> database_;
};

TEST_F(RaceTest, TheFasterIsTheBestWhoeverCameFirst) {
  machine_.plans = {{"slow", at(50)}, {"fast", at(80)}, {"slower", at(70)}};
  auto contest = this->contest();
  for (const char* name : {"slow", "fast", "slower"}) enter(contest, name);
  EXPECT_EQ(best_of(contest), "fast");
  EXPECT_EQ(contest.measured(), 3);
  EXPECT_NEAR(contest.entries()[2].score / contest.entries()[1].score, 70.0 / 80, 1e-9);
}

TEST_F(RaceTest, WhatWinsByNoMoreThanNoiseDoesNotTakeThePlace) {
  machine_.plans = {{"first", at(100)}, {"hardly", at(100.4)}};
  auto contest = this->contest();
  enter(contest, "first");
  enter(contest, "hardly");
  EXPECT_EQ(best_of(contest), "first");
}

TEST_F(RaceTest, AMachineThatBecomesFasterFavoursNobody) {
  // Twice as fast from some moment on: by absolute rates the worse one would win.
  const auto mood = [](double rate) {
    return Made{.rate = [rate](double second) { return second < 3 ? rate : 2 * rate; }};
  };
  machine_.plans = {{"better", mood(100)}, {"worse", mood(90)}};
  auto contest = this->contest();
  enter(contest, "better");
  enter(contest, "worse");
  EXPECT_GT(machine_.second, 3);
  EXPECT_EQ(best_of(contest), "better");
  EXPECT_NEAR(contest.entries()[1].score / contest.entries()[0].score, 0.9, 1e-9);
}

/// A rate that falls to half for a while.
Made slowed(double rate, double from, double until) {
  return {
      .rate = [=](double second) { return second >= from && second < until ? rate / 2 : rate; }};
}

TEST_F(RaceTest, OneSlowRoundEndsNoRace) {
  machine_.plans = {{"first", at(100)}, {"second", at(110)}};
  auto contest = this->contest();
  enter(contest, "first");
  // The host halves its speed between the first plan's turn and the second one's.
  constexpr double kTurn = 12.0 / 110 * 1.3;  // Twelve frames, and the warm-up.
  const double first_turn = machine_.second + 1 + 1.0 / 110 + kTurn;
  machine_.plans["second"] = slowed(110, first_turn - 0.01, first_turn + kTurn - 0.01);
  enter(contest, "second");
  EXPECT_NEAR(contest.entries()[1].ratio, 1.1, 1e-9);
  EXPECT_EQ(best_of(contest), "second");
}

TEST_F(RaceTest, WhatIsSlowInEachRoundEndsItsRaceEarly) {
  machine_.plans = {{"first", at(100)}, {"second", at(50)}};
  auto contest = this->contest();
  enter(contest, "first");
  const double begin = machine_.second;
  enter(contest, "second");
  EXPECT_LT(machine_.second - begin, 2.5);  // Compiling, a judged frame, two rounds.
}

TEST_F(RaceTest, WhereMemoryIsShortNoPlanRunsBesideAnother) {
  machine_.plans = {{"slow", at(50)}, {"fast", at(80)}, {"slower", at(78)}};
  for (auto& [name, made] : machine_.plans) made.large = true;
  auto contest = this->contest(Goal::kThroughput, true);
  for (const char* name : {"slow", "fast", "slower"}) {
    enter(contest, name);
    EXPECT_EQ(machine_.running(), 0) << name;
  }
  EXPECT_EQ(machine_.started, 3);
  EXPECT_EQ(best_of(contest), "fast");
  EXPECT_EQ(contest.entries()[1].beside, kAlone);
  EXPECT_TRUE(contest.run_off(30));
  EXPECT_EQ(machine_.started, 3);
  EXPECT_EQ(best_of(contest), "fast");
}

TEST_F(RaceTest, WrongOutputsAndPlansThatDoNotStartAreLeftOut) {
  machine_.plans = {{"sound", at(10)}, {"wrong", at(99)}, {"absent", at(99)}};
  machine_.plans["wrong"].wrong = true;
  machine_.plans["absent"].fails_to_start = make_error(Code::kUnavailable, "no such engine");
  auto contest = this->contest();
  for (const char* name : {"wrong", "absent", "sound"}) enter(contest, name);
  EXPECT_EQ(best_of(contest), "sound");
  EXPECT_THAT(contest.entries()[0].way.failure, HasSubstr("wrong output: 'y' is off"));
  EXPECT_THAT(contest.entries()[1].way.failure, HasSubstr("no such engine"));
}

TEST_F(RaceTest, ABestThatFailsInTheRaceLeavesItsPlace) {
  machine_.plans = {{"brittle", at(100)}, {"sound", at(60)}};
  machine_.plans["brittle"].fails_after = 6;  // It ran five rounds alone.
  auto contest = this->contest();
  enter(contest, "brittle");
  enter(contest, "sound");
  EXPECT_EQ(best_of(contest), "sound");
  EXPECT_THAT(contest.entries()[0].way.failure, HasSubstr("a frame failed"));
}

TEST_F(RaceTest, ABestThatHasNoRoomEvenAloneLeavesItsPlace) {
  machine_.plans = {{"hungry", at(100)}, {"frugal", at(60)}};
  auto contest = this->contest();
  enter(contest, "frugal");
  enter(contest, "hungry");
  contest.rest();
  machine_.plans["hungry"].fails_to_start =
      make_error(Code::kResourceExhausted, "no thread could be started");
  EXPECT_FALSE(contest.run_best(true)) << "what runs beside it may be to blame";
  const auto running = contest.run_best(false);
  ASSERT_TRUE(running) << running.error().message();
  EXPECT_EQ((*running)->package.plan.model, "frugal");
  EXPECT_THAT(contest.entries()[1].way.failure, HasSubstr("no thread could be started"));
  EXPECT_TRUE(contest.entries()[1].lacks_room);
}

TEST_F(RaceTest, WhatHasNoRoomBesideTheBestRunsWithoutIt) {
  machine_.plans = {{"small", at(50)}, {"large", at(80)}};
  machine_.plans["large"].large = true;
  auto contest = this->contest();
  enter(contest, "small");
  enter(contest, "large");
  EXPECT_EQ(best_of(contest), "large");
  EXPECT_EQ(contest.entries()[1].beside, kAlone);
}

TEST_F(RaceTest, ALatencyIsBestWhereItIsLeast) {
  machine_.plans = {{"slow", at(50)}, {"fast", at(80)}};
  auto contest = this->contest(Goal::kLatency);
  enter(contest, "slow");
  enter(contest, "fast");
  EXPECT_EQ(best_of(contest), "fast");
  EXPECT_NEAR(contest.entries()[1].way.latency_seconds / contest.entries()[0].way.latency_seconds,
              50.0 / 80, 1e-6);
}

TEST_F(RaceTest, ARunOffTellsThoseThatAreNear) {
  // The second has bad luck while it enters, and is the better one.
  machine_.plans = {{"first", at(100)},
                    {"unlucky", {.rate = [](double second) { return second < 12 ? 98 : 110; }}}};
  auto contest = this->contest();
  enter(contest, "first");
  enter(contest, "unlucky");
  ASSERT_EQ(best_of(contest), "first");
  machine_.second = 20;
  ASSERT_TRUE(contest.run_off(30));
  EXPECT_EQ(best_of(contest), "unlucky");
}

TEST_F(RaceTest, ARunOffEndsWhenItIsClear) {
  machine_.plans = {{"first", at(100)}, {"second", at(95)}};
  auto contest = this->contest();
  enter(contest, "first");
  enter(contest, "second");
  const double begin = machine_.second;
  ASSERT_TRUE(contest.run_off(30));
  EXPECT_EQ(best_of(contest), "first");
  EXPECT_EQ(contest.doubt(), "");
  EXPECT_LT(machine_.second - begin, 7 * 2 * 0.17);  // Six rounds are the fewest that are sure.
}

TEST_F(RaceTest, ARunOffThatCannotTellSaysSo) {
  machine_.plans = {
      {"first", at(100)},
      {"second", {.rate = [turn = 0](double) mutable { return turn++ % 2 == 0 ? 106 : 96; }}}};
  auto contest = this->contest();
  enter(contest, "first");
  enter(contest, "second");
  for (const double seconds : {6.0, 30.0}) {
    ASSERT_TRUE(contest.run_off(seconds));
    EXPECT_THAT(contest.doubt(), HasSubstr("too close to tell: '"));
    EXPECT_THAT(contest.doubt(), HasSubstr("rounds in turn"));
  }
}

/// About as fast as one of 100 frames a second: now it is ahead, and now it is behind.
Made hardly_apart(double ahead, double behind, int stages) {
  return {.rate = [=, turn = 0](double) mutable { return turn++ % 2 == 0 ? behind : ahead; },
          .stages = stages};
}

TEST_F(RaceTest, OfTwoThatCannotBeToldApartTheSimplerIsTaken) {
  machine_.plans = {{"simple", at(100)}, {"of three", at(105)}};
  machine_.plans["of three"].stages = 3;
  auto contest = this->contest();
  enter(contest, "simple");
  enter(contest, "of three");
  ASSERT_EQ(best_of(contest), "of three");
  machine_.plans["of three"] = hardly_apart(101, 99, 3);
  ASSERT_TRUE(contest.run_off(30));
  EXPECT_EQ(best_of(contest), "simple");
  EXPECT_THAT(contest.doubt(), HasSubstr("% of what 'simple' does"));
  EXPECT_THAT(contest.doubt(), HasSubstr("the simpler of the two is taken"));
  contest.refuse(*contest.best(), "a part of it is wrong");
  EXPECT_EQ(best_of(contest), "of three");
  EXPECT_EQ(contest.doubt(), "") << "of a plan that is out";
}

TEST_F(RaceTest, WhatIsClearlyFasterIsTakenHoweverManyStagesItHas) {
  machine_.plans = {{"simple", at(100)}, {"of three", at(103)}};
  machine_.plans["of three"].stages = 3;
  auto contest = this->contest();
  enter(contest, "simple");
  enter(contest, "of three");
  ASSERT_TRUE(contest.run_off(30));
  EXPECT_EQ(best_of(contest), "of three");
  EXPECT_EQ(contest.doubt(), "");
}

TEST_F(RaceTest, TheSimplestOfThoseNearTheBestIsInTheRunOff) {
  machine_.plans = {{"simple", at(100)}};
  auto contest = this->contest();
  enter(contest, "simple");
  double rate = 101.5;
  for (const char* name : {"a", "b", "c"}) {
    machine_.plans[name] = at(rate += 0.1);
    machine_.plans[name].stages = 3;
    enter(contest, name);
  }
  ASSERT_NE(best_of(contest), "simple");
  for (const char* name : {"a", "b", "c"}) machine_.plans[name] = hardly_apart(101, 99, 3);
  ASSERT_TRUE(contest.run_off(30));
  EXPECT_EQ(best_of(contest), "simple");
}

TEST_F(RaceTest, WhatIsToChallengeTheBestIsMeasuredAfreshWhateverIsKnownOfIt) {
  machine_.plans = {{"usual", at(100)}, {"misjudged", at(5)}};
  {
    auto before = this->contest();
    enter(before, "usual");
    enter(before, "misjudged");
  }
  machine_.plans["misjudged"] = at(200);
  auto contest = this->contest();
  enter(contest, "usual");
  const auto misjudged = enter(contest, "misjudged");
  ASSERT_EQ(contest.measured(), 0);
  ASSERT_FALSE(contest.is_near_best(misjudged));
  ASSERT_TRUE(contest.challenge({misjudged}, 30));
  EXPECT_EQ(best_of(contest), "misjudged");
  EXPECT_NEAR(contest.entries()[1].score / contest.entries()[0].score, 2, 1e-9);
  // The database knows better now.
  auto next = this->contest();
  enter(next, "usual");
  enter(next, "misjudged");
  EXPECT_EQ(next.measured(), 0);
  EXPECT_EQ(best_of(next), "misjudged");
}

TEST_F(RaceTest, ABestThatWasMisjudgedLosesToWhatChallengesIt) {
  machine_.plans = {{"first", at(100)}, {"misjudged", at(300)}};
  {
    auto before = this->contest();
    enter(before, "first");
    enter(before, "misjudged");
  }
  machine_.plans["misjudged"] = at(50);
  auto contest = this->contest();
  const auto first = enter(contest, "first");
  enter(contest, "misjudged");
  ASSERT_EQ(best_of(contest), "misjudged");
  const double begin = machine_.second;
  ASSERT_TRUE(contest.challenge({first, first, *contest.best()}, 0));
  EXPECT_EQ(best_of(contest), "first");
  EXPECT_LT(machine_.second - begin, 2 + 3 * 2 * 0.4) << "a few rounds where no time is left";
  auto next = this->contest();
  enter(next, "first");
  enter(next, "misjudged");
  EXPECT_EQ(best_of(next), "first");
}

TEST_F(RaceTest, WhatFailedChallengesNobody) {
  machine_.plans = {{"sound", at(10)}, {"wrong", at(99)}};
  machine_.plans["wrong"].wrong = true;
  auto contest = this->contest();
  enter(contest, "sound");
  const auto wrong = enter(contest, "wrong");
  const int started = machine_.started;
  ASSERT_TRUE(contest.challenge({wrong}, 30));
  EXPECT_EQ(machine_.started, started);
  EXPECT_EQ(best_of(contest), "sound");
}

/// Fills the page on which the next plan is to be written with something else, in a file that is
/// too large for all its pages to be read when it is opened.
void damage_the_last_plan(const std::filesystem::path& file) {
  constexpr std::size_t kPage = 4096;
  constexpr int kRows = 180;
  {
    auto database = *cost::Database::open(file);
    for (int i = 0; i < kRows; ++i) {
      ASSERT_TRUE(database.put(cost::PlanKey{concat("plan", i), "m", "e"},
                               {{1}, std::string(100'000, 'n')}));
    }
  }
  std::ostringstream content;
  content << std::ifstream(file, std::ios::binary).rdbuf();
  const std::string bytes = content.str();
  const std::string row = concat("plan", kRows - 1, "me1nnnn");
  const auto at = bytes.find(row);
  ASSERT_NE(at, std::string::npos);
  std::fstream pages(file, std::ios::in | std::ios::out | std::ios::binary);
  pages.seekp(static_cast<std::streamoff>(at / kPage * kPage));
  pages << std::string(kPage, 'x');
}

TEST_F(RaceTest, WhatADamagedDatabaseDoesNotTakeIsTold) {
  const auto file = folder_.path() / "large.db";
  damage_the_last_plan(file);
  database_.emplace(*cost::Database::open(file));
  std::vector<std::string> told;
  database_->go_on_without([&](const std::string& why) { told.push_back(why); });
  machine_.plans = {{"only", at(10)}};
  Contest contest(
      {.runners = machine_, .database = *database_, .budget = budget_, .verdict_key = "as always"});
  enter(contest, "only");
  EXPECT_EQ(best_of(contest), "only");
  EXPECT_THAT(told, testing::ElementsAre(HasSubstr("not a cost database, or damaged")));
}

TEST(DecisionTest, IsOpenAsLongAsAnotherMayBeFaster) {
  const std::vector<double> first(6, 1.0);
  const std::vector<Complexity> alike(2);
  EXPECT_EQ(choose({first, {0.99, 0.98, 0.97, 0.99, 0.98, 0.98}}, alike), 0U);
  EXPECT_FALSE(doubt_of({first, {0.99, 0.98, 0.97, 0.99, 0.98, 0.98}}, 0));
  EXPECT_EQ(choose({first, {1.05, 1.04, 0.98, 1.03, 1.04, 1.06}}, alike), 1U);
  const auto doubt = doubt_of({first, {1.05, 1.04, 0.98, 1.03, 1.04, 1.06}}, 1);
  ASSERT_TRUE(doubt);
  EXPECT_EQ(doubt->other, 0U);
  EXPECT_NEAR(doubt->high, 1 / 0.98, 1e-9);
  EXPECT_FALSE(doubt_of({first, {1.05, 1.04, 1.02, 1.03, 1.04, 1.06}}, 1));
  EXPECT_FALSE(doubt_of({first, first}, 0)) << "equal ones need no rounds more";
  EXPECT_TRUE(doubt_of({{1, 1}, {0.99, 0.99}}, 0)) << "two rounds tell little";
}

TEST(DecisionTest, FallsToTheSimplerWhereItIsOpen) {
  const std::vector<double> first(6, 1.0);
  const std::vector<Complexity> second_simpler{{.stages = 3}, {.stages = 1}};
  const std::vector<Complexity> first_simpler{{.stages = 1}, {.stages = 3}};
  const std::vector<double> open{1.01, 0.98, 0.99, 1.01, 0.98, 1.01};
  EXPECT_EQ(choose({first, open}, second_simpler), 1U);
  EXPECT_EQ(choose({first, open}, first_simpler), 0U);
  const std::vector<double> slower{0.99, 0.98, 0.99, 0.985, 0.99, 0.98};
  EXPECT_EQ(choose({first, slower}, second_simpler), 0U) << "each round says so";
  EXPECT_EQ(choose({{1, 1, 1}, {0.96, 0.95, 0.97}}, second_simpler), 0U) << "of few rounds, too";
  const std::vector<double> wide{0.9, 0.95, 1.1, 0.91, 0.9, 0.92};
  EXPECT_EQ(choose({first, wide}, second_simpler), 0U) << "much is at stake";
  const std::vector<double> lower{1.02, 0.96, 0.98, 1.01, 0.98, 0.97};
  EXPECT_EQ(choose({first, lower}, second_simpler), 0U) << "2 % are a loss that users see";
  EXPECT_EQ(choose({first, {1.05, 1.04, 1.02, 1.03, 1.04, 1.06}}, first_simpler), 1U);
  EXPECT_EQ(choose({first, {1.05, 1.04, 0.98, 1.03, 1.04, 1.06}}, first_simpler), 1U);
  EXPECT_EQ(choose({first, {1.01, 1.005, 0.98, 1.01, 1.005, 1.01}}, first_simpler), 0U);
}

TEST(DecisionTest, ThePlanOfFewerStagesEnginesDevicesAndReplicasIsTheSimpler) {
  plan::Plan one;
  one.stages.resize(1);
  one.stages[0].devices = {{.host = {}, .cpus = {0, 1}}};
  one.stages[0].partitions.resize(1);
  one.stages[0].partitions[0].backend = "a";
  const auto simplest = complexity_of(one);
  auto replicated = one;
  replicated.stages[0].devices = {{.host = {}, .cpus = {0}}, {.host = {}, .cpus = {1}}};
  EXPECT_LT(simplest, complexity_of(replicated));
  auto mixed = one;
  mixed.stages[0].partitions.resize(2);
  mixed.stages[0].partitions[1].backend = "b";
  EXPECT_LT(complexity_of(replicated), complexity_of(mixed));
  auto in_stages = one;
  in_stages.stages.push_back(one.stages[0]);
  EXPECT_LT(complexity_of(mixed), complexity_of(in_stages));
  auto batched = one;
  batched.stages[0].batch.frames = 8;
  EXPECT_LT(simplest, complexity_of(batched));
  EXPECT_LT(complexity_of(batched), complexity_of(replicated));
}

TEST_F(RaceTest, ARunOffWithoutTimeDecidesNothing) {
  machine_.plans = {{"first", at(100)}, {"second", at(98)}};
  auto contest = this->contest();
  enter(contest, "first");
  enter(contest, "second");
  const int started = machine_.started;
  ASSERT_TRUE(contest.run_off(0.5));
  EXPECT_EQ(machine_.started, started);
}

TEST_F(RaceTest, WhatIsKnownBesideAPlanThatIsHereIsNotRunAgain) {
  machine_.plans = {{"first", at(100)}, {"second", at(70)}};
  double took = 0;
  {
    auto before = this->contest();
    enter(before, "first");
    enter(before, "second");
    took = before.entry_seconds();
  }
  auto contest = this->contest();
  enter(contest, "first");
  enter(contest, "second");
  EXPECT_EQ(contest.measured(), 0);
  ASSERT_GT(took, 1);
  EXPECT_DOUBLE_EQ(contest.entry_seconds(), took) << "what follows has to leave time for as much";
  EXPECT_NEAR(contest.entries()[1].score / contest.entries()[0].score, 0.7, 1e-9);
}

TEST_F(RaceTest, WhatWasJudgedInPartIsJudgedAgainByTheNextBuild) {
  machine_.plans = {{"some", at(100)}, {"whole", at(50)}};
  machine_.plans["some"].cut_short = true;
  for (const int measured : {2, 1}) {
    auto contest = this->contest();
    enter(contest, "some");
    enter(contest, "whole");
    EXPECT_EQ(contest.measured(), measured);
  }
}

TEST_F(RaceTest, WhereTheJudgeIsNotSureIsKnownOfEachPlanByItself) {
  machine_.plans = {{"sure", at(100)}, {"open", at(70)}};
  machine_.plans["open"].open = true;
  for (const int measured : {2, 0}) {
    auto contest = this->contest();
    enter(contest, "sure");
    enter(contest, "open");
    EXPECT_EQ(contest.measured(), measured);
    EXPECT_THAT(contest.entries()[0].doubts, testing::IsEmpty());
    EXPECT_THAT(contest.entries()[1].doubts, testing::ElementsAre(testing::Pair("y", "'y' jumps")));
  }
}

TEST_F(RaceTest, AnEntryTakesWhatTheClockSays) {
  machine_.plans = {{"first", at(100)}};
  auto contest = this->contest();
  enter(contest, "first");
  EXPECT_NEAR(contest.entry_seconds(), machine_.second, 1e-6);
}

}  // namespace
}  // namespace penstock::tune
