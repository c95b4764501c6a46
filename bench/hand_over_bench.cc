// What the runtime itself costs: handing frames over between threads, waking a stage, replicas.
//
// Every benchmark runs all sides in turn within each iteration, so that they meet the same machine,
// and reports the medians of the sides and their ratio. Stages are C++ functions on one float; no
// engine takes part. Left out: binding of inputs by an engine, tensors of any size.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <ctime>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <tbb/parallel_pipeline.h>
#include <unistd.h>

#include "penstock/device/affinity.h"
#include "penstock/pipeline/parker.h"
#include "tests/support/fake_device.h"

namespace penstock {
namespace {

using namespace penstock::testing;  // NOLINT(google-build-using-namespace): test support
using pipeline::now_ns;
using pipeline::Pipeline;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): what main() returns
int g_missed = 0;

// Prints the bar beside the figure, so that a run shows what holds; one that is missed makes the
// program end with 1.
void expect(benchmark::State& state, double found, const char* relation, double bar) {
  const bool met = relation[0] == '<' ? found <= bar : found >= bar;
  g_missed += met ? 0 : 1;
  state.SetLabel("bar: " + std::string(relation) + " " + std::to_string(bar).substr(0, 5) +
                 (met ? ", met" : ", MISSED"));
}

int cpu(std::size_t index) {
  static const auto cpus = device::inherited_cpus();
  return cpus[index % cpus.size()];
}

// Work of a fixed number of steps: takes longer on a slower core, as a kernel would.
void burn(std::int64_t steps) {
  double x = 1;
  for (std::int64_t i = 0; i < steps; ++i) {
    x = x * 1.0000001 + 1e-9;
    benchmark::DoNotOptimize(x);
  }
}

// Steps that take `us` on an undisturbed core, calibrated when first asked.
std::int64_t steps_for(double us) {
  static const double per_us = [] {
    double best = 0;
    for (int i = 0; i < 50; ++i) {
      const auto start = now_ns();
      burn(100'000);
      best = std::max(best, 100'000 * 1000.0 / static_cast<double>(now_ns() - start));
    }
    return best;
  }();
  return static_cast<std::int64_t>(us * per_us);
}

Function working(std::int64_t steps) {
  return [steps](Inputs in, Outputs out) -> Status {
    if (steps > 0) burn(steps);
    out[0]->as<float>()[0] = value_of(*in[0]);
    return {};
  };
}

// One thread pushes as long as there is room and pops what is there; ns for all frames.
double stream(Pipeline& pipeline, int frames) {
  static const std::vector<Tensor> inputs{number(1)};
  const auto start = now_ns();
  for (int pushed = 0, popped = 0; popped < frames;) {
    while (pushed < frames && pipeline.try_push(inputs)) ++pushed;
    for (auto out = pipeline.pop(); out && *out;) {
      ++popped;
      if (popped == pushed) break;
      out = pipeline.try_pop();
    }
  }
  return static_cast<double>(now_ns() - start);
}

struct Running {
  FakeNetwork network;
  std::unique_ptr<Pipeline> pipeline;
  void start() { pipeline = *network.start(); }
};

void two_stages(Running& running, std::int64_t steps) {
  running.network.input("in")
      .stage("a", {"in"}, {"mid"}, working(steps))
      .stage("b", {"mid"}, {"out"}, working(steps))
      .output("out");
  running.start();
}

void replicated(Running& running, std::int64_t steps) {
  running.network.input("in").stage("a", {"in"}, {"out"}, working(steps), 2).output("out");
  running.start();
}

// The usual way: a queue of a mutex and a condition variable between two threads.
class MutexQueue {
 public:
  explicit MutexQueue(std::size_t capacity) : capacity_(capacity) {}
  void push(int item) {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return items_.size() < capacity_; });
    items_.push_back(item);
    lock.unlock();
    ready_.notify_one();
  }
  int pop() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [&] { return !items_.empty(); });
    const int item = items_.front();
    items_.pop_front();
    lock.unlock();
    room_.notify_one();
    return item;
  }

 private:
  std::size_t capacity_;
  std::mutex mutex_;
  std::condition_variable room_, ready_;
  std::deque<int> items_;
};

double mutex_queues(int frames, std::int64_t steps) {
  MutexQueue in(256), mid(256), out(256);
  const auto stage = [&](MutexQueue& from, MutexQueue& to, std::size_t core) {
    static_cast<void>(device::pin_this_thread({cpu(core)}));
    for (int i = 0; i < frames; ++i) {
      const int item = from.pop();
      if (steps > 0) burn(steps);
      to.push(item);
    }
  };
  std::thread a([&] { stage(in, mid, 0); });
  std::thread b([&] { stage(mid, out, 1); });
  const auto start = now_ns();
  for (int pushed = 0, popped = 0; popped < frames; ++popped) {
    while (pushed < frames && pushed - popped < 256) in.push(pushed++);
    benchmark::DoNotOptimize(out.pop());
  }
  const auto end = now_ns();
  a.join();
  b.join();
  return static_cast<double>(end - start);
}

double tbb_pipeline(int frames, std::int64_t steps) {
  int next = 0;
  const auto work = [steps](int item) {
    if (steps > 0) burn(steps);
    return item;
  };
  const auto start = now_ns();
  tbb::parallel_pipeline(
      256, tbb::make_filter<void, int>(tbb::filter_mode::serial_in_order,
                                       [&](tbb::flow_control& control) {
                                         if (next == frames) control.stop();
                                         return next++;
                                       }) &
               tbb::make_filter<int, int>(tbb::filter_mode::serial_in_order, work) &
               tbb::make_filter<int, int>(tbb::filter_mode::serial_in_order, work) &
               tbb::make_filter<int, void>(tbb::filter_mode::serial_in_order,
                                           [](int item) { benchmark::DoNotOptimize(item); }));
  return static_cast<double>(now_ns() - start);
}

// The bound: two threads, each with its share of the work, that hand nothing over.
double bare_threads(int frames_each, std::int64_t steps) {
  std::atomic<int> ready{0};
  const auto work = [&](std::size_t core) {
    static_cast<void>(device::pin_this_thread({cpu(core)}));
    ++ready;
    while (ready < 2) {
    }
    for (int i = 0; i < frames_each; ++i) burn(steps);
  };
  std::thread a([&] { work(0); });
  std::thread b([&] { work(1); });
  while (ready < 2) std::this_thread::yield();
  const auto start = now_ns();
  a.join();
  b.join();
  return static_cast<double>(now_ns() - start);
}

/// ns per frame and edge (three edges: in, between, out), nothing computed, default capacities.
void bm_saturated(benchmark::State& state) {
  constexpr int kFrames = 200'000;
  constexpr double kEdges = 3;
  Running running;
  two_stages(running, 0);
  std::vector<double> ours, queues, tbb;
  for (auto _ : state) {
    ours.push_back(stream(*running.pipeline, kFrames) / kFrames / kEdges);
    queues.push_back(mutex_queues(kFrames / 10, 0) / (kFrames / 10) / kEdges);
    tbb.push_back(tbb_pipeline(kFrames / 10, 0) / (kFrames / 10) / kEdges);
  }
  state.counters["penstock_ns"] = median(ours);
  state.counters["mutex_queue_ns"] = median(queues);
  state.counters["tbb_ns"] = median(tbb);
  expect(state, median(ours), "<=", 300);
}
BENCHMARK(bm_saturated)->Iterations(7)->Unit(benchmark::kMillisecond)->UseRealTime();

/// Two stages of `us` each on two cores: rate as a share of two bare threads doing the same work.
void bm_two_stages(benchmark::State& state) {
  const auto steps = steps_for(static_cast<double>(state.range(0)));
  const int frames = static_cast<int>(300'000 / state.range(0));
  Running running;
  two_stages(running, steps);
  std::vector<double> share, tbb, queues;
  for (auto _ : state) {
    const double bound = bare_threads(frames, steps);
    share.push_back(bound / stream(*running.pipeline, frames));
    tbb.push_back(bound / tbb_pipeline(frames, steps));
    queues.push_back(bound / mutex_queues(frames, steps));
  }
  state.counters["penstock_share"] = median(share);
  state.counters["tbb_share"] = median(tbb);
  state.counters["mutex_queue_share"] = median(queues);
  expect(state, median(share), ">=", 0.95);
}
BENCHMARK(bm_two_stages)
    ->ArgName("us")
    ->Arg(15)
    ->Arg(250)
    ->Iterations(9)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

/// A process of its own that keeps a CPU busy for as long as this object lives.
class Neighbour {
 public:
  explicit Neighbour(int cpu) : pid_(::fork()) {
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // It must not outlive a benchmark that is killed.
    static_cast<void>(device::pin_this_thread({cpu}));
    for (;;) burn(1000);
  }
  ~Neighbour() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;

 private:
  pid_t pid_;
};

function::Function as_function(const std::string& name, std::int64_t steps) {
  return function::stateless(name, {{"x", scalar()}}, {{"y", scalar()}}, working(steps));
}

// The same three calls by hand, one after the other.
double hand_written_loop(int frames, std::int64_t steps) {
  const auto start = now_ns();
  for (int i = 0; i < frames; ++i) {
    burn(steps);
    burn(2 * steps);
    burn(steps);
  }
  return static_cast<double>(now_ns() - start);
}

/// Function, network, function: `us`, 2 `us`, `us`, the two functions on one core and the network
/// on another. Its rate as a share of two bare threads of 2 `us` a frame, and over a hand-written
/// loop of the three calls (2 at most).
void bm_functions(benchmark::State& state) {
  const auto steps = steps_for(static_cast<double>(state.range(0)));
  const int frames = static_cast<int>(300'000 / state.range(0));
  Running running;
  auto& network = running.network;
  network.input("in")
      .function("decode", as_function("decode", steps), {"in"}, {"picture"})
      .stage("network", {"picture"}, {"boxes"}, working(2 * steps))
      .function("draw", as_function("draw", steps), {"boxes"}, {"out"})
      .output("out");
  for (std::size_t i = 0; i < 3; ++i) network.plan.stages[i].devices.front().cpus = {cpu(i % 2)};
  running.start();
  std::vector<double> share, speed_up;
  for (auto _ : state) {
    const double bound = bare_threads(frames, 2 * steps);
    const double ours = stream(*running.pipeline, frames);
    share.push_back(bound / ours);
    speed_up.push_back(hand_written_loop(frames, steps) / ours);
  }
  state.counters["share"] = median(share);
  expect(state, median(share), ">=", 0.95);
  state.counters["over_loop"] = median(speed_up);
}
BENCHMARK(bm_functions)
    ->ArgName("us")
    ->Arg(15)
    ->Arg(250)
    ->Iterations(9)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

/// Two replicas of one stage of `us`: rate as a share of two bare threads doing the same work. With
/// `neighbour`, the last core is kept busy by a spinning process during ours alone: the share
/// is then of both undisturbed cores (0.75 at most, since the neighbour takes half of one).
void bm_two_replicas(benchmark::State& state) {
  const auto steps = steps_for(static_cast<double>(state.range(0)));
  const int frames = static_cast<int>(600'000 / state.range(0));
  Running running;
  replicated(running, steps);
  std::vector<double> share;
  for (auto _ : state) {
    const double bound = bare_threads(frames / 2, steps);
    std::optional<Neighbour> neighbour;
    if (state.range(1) != 0) neighbour.emplace(cpu(1));
    share.push_back(bound / stream(*running.pipeline, frames));
  }
  state.counters["penstock_share"] = median(share);
  expect(state, median(share), ">=", state.range(1) != 0 ? 0.65 : 0.93);
}
BENCHMARK(bm_two_replicas)
    ->ArgNames({"us", "neighbour"})
    ->ArgsProduct({{15, 250}, {0, 1}})
    ->Iterations(9)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

void wait_ms(std::int64_t gap) {
  if (gap > 0) std::this_thread::sleep_for(std::chrono::milliseconds(gap));
}

/// us from push() to the start of the first stage on an idle pipeline, beside a bare futex wake
/// between the same two CPUs at the same gap.
void bm_wake(benchmark::State& state) {
  const auto gap = state.range(0);
  const int rounds = gap >= 50 ? 20 : 100;
  const auto before = device::cpus_of_thread(0);
  static_cast<void>(
      device::pin_this_thread({cpu(1)}));  // The caller's own choice, for this benchmark.
  std::atomic<std::int64_t> started{0};
  Running running;
  running.network.input("in")
      .stage("a", {"in"}, {"out"},
             [&](Inputs, Outputs) -> Status {
               started.store(now_ns(), std::memory_order_release);
               return {};
             })
      .output("out");
  running.start();  // Stage 0 sits on CPU 0.

  pipeline::Parker parker;
  std::atomic<std::int64_t> woken{0};
  std::atomic<bool> stop{false};
  std::atomic<int> announced{0};
  std::thread sleeper([&] {
    static_cast<void>(device::pin_this_thread({cpu(0)}));
    while (!stop) {
      parker.prepare();
      ++announced;
      parker.sleep(pipeline::kNever);
      woken.store(now_ns(), std::memory_order_release);
    }
  });

  while (announced == 0) std::this_thread::yield();
  std::vector<double> ours, bare;
  const std::vector<Tensor> inputs{number(1)};
  for (auto _ : state) {
    for (int i = 0; i < rounds; ++i) {
      wait_ms(gap);
      const auto pushed = now_ns();
      static_cast<void>(running.pipeline->push(inputs));
      static_cast<void>(running.pipeline->pop());
      ours.push_back(static_cast<double>(started.load(std::memory_order_acquire) - pushed) / 1000);

      const int seen = announced;
      wait_ms(gap);
      woken = 0;
      const auto waked = now_ns();
      parker.wake();
      while (woken.load(std::memory_order_acquire) == 0) std::this_thread::yield();
      bare.push_back(static_cast<double>(woken.load() - waked) / 1000);
      while (announced == seen) std::this_thread::yield();
    }
  }
  stop = true;
  parker.wake();
  sleeper.join();
  static_cast<void>(device::pin_this_thread(before));
  state.counters["penstock_us"] = median(ours);
  state.counters["bare_futex_us"] = median(bare);
  state.counters["ratio"] = median(ours) / median(bare);
  expect(state, median(ours) / median(bare), "<=", 1.3);
}
BENCHMARK(bm_wake)
    ->ArgName("gap_ms")
    ->Arg(0)
    ->Arg(1)
    ->Arg(5)
    ->Arg(50)
    ->Iterations(5)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

/// us a frame of two stages where the first one reads what the second one wrote for the frame
/// before, under backlog, beside frames that go through alone: no wake may come late.
void bm_state_loop(benchmark::State& state) {
  constexpr int kFrames = 2000;
  const auto add = [](Inputs in, Outputs out) -> Status {
    out[0]->as<float>()[0] = value_of(*in[0]) + value_of(*in[1]);
    return {};
  };
  Running running;
  running.network.input("in")
      .state_input("last")
      .stage("a", {"in", "last"}, {"mid"}, add)
      .stage("b", {"mid"}, {"out"}, working(0))
      .output("out")
      .state("out", "last");
  running.start();
  const std::vector<Tensor> inputs{number(0)};
  std::vector<double> loop, alone;
  for (auto _ : state) {
    loop.push_back(stream(*running.pipeline, kFrames) / kFrames / 1000);
    const auto start = now_ns();
    for (int i = 0; i < kFrames; ++i) benchmark::DoNotOptimize(running.pipeline->run(inputs));
    alone.push_back(static_cast<double>(now_ns() - start) / kFrames / 1000);
  }
  state.counters["loop_us"] = median(loop);
  state.counters["alone_us"] = median(alone);
  expect(state, median(loop) / median(alone), "<=", 1.2);
}
BENCHMARK(bm_state_loop)->Iterations(7)->Unit(benchmark::kMillisecond)->UseRealTime();

/// us from the end of a slow stage, through two fast ones, to the caller: with frames behind it,
/// beside frames that go through alone.
void bm_behind_a_slow_stage(benchmark::State& state) {
  const auto steps = steps_for(1000);
  std::atomic<std::int64_t> ended{0};
  Running running;
  running.network.input("in")
      .stage("slow", {"in"}, {"x"},
             [&](Inputs, Outputs) -> Status {
               burn(steps);
               ended.store(now_ns(), std::memory_order_release);
               return {};
             })
      .stage("fast", {"x"}, {"y"}, working(0))
      .stage("faster", {"y"}, {"out"}, working(0))
      .output("out");
  running.start();
  const std::vector<Tensor> inputs{number(0)};
  std::vector<double> backlog, alone;
  for (auto _ : state) {
    for (const bool behind : {true, false}) {
      for (int i = 0; behind && i < 64; ++i) static_cast<void>(running.pipeline->push(inputs));
      for (int i = 0; i < 64; ++i) {
        if (!behind) static_cast<void>(running.pipeline->push(inputs));
        static_cast<void>(running.pipeline->pop());
        const auto waited = now_ns() - ended.load(std::memory_order_acquire);
        if (i < 48) (behind ? backlog : alone).push_back(static_cast<double>(waited) / 1000);
      }
    }
  }
  state.counters["backlog_us"] = median(backlog);
  state.counters["alone_us"] = median(alone);
  expect(state, median(backlog) / median(alone), "<=", 1.5);
}
BENCHMARK(bm_behind_a_slow_stage)->Iterations(7)->Unit(benchmark::kMillisecond)->UseRealTime();

/// Frames a second of one stage instance on a device of 10 ms latency and no other cost: 16 lanes
/// over one.
void bm_lanes(benchmark::State& state) {
  constexpr int kFrames = 160;
  const auto rate = [](int lanes) {
    const auto device = std::make_shared<FakeDevice>();
    device->contexts = 16;
    device->latency = std::chrono::milliseconds(10);
    Running running;
    running.network.registry.add(device);
    running.network.input("in").stage("far", {"in"}, {"out"}, working(0)).output("out");
    device->take(running.network, "far");
    running.network.plan.stages.front().lanes = lanes;
    running.start();
    const int frames = kFrames * lanes / 16;
    const double found = frames / stream(*running.pipeline, frames);
    running.pipeline.reset();
    return found;
  };
  std::vector<double> gain;
  for (auto _ : state) gain.push_back(rate(16) / rate(1));
  state.counters["gain"] = median(gain);
  expect(state, median(gain), ">=", 15);
}
BENCHMARK(bm_lanes)->Iterations(5)->Unit(benchmark::kMillisecond)->UseRealTime();

/// Share of one core that an idle pipeline of two stages uses, in percent.
void bm_idle(benchmark::State& state) {
  Running running;
  two_stages(running, 0);
  static_cast<void>(stream(*running.pipeline, 1000));
  const auto cpu_seconds = [] {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  double used = 0, passed = 0;
  for (auto _ : state) {
    const double cpu_before = cpu_seconds();
    const auto start = now_ns();
    std::this_thread::sleep_for(std::chrono::seconds(1));
    used += cpu_seconds() - cpu_before;
    passed += 1e-9 * static_cast<double>(now_ns() - start);
  }
  state.counters["cpu_percent"] = 100 * used / passed;
  expect(state, 100 * used / passed, "<=", 0.1);
}
BENCHMARK(bm_idle)->Iterations(3)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return penstock::g_missed > 0 ? 1 : 0;
}
