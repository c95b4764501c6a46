// Whether a pipeline is kept at its best plan while a neighbour takes a CPU and gives it back.
//
//   living_bench PACKAGE [--neighbours N] [--taken SECONDS] [--adapt SECONDS] [--rounds N]
//
// PACKAGE is of penstock build, plan or split, of no functions, on two CPUs or more. A pipeline of
// it runs at full load with a tuner; N threads (1) that do nothing but count take the package's
// last CPU for so many seconds (60), then give it back. At each change the pipeline has so many
// seconds (30) to follow; how many frames it gives is printed for each of them. Then it runs in
// turn with each plan that the tuner may choose, standing as it is, so many rounds (6) of a second
// and a half, there and back in alternation. Printed is its rate over that of the best of them in
// this situation, the median of the rounds with their least and greatest.
//
// Ends with 1 where a median is below 0.95, or a frame is lost or out of order.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "penstock/base/quantile.h"
#include "penstock/device/affinity.h"
#include "penstock/follow/tuner.h"
#include "penstock/follow/variants.h"
#include "penstock/frames/random.h"
#include "penstock/session/load.h"

namespace penstock {
namespace {

using Clock = std::chrono::steady_clock;
using pipeline::Pipeline;

constexpr double kBar = 0.95;
constexpr double kTurnSeconds = 1.5;
constexpr std::chrono::nanoseconds kSoon = std::chrono::seconds(60);

struct Arguments {
  std::string package;
  int neighbours = 1;
  double taken_seconds = 60;
  double adapt_seconds = 30;
  int rounds = 6;
};

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "living_bench: %s\n", why.c_str());
  std::exit(2);
}

template <typename T>
T must(Result<T> result) {
  if (!result) fail(result.error().message());
  return *std::move(result);
}

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Threads that keep a CPU busy, while they live.
class Neighbours {
 public:
  Neighbours(int count, int cpu) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this, cpu] {
        if (!device::pin_this_thread({cpu})) return;
        while (!done_.load(std::memory_order_relaxed)) {
        }
      });
    }
  }
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;
  ~Neighbours() {
    done_ = true;
    for (auto& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> done_{false};
  std::vector<std::thread> threads_;
};

/// A pipeline that is kept full while it has its turn.
class Contender {
 public:
  Contender(std::string name, std::shared_ptr<Pipeline> pipeline, const frames::Frame& frame)
      : name_(std::move(name)), pipeline_(std::move(pipeline)), frame_(frame) {}

  /// Frames a second. What is in flight at the end comes out, and counts.
  double run(double seconds) {
    const auto begin = Clock::now();
    std::uint64_t came = 0;
    while (since(begin) < seconds) {
      while (pipeline_->try_push(frame_)) ++pushed_;
      came += pop();
    }
    while (popped_ < pushed_) came += pop();
    return static_cast<double>(came) / since(begin);
  }

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool is_whole() const { return whole_ && popped_ == pushed_; }
  [[nodiscard]] std::uint64_t frames() const { return popped_; }

 private:
  std::uint64_t pop() {
    const auto output = must(pipeline_->pop(kSoon));
    if (!output) fail(name_ + ": it has ended");
    whole_ = whole_ && output->ok() && output->number() == popped_;
    ++popped_;
    return 1;
  }

  std::string name_;
  std::shared_ptr<Pipeline> pipeline_;
  const frames::Frame& frame_;
  std::uint64_t pushed_ = 0, popped_ = 0;
  bool whole_ = true;
};

/// The tuned pipeline follows, then stands beside the others. \returns whether it is good enough.
bool situation(const char* what, const Arguments& given, Contender& tuned,
               std::vector<Contender>& others) {
  std::printf("%s: frames a second, second by second:", what);
  const auto begin = Clock::now();
  while (since(begin) < given.adapt_seconds) {
    std::printf(" %.0f", tuned.run(1));
    std::fflush(stdout);
  }
  std::printf("\n");
  std::map<std::string, std::vector<double>> rates;
  std::vector<Contender*> all{&tuned};
  for (auto& other : others) all.push_back(&other);
  for (int round = 0; round < given.rounds; ++round) {
    for (auto* one : all) rates[one->name()].push_back(one->run(kTurnSeconds));
    std::ranges::reverse(all);
  }
  std::string best;
  for (auto& other : others) {
    std::printf("  %-40s %8.1f\n", other.name().c_str(), median(rates[other.name()]));
    if (best.empty() || median(rates[other.name()]) > median(rates[best])) best = other.name();
  }
  std::vector<double> ratios;
  for (int round = 0; round < given.rounds; ++round) {
    const auto i = static_cast<std::size_t>(round);
    ratios.push_back(rates[tuned.name()][i] / rates[best][i]);
  }
  const auto [least, most] = std::ranges::minmax(ratios);
  const double ratio = median(ratios);
  std::printf("  %-40s %8.1f: %.3f of the best, %s (%.3f to %.3f): %s\n", tuned.name().c_str(),
              median(rates[tuned.name()]), ratio, best.c_str(), least, most,
              ratio >= kBar ? "met" : "MISSED");
  return ratio >= kBar;
}

int run(const Arguments& given) {
  const auto backends = backend::Registry::load();
  const auto package = must(load_package(given.package));
  const auto ring = must(frames::random_frames(package.plan.inputs, {}, 1));
  const auto start = [&](const plan::Plan& plan) {
    return std::shared_ptr<Pipeline>(must(Pipeline::start(plan, package.folder, backends)));
  };
  std::vector<Contender> others;
  for (const auto& variant : follow::variants_of(package.plan)) {
    others.emplace_back(variant.name, start(variant.plan), ring[0]);
  }
  const auto pipeline = start(package.plan);
  Contender tuned("tuned", pipeline, ring[0]);
  const auto begin = Clock::now();
  follow::Tuner::Setting setting;
  setting.replace = [&](const plan::Plan& plan, const std::filesystem::path& folder) {
    return pipeline->replace(plan, folder, backends);
  };
  setting.swapped = [&](const follow::Swap& swap) {
    std::printf(" [%s%s, expected %.2f]", swap.refused.empty() ? "" : "refused: ", swap.to.c_str(),
                swap.gain);
  };
  const auto tuner = must(follow::Tuner::start(pipeline, package, std::move(setting)));
  bool met = situation("alone", given, tuned, others);
  {
    const auto taken = Clock::now();
    const Neighbours neighbours(given.neighbours,
                                package.plan.stages.back().devices.back().cpus.back());
    met &= situation("with a neighbour", given, tuned, others);
    while (since(taken) < given.taken_seconds) tuned.run(1);
  }
  met &= situation("given back", given, tuned, others);
  std::printf("%llu frames in %.0f s, %zu swaps: %s\n",
              static_cast<unsigned long long>(tuned.frames()), since(begin),
              tuner->report().swaps.size(),
              tuned.is_whole() ? "nothing lost, all in order" : "LOST or out of order");
  return met && tuned.is_whole() ? 0 : 1;
}

Arguments parse(int count, char** texts) {
  Arguments given;
  for (int i = 1; i < count; ++i) {
    const std::string text = texts[i];
    if (!text.starts_with("--")) {
      given.package = text;
      continue;
    }
    if (++i == count) fail(text + ": expected a number behind it");
    const double value = std::atof(texts[i]);
    if (text == "--neighbours")
      given.neighbours = static_cast<int>(value);
    else if (text == "--taken")
      given.taken_seconds = value;
    else if (text == "--adapt")
      given.adapt_seconds = value;
    else if (text == "--rounds")
      given.rounds = static_cast<int>(value);
    else
      fail("no option " + text);
  }
  if (given.package.empty()) fail("expected a package");
  return given;
}

}  // namespace
}  // namespace penstock

int main(int count, char** texts) {
  return penstock::run(penstock::parse(count, texts));
}
