// What is measured, kept and recorded as failed, by synthetic backends that refuse, crash or hang.
#include "penstock/cost/profiler.h"

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/cost/boundary.h"
#include "penstock/cost/part_keys.h"
#include "penstock/cost/worker.h"
#include "penstock/graph/test_support.h"
#include "tests/support/temporary_folder.h"

namespace penstock::cost {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::Subgraph;
using ::testing::HasSubstr;

/// Longer than a part takes, where a sanitizer slows it and others compute too.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kSilence = 8;
constexpr const char* kNotEnded = " did not end within 8 s";
#else
constexpr int kSilence = 2;
constexpr const char* kNotEnded = " did not end within 2 s";
#endif

/// x [8] -> Relu -> a -> Abs -> b -> Neg -> c -> Tanh -> y.
Graph four_nodes() {
  return graph::import_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[8] x) => (float[8] y) {
      a = Relu(x)
      b = Abs(a)
      c = Neg(b)
      y = Tanh(c)
    })");
}

/// Over the synthetic backends of tests/: their settings say what they take, and how they fail.
class ProfilerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("PENSTOCK_PLUGIN_PATH", PENSTOCK_SYNTHETIC_BACKENDS, 1);
    ::setenv("PENSTOCK_SYNTHETIC", (folder_.path() / "settings.json").c_str(), 1);
    set("");
    options_.min_seconds = 0.001;
    options_.seconds_per_part = 0.02;
    options_.silence_seconds = 20;
  }

  /// What synthetic_a does from now on, in processes started from now on.
  void set(const std::string& settings) {
    std::ofstream(folder_.path() / "settings.json")
        << R"({"synthetic_a": {"log": ")" << log().string() << "\""
        << (settings.empty() ? "" : ", ") << settings << "}}";
    backends_ = backend::Registry::load();
    const auto found = backends_.find("synthetic_a");
    ASSERT_TRUE(found) << found.error().message();
    ASSERT_EQ((*found)->describe().unavailable, "");
  }
  void set_fault(const std::string& fault) { set(R"("faults": [{)" + fault + "}]"); }

  std::filesystem::path log() const { return folder_.path() / "log"; }
  /// Times that a model was compiled by any process so far.
  int compiled() const {
    std::ifstream file(log());
    int count = 0;
    for (std::string line; std::getline(file, line);) {
      count += line.starts_with("synthetic_a compile") ? 1 : 0;
    }
    return count;
  }

  Part part(std::vector<NodeId> nodes) const {
    Part part;
    PartModel model;
    model.name = "part";
    auto subgraph = Subgraph::create(graph_, nodes);
    EXPECT_TRUE(subgraph);
    model.subgraph = *std::move(subgraph);
    model.backend = "synthetic_a";
    part.models.push_back(std::move(model));
    part.device.cpus = {device::inherited_cpus().front()};
    return part;
  }
  Part first() const { return part({NodeId{0}}); }
  /// Another instance runs beside it, on another CPU where there is one.
  Part crowded() const {
    auto part = first();
    part.neighbours.emplace_back().cpus = {device::inherited_cpus().back()};
    return part;
  }

  std::unique_ptr<Profiler> start() {
    auto profiler = Profiler::start(backends_, &database_, options_);
    if (!profiler) throw std::runtime_error(profiler.error().message());
    return *std::move(profiler);
  }

  std::vector<std::optional<Cost>> measure(Profiler& profiler, const std::vector<Part>& parts) {
    auto costs = profiler.measure(parts);
    if (!costs) throw std::runtime_error(costs.error().message());
    return *std::move(costs);
  }

  /// With a connection of its own: one may not be carried across a fork.
  [[noreturn]] void measure_in_child(const std::vector<Part>& parts) {
    auto database = Database::open(folder_.path() / "costs.db");
    auto profiler = Profiler::start(backends_, &*database, options_);
    std::_Exit((*profiler)->measure(parts) ? 0 : 1);
  }

  /// What the Relu ends with in a process of its own.
  Failure failure_of(const std::string& fault) {
    set_fault(fault);
    EXPECT_TRUE(database_.forget({}));
    const auto costs = measure(*start(), {first()});
    if (costs[0] && costs[0]->failure) return *costs[0]->failure;
    ADD_FAILURE() << "expected a failure";
    return {};
  }

  Graph graph_ = four_nodes();
  TemporaryFolder folder_;
  backend::Registry backends_;
  Database database_ = *Database::open(folder_.path() / "costs.db");
  Profiler::Options options_;
};

TEST_F(ProfilerTest, MeasuresAPartAndKnowsItFromThenOn) {
  set(R"("seconds": {"Relu": 0.001})");
  const std::vector<Part> parts = {first()};
  const auto costs = measure(*start(), parts);
  ASSERT_TRUE(costs[0]);
  EXPECT_FALSE(costs[0]->failure) << costs[0]->failure->message;
  EXPECT_GE(costs[0]->seconds, 0.0002);  // Of a millisecond.
  EXPECT_LE(costs[0]->low, costs[0]->seconds);
  EXPECT_GE(costs[0]->high, costs[0]->seconds);
  EXPECT_GT(costs[0]->runs, 0);
  const int before = compiled();
  const auto again = start();
  EXPECT_EQ(measure(*again, parts), costs);
  EXPECT_EQ(again->measured(), 0);
  EXPECT_EQ(compiled(), before);
}

TEST_F(ProfilerTest, PartsAlikeAtDifferentPlacesAreMeasuredOnce) {
  graph_ = graph::import_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[8] x) => (float[8] y) {
      a = Relu(x)
      b = Abs(a)
      y = Relu(b)
    })");
  const auto profiler = start();
  const auto costs = measure(*profiler, {first(), part({NodeId{1}}), part({NodeId{2}})});
  EXPECT_EQ(profiler->measured(), 2);
  EXPECT_EQ(costs[0], costs[2]);
}

TEST_F(ProfilerTest, LayersThatDifferInTheirWeightsShareACost) {
  graph_ = graph::import_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,8] x) => (float[1,8] y)
    <float[8,8] a = {1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8,
                     1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8},
     float[8,8] b = {2,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8,
                     1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8}> {
      h = MatMul(x, a)
      y = MatMul(h, b)
    })");
  const auto profiler = start();
  const auto costs = measure(*profiler, {first(), part({NodeId{1}})});
  EXPECT_EQ(profiler->measured(), 1);
  EXPECT_EQ(costs[0], costs[1]);
}

TEST_F(ProfilerTest, AnotherEngineVersionOptionOrModeIsMeasuredAnew) {
  measure(*start(), {first()});
  auto flushed = first();
  flushed.flush_denormals = true;
  auto other = first();
  other.models[0].options["level"] = "3";
  const auto profiler = start();
  measure(*profiler, {other, flushed, first()});
  EXPECT_EQ(profiler->measured(), 2);
  set(R"("version": "2.0")");
  const auto newer = start();
  measure(*newer, {first()});
  EXPECT_EQ(newer->measured(), 1);
}

TEST_F(ProfilerTest, ACrashIsARecordedFailure) {
  const auto compiling = failure_of(R"("do": "crash", "on": "Relu", "when": "compile")");
  EXPECT_EQ(compiling.kind, FailureKind::kCrash);
  EXPECT_THAT(compiling.message, HasSubstr("while it compiled"));
  const auto running = failure_of(R"("do": "abort", "on": "Relu")");
  EXPECT_EQ(running.kind, FailureKind::kCrash);
  EXPECT_THAT(running.message, HasSubstr("killed by SIGABRT while it ran"));
  const auto left = failure_of(R"("do": "exit", "on": "Relu")");
  EXPECT_EQ(left.kind, FailureKind::kCrash);
  EXPECT_THAT(left.message, HasSubstr("exit code 3"));
}

TEST_F(ProfilerTest, ARefusalAndAnErrorAreRecordedFailures) {
  const auto refused = failure_of(R"("do": "refuse", "on": "Relu")");
  EXPECT_EQ(refused, (Failure{FailureKind::kCompile, "operator Relu is not implemented"}));
  const auto failed = failure_of(R"("do": "refuse", "on": "Relu", "when": "run")");
  EXPECT_EQ(failed.kind, FailureKind::kRun);
  EXPECT_THAT(failed.message, HasSubstr("operator Relu is not implemented"));
}

TEST_F(ProfilerTest, AHangIsARecordedFailure) {
  options_.silence_seconds = kSilence;
  const auto compiling = failure_of(R"("do": "hang", "on": "Relu", "when": "compile")");
  EXPECT_EQ(compiling, (Failure{FailureKind::kHang, concat("compiling", kNotEnded)}));
  const auto running = failure_of(R"("do": "hang", "on": "Relu")");
  EXPECT_EQ(running, (Failure{FailureKind::kHang, concat("a run", kNotEnded)}));
}

TEST_F(ProfilerTest, WhatIsAHangMayBeChangedBetweenCalls) {
  set(R"("faults": [{"do": "hang", "on": "Abs", "when": "compile"}])");
  options_.silence_seconds = 3 * kSilence;
  const auto profiler = start();
  EXPECT_FALSE(measure(*profiler, {first()})[0]->failure);
  profiler->options().silence_seconds = kSilence;
  EXPECT_EQ(measure(*profiler, {part({NodeId{1}})})[0]->failure,
            (Failure{FailureKind::kHang, concat("compiling", kNotEnded)}));
}

TEST_F(ProfilerTest, WantOfMemoryIsARecordedFailure) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "under a sanitizer memory is not bounded";
#else
  options_.memory_bytes = 512U << 20U;
  options_.silence_seconds = 60;
  EXPECT_EQ(failure_of(R"("do": "eat_memory", "on": "Relu", "when": "compile")").kind,
            FailureKind::kOutOfMemory);
  EXPECT_EQ(failure_of(R"("do": "eat_memory", "on": "Relu")").kind, FailureKind::kOutOfMemory);
  // With more memory it may do.
  set("");
  EXPECT_EQ(measure(*start(), {first()})[0]->failure->kind, FailureKind::kOutOfMemory);
  options_.memory_bytes *= 2;
  EXPECT_FALSE(measure(*start(), {first()})[0]->failure);
#endif
}

TEST_F(ProfilerTest, TheMeasuringProcessMayTakeNoMoreThanIsLeft) {
  const auto real = find_measure_program();
  ASSERT_TRUE(real) << real.error().message();
  const auto program = folder_.path() / "penstock-measure";
  const auto told = folder_.path() / "bytes";
  std::ofstream(program) << "#!/bin/sh\necho $1 > " << told << "\nexec " << *real << " $1\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  ::setenv("PENSTOCK_MEASURE", program.c_str(), 1);
  for (const std::uint64_t asked : {std::uint64_t{64} << 20U, std::uint64_t{1} << 60U}) {
    options_.memory_bytes = asked;
    EXPECT_TRUE(database_.forget({}));
    EXPECT_TRUE(measure(*start(), {first()})[0]);
    std::uint64_t bytes = 0;
    std::ifstream(told) >> bytes;
    EXPECT_GT(bytes, 0U);
    EXPECT_LE(bytes, std::min(asked, std::uint64_t{1} << 50U));
  }
  ::unsetenv("PENSTOCK_MEASURE");
}

TEST_F(ProfilerTest, TheOtherPartsGoOnAfterFailures) {
  options_.silence_seconds = kSilence;
  set(R"("faults": [{"do": "crash", "on": "Abs"},
                    {"do": "hang", "on": "Neg", "when": "compile"}])");
  const std::vector<Part> parts = {first(), part({NodeId{1}}), part({NodeId{2}}), part({NodeId{3}}),
                                   part({NodeId{0}, NodeId{1}})};
  const auto costs = measure(*start(), parts);
  for (const std::size_t good : {0U, 3U}) EXPECT_FALSE(costs[good]->failure);
  EXPECT_EQ(costs[1]->failure->kind, FailureKind::kCrash);
  EXPECT_EQ(costs[2]->failure->kind, FailureKind::kHang);
  EXPECT_EQ(costs[4]->failure->kind, FailureKind::kCrash);
  const auto again = start();
  EXPECT_EQ(measure(*again, parts), costs);
  EXPECT_EQ(again->measured(), 0);
  // What only took too long may end where it is given longer.
  set("");
  options_.silence_seconds = 20;
  const auto longer = start();
  const auto now = measure(*longer, parts);
  EXPECT_FALSE(now[2]->failure);
  EXPECT_EQ(now[4]->failure->kind, FailureKind::kCrash);
  EXPECT_EQ(longer->measured(), 1);
}

TEST_F(ProfilerTest, AnAbsentBackendIsAFailureThatIsNotKept) {
  auto absent = first();
  absent.models[0].backend = "absent";
  const auto profiler = start();
  const auto cost = measure(*profiler, {absent})[0];
  ASSERT_TRUE(cost && cost->failure);
  EXPECT_THAT(cost->failure->message, HasSubstr("backend 'absent': there is none"));
  EXPECT_FALSE(*profiler->find(absent));
}

TEST_F(ProfilerTest, KeepsToItsCountAndSaysWhatIsUnknown) {
  options_.most_measurements = 2;
  std::vector<std::size_t> progress;
  options_.on_progress = [&](std::size_t known, std::size_t, const Part&) {
    progress.push_back(known);
  };
  const auto profiler = start();
  const auto costs = measure(*profiler, {first(), part({NodeId{1}}), part({NodeId{2}})});
  EXPECT_TRUE(costs[0] && costs[1]);
  EXPECT_FALSE(costs[2]);
  EXPECT_EQ(progress, (std::vector<std::size_t>{1, 2, 2}));
}

TEST_F(ProfilerTest, AfterTheDeadlineOnlyWhatIsKnownIsTold) {
  measure(*start(), {part({NodeId{1}})});
  options_.deadline = Profiler::Clock::now();
  const auto costs = measure(*start(), {first(), part({NodeId{1}})});
  EXPECT_FALSE(costs[0]);
  EXPECT_TRUE(costs[1]);
}

TEST_F(ProfilerTest, TheDeadlineEndsAHangThatIsThenNoFailure) {
  options_.deadline = Profiler::Clock::now() + std::chrono::milliseconds(300);
  options_.silence_seconds = 3600;
  set_fault(R"("do": "hang", "on": "Relu", "when": "compile")");
  EXPECT_FALSE(measure(*start(), {first()})[0]);
}

TEST_F(ProfilerTest, StoppingKeepsWhatIsKnown) {
  bool stop = false;
  options_.stop = [&] { return stop; };
  options_.on_progress = [&](std::size_t known, std::size_t, const Part&) { stop = known == 1; };
  const auto costs = measure(*start(), {first(), part({NodeId{1}})});
  EXPECT_TRUE(costs[0]);
  EXPECT_FALSE(costs[1]);
  stop = false;
  const auto next = start();
  EXPECT_TRUE(measure(*next, {first(), part({NodeId{1}})})[1]);
  EXPECT_EQ(next->measured(), 1);
}

TEST_F(ProfilerTest, WhatIsToBeRefreshedIsMeasuredOnceMoreAndOnlyOnce) {
  measure(*start(), {first()});
  options_.refresh = true;
  const auto profiler = start();
  EXPECT_TRUE(measure(*profiler, {first()})[0]);
  EXPECT_EQ(profiler->measured(), 1);
  EXPECT_TRUE(measure(*profiler, {first()})[0]);
  EXPECT_EQ(profiler->measured(), 1);
}

TEST_F(ProfilerTest, CrowdedIsMeasuredApartFromAlone) {
  const auto profiler = start();
  const auto costs = measure(*profiler, {first(), crowded()});
  EXPECT_EQ(profiler->measured(), 2);
  ASSERT_TRUE(costs[1]);
  EXPECT_FALSE(costs[1]->failure) << costs[1]->failure->message;
  EXPECT_THAT(profiler->key_of(crowded())->condition, HasSubstr("crowded+1"));
}

TEST_F(ProfilerTest, ANeighbourThatTheProcessCannotHaveIsDoneWithout) {
  if (device::inherited_cpus().size() < 2) GTEST_SKIP() << "needs two CPUs";
  set(R"("one_place": true)");
  const auto cost = measure(*start(), {crowded()})[0];
  ASSERT_TRUE(cost);
  EXPECT_FALSE(cost->failure) << cost->failure->message;
  EXPECT_GT(cost->runs, 0);
  EXPECT_EQ(compiled(), 2);
  EXPECT_THAT(cost->remark, HasSubstr("timed beside 0 of 1 neighbours"));
  EXPECT_EQ((*start()->find(crowded()))->remark, cost->remark);  // The database says so too.
}

TEST_F(ProfilerTest, ANeighbourThatFailsOtherwiseFailsThePart) {
  set_fault(R"("do": "refuse", "on": "Relu", "after": 1)");
  const auto cost = measure(*start(), {crowded()})[0];
  ASSERT_TRUE(cost && cost->failure);
  EXPECT_EQ(cost->failure->message, "a neighbour: operator Relu is not implemented");
}

/// Two threads on one CPU: what matters is that the other has two as well, elsewhere.
TEST_F(ProfilerTest, OpenVinoOfSeveralThreadsIsTimedWithoutANeighbour) {
  const auto found = backends_.find("openvino");
  if (!found) GTEST_SKIP() << found.error().message();
  if (const auto why = (*found)->describe().unavailable; !why.empty()) GTEST_SKIP() << why;
  if (device::inherited_cpus().size() < 2) GTEST_SKIP() << "needs two CPUs";
  auto both = crowded();
  both.models[0].backend = "openvino";
  both.threads = 2;
  const auto cost = measure(*start(), {both})[0];
  ASSERT_TRUE(cost);
  EXPECT_FALSE(cost->failure) << cost->failure->message;
}

TEST_F(ProfilerTest, AChainIsTimedAsOne) {
  set(R"("seconds": {"*": 0.001})");
  Part chain = first();
  for (const std::uint32_t node : {1U, 2U}) {
    chain.models.push_back(part({NodeId{node}}).models[0]);
  }
  const auto cost = measure(*start(), {chain})[0];
  ASSERT_TRUE(cost);
  ASSERT_FALSE(cost->failure) << cost->failure->message;
  EXPECT_GE(cost->seconds, 0.001);  // Of three milliseconds: the order of magnitude.
}

TEST_F(ProfilerTest, OutputsThatAgreePassTheCheckOnce) {
  const auto profiler = start();
  const auto check = profiler->check(first(), {0, 1});
  ASSERT_TRUE(check) << check.error().message();
  EXPECT_TRUE(check->ok());
  EXPECT_EQ(check->worst_ratio, 0);
  const auto again = start();
  EXPECT_EQ(*again->check(first(), {0, 1}), *check);
  EXPECT_EQ(again->measured(), 0);
}

TEST_F(ProfilerTest, OutputsThatDifferAreNamedAsFarAsTheToleranceGoes) {
  set_fault(R"("do": "wrong", "on": "Relu", "by": 0.5)");
  const auto wrong = first();
  const auto profiler = start();
  const auto check = profiler->check(wrong, {0, 1});
  ASSERT_TRUE(check) << check.error().message();
  ASSERT_FALSE(check->ok());
  EXPECT_EQ(check->failure->kind, FailureKind::kWrongOutput);
  EXPECT_THAT(check->failure->message, HasSubstr("output 'a' differs"));
  EXPECT_GT(check->worst_ratio, 1);
  const auto allowed = profiler->check(wrong, {0, 1}, Tolerance::of(1000));
  ASSERT_TRUE(allowed) << allowed.error().message();
  EXPECT_TRUE(allowed->ok());
}

TEST_F(ProfilerTest, ACrashWhileComparingIsTheChecksFailure) {
  set_fault(R"("do": "crash", "on": "Relu")");
  const auto check = start()->check(first(), {0});
  ASSERT_TRUE(check) << check.error().message();
  ASSERT_TRUE(check->failure);
  EXPECT_EQ(check->failure->kind, FailureKind::kCrash);
}

TEST_F(ProfilerTest, BoundariesAreMeasuredOnceAndFitted) {
  const std::vector<std::string> backends = {"synthetic_a"};
  const auto device = first().device;
  const auto boundaries = Boundaries::measure(*start(), backends, device);
  ASSERT_TRUE(boundaries) << boundaries.error().message();
  EXPECT_TRUE(boundaries->knows("synthetic_a", "synthetic_a"));
  EXPECT_FALSE(boundaries->knows("synthetic_a", "absent"));
  EXPECT_GT(boundaries->cut_seconds("synthetic_a", "absent", 1e6), 0);
  const auto again = start();
  const auto same = Boundaries::measure(*again, backends, device);
  EXPECT_EQ(again->measured(), 0);
  EXPECT_EQ(same->cut_seconds("synthetic_a", "synthetic_a", 1e6),
            boundaries->cut_seconds("synthetic_a", "synthetic_a", 1e6));
}

TEST_F(ProfilerTest, BoundariesAreOfRandomValuesWhateverTheNetworksTensorsAreCalled) {
  std::vector<std::vector<Tensor>> frames(1);
  frames[0].push_back(Tensor::allocate(DType::kF32, {8}));
  const auto activations = Activations::of_inputs(graph_, frames, "some frames");
  ASSERT_TRUE(activations) << activations.error().message();
  options_.activations = &*activations;
  const auto profiler = start();
  const std::vector<std::string> backends = {"synthetic_a"};
  const auto boundaries = Boundaries::measure(*profiler, backends, first().device);
  ASSERT_TRUE(boundaries) << boundaries.error().message();
  EXPECT_TRUE(boundaries->knows("synthetic_a", "synthetic_a"));
  EXPECT_EQ(profiler->options().activations, &*activations);
  // Nor are their costs those of a network's frames.
  options_.activations = nullptr;
  const auto other = start();
  ASSERT_TRUE(Boundaries::measure(*other, backends, first().device));
  EXPECT_EQ(other->measured(), 0);
}

TEST_F(ProfilerTest, ABoundaryFailedAsLongAsItsPartsDo) {
  const std::vector<std::string> backends = {"synthetic_a"};
  const auto device = first().device;
  const auto profiler = start();
  const auto engine = profiler->engine_version("synthetic_a");
  const auto& machine = profiler->topology();
  for (const std::int64_t bytes : {4096, 65536, 1048576, 4194304}) {
    const BoundaryKey key{
        "synthetic_a",
        engine,
        "synthetic_a",
        engine,
        "plain",
        bytes,
        concat(device_key(machine, device), " ", condition_of(machine, device, {}))};
    const Boundary failed{.failure = Failure{FailureKind::kRun, "input 'x': another shape"}};
    ASSERT_TRUE(database_.put(key, failed));
  }
  const auto boundaries = Boundaries::measure(*profiler, backends, device);
  ASSERT_TRUE(boundaries) << boundaries.error().message();
  EXPECT_TRUE(boundaries->knows("synthetic_a", "synthetic_a"));
  // What its parts' own failures are the reason of is not tried again.
  ASSERT_TRUE(database_.forget({}));
  set_fault(R"("do": "refuse", "on": "Abs")");
  ASSERT_TRUE(Boundaries::measure(*start(), backends, device));
  const auto again = start();
  EXPECT_FALSE(Boundaries::measure(*again, backends, device)->knows("synthetic_a", "synthetic_a"));
  EXPECT_EQ(again->measured(), 0);
}

TEST_F(ProfilerTest, LinksAreMeasuredOnce) {
  const auto cpus = device::inherited_cpus();
  if (cpus.size() < 2) GTEST_SKIP() << "a link needs two CPUs";
  device::Device from, to;
  from.cpus = {cpus[0]};
  to.cpus = {cpus[1]};
  const auto profiler = start();
  const auto link = profiler->link(from, to);
  ASSERT_TRUE(link) << link.error().message();
  ASSERT_TRUE(*link);
  EXPECT_GT((*link)->latency_seconds, 0);
  EXPECT_GT((*link)->bytes_per_second, 0);
  EXPECT_EQ(*profiler->link(from, to), *link);
  EXPECT_EQ(profiler->measured(), 1);
  EXPECT_FALSE(profiler->link(from, from));
}

TEST_F(ProfilerTest, PeaksAreMeasuredOnce) {
  device::Device device;
  device.cpus = {device::inherited_cpus().front()};
  const auto profiler = start();
  const auto peaks = profiler->peaks(device);
  ASSERT_TRUE(peaks) << peaks.error().message();
  ASSERT_TRUE(*peaks);
  EXPECT_GT((*peaks)->flops_per_second(), 0);
  ASSERT_FALSE((*peaks)->levels.empty());
  EXPECT_EQ((*peaks)->levels.back().name, "memory");
  for (const auto& level : (*peaks)->levels) EXPECT_GT(level.bytes_per_second, 0) << level.name;
  EXPECT_EQ(*profiler->peaks(device), *peaks);
  EXPECT_EQ(*start()->peaks(device), *peaks);
  EXPECT_EQ(profiler->measured(), 0);  // No part was.
  device.host = "10.0.0.1:7070";
  EXPECT_FALSE(profiler->peaks(device));
}

TEST_F(ProfilerTest, AfreshPeaksAreMeasuredAgain) {
  device::Device device;
  device.cpus = {device::inherited_cpus().front()};
  const auto earlier = start();
  const auto key = device_key(earlier->topology(), device);
  const Peaks wrong{{{"sse", 1}}, {{"memory", 0, 1}}};
  ASSERT_TRUE(earlier->database().put_peaks(key, wrong));
  EXPECT_EQ(*earlier->peaks(device), wrong);
  options_.refresh = true;
  const auto profiler = start();
  const auto peaks = *profiler->peaks(device);
  ASSERT_TRUE(peaks);
  EXPECT_NE(*peaks, wrong);
  EXPECT_EQ(*profiler->peaks(device), peaks);  // Once is enough.
}

TEST_F(ProfilerTest, WithoutADatabaseWhatIsMeasuredLivesAsLongAsTheProfiler) {
  auto profiler = Profiler::start(backends_, nullptr, options_);
  ASSERT_TRUE(profiler);
  measure(**profiler, {first()});
  measure(**profiler, {first()});
  EXPECT_EQ((*profiler)->measured(), 1);
}

TEST_F(ProfilerTest, TheMeasuringProcessEndsWithTheOneThatWasKilled) {
  options_.silence_seconds = 3600;
  set_fault(R"("do": "hang", "on": "Relu", "when": "compile")");
  const int killed = ::fork();
  if (killed == 0) measure_in_child({first()});
  while (compiled() == 0) std::this_thread::yield();
  int number = 0;
  std::ifstream(concat("/proc/", killed, "/task/", killed, "/children")) >> number;
  const int measuring = static_cast<int>(::syscall(SYS_pidfd_open, number, 0));
  ASSERT_GE(measuring, 0);
  ::kill(killed, SIGKILL);
  ::waitpid(killed, nullptr, 0);
  pollfd ended{measuring, POLLIN, 0};
  EXPECT_EQ(::poll(&ended, 1, 20'000), 1);
  ::close(measuring);
}

TEST_F(ProfilerTest, TwoAtOnceMeasureEachPartOnce) {
  const std::vector<Part> parts = {first(), part({NodeId{1}}), part({NodeId{2}})};
  const int other = ::fork();
  if (other == 0) measure_in_child(parts);
  const auto costs = measure(*start(), parts);
  ::waitpid(other, nullptr, 0);
  EXPECT_EQ(compiled(), 3);
  EXPECT_EQ(measure(*start(), parts), costs);
}

TEST_F(ProfilerTest, AMissingMeasuringProgramIsNamed) {
  ::setenv("PENSTOCK_MEASURE", "/absent/program", 1);
  const auto costs = start()->measure(std::vector{first()});
  ::unsetenv("PENSTOCK_MEASURE");
  ASSERT_FALSE(costs);
  EXPECT_EQ(costs.error().message(),
            "PENSTOCK_MEASURE: '/absent/program' is no program; expected penstock-measure");
}

/// On a device with memory of its own.
class AcceleratorProfilerTest : public ProfilerTest {
 protected:
  void set_accelerator(const std::string& settings, const std::string& of_device) {
    set(settings + R"(, "accelerator": {)" + of_device + "}");
  }
  Part there() const {
    auto part = first();
    part.device = *device::parse_device("cuda:0");
    return part;
  }
};

TEST_F(AcceleratorProfilerTest, APartTakesItsTimeByFrameHoweverManyAreInProgress) {
  set_accelerator(R"("seconds": {"*": 0.002})", R"("contexts": 4)");
  options_.seconds_per_part = 0.2;
  auto profiler = start();
  const auto cost = measure(*profiler, {there()}).front();
  ASSERT_TRUE(cost);
  ASSERT_FALSE(cost->failure) << cost->failure->message;
  EXPECT_GE(cost->seconds, 0.002);  // The device does one after the other.
}

TEST_F(AcceleratorProfilerTest, TheFirstFramesThatNothingIsAheadOfDoNotSetTheLengthOfRounds) {
  // They are started at once: rounds as long as those make of 2 ms would be taken for a hang.
  set_accelerator(R"("seconds": {"*": 0.1})", R"("contexts": 2)");
  options_.silence_seconds = 5;
  auto profiler = start();
  const auto cost = measure(*profiler, {there()}).front();
  ASSERT_TRUE(cost);
  EXPECT_FALSE(cost->failure) << cost->failure->message;
}

TEST_F(AcceleratorProfilerTest, CostsAreKeptByTheDevicesName) {
  set_accelerator(R"("seconds": {"*": 0.0001})", R"("name": "one")");
  {
    auto profiler = start();
    ASSERT_TRUE(measure(*profiler, {there()}).front());
    EXPECT_TRUE(*profiler->find(there()));
    EXPECT_FALSE(*profiler->find(first())) << "on CPUs";
  }
  set_accelerator(R"("seconds": {"*": 0.0001})", R"("name": "other")");
  EXPECT_FALSE(*start()->find(there()));
}

TEST_F(AcceleratorProfilerTest, OutputsAreComparedOnTheHost) {
  set_accelerator(R"("seconds": {"*": 0.0001})", "");
  const auto right = start()->check(there(), {0, 1});
  ASSERT_TRUE(right) << right.error().message();
  EXPECT_FALSE(right->failure) << right->failure->message;
  set_accelerator(R"("version": "2", "faults": [{"do": "wrong", "on": "Relu", "by": 1}])", "");
  const auto wrong = start()->check(there(), {0, 1});
  ASSERT_TRUE(wrong) << wrong.error().message();
  ASSERT_TRUE(wrong->failure);
  EXPECT_EQ(wrong->failure->kind, FailureKind::kWrongOutput);
}

TEST_F(AcceleratorProfilerTest, CopiesAreTimedEitherWayAndKept) {
  set_accelerator(R"("seconds": {})", R"("copy_latency": 0.001, "copy_bandwidth": 1e9)");
  auto profiler = start();
  const auto device = *device::parse_device("cuda:0");
  for (const bool to_host : {false, true}) {
    const auto link = profiler->copies("synthetic_a", device, to_host);
    ASSERT_TRUE(link) << link.error().message();
    ASSERT_TRUE(*link);
    EXPECT_GE((*link)->latency_seconds, 0.001);
    EXPECT_LE((*link)->bytes_per_second, 1.1e9);
  }
  const auto before = profiler->measured();
  ASSERT_TRUE(profiler->copies("synthetic_a", device, true));
  EXPECT_EQ(profiler->measured(), before);
  set_accelerator(R"("seconds": {})", R"("absent": "unplugged", "name": "gone")");
  const auto gone = start()->copies("synthetic_a", device, false);
  ASSERT_FALSE(gone);
  EXPECT_THAT(gone.error().message(), HasSubstr("unplugged"));
}

TEST_F(AcceleratorProfilerTest, AChainIsRefusedThere) {
  set_accelerator(R"("seconds": {})", "");
  auto chain = there();
  chain.models.push_back(part({NodeId{1}}).models.front());
  const auto cost = measure(*start(), {chain}).front();
  ASSERT_TRUE(cost && cost->failure);
  EXPECT_THAT(cost->failure->message, HasSubstr("expected one model on 'cuda:0', found 2"));
}

}  // namespace
}  // namespace penstock::cost
