// What Choice does by an invented clock, on an invented machine of two CPUs.
#include "penstock/follow/choice.h"

#include <algorithm>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

namespace penstock::follow {
namespace {

constexpr double kWhole = 0.010;  ///< Seconds of a frame on one undisturbed CPU.
constexpr std::size_t kSplit = 0, kFirst = 1, kSecond = 2, kEach = 3;

std::vector<Candidate> candidates() {
  return {{"two stages", {{kWhole / 2, {{0}}}, {kWhole / 2, {{1}}}}},
          {"whole on cpu:0", {{kWhole, {{0}}}}},
          {"whole on cpu:1", {{kWhole, {{1}}}}},
          {"whole on each", {{kWhole, {{0}, {1}}}}}};
}

/// Runs what Choice says, for one second after the other.
class Machine {
 public:
  explicit Machine(std::size_t running = kSplit, std::vector<Candidate> known = candidates())
      : choice_(std::move(known), running) {}

  /// What a plan's thread gets of each CPU, as beside neighbours.
  std::vector<double> share{1, 1};
  /// What one gets that takes only what is left there.
  std::vector<double> idle{1, 1};
  double speed = 1;                       ///< Of the machine as a whole.
  std::vector<bool> allowed{true, true};  ///< CPUs: one that is not is in no look.
  bool full = true;
  /// By candidate: of the frames that its stages' times would let through.
  std::vector<double> worth{1, 1, 1, 1};

  std::set<std::size_t> cannot_start;  ///< Candidates,
  std::vector<double> refused;         ///< and when they were tried.

  [[nodiscard]] double rate(std::size_t plan) const {
    double period = 0;
    for (const auto& stage : choice_.candidates()[plan].stages) {
      double sum = 0;
      for (const auto& cpus : stage.places) sum += pace(cpus.front()) / stage.seconds;
      period = std::max(period, 1 / sum);
    }
    return worth[plan] / period;
  }

  /// \returns  the moves made meanwhile.
  std::vector<Move> pass(int seconds) {
    std::vector<Move> moves;
    for (int i = 0; i < seconds; ++i) {
      now_ += 1;
      if (const auto move = choice_.see(look())) {
        if (cannot_start.contains(move->to)) {
          refused.push_back(now_);
          choice_.refuse(move->to, now_);
          continue;
        }
        choice_.moved(*move, now_);
        moves.push_back(*move);
      }
    }
    return moves;
  }

  void take(std::size_t cpu, double left) {
    share[cpu] = left;
    idle[cpu] = 0;
  }
  void give_back(std::size_t cpu) { share[cpu] = idle[cpu] = 1; }

  [[nodiscard]] std::size_t running() const { return choice_.running(); }
  Choice& choice() { return choice_; }

 private:
  [[nodiscard]] double pace(int cpu) const { return speed * share[static_cast<std::size_t>(cpu)]; }
  [[nodiscard]] Look look() const {
    Look look{.at = now_, .frames_per_second = rate(running()), .full = full};
    for (std::size_t cpu = 0; cpu < 2; ++cpu) {
      if (allowed[cpu]) look.idle[static_cast<int>(cpu)] = idle[cpu];
    }
    for (const auto& stage : choice_.candidates()[running()].stages) {
      auto& seconds = look.seconds.emplace_back();
      for (const auto& cpus : stage.places) {
        seconds.push_back(stage.seconds / pace(cpus.front()));
        look.idle.erase(cpus.front());
      }
    }
    return look;
  }

  Choice choice_;
  double now_ = 0;
};

TEST(ChoiceTest, StaysWhereNothingChanges) {
  Machine machine;
  EXPECT_TRUE(machine.pass(100).empty());
}

TEST(ChoiceTest, StaysWhereTheWholeMachineBecomesSlower) {
  Machine machine;
  machine.pass(10);
  machine.speed = 0.5;
  EXPECT_TRUE(machine.pass(100).empty());
}

TEST(ChoiceTest, FollowsANeighbourThatComesAndGoes) {
  Machine machine;
  machine.pass(10);
  machine.take(1, 0.5);
  const auto moves = machine.pass(10);
  ASSERT_EQ(moves.size(), 1);
  EXPECT_EQ(moves[0].to, kEach) << "1.5 whole CPUs, which two stages cannot share";
  EXPECT_NEAR(moves[0].gain, 1.5, 0.01);
  EXPECT_TRUE(machine.pass(50).empty());
  machine.give_back(1);
  machine.pass(10);
  EXPECT_GE(machine.rate(machine.running()), 0.95 * machine.rate(kEach));
}

TEST(ChoiceTest, GoesBackForLittleOnceItLasts) {
  Machine machine;
  machine.worth[kEach] = 0.96;
  machine.pass(10);
  machine.take(1, 0.5);
  machine.pass(30);
  ASSERT_EQ(machine.running(), kEach);
  machine.give_back(1);
  EXPECT_EQ(machine.pass(25).size(), 1);
  EXPECT_EQ(machine.running(), kSplit);
  EXPECT_TRUE(machine.pass(300).empty());
}

TEST(ChoiceTest, StaysForLessThanItCanTell) {
  Machine machine;
  machine.worth[kEach] = 0.99;
  machine.pass(10);
  machine.take(1, 0.5);
  machine.pass(30);
  machine.give_back(1);
  EXPECT_TRUE(machine.pass(300).empty());
}

TEST(ChoiceTest, MovesForLittleLessAndLessOften) {
  Machine machine;
  machine.pass(10);
  machine.take(1, 0.5);
  machine.pass(10);
  ASSERT_EQ(machine.running(), kEach);
  machine.give_back(1);
  std::vector<int> moves;
  for (int minute = 0; minute < 20; ++minute) {
    auto& count = moves.emplace_back();
    for (int i = 0; i < 60; ++i) {
      // Whatever runs is soon worth less than the other was.
      machine.worth = {1, 1, 1, 1};
      machine.worth[machine.running()] = 0.96;
      count += static_cast<int>(machine.pass(1).size());
    }
  }
  EXPECT_GE(moves[0] + moves[1], 1);
  EXPECT_LE(std::accumulate(moves.begin() + 10, moves.end(), 0), 2);
}

TEST(ChoiceTest, LeavesACpuThatIsTakenAndComesBack) {
  auto known = candidates();
  known.pop_back();  // As with states: one instance.
  Machine machine(kSplit, known);
  machine.pass(10);
  machine.take(1, 0.05);
  auto moves = machine.pass(10);
  ASSERT_EQ(moves.size(), 1);
  EXPECT_EQ(moves[0].to, kFirst);
  machine.give_back(1);
  moves = machine.pass(10);
  ASSERT_EQ(moves.size(), 1);
  EXPECT_EQ(moves[0].to, kSplit);
  EXPECT_NEAR(moves[0].gain, 2, 0.01);
}

TEST(ChoiceTest, GoesBackFromAWrongGuessAndTriesLessAndLessOften) {
  auto known = candidates();
  known.pop_back();
  Machine machine(kFirst, known);
  machine.take(1, 0.05);
  // Two stages gain nothing beside one CPU and half of another, but three parts of four do.
  machine.choice() = Choice({{"whole on cpu:0", {{kWhole, {{0}}}}},
                             {"uneven", {{kWhole * 0.6, {{0}}}, {kWhole * 0.4, {{1}}}}}},
                            0);
  std::vector<int> tries;
  for (int minute = 0; minute < 10; ++minute) {
    const auto moves = machine.pass(60);
    tries.push_back(static_cast<int>(std::ranges::count(moves, false, &Move::back)));
    for (std::size_t i = 1; i < moves.size(); ++i) {
      EXPECT_NE(moves[i].back, moves[i - 1].back) << "each try is taken back";
    }
  }
  EXPECT_GE(tries[0], 1);
  EXPECT_LE(tries[0], 2);
  EXPECT_LE(std::accumulate(tries.begin() + 3, tries.end(), 0), 2);
  EXPECT_EQ(machine.running(), 0);
}

TEST(ChoiceTest, TriesAtOnceWhereTheCpuIsIdle) {
  Machine machine;
  machine.choice() = Choice({{"whole on cpu:0", {{kWhole, {{0}}}}},
                             {"uneven", {{kWhole * 0.6, {{0}}}, {kWhole * 0.4, {{1}}}}}},
                            0);
  machine.take(1, 0.05);
  machine.pass(20);
  ASSERT_EQ(machine.running(), 0);
  machine.give_back(1);
  const auto moves = machine.pass(10);
  ASSERT_EQ(moves.size(), 1) << "a guess that was wrong does not bar what is known";
  EXPECT_EQ(moves[0].to, 1);
}

TEST(ChoiceTest, LearnsWhatAPlanIsWorth) {
  Machine machine(kFirst);
  machine.worth[kEach] = 0.45;  // As where memory limits both: less than one alone.
  machine.worth[kSplit] = 0.45;
  int tries = 0;
  for (const auto& move : machine.pass(300)) tries += move.back ? 0 : 1;
  EXPECT_LE(tries, 2) << "each of the two that should be better, once";
  EXPECT_EQ(machine.running(), kFirst);
}

TEST(ChoiceTest, TriesOnceWhatForetellsWonders) {
  auto known = candidates();
  for (auto& stage : known[kEach].stages) stage.seconds /= 1000;
  Machine machine(kSplit, known);
  machine.worth[kEach] = 1.0 / 4000;
  const auto moves = machine.pass(600);
  ASSERT_EQ(moves.size(), 2);
  EXPECT_EQ(moves[0].to, kEach);
  EXPECT_TRUE(moves[1].back);
  EXPECT_EQ(machine.running(), kSplit);
}

TEST(ChoiceTest, StaysWhereThePipelineWaitsForFrames) {
  Machine machine;
  machine.full = false;
  machine.take(1, 0.3);
  EXPECT_TRUE(machine.pass(30).empty());
}

TEST(ChoiceTest, StaysWhereANeighbourComesForAMomentOnly) {
  Machine machine;
  machine.pass(10);
  for (int i = 0; i < 20; ++i) {
    machine.take(1, 0.5);
    EXPECT_TRUE(machine.pass(2).empty());
    machine.give_back(1);
    EXPECT_TRUE(machine.pass(1).empty());
  }
}

TEST(ChoiceTest, TriesWhatWasRefusedLessAndLessOften) {
  Machine machine;
  machine.cannot_start = {kEach};
  machine.worth[kSplit] = 0.5;
  machine.take(1, 0.6);
  machine.choice() = Choice({candidates()[kSplit], candidates()[kEach]}, 0);
  machine.cannot_start = {1};
  machine.pass(2000);
  ASSERT_GE(machine.refused.size(), 6U);
  std::vector<double> pauses;
  for (std::size_t i = 1; i < machine.refused.size(); ++i) {
    pauses.push_back(machine.refused[i] - machine.refused[i - 1]);
  }
  EXPECT_GE(pauses.front(), 30);
  EXPECT_LE(pauses.front(), 35);
  for (std::size_t i = 1; i < pauses.size(); ++i) EXPECT_GE(pauses[i] + 5, pauses[i - 1]);
  EXPECT_GE(pauses.back(), 480);
  machine.cannot_start.clear();
  machine.pass(490);
  EXPECT_EQ(machine.running(), 1U) << "what could not start once may start now";
}

TEST(ChoiceTest, OfTheOthersTheBestIsTakenWhereOneWasRefused) {
  Machine machine;
  machine.cannot_start = {kEach};
  machine.take(1, 0.2);
  const auto moves = machine.pass(10);
  ASSERT_EQ(moves.size(), 1);
  EXPECT_EQ(moves[0].to, kFirst);
  EXPECT_EQ(machine.refused.size(), 1U);
}

TEST(ChoiceTest, ProposesNothingOnACpuThatIsNotAllowedUntilItIs) {
  Machine machine(kFirst);
  machine.allowed[1] = false;
  EXPECT_TRUE(machine.pass(100).empty());
  machine.allowed[1] = true;
  const auto moves = machine.pass(10);
  ASSERT_FALSE(moves.empty());
  EXPECT_NE(machine.running(), kFirst);
}

}  // namespace
}  // namespace penstock::follow
