// What grows with the number of pipelines, stages, replicas and bytes, and what an idle pipeline
// costs. Every figure is of a process of its own. Bars are ratios within a run, or counts; the
// program ends with 1 where one is missed. `scale_bench 3600` idles for an hour.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/pipeline/parker.h"
#include "penstock/pipeline/progress.h"
#include "tests/support/fake_backend.h"

namespace penstock {
namespace {

using namespace penstock::testing;  // NOLINT(google-build-using-namespace): test support
using pipeline::now_ns;
using pipeline::Pipeline;
using Pipelines = std::vector<std::unique_ptr<Pipeline>>;

int g_missed = 0;  // NOLINT(*-avoid-non-const-global-variables): main() ends with it

void expect(const std::string& what, double found, double most) {
  const bool met = found <= most;
  std::printf("  %-66s %8.2f (bar: <= %.2f) %s\n", what.c_str(), found, most,
              met ? "met" : "MISSED");
  g_missed += met ? 0 : 1;
}

[[noreturn]] void die(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(2);
}

double us(std::int64_t ns) {
  return static_cast<double>(ns) / 1e3;
}

/// The number behind `key` in /proc/self/status: "VmRSS:" in KiB, "Threads:".
double status_of(const std::string& key, const std::string& file = "/proc/self/status") {
  std::ifstream in(file);
  for (std::string word; in >> word;) {
    double number = 0;
    if (word == key && in >> number) return number;
  }
  return 0;
}

double cpu_us() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return 1e6 * static_cast<double>(used.tv_sec) + 1e-3 * static_cast<double>(used.tv_nsec);
}

/// How often threads of this process, but for the calling one, went to sleep so far.
double sleeps() {
  double sum = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(gettid())) continue;
    sum += status_of("voluntary_ctxt_switches:", task.path() / "status");
  }
  return sum;
}

using Figures = std::array<double, 8>;

/// Runs `measure` in a process of its own: what an earlier figure left in the heap is not in it.
Figures apart(const std::function<Figures()>& measure) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) die("no pipe to the measuring process");
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const Figures found = measure();
    const bool sent = write(ends[1], found.data(), sizeof(found)) == sizeof(found);
    _exit(sent ? 0 : 1);
  }
  close(ends[1]);
  Figures found{};
  const bool received = child > 0 && read(ends[0], found.data(), sizeof(found)) == sizeof(found);
  close(ends[0]);
  int status = 0;
  if (child > 0) waitpid(child, &status, 0);
  if (!received || status != 0) die("a measuring process failed");
  return found;
}

/// out = in, `stages` of them one behind the other.
FakeNetwork chain(int stages, int replicas) {
  FakeNetwork made;
  made.input("t0");
  for (int i = 1; i <= stages; ++i) {
    made.stage(concat("s", i), {concat("t", i - 1)}, {concat("t", i)},
               unary([](float x) { return x; }), replicas);
  }
  made.output(concat("t", stages));
  return made;
}

std::unique_ptr<Pipeline> started(FakeNetwork& network) {
  auto pipeline = network.start();
  if (!pipeline) die(pipeline.error().message());
  return *std::move(pipeline);
}

void run_one(Pipeline& pipeline) {
  const auto output = pipeline.run(std::vector<Tensor>{number(7)});
  if (!output || value_of((*output)[0]) != 7) die("a frame came out wrong");
}

// CPU time of all threads in us, which other programs change less than the time that passes; KiB.
enum Figure : std::uint8_t { kStart, kFirst, kStats, kStop, kMemory, kThreads, kLeft, kPassed };

/// Of `count` pipelines that run at the same time.
Figures life_of(int count, int stages, int replicas) {
  FakeNetwork network = chain(stages, replicas);
  network.finish();
  run_one(*started(network));  // What is made once for the process.
  malloc_trim(0);
  const double memory_before = status_of("VmRSS:");
  const double threads_before = status_of("Threads:");
  Figures found{};
  Pipelines pipelines;
  const auto timed = [&](Figure figure, const auto& each) {
    const double start = cpu_us();
    for (int i = 0; i < count; ++i) each(static_cast<std::size_t>(i));
    found[figure] = cpu_us() - start;
  };
  const auto start = now_ns();
  timed(kStart, [&](std::size_t) { pipelines.push_back(started(network)); });
  found[kPassed] = us(now_ns() - start);
  timed(kFirst, [&](std::size_t i) { run_one(*pipelines[i]); });
  timed(kStats, [&](std::size_t i) {
    if (pipelines[i]->stats().ok != 1) die("the statistics are wrong");
  });
  found[kMemory] = status_of("VmRSS:") - memory_before;
  found[kThreads] = status_of("Threads:") - threads_before;
  timed(kStop, [&](std::size_t i) { pipelines[i].reset(); });
  found[kLeft] = status_of("Threads:") - threads_before;
  return found;
}

/// As life_of(), each figure the median of several processes.
Figures usual_life_of(int count, int stages, int replicas) {
  constexpr std::size_t kTimes = 5;
  std::vector<Figures> all;
  while (all.size() < kTimes)
    all.push_back(apart([&] { return life_of(count, stages, replicas); }));
  Figures usual{};
  for (std::size_t f = 0; f < usual.size(); ++f) {
    std::ranges::sort(all, {}, [&](const Figures& one) { return one[f]; });
    usual[f] = all[kTimes / 2][f];
  }
  std::printf("%9d %6d %8d %7.0f %9.1f %9.1f %9.1f %9.1f %9.1f %9.0f\n", count, stages, replicas,
              usual[kThreads], usual[kPassed] / usual[kThreads], usual[kStart] / usual[kThreads],
              usual[kFirst] / usual[kThreads], usual[kStats] / usual[kThreads],
              usual[kStop] / usual[kThreads], usual[kMemory] / usual[kThreads]);
  return usual;
}

/// How many times as much a thread costs in the large as in the small.
void expect_linear(const std::string& what, const Figures& small, const Figures& large) {
  const auto growth = [&](Figure figure) {
    return large[figure] / large[kThreads] / (small[figure] / small[kThreads]);
  };
  expect(what + ": start of a thread, times", growth(kStart), 2);
  expect(what + ": first frame, by thread, times", growth(kFirst), 4);  // Of which replicas wake.
  expect(what + ": statistics, by thread, times", growth(kStats), 2);
  expect(what + ": stop of a thread, times", growth(kStop), 2);
  expect(what + ": memory of a thread, times", growth(kMemory), 1.2);
  expect(what + ": threads left", large[kLeft], 0);
}

void measure_lives() {
  std::printf(
      "by thread: us that pass at the start; us of CPU of the start, a first frame, the "
      "statistics\n"
      "and the stop; KiB of memory\n"
      "pipelines stages replicas threads    passed     start     frame     stats      stop       "
      "KiB\n");
  usual_life_of(1, 2, 1);
  const Figures ten = usual_life_of(10, 2, 1);
  usual_life_of(100, 2, 1);
  const Figures thousand = usual_life_of(1000, 2, 1);
  const Figures four = usual_life_of(1, 4, 4);
  usual_life_of(1, 16, 4);
  const Figures many = usual_life_of(1, 64, 4);
  expect_linear("1,000 pipelines, of 10", ten, thousand);
  expect_linear("64 stages, of 4", four, many);
}

/// us of CPU of all threads a frame, saturated: one caller that pushes and pops in turn. The least
/// of several processes, as one in which threads happen to sleep more often takes several times as
/// much.
double cost_of_frame(int stages, int replicas) {
  constexpr int kFrames = 20'000, kInFlight = 64, kTimes = 5;
  const auto measure = [&] {
    FakeNetwork network = chain(stages, replicas);
    const auto pipeline = started(network);
    const std::vector<Tensor> inputs{number(7)};
    const auto step = [&](bool push, bool pop) {
      if (push && !pipeline->push(inputs)) die("push failed");
      if (!pop) return;
      const auto output = pipeline->pop();
      if (!output || !*output || !(*output)->ok()) die("pop failed");
    };
    for (int i = 0; i < kInFlight; ++i) step(true, false);
    const double start = cpu_us();
    for (int i = 0; i < kFrames; ++i) step(true, true);
    return Figures{(cpu_us() - start) / kFrames};
  };
  double least = apart(measure)[0];
  for (int i = 1; i < kTimes; ++i) least = std::min(least, apart(measure)[0]);
  return least;
}

/// ns to complete a frame for which a stage of `replicas` may wait, of which none does.
double ns_to_complete(int replicas) {
  constexpr pipeline::FrameNumber kFrames = 100'000;
  std::vector<std::unique_ptr<pipeline::Parker>> parkers;
  std::vector<pipeline::Parker*> waiters;
  for (int r = 0; r < replicas; ++r) {
    parkers.push_back(std::make_unique<pipeline::Parker>());
    waiters.push_back(parkers.back().get());
  }
  std::vector<double> found;
  for (int round = 0; round < 50; ++round) {
    pipeline::Progress progress;
    progress.configure(1, true);
    progress.add_waiters(waiters);
    const auto start = now_ns();
    for (pipeline::FrameNumber frame = 0; frame < kFrames; ++frame) progress.complete(frame);
    found.push_back(static_cast<double>(now_ns() - start) / static_cast<double>(kFrames));
  }
  return *std::ranges::min_element(found);
}

void measure_frames() {
  std::printf("\nus of CPU a frame, nothing computed: 1 stage of N replicas; N stages, by stage\n");
  std::array<double, 2> few{}, many{};
  for (const int n : {1, 4, 16, 64, 256}) {
    const double replicas = cost_of_frame(1, n);
    const double stages = n <= 64 ? cost_of_frame(n, 1) / n : 0;
    std::printf("%9d %9.2f %9.2f\n", n, replicas, stages);
    if (n == 4) few = {replicas, stages};
    if (n == 64) many = {replicas, stages};
  }
  expect("256 replicas, of 4: looking for one that waits, times",
         ns_to_complete(256) / ns_to_complete(4), 2);
  expect("64 replicas of a stage, of 4: a frame, times", many[0] / few[0], 3);
  expect("64 stages, of 4: a frame, by stage, times", many[1] / few[1], 2);
}

constexpr std::int64_t kLarge = 25'000'000;  // Floats: 100 MB.
constexpr double kLargeKib = 4.0 * kLarge / 1024;

/// Frames of 100 MB through stages that take their time without a CPU.
Figures large_frames() {
  constexpr auto kWork = std::chrono::milliseconds(40);
  constexpr int kStages = 3, kFrames = 24;
  const Type type = Type::tensor(DType::kF32, std::vector<Dim>{{kLarge, "", Dim::kOpen}});
  FakeNetwork network;
  network.input("t0", type);
  for (int i = 1; i <= kStages; ++i) {
    network.stage(concat("s", i), {concat("t", i - 1)}, {concat("t", i)},
                  [&](Inputs in, Outputs out) -> Status {
                    std::this_thread::sleep_for(kWork);
                    out[0]->as<float>()[0] = value_of(*in[0]) + 1;
                    return {};
                  },
                  1, {type});
  }
  network.output(concat("t", kStages));
  const auto pipeline = started(network);
  const double resident = status_of("VmRSS:");
  Tensor large = Tensor::allocate(DType::kF32, {kLarge});
  large.as<float>()[0] = 1;
  const std::vector<Tensor> inputs{large};
  const auto start = now_ns();
  std::thread pusher([&] {
    for (int i = 0; i < kFrames; ++i) {
      if (!pipeline->push(inputs)) die("push failed");
    }
    pipeline->close();
  });
  int out = 0;
  const auto come = [&] {
    const auto output = pipeline->pop();
    if (!output || !*output) return false;
    const bool right = (*output)->ok() && value_of((**output)[0]) == 1 + kStages;
    if (!right) die("a frame came out wrong");
    return true;
  };
  while (come()) ++out;
  const auto took = now_ns() - start;
  pusher.join();
  if (out != kFrames) die("frames are missing");
  const auto stats = pipeline->stats();
  double copies = 0;
  for (const auto& stage : stats.stages)
    copies += static_cast<double>(stage.copies + stage.allocations);
  std::printf("\nframes of 100 MB through %d stages of 40 ms: slots", kStages);
  double slots = 0;
  for (const auto& edge : stats.edges) {
    std::printf(" %d (%s)", edge.capacity, edge.name.c_str());
    slots += edge.capacity;
  }
  std::printf("\n");
  std::fflush(stdout);
  const double least =
      static_cast<double>((kFrames + kStages - 1) * std::chrono::nanoseconds(kWork).count());
  return {static_cast<double>(took) / least, copies, resident / kLargeKib, slots};
}

void measure_large_frames() {
  const auto found = apart(large_frames);
  expect("frames of 100 MB: time, of the least possible", found[0], 1.15);
  expect("frames of 100 MB: copies and allocations", found[1], 0);
  expect("frames of 100 MB: touched before the first frame, in frames", found[2], 0.5);
  expect("frames of 100 MB: slots of four edges", found[3], 2 + 3 + 3 + 5);
}

/// Of 100 pipelines that had a frame each, and have one behind it: by second.
Figures idleness(int seconds, bool watched) {
  FakeNetwork network = chain(2, 1);
  network.finish();
  if (watched) {
    for (auto& stage : network.plan.stages) stage.max_run = std::chrono::milliseconds(100);
  }
  Pipelines pipelines;
  for (int i = 0; i < 100; ++i) {
    pipelines.push_back(started(network));
    run_one(*pipelines.back());
  }
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const double sleeps_before = sleeps();
  const double used_before = cpu_us();
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
  const double used = cpu_us() - used_before;  // First: to count the sleeps takes time.
  const Figures found{(sleeps() - sleeps_before) / seconds, used / 1e4 / seconds};
  for (const auto& pipeline : pipelines) run_one(*pipeline);
  return found;
}

void measure_idleness(int seconds) {
  std::printf("\n100 pipelines idle for %d s\n", seconds);
  for (const bool watched : {false, true}) {
    const auto found = apart([&] { return idleness(seconds, watched); });
    const std::string of = watched ? "idle, calls bounded by max_run: " : "idle: ";
    expect(of + "wake-ups a second", found[0], 0.01 * 100);
    expect(of + "CPU, percent of one", found[1], 0.1);
  }
}

int run(int idle_seconds) {
  measure_lives();
  measure_frames();
  measure_large_frames();
  measure_idleness(idle_seconds);
  return g_missed > 0 ? 1 : 0;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  const int idle_seconds = argc > 1 ? static_cast<int>(std::strtol(argv[1], nullptr, 10)) : 2;
  if (argc > 2 || idle_seconds < 1) {
    std::fprintf(stderr, "usage: scale_bench [SECONDS]: how long it idles, 2 by default\n");
    return 2;
  }
  return penstock::run(idle_seconds);
}
