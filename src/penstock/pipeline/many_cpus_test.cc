// A pipeline on 256 CPUs that are made up: the calls of the system that say where threads run.
//
// A program of its own, as these take the place of the system's for all that is in it.
#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "penstock/device/affinity.h"
#include "penstock/device/device.h"
#include "penstock/device/topology.h"
#include "penstock/pipeline/pipeline.h"
#include "tests/support/fake_backend.h"
#include "tests/support/made_up_machine.h"

namespace {

constexpr int kCpus = 256;

/// Which CPUs each thread may run on, by its number in the system; one that is not here: all.
struct Masks {
  std::mutex mutex;
  std::map<int, std::vector<int>> of_thread;
};
Masks& masks() {
  static Masks all;
  return all;
}

int number_of(pid_t thread) {
  return thread == 0 ? penstock::device::this_thread_id() : thread;
}

long read_mask(pid_t thread, std::size_t bytes, cpu_set_t* set) {
  CPU_ZERO_S(bytes, set);
  const std::scoped_lock lock(masks().mutex);
  const auto found = masks().of_thread.find(number_of(thread));
  for (int cpu = 0; cpu < kCpus; ++cpu) {
    const bool in = found == masks().of_thread.end() ||
                    std::ranges::find(found->second, cpu) != found->second.end();
    if (in) CPU_SET_S(static_cast<std::size_t>(cpu), bytes, set);
  }
  return kCpus / 8;
}

}  // namespace

extern "C" {

int sched_setaffinity(pid_t thread, std::size_t bytes, const cpu_set_t* set) noexcept {
  std::vector<int> cpus;
  for (int cpu = 0; cpu < kCpus; ++cpu) {
    if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, set)) cpus.push_back(cpu);
  }
  if (cpus.empty()) {
    errno = EINVAL;
    return -1;
  }
  const std::scoped_lock lock(masks().mutex);
  masks().of_thread[number_of(thread)] = std::move(cpus);
  return 0;
}

int sched_getaffinity(pid_t thread, std::size_t bytes, cpu_set_t* set) noexcept {
  read_mask(thread, bytes, set);
  return 0;
}

// NOLINTNEXTLINE(cert-dcl50-cpp): as the system declares it
long syscall(long number, ...) noexcept {
  using Call = long (*)(long, ...);
  static const auto kSystems = reinterpret_cast<Call>(dlsym(RTLD_NEXT, "syscall"));
  std::va_list list;
  va_start(list, number);
  long arguments[6];
  for (long& argument : arguments) argument = va_arg(list, long);
  va_end(list);
  const auto [a, b, c, d, e, f] = arguments;
  if (number == SYS_sched_getaffinity) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the system takes its arguments as numbers
    auto* const set = reinterpret_cast<cpu_set_t*>(c);
    return read_mask(static_cast<pid_t>(a), static_cast<std::size_t>(b), set);
  }
  return kSystems(number, a, b, c, d, e, f);
}

}  // extern "C"

namespace penstock::pipeline {
namespace {

using namespace penstock::testing;  // NOLINT(google-build-using-namespace): test support

// in -> first (on the CPUs of one package, a replica on each) -> second (on the other's) -> out
TEST(ManyCpus, EveryReplicaRunsOnItsOwn) {
  constexpr int kFrames = 5000;
  const MadeUpMachine machine("pack:2 numa:2 core:64 pu:1");
  const auto topology = device::read_topology();
  ASSERT_TRUE(topology && topology->cpus.size() == kCpus);
  std::mutex mutex;
  std::set<std::vector<int>> seen[2];
  FakeNetwork network;
  for (int s = 0; s < 2; ++s) {
    const auto add = [&, s](Inputs in, Outputs out) -> Status {
      out[0]->as<float>()[0] = value_of(*in[0]) + 1;
      const std::scoped_lock lock(mutex);
      seen[s].insert(device::cpus_of_thread(device::this_thread_id()));
      return {};
    };
    if (s == 0) network.input("in");
    network.stage(concat("s", s), {s == 0 ? "in" : "between"}, {s == 0 ? "between" : "out"}, add);
    auto& devices = network.plan.stages.back().devices;
    devices.clear();
    for (const auto& cpu : topology->cpus) {
      if (cpu.package == s) devices.push_back({.host = {}, .cpus = {cpu.number}});
    }
  }
  network.output("out");
  auto started = network.start();
  ASSERT_TRUE(started) << started.error().message();
  auto pipeline = *std::move(started);
  // Each has warmed up.
  for (const auto& masks : seen) EXPECT_EQ(masks.size(), kCpus / 2U);
  EXPECT_THAT(seen[1], ::testing::Contains(std::vector{kCpus - 1}));
  std::thread pusher([&] {
    for (int i = 0; i < kFrames; ++i) {
      EXPECT_TRUE(pipeline->push(std::vector<Tensor>{number(static_cast<float>(i))}));
    }
  });
  for (int i = 0; i < kFrames; ++i) {
    const auto popped = pipeline->pop();
    ASSERT_TRUE(popped && *popped && (**popped).ok());
    EXPECT_EQ(value_of((**popped)[0]), static_cast<float>(i + 2));
  }
  pusher.join();
  pipeline.reset();
  for (const auto& masks : seen) EXPECT_EQ(masks.size(), kCpus / 2U);  // As before.
}

TEST(ManyCpus, OneThatIsNotThereIsRefusedByItsNumber) {
  FakeNetwork network;
  network.input("in").stage("s", {"in"}, {"out"}, unary([](float x) { return x; })).output("out");
  network.plan.stages.back().devices = {{.host = {}, .cpus = {kCpus}}};
  const auto started = network.start();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, Code::kNotFound);
  EXPECT_THAT(started.error().message(), ::testing::HasSubstr("CPU 256 is not among those"));
}

}  // namespace
}  // namespace penstock::pipeline
