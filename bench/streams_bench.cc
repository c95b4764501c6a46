// What streams and batches gain: many streams through one pipeline, several frames in one call,
// beside a pipeline of its own for each stream.
//
//   streams_bench MANY.penstock ONE.penstock [STREAMS [SECONDS [ROUNDS [BAR]]]]
//
// MANY is split with --streams and --batch, ONE without, both of the same network; docs/measured.md
// has the commands. The two sides take turns, ROUNDS times, on the same CPUs: the i-th pipeline of
// ONE runs on the i-th CPU of those that the process may use, over and over. Printed are the
// medians of frames a second, the ratio of the rounds with its quartiles, and how large the calls
// were. Frames are random and made before. With STREAMS 1 it is one pipeline beside another. Ends
// with 1 where the ratio is below BAR (2.5).
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <random>
#include <thread>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/device/affinity.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/plan/package.h"

namespace penstock {
namespace {

using pipeline::Pipeline;
using Clock = std::chrono::steady_clock;

struct Settings {
  std::uint64_t streams = 8;
  double seconds = 2;
  int rounds = 7;
  double bar = 2.5;
};

std::vector<std::vector<Tensor>> make_frames(const plan::Plan& plan) {
  constexpr int kFrames = 32;
  std::mt19937 random(1);  // NOLINT(*-random-generator-seed, cert-*): every run has equal frames
  std::uniform_real_distribution<float> values(-1, 1);
  std::vector<std::vector<Tensor>> frames(kFrames);
  for (auto& frame : frames) {
    for (const auto& input : plan.inputs) {
      std::vector<std::int64_t> dims;
      dims.reserve(input.type.dims.size());
      for (const auto& dim : input.type.dims) dims.push_back(std::max<std::int64_t>(dim.size, 1));
      Tensor tensor = Tensor::allocate(input.type.dtype, dims);
      if (input.type.dtype == DType::kF32) {
        for (auto& value : tensor.as<float>()) value = values(random);
      }
      frame.push_back(std::move(tensor));
    }
  }
  return frames;
}

/// Frames a second of a pipeline that serves the streams in turn until `end`.
double drive(Pipeline& pipeline, const std::vector<std::vector<Tensor>>& frames,
             std::uint64_t streams, Clock::time_point end) {
  const auto start = Clock::now();
  std::atomic<bool> stops{false};
  std::atomic<std::uint64_t> pushed{0};
  std::thread pusher([&] {
    for (std::uint64_t i = 0; !stops; ++i) {
      if (!pipeline.push(frames[i % frames.size()], pipeline::kPatient, {.stream = i % streams})) {
        return;
      }
      ++pushed;
    }
  });
  std::uint64_t popped = 0;
  while (Clock::now() < end) {
    const auto output = pipeline.pop();
    if (!output || !*output || !(*output)->ok()) break;
    ++popped;
  }
  const double took = std::chrono::duration<double>(Clock::now() - start).count();
  stops = true;
  while (true) {  // The pusher may wait for room.
    const auto output = pipeline.pop(std::chrono::milliseconds(100));
    if (!output || !*output) break;
  }
  pusher.join();
  while (const auto output = pipeline.try_pop()) {
    if (!*output) break;
  }
  return static_cast<double>(popped) / took;
}

/// All pipelines at once, each with as many streams.
double drive_all(const std::vector<std::unique_ptr<Pipeline>>& pipelines,
                 const std::vector<std::vector<Tensor>>& frames, std::uint64_t streams,
                 double seconds) {
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(seconds));
  std::vector<double> rates(pipelines.size());
  std::vector<std::thread> threads;
  threads.reserve(pipelines.size());
  for (std::size_t i = 0; i < pipelines.size(); ++i) {
    threads.emplace_back([&, i] { rates[i] = drive(*pipelines[i], frames, streams, end); });
  }
  for (auto& thread : threads) thread.join();
  double sum = 0;
  for (const double rate : rates) sum += rate;
  return sum;
}

double quantile(std::vector<double> values, double q) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(std::lround(q * static_cast<double>(values.size() - 1)))];
}

Result<std::vector<std::unique_ptr<Pipeline>>> start(const plan::Package& package,
                                                     std::uint64_t count,
                                                     const backend::Registry& backends) {
  std::vector<std::unique_ptr<Pipeline>> made;
  const auto cpus = device::inherited_cpus();
  for (std::uint64_t i = 0; i < count; ++i) {
    plan::Plan plan = package.plan;
    for (auto& stage : plan.stages) {
      if (count > 1) stage.devices.front().cpus = {cpus[i % cpus.size()]};
    }
    PENSTOCK_TRY(auto pipeline, Pipeline::start(plan, package.folder, backends));
    made.push_back(std::move(pipeline));
  }
  return made;
}

Result<int> run(const std::filesystem::path& many, const std::filesystem::path& one,
                const Settings& settings) {
  const auto backends = backend::Registry::load();
  PENSTOCK_TRY(const auto package, plan::load_package(many));
  PENSTOCK_TRY(const auto alone, plan::load_package(one));
  const auto frames = make_frames(package.plan);
  PENSTOCK_TRY(const auto together, start(package, 1, backends));
  PENSTOCK_TRY(const auto apart, start(alone, settings.streams, backends));
  std::vector<double> rates_together, rates_apart, ratios;
  for (int round = 0; round < settings.rounds; ++round) {
    rates_together.push_back(drive_all(together, frames, settings.streams, settings.seconds));
    rates_apart.push_back(drive_all(apart, frames, 1, settings.seconds));
    ratios.push_back(rates_together.back() / rates_apart.back());
  }
  const double ratio = quantile(ratios, 0.5);
  std::cout << settings.streams << " streams: one pipeline " << quantile(rates_together, 0.5)
            << " frames/s, a pipeline each " << quantile(rates_apart, 0.5) << " frames/s; ratio "
            << ratio << " (quartiles " << quantile(ratios, 0.25) << " to " << quantile(ratios, 0.75)
            << "), bar " << settings.bar << (ratio >= settings.bar ? " met" : " MISSED") << '\n';
  for (const auto& stage : together.front()->stats().stages) {
    std::cout << stage.name << ": calls of 1, 2, ... frames:";
    for (const auto calls : stage.calls) std::cout << ' ' << calls;
    std::cout << "; copies " << stage.copies << '\n';
  }
  return ratio >= settings.bar ? 0 : 1;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: streams_bench MANY.penstock ONE.penstock [STREAMS [SECONDS [ROUNDS "
                 "[BAR]]]]\n";
    return 2;
  }
  penstock::Settings settings;
  if (argc > 3) settings.streams = std::strtoull(argv[3], nullptr, 10);
  if (argc > 4) settings.seconds = std::strtod(argv[4], nullptr);
  if (argc > 5) settings.rounds = static_cast<int>(std::strtol(argv[5], nullptr, 10));
  if (argc > 6) settings.bar = std::strtod(argv[6], nullptr);
  const auto code = penstock::run(argv[1], argv[2], settings);
  if (code) return *code;
  std::cerr << "streams_bench: " << code.error().message() << '\n';
  return 2;
}
