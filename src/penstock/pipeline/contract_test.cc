// Random pipelines against the contract: order, exactly once, the right error, the right state.
//
// PENSTOCK_CONTRACT_PLANS: how many, instead of the sweep; PENSTOCK_CONTRACT_SEED: from which on.
// PENSTOCK_CONTRACT_AT_ONCE: how many run at a time, else as many as there are CPUs.
//
// What was wrong once has a case below, or one elsewhere where no plan of these shows it:
// - an input that passes through: AnInputThatPassesThroughIsNotOverwritten
// - run() of several threads: ThreadsThatRunFramesAtOnceGetEachItsOwn
// - drain() where edges drop: DrainDoesNotWaitForResultsThatNobodyPops
// - an acquired input: AnAcquiredInputIsAtItsBoundAndBlocksNobody; who waits for one:
//   PipelineTest.APusherThatWaitsForItsTurnWakesAtCloseAndAtCancel
// - outputs that are not as declared: WhatIsPutInAnOutputsPlaceConcernsItsFrameOnly
// - a thread that is refused: HoldsForRandomPlans, by StartFault::kThread
// - a call that hangs: HoldsWhereACallHangsAsAnotherPlanTakesTheFrames,
//   HoldsWhereACallHangsBesideStagesElsewhere; left_behind_test.cc
// - memory that runs out: PipelineTest.RunningOutOfMemoryIsAnError
// - a result that is held: PipelineTest.AResultThatIsHeldKeepsItsValuesAndNothingOfTheStages
// - parameters: ParametersTest.ValuesThatNoFrameReadsAreFreedWhileAReplicaIdles
// - states that wait for several frames:
//   CapacityTest.StagesWaitForOneFrameAtATimeWhereAStateCrossesOrAnEdgeDrops
// - items that share a byte: Items.ThatDoNotBeginAtWholeBytesAreRefused
// - thousands of pipelines, stages and frames: scale_test.cc
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/contract_case.h"
#include "tests/support/contract_judge.h"
#include "tests/support/sample.h"

namespace penstock::contract {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool kSlow = true;
#else
constexpr bool kSlow = false;
#endif

/// Whether start() must be refused, and with which words.
std::string refusal(const Case& given) {
  const auto& stage = given.stages[at(given.start_fault_stage)];
  const bool last = at(given.start_fault_stage) + 1 == given.stages.size() && stage.replicas == 1;
  const auto blamed = concat("stage 's", given.start_fault_stage, "'");
  switch (given.start_fault) {
    case StartFault::kNone:
      return "";
    case StartFault::kCompile:
      return stage.function ? "" : blamed + ": planted";
    case StartFault::kCompileThrows:
      return stage.function ? "" : blamed + ": out of memory";
    case StartFault::kThread:
      if (given.start_fault_stage > 0 && (stage.function || last)) return "";
      return "no thread could be started";
    case StartFault::kMemory:
      return "the edges may take ";
  }
  return "";
}

/// Everything that is wrong with a case; nothing where it keeps the contract.
std::vector<std::string> run_case(const Case& given) {
  auto plant = std::make_shared<Plant>(given);
  Seen seen;
  const auto refused = refusal(given);
  auto started = plant->start();
  if (!started) {
    if (!refused.empty() && contains(started.error().message(), refused)) return {};
    return {"not started: " + started.error().message()};
  }
  if (!refused.empty()) return {"started, expected: " + refused};
  auto running = *std::move(started);
  Caller caller(given, *plant, *running, seen);
  caller.run();
  running.reset();
  caller.release_all();
  seen.hung = plant->release();
  if (seen.hung > 0) {  // A thread that was left behind may be on its way out of here.
    static std::mutex mutex;
    static auto* kept = new std::vector<std::shared_ptr<Plant>>;
    const std::scoped_lock lock(mutex);
    kept->push_back(plant);
  }
  auto wrong = seen.wrong;
  std::ranges::copy(plant->complaints(), std::back_inserter(wrong));
  std::ranges::copy(Judge(given, *plant, seen).run(), std::back_inserter(wrong));
  return wrong;
}

void remove_last_stage(Case& c) {
  const int first = c.first_written(static_cast<int>(c.stages.size()) - 1);
  c.stages.pop_back();
  c.tensors.resize(at(first));
  std::erase_if(c.outputs, [&](int t) { return t >= first; });
  if (std::ranges::any_of(c.states, [&](int t) { return t >= first; })) c.states.clear();
  for (auto& stage : c.stages) {
    if (c.states.empty()) stage.states.clear();
  }
  for (std::size_t i = 0; i < c.states.size(); ++i) {  // A state that nobody reads is none.
    const auto reads = [&](const StageCase& s) {
      return std::ranges::find(s.states, static_cast<int>(i)) != s.states.end();
    };
    if (std::ranges::none_of(c.stages, reads))
      c.stages.front().states.push_back(static_cast<int>(i));
  }
  if (c.outputs.empty()) c.outputs.push_back(first - 1);
}

constexpr void (*kSimplerCases[])(Case&) = {
    [](Case& c) { c.frames = (c.frames + 1) / 2; },
    [](Case& c) { c.frames -= c.frames > 1 ? 1 : 0; },
    [](Case& c) {
      if (!c.runs) c.pushers = c.poppers = 0;
    },
    [](Case& c) { c.nags = false; },
    [](Case& c) { c.hold = 0; },
    [](Case& c) { c.borrow = false; },
    [](Case& c) { c.poppers = 0; },
    [](Case& c) {
      c.end_at = 1 << 20;
      c.meddles = false;
    },
    [](Case& c) { c.max_age_us = 0; },
    [](Case& c) { c.past = 0; },
    [](Case& c) { c.cancels = false; },
    [](Case& c) { c.called = 0; },
    [](Case& c) { c.swap_at = -1; },
    [](Case& c) { c.bad_swap_at = -1; },
    [](Case& c) { c.drain_at = -1; },
    [](Case& c) { c.max_held = 1; },
    [](Case& c) { c.stop_at_error = false; },
    [](Case& c) { c.pops = Pops::kAtOnce; },
    [](Case& c) { c.in_flight = 0; },
    [](Case& c) { c.streams = c.most_streams = 1; },
    [](Case& c) { c.most_streams = c.streams; },
    [](Case& c) {
      c.states.clear();
      for (auto& stage : c.stages) stage.states.clear();
    },
};

constexpr void (*kSimplerStages[])(StageCase&) = {
    [](StageCase& s) { s.fault = Fault::kNone; },
    [](StageCase& s) { s.accelerators = 0; },
    [](StageCase& s) { s.far = false; },
    [](StageCase& s) { s.replicas = s.accelerators == 3 ? 2 : 1; },
    [](StageCase& s) { s.parameter = false; },
    [](StageCase& s) { s.stateful = false; },
    [](StageCase& s) { s.in_two = false; },
    [](StageCase& s) { s.together = 1; },
    [](StageCase& s) { s.lanes = 0; },
    [](StageCase& s) {
      if (s.reads.size() > 1 && !s.each) s.reads.pop_back();
    },
};

std::vector<Case> simpler(const Case& given) {
  std::vector<Case> list;
  const auto with = [&](const auto& change) {
    Case made = given;
    change(made);
    keep_states_together(made);
    if (describe(made) != describe(given)) list.push_back(std::move(made));
  };
  if (given.stages.size() > 1) with(remove_last_stage);
  for (const auto change : kSimplerCases) with(change);
  for (std::size_t i = 0; i < given.outputs.size() && given.outputs.size() > 1; ++i) {
    with([i](Case& c) { c.outputs.erase(c.outputs.begin() + static_cast<std::ptrdiff_t>(i)); });
  }
  for (std::size_t i = 0; i < given.edges.size(); ++i) {
    with([i](Case& c) { c.edges[i] = EdgeCase(); });
  }
  for (std::size_t i = 0; i < given.stages.size(); ++i) {
    for (const auto change : kSimplerStages) with([&](Case& c) { change(c.stages[i]); });
  }
  return list;
}

/// Races may need many tries.
std::vector<std::string> run_often(const Case& given, int tries) {
  for (int i = 0; i < tries; ++i) {
    if (auto wrong = run_case(given); !wrong.empty()) return wrong;
  }
  return {};
}

/// What is left of a case may be no plan any more, which is refused rightly.
bool is_no_plan(const std::vector<std::string>& wrong) {
  return std::ranges::any_of(
      wrong, [](const auto& line) { return line.starts_with("not started: plan: "); });
}

/// Ends some time, since a standstill takes long to be seen.
std::string shrink(Case failing, std::vector<std::string> wrong) {
  constexpr int kTries = 30;
  const auto enough = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  bool simplified = true;
  while (simplified) {
    simplified = false;
    for (auto& candidate : simpler(failing)) {
      if (std::chrono::steady_clock::now() > enough) break;
      auto still = run_often(candidate, kTries);
      if (still.empty() || is_no_plan(still)) continue;
      failing = std::move(candidate);
      wrong = std::move(still);
      simplified = true;
      break;
    }
  }
  return describe(failing) + "\n  " + join(wrong, "\n  ", [](const auto& line) { return line; });
}

bool keeps_contract(const Case& given) {
  std::shared_lock others(thread_limit(), std::defer_lock);
  std::unique_lock alone(thread_limit(), std::defer_lock);
  given.start_fault == StartFault::kThread ? alone.lock() : others.lock();
  const auto wrong = run_case(given);
  if (wrong.empty()) return true;
  ADD_FAILURE() << describe(given) << "\n  "
                << join(wrong, "\n  ", [](const auto& line) { return line; });
  std::cerr << "The simplest case found that fails too: " << shrink(given, wrong) << "\n";
  return false;
}

std::optional<std::uint64_t> number_from(const char* variable) {
  const char* text = std::getenv(variable);
  std::uint64_t number = 0;
  if (text == nullptr) return std::nullopt;
  const std::string_view digits(text);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    ADD_FAILURE() << variable << ": expected a number, found '" << text << "'";
  }
  return number;
}

/// `count` plans, told by their place among them, several at once.
void run_plans(std::uint64_t count, const std::function<Case(std::uint64_t)>& case_at) {
  std::atomic<std::uint64_t> next{0};
  std::atomic<bool> failed{false};
  std::vector<std::thread> runners;
  const auto at_once =
      number_from("PENSTOCK_CONTRACT_AT_ONCE").value_or(std::thread::hardware_concurrency());
  for (std::uint64_t i = 0; i < std::max<std::uint64_t>(1, at_once); ++i) {
    runners.emplace_back([&] {
      for (auto place = next++; place < count && !failed; place = next++) {
        const auto given = case_at(place);
        if (keeps_contract(given)) continue;
        failed = true;
        ADD_FAILURE() << "again: PENSTOCK_CONTRACT_PLANS=1 PENSTOCK_CONTRACT_SEED=" << given.seed;
      }
    });
  }
  for (auto& runner : runners) runner.join();
}

// A sample takes blocks of plans.
TEST(Contract, HoldsForRandomPlans) {
  constexpr std::uint64_t kBlock = 100, kBlocks = 200;
  if (const auto plans = number_from("PENSTOCK_CONTRACT_PLANS")) {
    const auto first = number_from("PENSTOCK_CONTRACT_SEED").value_or(0);
    return run_plans(*plans, [&](std::uint64_t place) { return make_case(first + place); });
  }
  const auto blocks = sampled(kSlow ? kBlocks / 8 : kBlocks);
  run_plans(blocks.size() * kBlock, [&](std::uint64_t place) {
    return make_case(blocks[place / kBlock] * kBlock + place % kBlock);
  });
}

/// `count` plans that are rare among all: those that `choose` takes, which may change them.
void run_rare_plans(std::uint64_t count, const std::function<bool(Case&)>& choose) {
  count = number_from("PENSTOCK_CONTRACT_PLANS").value_or(count);
  std::vector<Case> chosen;
  for (auto seed = number_from("PENSTOCK_CONTRACT_SEED").value_or(0); chosen.size() < count;
       ++seed) {
    auto made = make_case(seed);
    if (choose(made)) chosen.push_back(std::move(made));
  }
  run_plans(count, [&](std::uint64_t place) { return chosen[place]; });
}

// A peer is lost while an error, or the caller, ends the pipeline.
TEST(Contract, HoldsWhereAPeerIsLostAsThePipelineEnds) {
  run_rare_plans(kSlow ? 20 : 200, [](Case& made) {
    const bool ends = made.stop_at_error || made.end != End::kClose;
    return ends && std::ranges::any_of(made.stages, &StageCase::far);
  });
}

bool is_elsewhere(const StageCase& stage) {
  return stage.far || stage.accelerators > 0;
}

// A call hangs before another plan takes the frames, or meanwhile, or in the other plan.
TEST(Contract, HoldsWhereACallHangsAsAnotherPlanTakesTheFrames) {
  run_rare_plans(kSlow ? 10 : 100, [](Case& made) {
    if (made.swap_at < 0 || std::ranges::any_of(made.stages, is_elsewhere)) return false;
    Dice dice(made.seed ^ 0x4a96U);
    plant_hang(made, dice);
    return made.has(Fault::kHang);
  });
}

// A call hangs here, before, behind or beside stages on devices and at peers that come and go.
TEST(Contract, HoldsWhereACallHangsBesideStagesElsewhere) {
  run_rare_plans(kSlow ? 10 : 100, [](Case& made) {
    if (made.runs || std::ranges::none_of(made.stages, is_elsewhere)) return false;
    Dice dice(made.seed ^ 0x4a97U);
    plant_hang(made, dice);
    return std::ranges::any_of(made.stages, [](const StageCase& stage) {
      return stage.fault == Fault::kHang && !is_elsewhere(stage);
    });
  });
}

// What a plan has with devices and peers that come and go ends beside another plan's.
TEST(Contract, HoldsWhereAPlanElsewhereTakesTheFramesOfAnother) {
  run_rare_plans(kSlow ? 10 : 100, [](Case& made) {
    return made.swap_at >= 0 && std::ranges::any_of(made.stages, is_elsewhere);
  });
}

StageCase stage_of(std::vector<int> reads, Fault fault = Fault::kNone, std::size_t every = 1) {
  StageCase stage;
  stage.reads = std::move(reads);
  stage.fault = fault;
  stage.every = every;
  return stage;
}

Case case_of(std::vector<StageCase> stages, std::vector<int> outputs) {
  Case made;
  made.tensors = {{-1, false}};
  for (int s = 0; s < std::ssize(stages); ++s) made.tensors.push_back({s, false});
  made.stages = std::move(stages);
  made.outputs = std::move(outputs);
  made.edges = {{4, plan::FullPolicy::kBlock}};
  made.frames = 20;
  made.pops = Pops::kWhenFull;
  return made;
}

TEST(Contract, AnInputThatPassesThroughIsNotOverwritten) {
  auto given = case_of({stage_of({0}), stage_of({1})}, {0, 2});
  given.edges = {
      {4, plan::FullPolicy::kBlock}, {1, plan::FullPolicy::kLatest}, {4, plan::FullPolicy::kBlock}};
  EXPECT_TRUE(keeps_contract(given));
}

TEST(Contract, ThreadsThatRunFramesAtOnceGetEachItsOwn) {
  auto given = case_of({stage_of({0})}, {1});
  given.runs = true;
  given.pushers = 3;
  given.frames = 300;
  EXPECT_TRUE(keeps_contract(given));
}

TEST(Contract, DrainDoesNotWaitForResultsThatNobodyPops) {
  auto given = case_of({stage_of({0}), stage_of({1})}, {2});
  given.edges = {EdgeCase(), {4, plan::FullPolicy::kDropOldest}, EdgeCase()};
  given.in_flight = 32;  // More than the edges hold.
  given.drain_at = 16;
  EXPECT_TRUE(keeps_contract(given));
}

// However short the list was that the slot had before, and though some slots are given back.
TEST(Contract, AnAcquiredInputIsAtItsBoundAndBlocksNobody) {
  auto given = case_of({stage_of({0})}, {1});
  given.tensors[0].items = true;
  given.edges[0].capacity = 1;
  given.borrow = given.nags = true;
  given.pops = Pops::kAtOnce;
  EXPECT_TRUE(keeps_contract(given));
}

TEST(Contract, AStateDoesNotTellWhichBranchWasFaster) {
  auto given = case_of({stage_of({0}, Fault::kError, 2), stage_of({0})}, {1, 2});
  given.stages[1].states = {0};
  given.states = {2};
  for (given.seed = 0; given.seed < 20; ++given.seed) ASSERT_TRUE(keeps_contract(given));
}

TEST(Contract, WhatIsPutInAnOutputsPlaceConcernsItsFrameOnly) {
  for (const auto fault :
       {Fault::kWrongShape, Fault::kWrongRank, Fault::kWrongType, Fault::kSpoil}) {
    for (const bool function : {false, true}) {
      auto given = case_of({stage_of({0}, fault, 2)}, {1});
      given.stages[0].function = function;
      EXPECT_TRUE(keeps_contract(given));
    }
  }
}

// Though it stays with a peer, where nobody here sees it.
TEST(Contract, WhatAPeerMakesInAnOutputsPlaceConcernsItsFrameOnly) {
  for (const auto fault :
       {Fault::kWrongShape, Fault::kWrongRank, Fault::kWrongType, Fault::kSpoil}) {
    auto given = case_of({stage_of({0}, fault, 2), stage_of({1})}, {2});
    for (auto& stage : given.stages) stage.far = true;
    given.direct = true;
    EXPECT_TRUE(keeps_contract(given));
  }
}

// A reader that takes several frames in a call wants them behind each other; a peer's tensors are
// handles, which have no parts.
TEST(Contract, WhatAPeerMadeIsReadByAStageThatTakesSeveralFrames) {
  for (const bool outputs_too : {false, true}) {
    auto given = case_of({stage_of({0}), stage_of({1}), stage_of({1})}, {2, 3});
    given.stages[0].far = given.stages[1].far = true;
    given.stages[2].together = 3;
    if (outputs_too) given.outputs = {1, 2, 3};
    given.direct = true;
    EXPECT_TRUE(keeps_contract(given));
  }
}

// Of a reader with a replica for each stream no frame comes back to read what was lost once more.
TEST(Contract, NothingIsLostOfWhatAReaderWithAReplicaForEachStreamReads) {
  auto given = case_of({stage_of({0}), stage_of({1}), stage_of({2, 1})}, {3});
  given.stages[0].far = given.stages[1].far = true;
  given.stages[2].states = {0};
  given.stages[2].replicas = 2;
  given.states = {3};
  given.direct = true;
  given.streams = given.most_streams = 3;
  for (given.seed = 0; given.seed < 20; ++given.seed) ASSERT_TRUE(keeps_contract(given));
}

// A peer reads a device's tensors by way of the host, also where nothing may be lost with the peer.
TEST(Contract, WhatADeviceMadeIsReadByAPeerBesideAReaderWithAReplicaForEachStream) {
  auto given = case_of({stage_of({0}), stage_of({1}), stage_of({1, 2})}, {2, 3});
  given.stages[0].accelerators = 1;
  given.stages[1].states = {0};
  given.stages[1].replicas = 2;
  given.stages[2].far = true;
  given.states = {2};
  given.direct = true;
  given.streams = given.most_streams = 3;
  for (given.seed = 0; given.seed < 20; ++given.seed) ASSERT_TRUE(keeps_contract(given));
}

}  // namespace
}  // namespace penstock::contract
